import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { objectIds } from "./created-objects.ts";

const OWN_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*' ORDER BY name";
/** Bookkeeping of SQLite, of D1 and of `migrate`: created by any first access. */
const BOOKKEEPING = /^(sqlite_|d1_|migrations$)/;

type Rows = Record<string, unknown>[];

/** Stores the success of deliveries, which an object does with its next transaction. */
export function storeDeliveries(object: unknown): void {
  (object as { outbox?: { settle(): void } }).outbox?.settle();
}

/** Delivers names for the search, which an object does a moment after a write. */
async function deliverNames(object: unknown): Promise<void> {
  const { outbox } = object as { outbox?: { holds(topic: string): boolean; drain(topic: string): Promise<void> } };
  for (let tries = 20; tries > 0 && outbox?.holds("names"); tries--) await outbox.drain("names");
}

/** Every row of every object that the test has made, and of the listings: equal before and after means that nothing was stored. */
export async function dump(): Promise<Record<string, Rows>> {
  const found: Record<string, Rows> = {};
  const keep = (name: string, rows: Rows) => {
    if (rows.length > 0) found[name] = rows;
  };
  const namespaces = {
    access: env.ACCESS_CONTROL,
    kv: env.KV_STORE,
    engine: env.CREDENTIAL_ENGINE,
    sync: env.SYNC_DESTINATION,
    identity: env.IDENTITY_ISSUER,
    registry: env.CLUSTER_REGISTRY,
    session: env.NODE_SESSION,
    log: env.EVENT_LOG,
    subscription: env.EVENT_SUBSCRIPTION,
  };
  for (const [kind, namespace] of Object.entries(namespaces)) {
    for (const id of objectIds(namespace as DurableObjectNamespace)) {
      const stub = (namespace as DurableObjectNamespace).get(id);
      await runInDurableObject(stub, async (object, { storage: { sql } }) => {
        await deliverNames(object);
        storeDeliveries(object);
        for (const { name } of sql.exec<{ name: string }>(OWN_TABLES).toArray()) {
          if (BOOKKEEPING.test(name)) continue;
          keep(`${kind} ${id.name ?? id} ${name}`, sql.exec(`SELECT * FROM "${name}"`).toArray());
        }
      });
    }
  }
  const tables = await env.LISTINGS.prepare(OWN_TABLES).all<{ name: string }>();
  for (const { name } of tables.results) {
    if (!BOOKKEEPING.test(name))
      keep(`listings ${name}`, (await env.LISTINGS.prepare(`SELECT * FROM "${name}"`).all()).results);
  }
  return found;
}
