import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf, path } from "./access.ts";
import { loseEverything, restore, snapshot } from "./backup-world.ts";
import { type Answer, del, get, list, patch, put, send } from "./client.ts";
import { dump } from "./stored-rows.ts";

/** KV version 1: one value a path, stored whole (docs/guides/secrets.md). */

const NOTHING = '{"errors":[]}';
const errors = (answer: Answer): string[] => [`${answer.status}`, ...(answer.body?.errors ?? [])];
const UPSTREAM_DEFAULT = 2_764_800;

beforeEach(async () => {
  expect((await put("/v1/sys/mounts/one", { type: "kv" })).status).toBe(204);
});

describe("a secret of a version 1 mount", () => {
  it("is written with 204, and returned byte for byte in the envelope", async () => {
    const made = await put("/v1/one/app/db", { user: "app", password: "p" });
    expect([made.status, made.text]).toEqual([204, ""]);
    const read = await get("/v1/one/app/db");
    expect(read.text).toBe(
      `{"request_id":"${read.body.request_id}","lease_id":"","renewable":false,"lease_duration":${UPSTREAM_DEFAULT},` +
        '"data":{"user":"app","password":"p"},"wrap_info":null,"warnings":null,"auth":null,"mount_type":"kv"}',
    );
    expect(read.headers.get("Cache-Control")).toBe("no-store");
  });

  itRows([
    '{"n":123456789012345678901234567890,"f":1.10,"e":1e400}',
    '{"null":null,"empty":{},"list":[1,[null]],"":"","__proto__":{"a":1}}',
    '{"data":{"k":"v"},"options":{"cas":7}}',
    '{"ümläut":"\\"\\\\/😀"}',
  ])("is stored whole: %s", async (body) => {
    expect((await send("POST", "/v1/one/a", body)).status).toBe(204);
    expect((await get("/v1/one/a")).text).toContain(`"data":${body},"wrap_info"`);
  });

  it("is replaced by a write, and no earlier value stays in storage", async () => {
    await put("/v1/one/a", { k: "first" });
    await put("/v1/one/a", { other: "second" });
    expect((await get("/v1/one/a")).body.data).toEqual({ other: "second" });
    const { uuid } = (await get("/v1/sys/mounts/one")).body.data;
    const rows = await runInDurableObject(env.KV_STORE.getByName(uuid), (_object, { storage }) =>
      storage.sql.exec("SELECT path, version FROM versions").toArray(),
    );
    expect(rows).toEqual([{ path: "a", version: 1 }]);
  });

  it("accepts a form, as upstream", async () => {
    expect((await send("POST", "/v1/one/a", "k=v&l=1&l=2")).status).toBe(204);
    expect((await get("/v1/one/a")).body.data).toEqual({ k: "v", l: ["1", "2"] });
  });

  itRows(["", "null", "{}"])("is refused without fields: %j", async (body) => {
    expect(errors(await put("/v1/one/a", body))).toEqual(["400", "missing data fields"]);
    expect((await get("/v1/one/a")).status).toBe(404);
  });

  itRows(['["a"]', '"text"', "17", '{"a":', '{"a":1} x'])(
    "is refused for a body that is no object: %s",
    async (body) => {
      expect((await put("/v1/one/a", body)).status).toBe(400);
      expect((await get("/v1/one/a")).status).toBe(404);
    },
  );

  it("returns 404 without a text when it is missing or deleted, and deletes repeatedly", async () => {
    expect([(await get("/v1/one/a")).status, (await get("/v1/one/a")).text]).toEqual([404, NOTHING]);
    await put("/v1/one/a", { k: 1 });
    for (let n = 0; n < 2; n++) expect((await del("/v1/one/a")).status).toBe(204);
    expect([(await get("/v1/one/a")).status, (await get("/v1/one/a")).text]).toEqual([404, NOTHING]);
    expect((await list("/v1/one")).text).toBe(NOTHING);
  });

  it("keeps its path in any words, also those of version 2", async () => {
    for (const at of ["data/a", "metadata/a", "config", "a b/ü", "a%2Fb"]) {
      expect((await put(`/v1/one/${at}`, { at })).status, at).toBe(204);
      expect((await get(`/v1/one/${at}`)).body.data, at).toEqual({ at });
    }
  });

  it("refuses a trailing slash in a write, PATCH, and a write at the root", async () => {
    expect((await put("/v1/one/a/", { k: 1 })).status).toBe(400);
    expect((await get("/v1/one/a/")).status).toBe(404);
    expect(errors(await patch("/v1/one/a", { k: 1 }))).toEqual(["405", "unsupported operation"]);
    for (const at of ["/v1/one", "/v1/one/"]) {
      for (const refused of [await put(at, { k: 1 }), await get(at), await del(at)]) {
        expect(errors(refused)).toEqual(["405", "unsupported operation"]);
      }
    }
  });

  it("accepts a body of exactly 1 MiB, and refuses one byte more with 413", async () => {
    const text = "x".repeat(1024 * 1024 - '{"k":""}'.length);
    expect((await put("/v1/one/a", `{"k":"${text}"}`)).status).toBe(204);
    expect((await get("/v1/one/a")).body.data.k).toBe(text);
    expect((await put("/v1/one/a", `{"k":"${text}x"}`)).status).toBe(413);
  });

  it("is sealed in storage", async () => {
    await put("/v1/one/a", { k: "canary-of-version-one" });
    expect(JSON.stringify(await dump())).not.toContain("canary-of-version-one");
  });
});

describe("lease_duration", () => {
  const duration = async (data: object) => {
    await put("/v1/one/a", data);
    const { lease_id, renewable, lease_duration, warnings } = (await get("/v1/one/a")).body;
    expect([lease_id, renewable]).toEqual(["", false]);
    return warnings === null ? lease_duration : [lease_duration, ...warnings];
  };

  it("is the secret's ttl or lease, else the default", async () => {
    for (const [data, seconds] of [
      [{ k: 1 }, UPSTREAM_DEFAULT],
      [{ ttl: "1h" }, 3600],
      [{ ttl: 90 }, 90],
      [{ lease: "2m" }, 120],
      [{ ttl: "5s", lease: "2m" }, 5],
      [{ ttl: "soon", lease: "2m" }, UPSTREAM_DEFAULT],
      [{ ttl: 0 }, UPSTREAM_DEFAULT],
      [{ ttl: "-1h" }, UPSTREAM_DEFAULT],
      [{ ttl: { a: 1 } }, UPSTREAM_DEFAULT],
      [{ inner: { ttl: "1h" } }, UPSTREAM_DEFAULT],
    ] as const) {
      expect(await duration(data), JSON.stringify(data)).toBe(seconds);
    }
  });

  it("is bounded by the mount's TTLs, with upstream's warning", async () => {
    await put("/v1/sys/mounts/one/tune", { default_lease_ttl: "10m", max_lease_ttl: "1h" });
    expect(await duration({ k: 1 })).toBe(600);
    expect(await duration({ ttl: "30m" })).toBe(1800);
    expect(await duration({ ttl: "2h" })).toEqual([
      3600,
      'TTL of "2h0m0s" exceeded the effective max_ttl of "1h0m0s"; TTL value is capped accordingly',
    ]);
  });
});

describe("LIST of a version 1 mount", () => {
  it("returns names and folders, by verb and by query", async () => {
    for (const at of ["a", "a/b", "a/c/d", "z"]) await put(`/v1/one/${at}`, { at });
    expect((await list("/v1/one")).body.data).toEqual({ keys: ["a", "a/", "z"] });
    expect((await send("LIST", "/v1/one/")).body.data).toEqual({ keys: ["a", "a/", "z"] });
    expect((await get("/v1/one/a?list=true")).body.data).toEqual({ keys: ["b", "c/"] });
    expect((await list("/v1/one/a/c/")).body.data).toEqual({ keys: ["d"] });
    expect((await list("/v1/one?after=a&limit=1")).body.data).toEqual({ keys: ["a/"] });
    const none = await list("/v1/one/z");
    expect([none.status, none.text]).toEqual([404, NOTHING]);
  });
});

describe("rights in a version 1 mount", () => {
  it("require create for an absent secret and update for an existing one", async () => {
    const creator = { token: (await holderOf(path("one/*", "create"))).client_token };
    const updater = { token: (await holderOf(path("one/*", "update"))).client_token };
    expect((await put("/v1/one/a", { k: 1 }, updater)).status).toBe(403);
    expect((await put("/v1/one/a", { k: 1 }, creator)).status).toBe(204);
    expect((await put("/v1/one/a", { k: 2 }, creator)).status).toBe(403);
    expect((await put("/v1/one/a", { k: 2 }, updater)).status).toBe(204);
    await del("/v1/one/a");
    expect((await put("/v1/one/a", { k: 3 }, updater)).status).toBe(403);
  });

  it("check a policy's parameters against the fields of the secret", async () => {
    const rules = 'path "one/*" { capabilities = ["create"] allowed_parameters = { "k" = ["v"] } }';
    const { client_token: token } = await holderOf(rules);
    expect((await put("/v1/one/a", { other: "v" }, { token })).status).toBe(403);
    expect((await put("/v1/one/a", { k: "w" }, { token })).status).toBe(403);
    expect((await put("/v1/one/a", { k: "v" }, { token })).status).toBe(204);
  });

  it("follow paths without data/", async () => {
    await put("/v1/one/team/a", { k: 1 });
    const v1 = { token: (await holderOf(path("one/team/*", "read"))).client_token };
    const v2 = { token: (await holderOf(path("one/data/team/*", "read"))).client_token };
    expect((await get("/v1/one/team/a", v1)).status).toBe(200);
    expect((await get("/v1/one/team/a", v2)).status).toBe(403);
  });
});

describe("a version 1 mount", () => {
  it("is refused as the source of a sync association, by one sentence", async () => {
    await put("/v1/one/a", { k: 1 });
    expect((await put("/v1/sys/sync/destinations/in-mem/d", {})).status).toBe(200);
    const refused = await put("/v1/sys/sync/destinations/in-mem/d/associations/set", {
      mount: "one",
      secret_name: "a",
    });
    expect(errors(refused)).toEqual([
      "400",
      "mount: one/ is of KV version 1; only secrets of KV version 2 mounts can be synced",
    ]);
  });

  it("keeps its secrets through a rotation of keys", async () => {
    await put("/v1/one/a", { k: "before" });
    expect((await put("/v1/sys/rotate", {})).status).toBe(204);
    expect((await get("/v1/one/a")).body.data).toEqual({ k: "before" });
    await put("/v1/one/a", { k: "after" });
    expect((await get("/v1/one/a")).body.data).toEqual({ k: "after" });
  });

  it("is part of a snapshot with its secrets, its move and its results", async () => {
    await put("/v1/one/app/db", { k: "kept", ttl: "5m" });
    const { migration_id: id } = (await put("/v1/sys/remount", { from: "one", to: "moved" })).body.data;
    const file = await snapshot();
    expect(new TextDecoder().decode(file)).not.toContain("kept");
    await loseEverything();
    expect((await restore(file)).status).toBe(200);
    expect((await get("/v1/moved/app/db")).body).toMatchObject({ lease_duration: 300, data: { k: "kept" } });
    expect((await put("/v1/moved/app/db", { k: "new" })).status).toBe(204);
    expect((await get(`/v1/sys/remount/status/${id}`)).body.data.migration_info.target_mount).toBe("moved/");
    await put("/v1/sys/mounts/moved/tune", { options: { version: "2" } });
    expect((await get("/v1/moved/data/app/db")).body.data.data).toEqual({ k: "new" });
  });

  it("destroys its secrets when it is disabled", async () => {
    await put("/v1/one/a", { k: 1 });
    await del("/v1/sys/mounts/one");
    await put("/v1/sys/mounts/one", { type: "kv-v1" });
    expect((await get("/v1/one/a")).status).toBe(404);
  });

  it("holds its secrets apart from a version 2 mount in another namespace of the same path", async () => {
    await put("/v1/sys/namespaces/ns", {});
    const inside = { headers: { "X-Orch-Namespace": "ns" } };
    await put("/v1/sys/mounts/one", { type: "kv-v2" }, inside);
    await put("/v1/one/a", { k: 1 });
    expect((await get("/v1/one/a", inside)).body.warnings[0]).toMatch(/^Invalid path for a versioned/);
  });
});
