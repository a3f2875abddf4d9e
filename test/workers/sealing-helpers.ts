import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { clearAuthorizeCache } from "../../src/access/authorize/authorize-cached.ts";
import { clearHealthCache } from "../../src/monitoring/health.ts";
import type { KvStore } from "../../src/objects/kv-store.ts";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { objectIds } from "./created-objects.ts";

export const key = (name: string): string => Buffer.from(name.padEnd(32, ".").slice(0, 32)).toString("base64");
/** As in vitest.config.ts. */
export const FIRST_KEY = Buffer.from("sallyport-tests-use-this-master!").toString("base64");

export const everyNamespace = (): DurableObjectNamespace<StoredObject>[] =>
  [
    env.ACCESS_CONTROL,
    env.KV_STORE,
    env.SYNC_DESTINATION,
    env.SYNC_CONTROL,
    env.CREDENTIAL_ENGINE,
    env.IDENTITY_ISSUER,
    env.EVENT_LOG,
    env.EVENT_SUBSCRIPTION,
  ] as DurableObjectNamespace<StoredObject>[];

/** Runs `look` inside every object that the test has made. */
export async function inEveryObject(look: (object: StoredObject, state: DurableObjectState) => void): Promise<void> {
  for (const namespace of everyNamespace()) {
    for (const id of objectIds(namespace)) await runInDurableObject(namespace.get(id), look);
  }
}

/** Sets another MASTER_KEY and deploys, as an operator does; every object restarts. */
export async function deployWithMasterKey(text: Env["MASTER_KEY"]): Promise<void> {
  // The runtime hands the same `env` to an object's next instance.
  await inEveryObject((object, { storage }) => {
    Object.assign((object as unknown as { env: Env }).env, { MASTER_KEY: text });
    // The replicas end as well: the first change need not wait for the end of their leases.
    for (const [key] of storage.kv.list({ prefix: "lease-holder:" })) storage.kv.delete(key);
  });
  await abortAllDurableObjects();
  clearAuthorizeCache();
  clearHealthCache();
}

export const inStore = <T>(
  uuid: string,
  look: (store: KvStore, state: DurableObjectState) => T | Promise<T>,
): Promise<T> => runInDurableObject(env.KV_STORE.getByName(uuid) as DurableObjectStub<KvStore>, look);

/** Everything that an object has on disk, as text in which any spelling of a value can be searched. */
export function dump(state: DurableObjectState): string {
  const tables = state.storage.sql
    .exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    )
    .toArray();
  return tables
    .flatMap(({ name }) => state.storage.sql.exec(`SELECT * FROM "${name}"`).toArray())
    .flatMap((row) => Object.values(row))
    .map((value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString("latin1") : String(value)))
    .join("\n");
}

/** A value as it would look plain, in hex, and in base64 at each of its three alignments. */
export function spellings(value: string): string[] {
  const bytes = Buffer.from(value);
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString("base64")
      .slice(4, -4),
  );
  return [value, bytes.toString("hex"), bytes.toString("hex").toUpperCase(), ...base64];
}
