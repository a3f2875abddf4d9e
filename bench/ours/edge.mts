/** The service in four simulated regions: see regions.mts. The header `X-Bench-Region` says where a caller is. */
import { placedName } from "../../src/platform/place.ts";
import * as service from "../../src/worker.ts";
import { ownerCalls } from "./owner-calls.mts";
import { HOME, REGIONS, type Region, regionOfObject, roundTrip } from "./regions.mts";

type Namespace = DurableObjectNamespace<undefined>;
type Method = (...given: unknown[]) => unknown;

/** A stub whose calls take the way there and back. */
function distant(stub: object, way: number): object {
  return new Proxy(stub, {
    get(target, name) {
      const method: unknown = Reflect.get(target, name);
      if (typeof method !== "function") return method;
      return async (...given: unknown[]) => {
        await scheduler.wait(way / 2);
        try {
          return await Reflect.apply(method as Method, target, given);
        } finally {
          await scheduler.wait(way / 2);
        }
      };
    },
  });
}

const isNamespace = (binding: unknown): binding is Namespace =>
  typeof (binding as { getByName?: unknown } | null)?.getByName === "function";

const envs = new Map<Region, Env>();

/** The bindings as seen from a region. */
function envOf(env: Env, region: Region): Env {
  const known = envs.get(region);
  if (known) return known;
  const seen = Object.fromEntries(
    Object.entries(env).map(([name, binding]) => {
      if (!isNamespace(binding)) return [name, binding];
      const getByName: Namespace["getByName"] = (object, options) =>
        distant(binding.getByName(object, options), roundTrip(region, regionOfObject(object))) as DurableObjectStub;
      return [name, { getByName }];
    }),
  ) as unknown as Env;
  envs.set(region, seen);
  return seen;
}

type Class = new (ctx: DurableObjectState, env: Env) => object;

/** The class in the region of its object. Its fields are private to it, so that only the constructor changes. */
const placed = <T extends Class>(Original: T): T =>
  class extends (Original as Class) {
    constructor(ctx: DurableObjectState, env: Env) {
      super(ctx, envOf(env, regionOfObject(ctx.id.name)));
    }
  } as unknown as T;

export class AccessControl extends placed(service.AccessControl) {}
export class AuditCollector extends placed(service.AuditCollector) {}
export class ClusterRegistry extends placed(service.ClusterRegistry) {}
export class CredentialEngine extends placed(service.CredentialEngine) {}
export class EventLog extends placed(service.EventLog) {}
export class EventRelay extends placed(service.EventRelay) {}
export class EventSubscription extends placed(service.EventSubscription) {}
export class IdentityIssuer extends placed(service.IdentityIssuer) {}
export class KvStore extends placed(service.KvStore) {}
export class Metrics extends placed(service.Metrics) {}
export class NodeSession extends placed(service.NodeSession) {}
export class ReadReplica extends placed(service.ReadReplica) {}
export class SyncControl extends placed(service.SyncControl) {}
export class SyncDestination extends placed(service.SyncDestination) {}

const SHARD_PATHS = 100_000;

/** How the hash shares paths among replicas: the busiest one bounds the rate. */
function shardOf(replicas: number): { replicas: number; share: number; times: number } {
  const counts = new Map<string, number>();
  for (let n = 0; n < SHARD_PATHS; n++) {
    const name = placedName("weur", ` kv/data/app/k${String(n).padStart(6, "0")}`, replicas);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const share = Math.max(...counts.values()) / SHARD_PATHS;
  return { replicas, share, times: 1 / share };
}

export default {
  async fetch(request, env, exec) {
    if (request.url.endsWith("/bench/owner-calls")) return Response.json(ownerCalls);
    if (request.url.endsWith("/bench/shards")) return Response.json([1, 2, 4, 8].map(shardOf));
    const region = (request.headers.get("X-Bench-Region") ?? HOME) as Region;
    const { continent, longitude } = REGIONS[region];
    const placed = new Request(request, { cf: { continent, longitude } as IncomingRequestCfProperties });
    return service.default.fetch(placed, envOf(env, region), exec);
  },
} satisfies ExportedHandler<Env>;
