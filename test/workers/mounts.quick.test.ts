import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { accessObject, holderOf, issue, path, policies } from "./access.ts";
import { del, get, mountKv, put, send } from "./client.ts";
import { evictObject } from "./evict-all.ts";

const kv = { type: "kv", options: { version: "2" } };
/** The record as clients decode it: every type matters. */
const RECORD = {
  type: "kv",
  description: "",
  accessor: expect.stringMatching(/^kv_[0-9a-f]{8}$/),
  uuid: expect.stringMatching(/^[0-9a-f-]{36}$/),
  local: false,
  seal_wrap: false,
  external_entropy_access: false,
  options: { version: "2" },
  plugin_version: "",
  running_plugin_version: expect.any(String),
  running_sha256: "",
  deprecation_status: expect.any(String),
  config: { default_lease_ttl: 0, max_lease_ttl: 0, force_no_cache: false, listing_visibility: "" },
};

/** The rows of the built-in mounts, which every namespace has. */
const builtIn = (type: string, description: string, local = false) => ({
  ...RECORD,
  type,
  description,
  local,
  accessor: expect.stringMatching(new RegExp(`^${type}_[0-9a-f]{8}$`)),
  options: null,
});
const BUILT_IN = {
  "cubbyhole/": builtIn("cubbyhole", "per-token private secret storage", true),
  "identity/": builtIn("identity", "identity store"),
  "sys/": builtIn("system", "system endpoints used for control, policy and debugging"),
};

/** Rows of secrets and versions in the object of a mount. */
const rowsOf = (uuid: string): Promise<number> =>
  runInDurableObject(
    env.KV_STORE.getByName(uuid),
    (_object, { storage: { sql } }) =>
      sql.exec<{ n: number }>("SELECT (SELECT count(*) FROM secrets) + (SELECT count(*) FROM versions) AS n").one().n,
  );

describe("sys/mounts", () => {
  it("returns 204 on enabling, and the whole record in data and at the top level", async () => {
    const made = await put("/v1/sys/mounts/kv", kv);
    expect([made.status, made.text]).toEqual([204, ""]);
    const listed = await get("/v1/sys/mounts");
    expect(listed.body.data).toEqual({ ...BUILT_IN, "kv/": RECORD });
    expect(listed.body["kv/"]).toEqual(RECORD);
    expect(listed.body).toMatchObject({ lease_id: "", renewable: false, warnings: null, auth: null, wrap_info: null });
    const one = await get("/v1/sys/mounts/kv");
    expect(one.body.data).toEqual(RECORD);
    expect(one.body.accessor).toBe(one.body.data.accessor);
  });

  it("returns only the built-in mounts for an empty table, and they cannot be changed", async () => {
    const listed = await get("/v1/sys/mounts");
    expect([listed.status, listed.body.data]).toEqual([200, BUILT_IN]);
    for (const at of ["cubbyhole", "identity", "sys"]) {
      expect((await get(`/v1/sys/mounts/${at}`)).body.data).toEqual(listed.body.data[`${at}/`]);
      expect((await get(`/v1/sys/mounts/${at}/tune`)).body.data.max_lease_ttl).toBe(2_764_800);
      const refused = [await put(`/v1/sys/mounts/${at}/tune`, { description: "x" }), await del(`/v1/sys/mounts/${at}`)];
      expect(refused.map(({ status, body }) => [status, body.errors])).toEqual([
        [400, [`cannot tune "${at}/"`]],
        [400, [`cannot unmount "${at}/"`]],
      ]);
    }
    expect((await get("/v1/sys/mounts")).body.data).toEqual(listed.body.data);
  });

  it("gives the built-in mounts of each namespace accessors of their own", async () => {
    await put("/v1/sys/namespaces/ns", {});
    const [here, there] = [await get("/v1/sys/mounts"), await get("/v1/ns/sys/mounts")];
    expect(there.body.data).toEqual(BUILT_IN);
    expect(there.body.data["cubbyhole/"].accessor).not.toBe(here.body.data["cubbyhole/"].accessor);
  });

  it("accepts all fields of the command line client", async () => {
    const made = await put("/v1/sys/mounts/deep/er/", {
      type: "kv",
      description: "d",
      local: false,
      seal_wrap: false,
      external_entropy_access: false,
      config: { default_lease_ttl: "0s", max_lease_ttl: "72h", force_no_cache: false, options: null },
      options: { version: "2" },
    });
    expect(made.status).toBe(204);
    const { data } = (await get("/v1/sys/mounts/deep/er")).body;
    expect(data).toMatchObject({ description: "d", config: { default_lease_ttl: 0, max_lease_ttl: 259_200 } });
  });

  it("mounts version 1 without a version, and returns null as its options", async () => {
    const rows = [
      ["plain", { type: "kv" }, null],
      ["oldest", { type: "generic" }, null],
      ["empty", { type: "kv", options: { version: "" } }, null],
      ["one", { type: "kv", options: { version: "1" } }, { version: "1" }],
      ["short", { type: "kv-v1" }, { version: "1" }],
    ] as const;
    for (const [at, body, options] of rows) {
      expect((await put(`/v1/sys/mounts/${at}`, body)).status, at).toBe(204);
      expect((await get(`/v1/sys/mounts/${at}`)).body.data, at).toMatchObject({ type: "kv", options });
      expect((await get(`/v1/sys/mounts/${at}/tune`)).body.data.options, at).toEqual(options);
      expect((await get(`/v1/sys/internal/ui/mounts/${at}/x`)).body.data, at).toMatchObject({
        options,
        path: `${at}/`,
      });
    }
  });

  it("accepts the short form kv-v2", async () => {
    await put("/v1/sys/mounts/s", { type: "kv-v2" });
    expect((await get("/v1/sys/mounts/s")).body.data).toMatchObject({ type: "kv", options: { version: "2" } });
  });

  itRows([
    ["kv", {}, /^backend type must be specified as a string$/],
    ["kv", { type: "" }, /^backend type must be specified as a string$/],
    ["kv", { type: "nope" }, "plugin not found in the catalog: nope"],
    ["kv", { type: "kv", options: { version: "3" } }, 'options.version: must be "1" or "2"'],
    ["kv", { type: "kv-v1", options: { version: "2" } }, "options.version: the type kv-v1 is version 1"],
    ["kv", { type: "kv-v2", options: { version: "1" } }, "options.version: the type kv-v2 is version 2"],
    ["kv", { type: "toString" }, "plugin not found in the catalog: toString"],
    ["sys", kv, 'cannot mount "sys/"'],
    ["sys/x", kv, 'cannot mount "sys/x/"'],
    ["auth", kv, 'cannot mount "auth/"'],
    ["identity", kv, 'cannot mount "identity/"'],
    ["acl", kv, 'cannot mount "acl/"'],
    ["a*", kv, "mount path"],
    ["a%2F..%2Fb", kv, "path"],
    ["x".repeat(600), kv, "mount path"],
    ["kv", { ...kv, config: { max_lease_ttl: "soon" } }, "max_lease_ttl: must be seconds"],
    [
      "kv",
      { ...kv, config: { default_lease_ttl: "2h", max_lease_ttl: "1h" } },
      "given default lease TTL greater than given max lease TTL",
    ],
    ["kv", { ...kv, config: { default_lease_ttl: "769h" } }, "given default lease TTL greater than system max"],
    ["kv", { ...kv, config: { listing_visibility: "all" } }, "listing_visibility"],
  ])("returns 400 for %s %j", async (at, body, because) => {
    const refused = await put(`/v1/sys/mounts/${at}`, body);
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toMatch(because);
    expect((await get("/v1/sys/mounts")).body.data).toEqual(BUILT_IN);
  });

  it("returns 400 for a path in use, and for paths above and below it", async () => {
    await put("/v1/sys/mounts/a/b", kv);
    for (const taken of ["a/b", "a", "a/b/c"]) {
      const refused = await put(`/v1/sys/mounts/${taken}`, kv);
      expect([refused.status, refused.body.errors]).toEqual([400, ["path is already in use at a/b/"]]);
    }
    expect((await put("/v1/sys/mounts/a/bc", kv)).status).toBe(204);
  });

  it("returns the upstream message for a missing mount", async () => {
    const missing = await get("/v1/sys/mounts/none");
    expect([missing.status, missing.body.errors]).toEqual([400, ["No secret engine mount at none/"]]);
  });

  it("tunes only the given fields, and shows the effective values", async () => {
    await put("/v1/sys/mounts/a/b", kv);
    expect((await get("/v1/sys/mounts/a/b/tune")).body.data).toEqual({
      description: "",
      default_lease_ttl: 2_764_800,
      max_lease_ttl: 2_764_800,
      force_no_cache: false,
      options: { version: "2" },
    });
    const tuned = await put("/v1/sys/mounts/a/b/tune", { max_lease_ttl: "1h", listing_visibility: "unauth" });
    expect(tuned.status).toBe(204);
    await put("/v1/sys/mounts/a/b/tune", { description: "new", default_lease_ttl: 60 });
    const expected = { description: "new", default_lease_ttl: 60, max_lease_ttl: 3600, listing_visibility: "unauth" };
    expect((await get("/v1/sys/mounts/a/b/tune")).body).toMatchObject({ ...expected, data: expected });
    await put("/v1/sys/mounts/a/b/tune", { max_lease_ttl: "system" });
    expect((await get("/v1/sys/mounts/a/b")).body.data.config.max_lease_ttl).toBe(0);
    expect((await put("/v1/sys/mounts/a/b/tune", { options: { version: "1" } })).status).toBe(400);
    const absent = await put("/v1/sys/mounts/none/tune", {});
    expect([absent.status, absent.body.errors]).toEqual([400, ['tune of path "none/" failed: no mount entry found']]);
  });

  it("can be named v1, and is reached below it", async () => {
    await put("/v1/sys/mounts/v1", kv);
    await put("/v1/v1/data/a", { data: { k: "v" } });
    expect((await get("/v1/v1/data/a")).body.data.data).toEqual({ k: "v" });
    expect((await put("/v1/sys/namespaces/v1", {})).status).toBe(400);
  });

  it("warns about leased_passthrough, which has no effect", async () => {
    const options = { leased_passthrough: "true" };
    for (const [at, body] of [
      ["old", { type: "kv", options }],
      ["old/tune", { options }],
    ] as const) {
      const { status, body: answer } = await put(`/v1/sys/mounts/${at}`, body);
      expect([status, answer.warnings]).toEqual([200, [expect.stringContaining("leased_passthrough has no effect")]]);
    }
    expect((await get("/v1/sys/mounts/old")).body.data.options).toEqual(options);
    expect((await put("/v1/sys/mounts/new", { type: "kv", options: { leased_passthrough: "false" } })).status).toBe(
      204,
    );
  });

  it("returns 400 for a default TTL above the maximum, and keeps the mount", async () => {
    await put("/v1/sys/mounts/kv", { ...kv, config: { default_lease_ttl: "1h" } });
    const refused = await put("/v1/sys/mounts/kv/tune", { max_lease_ttl: "30m", description: "new" });
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ["backend max lease TTL of 1800 would be less than backend default lease TTL of 3600"],
    ]);
    expect((await get("/v1/sys/mounts/kv")).body.data).toMatchObject({ description: "", config: { max_lease_ttl: 0 } });
    expect((await put("/v1/sys/mounts/kv/tune", { default_lease_ttl: "800h", max_lease_ttl: "900h" })).status).toBe(
      204,
    );
  });

  it("shows the mount's type in the caller's dialect, so that provisioning tools do not recreate it", async () => {
    const upstream = { headers: { "X-Vault-Request": "true" } };
    await put("/v1/sys/mounts/azure", { type: "azure" }, upstream);
    const typesSeen = async (options?: typeof upstream) => {
      const at = async (route: string) => (await get(`/v1/${route}`, options)).body;
      const table = await at("sys/mounts");
      return [
        table.data["azure/"].type,
        table["azure/"].type,
        (await at("sys/mounts/azure")).data.type,
        (await at("sys/internal/ui/mounts/azure")).data.type,
        (await at("sys/internal/ui/mounts")).data.secret["azure/"].type,
        (await at("azure/config")).mount_type,
      ];
    };
    expect(new Set(await typesSeen(upstream))).toEqual(new Set(["azure"]));
    expect(new Set(await typesSeen())).toEqual(new Set(["cloud-b"]));
  });

  it("returns 204 on disabling, also for an absent mount, and destroys the data", async () => {
    const { uuid, accessor } = await mountKv();
    await put("/v1/kv/data/x", { data: { k: "canary" } });
    expect(await rowsOf(uuid)).toBe(2);
    expect((await del("/v1/sys/mounts/kv")).status).toBe(204);
    expect((await del("/v1/sys/mounts/kv")).status).toBe(204);
    expect((await get("/v1/kv/data/x")).status).toBe(404);
    expect(await rowsOf(uuid)).toBe(0);
    const again = await mountKv();
    expect(again.accessor).not.toBe(accessor);
    expect((await get("/v1/kv/data/x")).status).toBe(404);
  });

  it("requires the capability of each verb", async () => {
    await mountKv();
    const reader = { token: (await holderOf(path("sys/mounts*", "read"))).client_token };
    expect((await get("/v1/sys/mounts", reader)).status).toBe(200);
    expect((await get("/v1/sys/mounts/kv", reader)).status).toBe(200);
    expect((await put("/v1/sys/mounts/x", kv, reader)).status).toBe(403);
    expect((await put("/v1/sys/mounts/kv/tune", {}, reader)).status).toBe(403);
    expect((await del("/v1/sys/mounts/kv", reader)).status).toBe(403);
  });
});

describe("sys/internal/ui/mounts", () => {
  const preflight = (at: string, token: string) => get(`/v1/sys/internal/ui/mounts/${at}`, { token });

  it("returns the mount of any path below it, with the version as text and the path", async () => {
    await put("/v1/sys/mounts/a/b", kv);
    for (const at of ["a/b", "a/b/", "a/b/data/x/y"]) {
      expect((await preflight(at, "root")).body.data).toEqual({ ...RECORD, path: "a/b/" });
    }
  });

  it("returns 403 for an unknown mount, because clients read 404 as an old server", async () => {
    const text = `preflight capability check returned 403, please ensure client's policies grant access to path`;
    for (const at of ["none", "none/", "auth/none"]) {
      const refused = await preflight(at, "root");
      const named = JSON.stringify(at.replace(/\/?$/, "/"));
      expect([refused.status, refused.body.errors]).toEqual([403, [`${text} ${named}`]]);
    }
  });

  it("returns 403 unless the token has a capability below the mount", async () => {
    await mountKv();
    const may = await holderOf(path("kv/data/team/+/x", "patch"));
    const deniedBelow = await holderOf(path("kv/*", "deny") + path("other/*", "read"));
    const never = await holderOf(path("kvx/*", "read"));
    expect((await preflight("kv/data/q", may.client_token)).status).toBe(200);
    expect((await preflight("kv/data/q", deniedBelow.client_token)).status).toBe(403);
    expect((await preflight("kv/data/q", never.client_token)).status).toBe(403);
    expect((await get("/v1/sys/internal/ui/mounts/kv", { token: null })).status).toBe(403);
  });

  it("resolves a path into a child namespace, relative to the caller's", async () => {
    await put("/v1/sys/namespaces/ns", {});
    const inside = { headers: { "X-Orch-Namespace": "ns" } };
    await mountKv("kv", inside);
    expect((await preflight("ns/kv/data/x", "root")).body.data.path).toBe("ns/kv/");
    expect((await get("/v1/sys/internal/ui/mounts/kv/data/x", inside)).body.data.path).toBe("kv/");
    expect((await get("/v1/ns/sys/internal/ui/mounts/kv")).body.data.path).toBe("kv/");
    await policies({ p: path("kv/*", "read") }, inside);
    const { client_token } = await issue({ policies: ["p"] }, inside);
    expect((await preflight("ns/kv/data/x", client_token)).status).toBe(403);
    const seen = await get("/v1/ns/sys/internal/ui/mounts", { token: client_token });
    expect(Object.keys(seen.body.data.secret)).toEqual(["cubbyhole/", "kv/", "sys/"]);
  });

  it("lists the mounts visible to the caller", async () => {
    await mountKv("one");
    await mountKv("two");
    const { client_token: token } = await holderOf(path("one/data/x", "read"));
    const seen = await get("/v1/sys/internal/ui/mounts", { token });
    expect(seen.body.data).toEqual({ secret: { "one/": RECORD }, auth: {} });
    const all = await get("/v1/sys/internal/ui/mounts");
    expect(Object.keys(all.body.data.secret)).toEqual(["cubbyhole/", "identity/", "one/", "sys/", "two/"]);
  });

  it("lists them for a token of some networks there, and as without a token elsewhere", async () => {
    await mountKv("one");
    await policies({ one: path("one/data/x", "read") });
    await put("/v1/auth/token/roles/near", { allowed_policies: "one", token_bound_cidrs: "192.0.2.0/24" });
    const { client_token: token } = (await put("/v1/auth/token/create/near", { no_default_policy: true })).body.auth;
    for (const [address, seen] of [
      ["192.0.2.1", { "one/": RECORD }],
      ["198.51.100.1", {}],
    ] as const) {
      const { status, body } = await get("/v1/sys/internal/ui/mounts", {
        token,
        headers: { "CF-Connecting-IP": address },
      });
      expect([address, status, body.data.secret]).toEqual([address, 200, seen]);
    }
  });

  it("lists the auth methods visible to the caller, and returns them by path", async () => {
    for (const at of ["people", "robots"]) await put(`/v1/sys/auth/${at}`, { type: "userpass", description: at });
    const record = (await get("/v1/sys/auth/people")).body.data;
    const list = async (token: string) => (await get("/v1/sys/internal/ui/mounts", { token })).body.data.auth;
    expect(Object.keys(await list("root")).sort()).toEqual(["people/", "robots/", "token/"]);
    const { client_token: token } = await holderOf(path("auth/+/users/ann", "read") + path("auth/robots*", "deny"));
    expect(await list(token)).toMatchObject({ "people/": record });
    const { client_token: one } = await holderOf(path("auth/people/users/ann", "read"));
    expect(await list(one)).toEqual({ "people/": record });
    for (const at of ["auth/people", "auth/people/", "auth/people/users/ann"]) {
      expect((await preflight(at, one)).body.data, at).toEqual({ ...record, path: "people/" });
    }
    expect((await preflight("auth/robots", one)).status).toBe(403);
    expect((await preflight("auth/token", "root")).body.data).toMatchObject({ type: "token", path: "token/" });
    expect((await preflight("auth/token/create", one)).status).toBe(403);
  });

  it("returns only mounts listed for everyone without a token, and no accessors", async () => {
    await mountKv("hidden");
    await put("/v1/sys/mounts/open", { ...kv, description: "d", config: { listing_visibility: "unauth" } });
    for (const token of [null, "nobody"]) {
      const seen = await get("/v1/sys/internal/ui/mounts", { token });
      expect([seen.status, seen.body.data]).toEqual([
        200,
        { secret: { "open/": { type: "kv", description: "d", options: { version: "2" } } }, auth: {} },
      ]);
    }
    const { client_token } = await holderOf(path("none", "deny"));
    const seen = await get("/v1/sys/internal/ui/mounts", { token: client_token });
    expect(Object.keys(seen.body.data.secret)).toEqual(["open/"]);
  });
});

describe("health and seal status", () => {
  it("are public, unwrapped and complete", async () => {
    const health = await get("/v1/sys/health", { token: null });
    expect([health.status, health.headers.get("content-type")]).toEqual([200, "application/json"]);
    expect(health.body).toEqual({
      initialized: true,
      sealed: false,
      standby: false,
      performance_standby: false,
      replication_performance_mode: "disabled",
      replication_dr_mode: "disabled",
      server_time_utc: expect.any(Number),
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      enterprise: true,
      cluster_name: expect.any(String),
      cluster_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      echo_duration_ms: 0,
      clock_skew_ms: 0,
      parts: expect.objectContaining({ access_control: "ok" }),
      failing: [],
      degraded: [],
    });
    const seal = await get("/v1/sys/seal-status", { token: null });
    expect(seal.body).toMatchObject({ initialized: true, sealed: false, cluster_id: health.body.cluster_id });
    expect([seal.body.t, seal.body.n, seal.body.progress].every(Number.isInteger)).toBe(true);
  });

  it("answer HEAD without a body, and with the status codes for load balancers", async () => {
    const head = await send("HEAD", "/v1/sys/health?activecode=299", undefined, { token: null });
    expect([head.status, head.text]).toEqual([299, ""]);
  });

  it("report the cause while sealed, and all other routes return 503 for any token", async () => {
    await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      sql.exec("UPDATE data_keys SET master = 'lost'");
    });
    await evictObject(accessObject());
    const health = await get("/v1/sys/health", { token: null });
    expect([health.status, health.body.sealed, health.body.initialized]).toEqual([503, true, true]);
    expect((await get("/v1/sys/seal-status", { token: null })).body.sealed).toBe(true);
    for (const token of ["root", "nobody", null]) {
      const refused = await get("/v1/sys/mounts", { token });
      expect([refused.status, refused.body.errors.join()]).toEqual([503, expect.stringMatching(/^sealed/)]);
    }
    expect((await put("/v1/acl/bootstrap", { BootstrapSecret: "x" }, { token: null })).status).toBe(400);
  });
});
