import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { accessObject } from "./access.ts";
import { type Answer, del, get, list, mountKv, put } from "./client.ts";
import { objectIds } from "./created-objects.ts";
import { ALL, evictAll, evictObject } from "./evict-all.ts";
import { workersRest } from "./running-workers.ts";
import { eventually, makeDestination, setAssociation, setWithoutWaiting } from "./sync-helpers.ts";
import { numbered, pause, resume, writeMany } from "./sync-limits.ts";

/** Limits of the platform that the local runtime does not enforce: each test enforces one (docs/internals/platform-limits.md). */

/** Connections of an invocation, or of an object, that may wait for their headers. */
const CONNECTIONS = 6;
const ROW_BYTES = 2 * 1024 * 1024;
/** Subrequests of an invocation without a setting. */
const SUBREQUESTS = 10_000;

describe("an eviction of every object between any two requests", () => {
  it("changes no answer", { timeout: 120_000 }, async () => {
    let evicted = 0;
    const step = async (request: () => Promise<Answer>, status = 200): Promise<Answer> => {
      evicted += await evictAll();
      const answer = await request();
      expect([answer.status, answer.text.slice(0, 300)]).toEqual([status, expect.anything()]);
      return answer;
    };
    await step(() => put("/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } }), 204);
    await step(() => put("/v1/kv/data/a", { data: { n: 1 } }));
    await step(() => put("/v1/kv/data/a", { data: { n: 2 } }));
    expect((await step(() => get("/v1/kv/data/a"))).body.data.data).toEqual({ n: 2 });
    expect((await step(() => list("/v1/kv/metadata/"))).body.data.keys).toEqual(["a"]);
    await step(() => put("/v1/sys/policies/acl/p", { policy: 'path "kv/data/*" { capabilities = ["read"] }' }), 204);
    const token = (await step(() => put("/v1/auth/token/create", { policies: ["p"] }))).body.auth.client_token;
    await step(() => get("/v1/kv/data/a", { token }));
    await step(() => put("/v1/kv/data/a", { data: {} }, { token }), 403);
    await step(() => put("/v1/sys/sync/destinations/in-mem/d", {}));
    const at = "/v1/sys/sync/destinations/in-mem/d";
    await step(() => put(`${at}/associations/set`, { mount: "kv", secret_name: "a" }));
    await step(() => put("/v1/kv/data/a", { data: { n: 3 } }));
    const objects = () => get(`${at}/objects`);
    await eventually(async () => expect(JSON.stringify((await objects()).body)).toContain('{\\"n\\":3}'));
    expect(JSON.stringify((await step(objects)).body)).toContain('{\\"n\\":3}');
    await step(() => put("/v1/acl/policy/c", { Rules: 'agent { policy = "read" }' }));
    await step(() => get("/v1/acl/policy/c"));
    await step(() => put("/v1/agent/tokens", { Name: "n" }));
    await step(() => get("/v1/nodes"));
    await step(() => get("/v1/sys/health"));
    await step(() => get("/v1/.well-known/jwks.json"));
    await step(() => put("/v1/auth/token/revoke-self", {}, { token }), 204);
    await step(() => get("/v1/kv/data/a", { token }), 403);
    await step(() => del("/v1/kv/metadata/a"), 204);
    await step(() => get("/v1/kv/data/a"), 404);
    expect(evicted).toBeGreaterThan(40);
  });
});

/** Holds requests beyond the sixth until one of the others has its headers; notes the longest queue and the total. */
function limitConnections(): { readonly total: number; readonly most: number } {
  const seen = { total: 0, most: 0 };
  const waiting: (() => void)[] = [];
  let open = 0;
  const real = globalThis.fetch;
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    if (!url.startsWith(env.TEST_CLOUD_A.url) || url.includes("/_double/")) return real(input, init);
    seen.total++;
    seen.most = Math.max(seen.most, open + waiting.length + 1);
    if (open >= CONNECTIONS) await new Promise<void>((free) => waiting.push(free));
    open++;
    try {
      return await real(input, init);
    } finally {
      open--;
      waiting.shift()?.();
    }
  });
  return seen;
}

describe("a queue message for 40 secrets", () => {
  it("has at most six connections, waits for no seventh, and few subrequests", { timeout: 120_000 }, async () => {
    const mount = await mountKv();
    const { accessKeyId: access_key_id, secretAccessKey: secret_access_key } = env.TEST_CLOUD_A;
    await makeDestination("cloud-a-sm", "d", { access_key_id, secret_access_key, region: "eu-west-1" });
    await pause();
    for (const { secretName } of await writeMany(mount, numbered("s", 40)))
      expect((await setWithoutWaiting("cloud-a-sm/d", secretName)).status).toBe(200);
    const seen = limitConnections();
    await resume();
    await eventually(async () => {
      const { body } = await get("/sys/sync/destinations/cloud-a-sm/d/associations");
      expect(body.data.sync_operation_counters).toEqual({ SYNCED: 40 });
    });
    expect(seen.most).toBeGreaterThan(1);
    expect(seen.most).toBeLessThanOrEqual(CONNECTIONS);
    expect(seen.total).toBeGreaterThanOrEqual(40);
    expect(seen.total).toBeLessThan(SUBREQUESTS / 10);
  });
});

describe("an alarm that is late", () => {
  it("keeps no token alive, and is set again by the next change", { timeout: 60_000 }, async () => {
    const { body } = await put("/v1/auth/token/create", { policies: ["default"], ttl: "5s" });
    const { client_token: token, accessor } = body.auth;
    const rows = () =>
      runInDurableObject(accessObject(), (_object, { storage }) =>
        storage.sql.exec("SELECT 1 FROM tokens WHERE accessor = ?", accessor).toArray(),
      );
    // The platform delays it for as long as it likes.
    await runInDurableObject(accessObject(), (_object, { storage }) => storage.deleteAlarm());
    await scheduler.wait(5_500);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
    expect(await rows()).toHaveLength(1);
    // Only the object of the tokens, and without Workers: an object with a call under way is not evicted.
    await workersRest();
    await evictObject(accessObject());
    await put("/v1/sys/policies/acl/next", { policy: "" });
    await eventually(async () => expect(await rows()).toEqual([]));
  });
});

describe("the row limit", () => {
  it("is kept by the largest secret that is accepted, everywhere it is stored", { timeout: 60_000 }, async () => {
    await mountKv();
    await makeDestination("in-mem", "d");
    // Characters that JSON and UTF-8 write long.
    const value = "\u{10ffff}".repeat(255_000);
    const written = await put("/v1/kv/data/large", { data: { value } });
    expect(written.status).toBe(200);
    expect((await put("/v1/kv/data/larger", { data: { value: value.repeat(2) } })).status).toBe(413);
    await setAssociation("in-mem/d", "large");
    let largest = 0;
    for (const namespace of ALL)
      for (const id of objectIds(namespace))
        largest = Math.max(
          largest,
          await runInDurableObject(namespace.get(id), (_object, { storage }) => longest(storage.sql)),
        );
    expect(largest).toBeGreaterThan(1_000_000);
    expect(largest).toBeLessThan(ROW_BYTES);
  });
});

/** The bytes of the longest row of an object. */
function longest(sql: SqlStorage): number {
  const tables = sql
    .exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    )
    .toArray();
  return Math.max(
    0,
    ...tables.map(({ name }) => {
      const columns = sql.exec<{ name: string }>(`SELECT name FROM pragma_table_info('${name}')`).toArray();
      const size = columns.map((column) => `coalesce(length(CAST("${column.name}" AS BLOB)), 0)`).join(" + ");
      return Number(sql.exec<{ n: number | null }>(`SELECT max(${size}) AS n FROM "${name}"`).one().n ?? 0);
    }),
  );
}
