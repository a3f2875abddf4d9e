import { env } from "cloudflare:workers";

/** The parts of the module runner of Vitest that are used here. */
interface ModuleRunner {
  import(id: string): Promise<unknown>;
}
/** The object that runs the tests, as the Workers plugin of Vitest calls it. */
interface RunnerObjects {
  get(name: string): { fetch(url: string, init?: { cf?: unknown }): Promise<Response> };
}
type RunAction = (request: { cf: unknown }) => Promise<Response | undefined>;

/** Calls between two looks at the timers. */
const CALLS = 16;
/** From `isImport` to the plugin's `importModule`. */
const FRAMES = 6;
const WORKER = /\/src\/worker\.ts$/;
const bindings = env as { __VITEST_POOL_WORKERS_RUNNER_OBJECT?: RunnerObjects };
const objects = bindings.__VITEST_POOL_WORKERS_RUNNER_OBJECT;

/**
 * Keeps the Worker's module once it is loaded. The Workers plugin of Vitest imports it for every request and every call
 * of an object: it calls the object that runs the tests, which asks Vite twice, in another process. That was two thirds
 * of the time of most tests. Called before each file, so a watched file that changed is loaded again.
 * https://github.com/cloudflare/workers-sdk/tree/main/packages/vitest-pool-workers (2026-11: `importModule`)
 */
export async function keepLoadedWorker(): Promise<void> {
  const runner = (globalThis as { __vitest_mocker__?: { moduleRunner?: ModuleRunner } }).__vitest_mocker__
    ?.moduleRunner;
  // @ts-expect-error: a module of the plugin's own
  const { maybeHandleRunRequest } = (await import("cloudflare:test-internal")) as { maybeHandleRunRequest?: RunAction };
  if (!runner || !objects || !maybeHandleRunRequest) return;

  const load = Object.getPrototypeOf(runner).import as ModuleRunner["import"];
  let loaded: unknown;
  let calls = 0;
  runner.import = async (id) => {
    if (!WORKER.test(id)) return load.call(runner, id);
    loaded ??= await load.call(runner, id);
    return loaded;
  };
  bindings.__VITEST_POOL_WORKERS_RUNNER_OBJECT = {
    get: (name) => ({
      async fetch(url, init) {
        // Calls within the runtime go before its timers: a test that calls without a pause would wait for ever.
        calls += 1;
        if (calls % CALLS === 0) await scheduler.wait(0);
        // A loaded module needs no I/O of the object that runs the tests, so the import may end here.
        const answer = loaded !== undefined && isImport() && (await maybeHandleRunRequest({ cf: init?.cf }));
        return answer || objects.get(name).fetch(url, init);
      },
    }),
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

/** Whether the plugin's `importModule` is among the callers: other actions must run in the object. */
function isImport(): boolean {
  const { prepareStackTrace, stackTraceLimit } = Error;
  Error.stackTraceLimit = FRAMES;
  Error.prepareStackTrace = (_error, frames) => frames.some((frame) => frame.getFunctionName() === "importModule");
  const found = new Error().stack as unknown as boolean;
  Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  return found;
}
