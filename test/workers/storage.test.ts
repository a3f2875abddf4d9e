import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import page from "../../docs/internals/storage.md?raw";
import { get, mountKv, put } from "./client.ts";

const EVERYWHERE = ["migrations", "outbox", "outbox_numbers"];

function tablesOn(section: string): string[] {
  const text = page.split(`## ${section}\n`)[1]?.split("\n## ")[0] ?? "";
  return [...text.matchAll(/^\| `([\w:]+)` \|/gm)].map(([, table]) => table ?? "").sort();
}

async function tablesIn(stub: DurableObjectStub): Promise<string[]> {
  return runInDurableObject(stub, (_object, state) =>
    state.storage.sql
      .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map((row) => row.name)
      .filter((name) => !/^(sqlite_|_cf_)/.test(name) && !EVERYWHERE.includes(name))
      .sort(),
  );
}

it("documents every table of every object, and no table that does not exist", async () => {
  const { uuid } = await mountKv();
  await put("/v1/sys/sync/destinations/in-mem/d", {});
  await put("/v1/sys/mounts/cloud-b", { type: "cloud-b" });
  const engine = (await get("/v1/sys/mounts/cloud-b")).body.data.uuid;
  const objects: [string, DurableObjectStub][] = [
    ["AccessControl", env.ACCESS_CONTROL.getByName("main")],
    ["KvStore", env.KV_STORE.getByName(uuid)],
    ["SyncDestination", env.SYNC_DESTINATION.getByName("in-mem/d")],
    ["SyncControl", env.SYNC_CONTROL.getByName("main")],
    ["CredentialEngine", env.CREDENTIAL_ENGINE.getByName(engine)],
    ["IdentityIssuer", env.IDENTITY_ISSUER.getByName("main")],
    ["ClusterRegistry", env.CLUSTER_REGISTRY.getByName("main")],
    ["NodeSession", env.NODE_SESSION.getByName(crypto.randomUUID())],
    ["EventSubscription", env.EVENT_SUBSCRIPTION.getByName("s")],
    ["EventLog", env.EVENT_LOG.getByName("log")],
    ["Metrics", env.METRICS.getByName("main")],
    ["EventRelay", env.EVENT_RELAY.getByName("anywhere-0")],
    ["AuditCollector", env.AUDIT_COLLECTOR.getByName("anywhere")],
    ["ReadReplica", env.READ_REPLICA.getByName("anywhere-0")],
  ];
  for (const [name, stub] of objects) expect([name, tablesOn(name)]).toEqual([name, await tablesIn(stub)]);
  const { results } = await env.LISTINGS.prepare(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_cf_%' AND name NOT LIKE 'd1_%'",
  ).all<{ name: string }>();
  expect(results.map((row) => row.name).sort()).toEqual(tablesOn("D1 `listings`"));
});
