/**
 * The service with additional bench paths:
 * - appending to the event log without the cost of event producers, so that delivery is measured alone;
 * - the listings' tables, and associating many secrets at once, as work to push;
 * - many leases at once, for look-up and revocation;
 * - many secrets and associations at once, for backups;
 * - audit lines without the requests that they are about;
 * - the number of calls that reached the owners of grants and secrets.
 * Provider quotas are lifted, unless `BENCH_PACED` is set: 50 writes per second per destination would dominate every figure.
 */

import { env } from "cloudflare:workers";
import type { NewEvent } from "../../src/contracts/event.ts";
import type { WakeUpMessage } from "../../src/platform/durable/wake-up.ts";
import { beginExchange } from "../../src/platform/http/exchange.ts";
import { auditAnswer } from "../../src/platform/observability/audit/requests.ts";
import { eventLog, syncDestination } from "../../src/rpc/stubs.ts";
import { cloudASm } from "../../src/sync/destinations/cloud-a-sm/adapter.ts";
import service from "../../src/worker.ts";
import type { ClusterRegistry, FillCluster, FillCsi } from "./cluster.mts";
import type { FillAssociations, SyncDestination } from "./destination.mts";
import type { CredentialEngine, Fill } from "./engine.mts";
import type { FillSecrets, KvStore } from "./kv.mts";
import { ownerCalls } from "./owner-calls.mts";

export * from "../../src/worker.ts";
// These stand for the service's own classes of these names.
export { ClusterRegistry } from "./cluster.mts";
export { SyncDestination } from "./destination.mts";
export { CredentialEngine } from "./engine.mts";
export { KvStore } from "./kv.mts";

if (!("BENCH_PACED" in env)) Object.assign(cloudASm.pace, { burst: 1e9, perMinute: 1e9 });

interface Associate {
  readonly destinations: readonly string[];
  readonly mount: { readonly uuid: string; readonly accessor: string };
  /** Of the secrets' names. */
  readonly prefix: string;
  readonly from: number;
  readonly to: number;
}

const ASSOCIATED_AT_ONCE = 4;

export default {
  ...service,
  async fetch(request, env, exec) {
    // Behind the scheme and the host, whose name may be the same. A URL of its own would count as the service's cost.
    if (!request.url.includes("/bench/", "http://h".length)) return service.fetch(request, env, exec);
    const { pathname, searchParams } = new URL(request.url);
    const body = JSON.parse(await request.text());
    if (pathname === "/bench/append") {
      const count = Number(searchParams.get("count"));
      const first = Number(searchParams.get("seq"));
      const lines = Array.from({ length: count }, (_, i) => ({ seq: first + i, events: [body] }));
      await eventLog(env).append("bench", lines);
    } else if (pathname.startsWith("/bench/append-more/")) {
      const newest = await appendMore(env, body, Number(pathname.split("/")[3]), Number(searchParams.get("rare")));
      return new Response(JSON.stringify({ newest }), { headers: { "Content-Type": "application/json" } });
    } else if (pathname.startsWith("/bench/audit/")) {
      writeAuditLines(Number(pathname.split("/")[3]), request, env, exec);
    } else if (pathname === "/bench/owner-calls") {
      return new Response(JSON.stringify(ownerCalls), { headers: { "Content-Type": "application/json" } });
    } else if (pathname === "/bench/listings") {
      for (const table of body as string[]) await env.LISTINGS.prepare(table).run();
    } else if (pathname === "/bench/leases") {
      const fill = body as Fill;
      const engines = env.CREDENTIAL_ENGINE as unknown as DurableObjectNamespace<CredentialEngine>;
      await engines.getByName(fill.uuid).fill(fill);
    } else if (pathname === "/bench/secrets") {
      const fill = body as FillSecrets;
      const stores = env.KV_STORE as unknown as DurableObjectNamespace<KvStore>;
      await stores.getByName(fill.uuid).fill(fill);
    } else if (pathname === "/bench/associations") {
      const fill = body as FillAssociations;
      const destinations = env.SYNC_DESTINATION as unknown as DurableObjectNamespace<SyncDestination>;
      await destinations.getByName(fill.destination).fill(fill);
    } else if (pathname === "/bench/cluster") {
      const registries = env.CLUSTER_REGISTRY as unknown as DurableObjectNamespace<ClusterRegistry>;
      await registries.getByName("main").fill(body as FillCluster);
    } else if (pathname === "/bench/csi") {
      const registries = env.CLUSTER_REGISTRY as unknown as DurableObjectNamespace<ClusterRegistry>;
      await registries.getByName("main").fillCsi(body as FillCsi);
    } else await Promise.all((body as Associate).destinations.map((name) => associate(env, name, body as Associate)));
    return new Response("{}", { headers: { "Content-Type": "application/json" } });
  },
} satisfies ExportedHandler<Env, WakeUpMessage>;

/** The lines of as many answered requests. */
function writeAuditLines(lines: number, request: Request, env: Env, exec: ExecutionContext): void {
  const url = new URL("/v1/kv/data/app", request.url);
  const caller = { accessor: "accessor", name: "app", policies: ["app"], namespace: "", root: false };
  for (let line = 0; line < lines; line++) {
    const exchange = beginExchange(request, url, null, env);
    auditAnswer({ ...exchange, caller, route: "GET /v1/{kv}/data/:path+", status: 200, durationMs: 1 }, env, exec);
  }
}

let appended = 0;

/** Appends lines one after the other as one producer would; one in `rare` has another key. @returns the newest index */
async function appendMore(env: Env, event: NewEvent, count: number, rare: number): Promise<number> {
  const lines = Array.from({ length: count }, () => {
    appended += 1;
    return { seq: appended, events: [rare > 0 && appended % rare === 0 ? { ...event, Key: "rare" } : event] };
  });
  return (await eventLog(env).append("bench-more", lines)).at(-1) ?? 0;
}

async function associate(env: Env, destination: string, { mount, prefix, from, to }: Associate): Promise<void> {
  const object = syncDestination(env, `cloud-a-sm/${destination}`);
  let next = from;
  const lane = async () => {
    while (next < to) {
      const secretName = `${prefix}app/k${String(next++).padStart(6, "0")}`;
      const secret = { mountUuid: mount.uuid, mountAccessor: mount.accessor, mountPath: "kv/", secretName };
      const set = await object.set(secret);
      if (!set.ok) throw new Error(set.message);
    }
  };
  await Promise.all(Array.from({ length: ASSOCIATED_AT_ONCE }, lane));
}
