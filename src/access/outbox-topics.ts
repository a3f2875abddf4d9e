import type { KeyHolder } from "../contracts/access-control.ts";
import type { MountType } from "../contracts/mount.ts";
import { isEngine } from "../credentials/engines/descriptions.ts";
import { isStorageLost } from "../platform/durable/birth.ts";
import type { Deliver } from "../platform/durable/outbox-delivery.ts";
import {
  clusterRegistry,
  credentialEngine,
  eventSubscription,
  identityIssuer,
  kvStore,
  nodeSession,
  syncControl,
  syncDestination,
} from "../rpc/stubs.ts";

/** Outbox topics of `AccessControl` and their delivery to other objects. */
export const accessOutboxTopics = (env: Env) =>
  ({
    /** Lane: type and uuid of a deleted mount. */
    unmount: async (lane) => {
      const [type, uuid = ""] = lane.split(" ");
      const object = type === "kv" ? kvStore(env, uuid) : credentialEngine(env, uuid);
      await object.destroy().catch((failure: unknown) => {
        // The storage is already gone.
        if (!isStorageLost(failure)) throw failure;
      });
    },
    /** Lane: uuid of a KV mount that was upgraded to version 2. */
    upgrade: async (uuid) => {
      await kvStore(env, uuid).enableVersioning();
    },
    /** Lane: uuid of a KV mount that was made while subscribers want its events. The last row is their epoch. */
    published: async (uuid, rows) => {
      await kvStore(env, uuid).publishEvents(Number(rows.slice(-1)[0]?.body));
    },
    /** Lane: type and uuid of a mount that moved. The last row holds its path, with a number that grows. */
    moved: async (lane, rows) => {
      const [type, uuid = ""] = lane.split(" ");
      const [row] = rows.slice(-1);
      const { path, seq } = JSON.parse(row?.body ?? "") as { path: string; seq: number };
      const moved =
        type === "kv" ? await kvStore(env, uuid).moved(path, seq) : await credentialEngine(env, uuid).moved(path, seq);
      if (moved && !moved.ok) throw new Error(moved.message);
    },
    /** Lane: a mount. Rows: accessors of ended tokens. */
    leases: async (mount, rows) => {
      await credentialEngine(env, mount).tokensEnded(rows.map(({ body }) => JSON.parse(body) as string));
    },
    /** Lane: kind and name of an object that holds data keys. */
    rekey: async (lane, rows) => {
      const [kind = "", name = ""] = lane.split(/ (.*)/s);
      const { term } = JSON.parse(rows.at(-1)?.body ?? "{}") as { term: number };
      await keyHolder(env, kind as KeyHolder | MountType, name).rekey(term);
    },
  }) satisfies Record<string, Deliver>;

function keyHolder(env: Env, kind: KeyHolder | MountType, name: string): { rekey(term: number): Promise<void> } {
  if (kind === "kv") return kvStore(env, name);
  if (isEngine({ type: kind })) return credentialEngine(env, name);
  if (kind === "identity-issuer") return identityIssuer(env);
  if (kind === "node-session") return nodeSession(env, name);
  if (kind === "event-subscription") return eventSubscription(env, name);
  if (kind === "cluster-registry") return clusterRegistry(env);
  return kind === "sync-control" ? syncControl(env) : syncDestination(env, name);
}
