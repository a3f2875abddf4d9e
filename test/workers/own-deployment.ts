import { DurableObject, env } from "cloudflare:workers";
import * as platform from "../../src/platform/settings.ts";

/*
 * Each test has a deployment of its own: the names of its objects begin with a prefix that the objects do not see, and
 * its messages carry it. A late call of the test before reaches objects of that test, which have ended and do nothing.
 */

type Names = Pick<DurableObjectNamespace, "getByName" | "idFromName">;
type Direct<F> = F & { readonly direct?: F };
/** Instances of a Durable Object class, as the plugin creates them. */
type ObjectClass = new (ctx: DurableObjectState, env: Env) => DurableObject<Env>;

const MARK = "\u0001";
const prefixed = new RegExp(`^${MARK}[^${MARK}]*${MARK}`);

let current = "";
/** The messages that are being sent belong to this deployment rather than to the running test's. */
let sender: string | null = null;

/** The running test's. */
export const currentDeployment = (): string => current;

/** From now on names mean objects in which nothing has ever been. */
export function beginDeployment(): void {
  current = `${MARK}${crypto.randomUUID()}${MARK}`;
  environments.clear();
}

const namespaceType = Object.getPrototypeOf(env.METRICS) as Names;
const isNamespace = (value: unknown): value is DurableObjectNamespace =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === namespaceType;

/** Has namespaces add the prefix of the running test to names without one. Called once per file. */
export function nameByDeployment(): void {
  for (const method of ["getByName", "idFromName"] as const) {
    // The file before this one may have set it, in the runtime that all files share.
    const known = namespaceType[method] as Direct<Names["getByName"]>;
    const direct = known.direct ?? known;
    const named: Names["getByName"] = function (this: DurableObjectNamespace, name, ...options) {
      return direct.call(this, prefixed.test(name) ? name : current + name, ...options);
    };
    namespaceType[method] = Object.assign(named, { direct }) as never;
  }
}

/** Names with their prefixes, by the ids of the objects. */
const names = new Map<string, string>();

const environments = new Map<string, WeakMap<object, Env>>();

/** The bindings behind those of a deployment. */
const originals = new WeakMap<object, Env>();

/** The bindings of a Worker or an object of a deployment. All others are read from `bindings` each time: tests set them. */
export function environmentOf(deployment: string, bindings: Env): Env {
  const known = environments.get(deployment) ?? new WeakMap<object, Env>();
  environments.set(deployment, known);
  const found = known.get(bindings) ?? new Proxy(bindings, { get: (target, key) => bound(deployment, target, key) });
  known.set(bindings, found);
  originals.set(found, bindings);
  return found;
}

/** All deployments have the settings of their bindings, which are parsed once, and which tests set. Called once per file. */
export function shareSettings(): void {
  const known = platform.settings as Direct<typeof platform.settings>;
  const direct = known.direct ?? known;
  const value = Object.assign((bindings: object) => direct(originals.get(bindings) ?? bindings), { direct });
  Object.defineProperty(platform, "settings", { configurable: true, enumerable: true, get: () => value });
}

function bound(deployment: string, bindings: Env, key: string | symbol): unknown {
  const value: unknown = Reflect.get(bindings, key);
  if (isNamespace(value)) return namesOf(deployment, value);
  if (key === "SYNC_WORK") return queueOf(deployment, value as Env["SYNC_WORK"]);
  if (key === "LISTINGS") return listingsOf(deployment, value as D1Database);
  return value;
}

/** The part of a namespace that the product calls, in `objectStub`. */
const namesOf = (deployment: string, namespace: DurableObjectNamespace) => ({
  getByName: (name: string, ...options: [DurableObjectNamespaceGetDurableObjectOptions?]) =>
    namespace.getByName(deployment + name, ...options),
  jurisdiction: (name: DurableObjectJurisdiction) => namesOf(deployment, namespace.jurisdiction(name)),
});

/** The call reaches the queue's class at once, where `deploymentOfMessage` is read. */
function queueOf(deployment: string, queue: Env["SYNC_WORK"]): Pick<Env["SYNC_WORK"], "send" | "sendBatch"> {
  const as = <T>(send: () => T): T => {
    sender = deployment;
    try {
      return send();
    } finally {
      sender = null;
    }
  };
  return {
    send: (...given) => as(() => queue.send(...given)),
    sendBatch: (...given) => as(() => queue.sendBatch(...given)),
  };
}

/** The deployment of a message that is being sent. */
export const deploymentOfMessage = (): string => sender ?? current;

/** The database is shared, and emptied before each test: an ended deployment has none. */
const listingsOf = (deployment: string, database: D1Database): D1Database =>
  deployment === current ? database : new Proxy(database, { get: () => refuse });

/** Calls behind an answer may be left alone by their callers: `vitest.config.ts` knows the message. */
const refuse = () => {
  throw new Error("the deployment of this test has ended");
};

/** An object of a deployment that has ended. Its callers get an error from every method, and its alarm is over. */
export class EndedObject extends DurableObject<Env> {
  override alarm(): void {}
}

const everyMethod: ProxyHandler<object> = {
  has: () => true,
  get: (target, key) => (typeof key === "symbol" || key in target ? Reflect.get(target, key) : refuse),
};
Object.setPrototypeOf(EndedObject.prototype, new Proxy(Object.create(DurableObject.prototype), everyMethod));

/** The Worker's module with objects that know their own name only, and call objects of their own deployment. */
export function withDeployments(module: object): object {
  const entries = Object.entries(module).map(([name, value]) => {
    const isObject = typeof value === "function" && value.prototype instanceof DurableObject;
    return [name, isObject ? ownObject(value as ObjectClass) : value];
  });
  return Object.fromEntries(entries);
}

const ownObject = (type: ObjectClass): ObjectClass =>
  new Proxy(type, {
    construct(target, [ctx, bindings]: [DurableObjectState, Env], newTarget) {
      const id = String(ctx.id);
      // An object that is called by its id has no name then.
      const name = names.get(id) ?? ctx.id.name ?? "";
      names.set(id, name);
      const [deployment = ""] = prefixed.exec(name) ?? [];
      if (deployment !== current) return new EndedObject(ctx, bindings);
      showName(ctx, name.slice(deployment.length));
      return Reflect.construct(target, [ctx, environmentOf(deployment, bindings)], newTarget);
    },
  });

function showName(ctx: DurableObjectState, name: string): void {
  const { id } = ctx;
  Object.defineProperty(id, "name", { value: name, configurable: true });
  Object.defineProperty(ctx, "id", { value: id, configurable: true });
}
