import { env } from "cloudflare:workers";
import { currentDeployment, EndedObject, withDeployments } from "./own-deployment.ts";

/** The parts of the module runner of Vitest that are used here. */
interface ModuleRunner {
  import(id: string): Promise<unknown>;
}
/** The object that runs the tests, as the Workers plugin of Vitest calls it. */
interface RunnerObjects {
  get(name: string): { fetch(url: string, init?: { cf?: unknown }): Promise<Response> };
}
type RunAction = (request: { cf: unknown }) => Promise<Response | undefined>;
/** The class of the plugin that holds a Durable Object of the tested Worker: `ensure` creates the object. */
type Wrapper = Record<symbol, (this: object) => Promise<unknown>>;

/** Calls between two looks at the timers. */
const CALLS = 16;
const WORKER = /\/src\/worker\.ts$/;
const ENSURE = "kEnsureInstance";
const OPTIONS = "cloudflarePoolOptions";
const bindings = env as { __VITEST_POOL_WORKERS_RUNNER_OBJECT?: RunnerObjects };
const objects = bindings.__VITEST_POOL_WORKERS_RUNNER_OBJECT;
const vitest = globalThis as {
  __vitest_mocker__?: { moduleRunner?: ModuleRunner };
  __vitest_worker__?: { providedContext: Record<string, unknown> };
};

/** The Worker's module, once it is loaded in this file. */
let loaded: unknown;
let calls = 0;

/** Calls within the runtime go before its timers: a test that calls without a pause would wait for ever. */
async function letTimersRun(): Promise<void> {
  calls += 1;
  if (calls % CALLS === 0) await scheduler.wait(0);
}

/**
 * Keeps the Worker's module once it is loaded. The Workers plugin of Vitest imports it for every request and every call
 * of an object: it calls the object that runs the tests, which asks Vite twice, in another process. That was two thirds
 * of the time of most tests. Called before each file, so a watched file that changed is loaded again.
 * https://github.com/cloudflare/workers-sdk/tree/main/packages/vitest-pool-workers (2026-11: `importModule`)
 */
export async function keepLoadedWorker(): Promise<void> {
  const runner = vitest.__vitest_mocker__?.moduleRunner;
  // @ts-expect-error: a module of the plugin's own
  const { maybeHandleRunRequest } = (await import("cloudflare:test-internal")) as { maybeHandleRunRequest?: RunAction };
  if (!runner || !objects || !maybeHandleRunRequest) return;

  loaded = undefined;
  const load = Object.getPrototypeOf(runner).import as ModuleRunner["import"];
  runner.import = async (id) => {
    if (!WORKER.test(id)) return load.call(runner, id);
    if (loaded !== undefined) return loaded;
    const module = (await load.call(runner, id)) as object;
    // A call at the same time may have loaded it: objects of two classes would count as changed.
    loaded ??= withDeployments(module);
    return loaded;
  };
  const isImport = noteImports();
  bindings.__VITEST_POOL_WORKERS_RUNNER_OBJECT = {
    get: (name) => {
      const isLoaded = isImport() && loaded !== undefined;
      return {
        async fetch(url, init) {
          await letTimersRun();
          // A loaded module needs no I/O of the object that runs the tests, so the import may end here.
          const answer = isLoaded && (await maybeHandleRunRequest({ cf: init?.cf }));
          return answer || objects.get(name).fetch(url, init);
        },
      };
    },
  };
  keepCreatedObjects();
}

/**
 * Returns whether the plugin's `importModule` is the caller: other actions must run in the object that runs the tests.
 * The plugin reads the options, which name the module, directly before each import.
 */
function noteImports(): () => boolean {
  let isAsked = false;
  const state = vitest.__vitest_worker__;
  const options = state?.providedContext[OPTIONS];
  if (state && options !== undefined) {
    const get = () => {
      isAsked = true;
      void Promise.resolve().then(() => {
        isAsked = false;
      });
      return options;
    };
    Object.defineProperty(state.providedContext, OPTIONS, { configurable: true, enumerable: true, get });
  }
  return () => isAsked;
}

const seen = new WeakSet<object>();

/**
 * Keeps each object once it is created: before each call of an object the plugin imports the module, which took a
 * seventh of the processor time of these suites. The plugin's classes are seen when it reads a property of an object.
 */
function keepCreatedObjects(): void {
  const known = Reflect.get as typeof Reflect.get & { readonly isSeeing?: true };
  if (known.isSeeing) return;
  const see = (target: object, ...given: [key: PropertyKey, receiver?: unknown]): unknown => {
    if (!seen.has(target)) {
      seen.add(target);
      const ensure = Object.getOwnPropertySymbols(target).find(({ description }) => description === ENSURE);
      if (ensure) keepEnsured(target as Wrapper, ensure);
    }
    return known(target, ...given);
  };
  Reflect.get = Object.assign(see as typeof Reflect.get, { isSeeing: true as const });
}

function keepEnsured(wrapper: Wrapper, ensure: symbol): void {
  const create = wrapper[ensure] as Wrapper[symbol];
  const created = new WeakMap<object, { worker: unknown; deployment: string; object: object }>();
  wrapper[ensure] = async function () {
    const known = created.get(this);
    if (known && known.worker === loaded) {
      await letTimersRun();
      if (known.deployment === currentDeployment()) return known.object;
      return { ...known.object, instanceCtor: EndedObject, instance: Object.create(EndedObject.prototype) };
    }
    const deployment = currentDeployment();
    const object = (await create.call(this)) as object;
    created.set(this, { worker: loaded, deployment, object });
    return object;
  };
}

/**
 * Sets timers with a delay by the runtime's own function. The plugin's looks for the caller in a stack trace each time,
 * and then does the same for all timers with a delay.
 */
export function setTimersDirectly(): void {
  const known = globalThis.setTimeout as typeof setTimeout & { readonly isDirect?: true };
  const { setTimeout: runtimes } = Object.getPrototypeOf(globalThis) as { setTimeout?: typeof setTimeout };
  if (known.isDirect || !runtimes) return;
  const set = (...given: Parameters<typeof setTimeout>) => (given[1] ? runtimes : known).apply(globalThis, given);
  globalThis.setTimeout = Object.assign(set as typeof setTimeout, { isDirect: true as const });
}
