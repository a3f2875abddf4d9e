import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { dump, holderOf, path, policies } from "./access.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";

clock.moves = true;

const CANARY = "canary-password-7f3a";
const from = (address: string) => ({ token: null, headers: { "CF-Connecting-IP": address } });
const NOBODY = { token: null };
const signIn = (password: string, name = "ann", options: Parameters<typeof put>[2] = NOBODY) =>
  put(`/v1/auth/userpass/login/${name}`, { password }, options);

afterEach(() => {
  vi.useRealTimers();
});

/** Sets the clock forward and stops it. */
const later = (minutes: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + minutes * 60_000 });

beforeEach(async () => {
  expect((await put("/v1/sys/auth/userpass", { type: "userpass" })).status).toBe(204);
  await policies({ reader: path("kv/data/app", "read") });
  const user = { password: CANARY, token_policies: "reader", token_ttl: "1h", token_max_ttl: "2h" };
  expect((await put("/v1/auth/userpass/users/ann", user)).status).toBe(204);
});

describe("a login by name and password", () => {
  it("returns a token with the user's policies and TTL, and an entity", async () => {
    await mountKv();
    await put("/v1/kv/data/app", { data: { a: "1" } });
    await put("/v1/kv/data/other", { data: { a: "1" } });
    const { status, body } = await signIn(CANARY);
    expect(status).toBe(200);
    expect(body.auth).toMatchObject({
      policies: ["default", "reader"],
      token_policies: ["default", "reader"],
      identity_policies: null,
      metadata: { username: "ann" },
      lease_duration: 3600,
      renewable: true,
      orphan: true,
      token_type: "service",
      entity_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    const token = body.auth.client_token;
    expect((await get("/v1/kv/data/app", { token })).body.data.data).toEqual({ a: "1" });
    expect((await get("/v1/kv/data/other", { token })).status).toBe(403);
    expect((await get("/v1/auth/token/lookup-self", { token })).body.data).toMatchObject({
      display_name: "userpass-ann",
      path: "auth/userpass/login/ann",
      entity_id: body.auth.entity_id,
      meta: { username: "ann" },
      creation_ttl: 3600,
    });
  });

  it("finds the same entity each time, in any letter case of the name", async () => {
    const [first, second] = [await signIn(CANARY), await signIn(CANARY, "ANN")];
    expect(second.body.auth.entity_id).toBe(first.body.auth.entity_id);
  });

  it("returns the same answer for a wrong password and for an unknown name", async () => {
    const answers = [await signIn("wrong"), await signIn(CANARY, "bob")];
    for (const { status, body } of answers) {
      expect([status, body]).toEqual([400, { errors: ["invalid username or password"] }]);
    }
  });

  itRows([{}, { password: 5 }, { password: "x".repeat(2_000) }])("returns 400 for the body %j", async (body) => {
    expect((await put("/v1/auth/userpass/login/ann", body, NOBODY)).status).toBe(400);
  });

  it("at a path without an auth method returns 403, and 404 to those with rights there, as other unknown paths", async () => {
    const [able, unable] = [await holderOf(path("auth/none/*", "update")), await holderOf(path("kv/*", "read"))];
    for (const at of ["auth/none/login/ann", "auth/userpass/none/such", "sys/none", "ns/auth/none/login/ann"]) {
      const statuses = [];
      for (const token of [null, "no-token", unable.client_token, able.client_token, "root"])
        statuses.push((await put(`/v1/${at}`, { password: CANARY }, { token })).status);
      expect([at, ...statuses]).toEqual([at, 403, 403, 403, at.startsWith("auth/none") ? 404 : 403, 404]);
    }
    const { status, text } = await put("/v1/auth/none/login/ann", { password: CANARY }, NOBODY);
    expect([status, text]).toEqual([403, '{"errors":["permission denied"]}']);
  });

  it("is locked after five failures, for 15 minutes", async () => {
    for (let i = 0; i < 5; i += 1) expect((await signIn("wrong")).status).toBe(400);
    expect((await signIn(CANARY)).status).toBe(403);
    later(15.1);
    expect((await signIn(CANARY)).status).toBe(200);
  });

  it("counts failures by the settings of the auth method", async () => {
    await put("/v1/sys/auth/userpass/tune", { user_lockout_config: { lockout_threshold: 2 } });
    for (let i = 0; i < 2; i += 1) await signIn("wrong");
    expect((await signIn(CANARY)).status).toBe(403);
    await put("/v1/sys/auth/userpass/tune", { user_lockout_config: { lockout_disable: true } });
    expect((await signIn(CANARY)).status).toBe(200);
  });

  it("writes a line to the audit log, with mount and entity and without the password", async () => {
    const lines: string[] = [];
    for (const method of ["log", "info", "warn"] as const) {
      vi.spyOn(console, method).mockImplementation((text: unknown) => void lines.push(String(text)));
    }
    const { auth } = (await signIn(CANARY)).body;
    await signIn("wrong");
    const { accessor, entity_id: entity } = auth;
    await vi.waitFor(() => {
      const parsed = lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
      expect(parsed).toContainEqual(
        expect.objectContaining({ event: "login", accessor, mount: "auth/userpass/", entity }),
      );
      const answers = parsed.filter(({ kind, path }) => kind === "answer" && path === "/v1/auth/userpass/login/ann");
      expect(answers.map(({ status, mount, namespace }) => [status, mount, namespace])).toEqual([
        [200, "auth/userpass/", ""],
        [400, "auth/userpass/", ""],
      ]);
    });
    expect(lines.join("\n")).not.toContain(CANARY);
    expect(lines.join("\n")).not.toContain(auth.client_token);
    vi.restoreAllMocks();
  });

  it("keeps the password sealed", async () => {
    expect(await dump()).not.toContain(CANARY);
    expect((await get("/v1/auth/userpass/users/ann")).text).not.toMatch(/canary|password|scrypt/);
  });
});

describe("the token of a login", () => {
  it("is renewed up to the user's maximum TTL", async () => {
    const token = (await signIn(CANARY)).body.auth.client_token;
    later(50);
    expect((await put("/v1/auth/token/renew-self", {}, { token })).body.auth.lease_duration).toBe(3600);
    later(50);
    const { auth, warnings } = (await put("/v1/auth/token/renew-self", {}, { token })).body;
    expect(auth.lease_duration).toBeGreaterThan(1190);
    expect(auth.lease_duration).toBeLessThanOrEqual(1200);
    expect(warnings).toEqual([expect.stringContaining("capped")]);
  });

  it("is not renewed past a maximum that was lowered since, and lives until its own expiry", async () => {
    const token = (await signIn(CANARY)).body.auth.client_token;
    later(50);
    const lowered = [
      [
        "/v1/auth/userpass/users/ann",
        { token_ttl: "20m", token_max_ttl: "40m" },
        { token_ttl: "1h", token_max_ttl: "2h" },
      ],
      ["/v1/sys/auth/userpass/tune", { max_lease_ttl: "40m" }, { max_lease_ttl: "0" }],
    ] as const;
    for (const [at, limits, before] of lowered) {
      expect((await put(at, limits)).status, at).toBe(204);
      const refused = await put("/v1/auth/token/renew-self", {}, { token });
      expect([refused.status, refused.body.errors], at).toEqual([400, ["past the max TTL, cannot renew"]]);
      expect((await get("/v1/auth/token/lookup-self", { token })).body.data.ttl, at).toBe(600);
      expect((await put(at, before)).status, at).toBe(204);
    }
    expect((await put("/v1/auth/token/renew-self", {}, { token })).body.auth.lease_duration).toBe(3600);
  });

  it("is not renewed after its user was deleted", async () => {
    const token = (await signIn(CANARY)).body.auth.client_token;
    await del("/v1/auth/userpass/users/ann");
    expect((await put("/v1/auth/token/renew-self", {}, { token })).status).toBe(400);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(200);
  });

  it("is revoked with its auth method, and so is its grandchild", async () => {
    await policies({ creator: path("auth/token/create", "update") });
    await put("/v1/auth/userpass/users/ann", { token_policies: ["reader", "creator"] });
    const token = (await signIn(CANARY)).body.auth.client_token;
    const childOf = async (parent: string) =>
      (await put("/v1/auth/token/create", {}, { token: parent })).body.auth.client_token;
    const grandchild = await childOf(await childOf(token));
    expect((await del("/v1/sys/auth/userpass")).status).toBe(204);
    expect((await get("/v1/auth/token/lookup-self", { token: grandchild })).status).toBe(403);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    expect((await list("/v1/auth/userpass/users")).status).toBe(404);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
  });

  it("works from its bound networks only", async () => {
    await put("/v1/auth/userpass/users/ann", { token_bound_cidrs: "10.0.0.0/8" });
    expect((await signIn(CANARY, "ann", from("192.0.2.1"))).status).toBe(403);
    const token = (await signIn(CANARY, "ann", from("10.1.2.3"))).body.auth.client_token;
    const lookup = (address: string) =>
      get("/v1/auth/token/lookup-self", { token, headers: { "CF-Connecting-IP": address } });
    expect((await lookup("10.9.9.9")).body.data.bound_cidrs).toEqual(["10.0.0.0/8"]);
    expect((await lookup("192.0.2.1")).status).toBe(403);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
  });

  it("has its user's number of uses", async () => {
    await put("/v1/auth/userpass/users/ann", { token_num_uses: 2 });
    const token = (await signIn(CANARY)).body.auth.client_token;
    const statuses = [];
    for (let i = 0; i < 3; i += 1) statuses.push((await get("/v1/auth/token/lookup-self", { token })).status);
    expect(statuses).toEqual([200, 200, 403]);
  });
});

describe("a user", () => {
  it("is listed, read and deleted", async () => {
    await put("/v1/auth/userpass/users/Zoe", { password: "x", policies: "a,B", ttl: 60 });
    expect((await list("/v1/auth/userpass/users")).body.data.keys).toEqual(["ann", "zoe"]);
    expect((await get("/v1/auth/userpass/users/zoe")).body.data).toMatchObject({
      token_policies: ["a", "b"],
      token_ttl: 60,
      token_max_ttl: 0,
      token_bound_cidrs: [],
      token_type: "default",
      alias_metadata: {},
    });
    expect((await del("/v1/auth/userpass/users/zoe")).status).toBe(204);
    expect((await get("/v1/auth/userpass/users/zoe")).status).toBe(404);
  });

  it("keeps fields that an update does not name", async () => {
    await put("/v1/auth/userpass/users/ann", { token_ttl: "30m" });
    const { data } = (await get("/v1/auth/userpass/users/ann")).body;
    expect([data.token_ttl, data.token_max_ttl, data.token_policies]).toEqual([1800, 7200, ["reader"]]);
    expect((await signIn(CANARY)).status).toBe(200);
  });

  it("stores every token field, and accepts older names of some", async () => {
    const fields = {
      token_ttl: 60,
      token_max_ttl: 120,
      token_explicit_max_ttl: 600,
      token_period: 30,
      token_num_uses: 3,
      token_policies: ["a"],
      token_bound_cidrs: ["10.0.0.0/8"],
      token_no_default_policy: true,
      token_type: "service",
      alias_metadata: { team: "ops" },
    };
    await put("/v1/auth/userpass/users/bob", { password: "x", ...fields });
    expect((await get("/v1/auth/userpass/users/bob")).body.data).toEqual(fields);
    const older = { ttl: 61, max_ttl: 121, period: 31, policies: "b", bound_cidrs: "10.0.0.1" };
    await put("/v1/auth/userpass/users/bob", older);
    expect((await get("/v1/auth/userpass/users/bob")).body.data).toMatchObject({
      token_ttl: 61,
      token_max_ttl: 121,
      token_period: 31,
      token_policies: ["b"],
      token_bound_cidrs: ["10.0.0.1"],
      ...older,
      policies: ["b"],
      bound_cidrs: ["10.0.0.1"],
    });
    await put("/v1/auth/userpass/users/eve", { password: "x", token_period: "1h", token_no_default_policy: true });
    const { auth } = (await signIn("x", "eve")).body;
    expect([auth.lease_duration, auth.policies]).toEqual([3600, []]);
    await put("/v1/auth/userpass/users/max", { password: "x", token_explicit_max_ttl: "10m" });
    expect((await signIn("x", "max")).body.auth.lease_duration).toBe(600);
  });

  it("shows older names until a field is written with its current name alone, or is unset", async () => {
    const at = "/v1/auth/userpass/users/bob";
    const shown = async () => (await get(at)).body.data;
    await put(at, { password: "x", policies: ["a"], ttl: 60, token_max_ttl: 120 });
    expect(await shown()).toMatchObject({ policies: ["a"], token_policies: ["a"], ttl: 60, token_ttl: 60 });
    expect(await shown()).not.toHaveProperty("max_ttl");
    await put(at, { token_num_uses: 1 });
    expect(await shown()).toMatchObject({ policies: ["a"], ttl: 60 });
    await put(at, { token_policies: ["b"], policies: ["c"], token_ttl: 61 });
    expect(await shown()).toMatchObject({ policies: ["b"], token_policies: ["b"], token_ttl: 61 });
    expect(await shown()).not.toHaveProperty("ttl");
    await put(`${at}/policies`, { policies: [] });
    expect(await shown()).toMatchObject({ token_policies: [] });
    expect(await shown()).not.toHaveProperty("policies");
    expect(Object.keys(await shown())).not.toContain("older_names");
  });

  it("can get a new password and new policies", async () => {
    expect((await put("/v1/auth/userpass/users/ann/password", { password: "new" })).status).toBe(204);
    expect((await signIn(CANARY)).status).toBe(400);
    expect((await put("/v1/auth/userpass/users/ann/policies", { token_policies: ["other"] })).status).toBe(204);
    expect((await signIn("new")).body.auth.policies).toEqual(["default", "other"]);
    expect((await put("/v1/auth/userpass/users/bob/password", { password: "new" })).status).toBe(404);
  });

  it("keeps its password when a bcrypt hash is refused", async () => {
    const hash = { password_hash: `$2a$10$${"a".repeat(53)}` };
    for (const at of ["ann", "ann/password"]) {
      for (const body of [hash, { ...hash, password: "new" }]) {
        const { status, body: answer } = await put(`/v1/auth/userpass/users/${at}`, body);
        expect([at, status, answer.errors[0]]).toEqual([
          at,
          400,
          expect.stringMatching(/^password_hash: must be empty/),
        ]);
      }
    }
    expect((await signIn(CANARY)).status).toBe(200);
    expect((await put("/v1/auth/userpass/users/ann/password", { password: "new", password_hash: "" })).status).toBe(
      204,
    );
  });

  itRows<[string, object, RegExp]>([
    ["bob", {}, /missing password/],
    ["bob", { password: "" }, /password/],
    ["bob", { password: "x", token_policies: ["root"] }, /root/],
    ["bob", { password: "x", token_ttl: "2h", token_max_ttl: "1h" }, /token_ttl/],
    ["bob", { password: "x", token_bound_cidrs: "10.0.0.0/40" }, /token_bound_cidrs/],
    ["bob", { password: "x", token_num_uses: -1 }, /token_num_uses/],
    ["bob", { password: "x", alias_metadata: { "": "x" } }, /alias_metadata/],
    ["bob", { password_hash: "$2a$10$abc" }, /password_hash: must be empty/],
    ["b%20b", { password: "x" }, /username/],
  ])("%s with %j is refused and not stored", async (name, body, message) => {
    const refused = await put(`/v1/auth/userpass/users/${name}`, body);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringMatching(message)]);
    expect((await list("/v1/auth/userpass/users")).body.data.keys).toEqual(["ann"]);
  });
});

describe("auth methods in a namespace", () => {
  it("are separate, found by header and by path, and are deleted with it only after they are disabled", async () => {
    await put("/v1/sys/namespaces/ns1", {});
    const inside = { headers: { "X-Vault-Namespace": "ns1" } };
    expect((await get("/v1/sys/auth", inside)).body.data).not.toHaveProperty("userpass/");
    await put("/v1/sys/auth/userpass", { type: "userpass" }, inside);
    await put("/v1/auth/userpass/users/eve", { password: "p" }, inside);
    expect((await signIn("p", "eve")).status).toBe(400);
    const byHeader = await put("/v1/auth/userpass/login/eve", { password: "p" }, { ...NOBODY, ...inside });
    const byPath = await put("/v1/ns1/auth/userpass/login/eve", { password: "p" }, NOBODY);
    expect(byPath.body.auth.entity_id).toBe(byHeader.body.auth.entity_id);
    const { client_token: token } = byPath.body.auth;
    expect((await get("/v1/auth/token/lookup-self", { token })).body.data.namespace_path).toBe("ns1/");
    expect((await get("/v1/sys/mounts", { token })).status).toBe(403);
    const kept = await del("/v1/sys/namespaces/ns1");
    expect([kept.status, kept.text]).toEqual([expect.any(Number), expect.stringContaining("auth/userpass/")]);
    await del("/v1/sys/auth/userpass", inside);
    expect((await del("/v1/sys/namespaces/ns1")).status).toBe(204);
  });
});

describe("sys/auth", () => {
  it("lists the enabled methods and the built-in one", async () => {
    const { body } = await get("/v1/sys/auth");
    expect(Object.keys(body.data).sort()).toEqual(["token/", "userpass/"]);
    expect(body["userpass/"]).toEqual(body.data["userpass/"]);
    expect(body.data["userpass/"]).toMatchObject({
      type: "userpass",
      accessor: expect.stringMatching(/^auth_userpass_[0-9a-f]{8}$/),
      config: { default_lease_ttl: 0, max_lease_ttl: 0, token_type: "default-service" },
      options: {},
    });
  });

  it("tunes a method", async () => {
    await put("/v1/sys/auth/userpass/tune", {
      default_lease_ttl: "10m",
      description: "people",
      listing_visibility: "unauth",
    });
    expect((await get("/v1/sys/auth/userpass/tune")).body.data).toMatchObject({
      default_lease_ttl: 600,
      max_lease_ttl: 2764800,
      description: "people",
      listing_visibility: "unauth",
    });
    await put("/v1/auth/userpass/users/bob", { password: "b" });
    expect((await signIn("b", "bob")).body.auth.lease_duration).toBe(600);
    const shown = await send("GET", "/v1/sys/internal/ui/mounts", undefined, NOBODY);
    expect(shown.body.data.auth).toEqual({ "userpass/": { type: "userpass", description: "people", options: {} } });
  });

  it("reads and tunes a method by the path of its mount too, without sudo", async () => {
    await policies({ tuner: path("sys/mounts/*", "read", "update") });
    const token = (await put("/v1/auth/token/create", { policies: ["tuner"] })).body.auth.client_token;
    const at = "/v1/sys/mounts/auth/userpass/tune";
    expect((await put(at, { max_lease_ttl: "1h", token_type: "batch" }, { token })).status).toBe(204);
    const { body } = await get(at, { token });
    expect(body.data).toMatchObject({ max_lease_ttl: 3600, token_type: "batch" });
    expect(body.data).toEqual((await get("/v1/sys/auth/userpass/tune")).body.data);
    const mount = (await get("/v1/sys/mounts/auth/userpass", { token })).body.data;
    expect(mount).toEqual((await get("/v1/sys/auth/userpass")).body.data);
    expect((await put("/v1/sys/auth/userpass/tune", {}, { token })).status).toBe(403);
    const missing = await get("/v1/sys/mounts/auth/none/tune", { token });
    expect([missing.status, missing.body.errors]).toEqual([400, ["No auth engine at none/"]]);
  });

  it("tunes the method of tokens, which bounds tokens that are created and renewed", async () => {
    const created = async (body: object) =>
      (await put("/v1/auth/token/create", { policies: ["reader"], ...body })).body;
    const { client_token: token } = (await created({ ttl: "20h", period: "3h" })).auth;
    const { client_token: plain } = (await created({ ttl: "20h" })).auth;
    const limits = { default_lease_ttl: 3600, max_lease_ttl: 7200 };
    expect((await put("/v1/sys/auth/token/tune", { default_lease_ttl: "1h", max_lease_ttl: "2h" })).status).toBe(204);
    expect((await put("/v1/sys/mounts/auth/token/tune", { description: "tokens" })).status).toBe(204);
    for (const at of ["/v1/sys/auth/token/tune", "/v1/sys/mounts/auth/token/tune"]) {
      const { data } = (await get(at)).body;
      expect(data).toMatchObject({ ...limits, description: "tokens", token_type: "default-service" });
    }
    const listed = (await get("/v1/sys/auth")).body.data["token/"];
    expect(listed).toMatchObject({ type: "token", description: "tokens", options: null, deprecation_status: "" });
    expect(listed.config).toEqual({ ...limits, force_no_cache: false, token_type: "default-service" });
    expect((await get("/v1/sys/auth/token")).body.data).toEqual(listed);

    expect((await created({})).auth.lease_duration).toBe(3600);
    const capped = await created({ ttl: "5h" });
    expect([capped.auth.lease_duration, capped.warnings]).toEqual([7200, [expect.stringContaining("capped")]]);
    expect((await created({ policies: ["root"] })).auth.lease_duration).toBe(0);
    for (const renewed of [token, plain]) {
      const { lease_duration: left } = (await put("/v1/auth/token/renew", { token: renewed })).body.auth;
      expect(left).toBeGreaterThan(7190);
      expect(left).toBeLessThanOrEqual(7200);
    }
    expect((await signIn(CANARY)).body.auth.lease_duration).toBe(3600);
  });

  it("tunes the method of tokens of one namespace, until the namespace ends", async () => {
    const inside = { headers: { "X-Vault-Namespace": "ns1" } };
    const tuned = async (options = {}) => (await get("/v1/sys/auth/token/tune", options)).body.data.max_lease_ttl;
    await put("/v1/sys/namespaces/ns1", {});
    await put("/v1/sys/auth/token/tune", { max_lease_ttl: "2h" }, inside);
    expect([await tuned(inside), await tuned()]).toEqual([7200, 2764800]);
    const { auth } = (await put("/v1/auth/token/create", { policies: ["default"] }, inside)).body;
    expect(auth.lease_duration).toBe(7200);
    expect((await del("/v1/sys/namespaces/ns1")).status).toBe(204);
    await put("/v1/sys/namespaces/ns1", {});
    expect(await tuned(inside)).toBe(2764800);
  });

  it("refuses settings that the method of tokens has not, and to disable it", async () => {
    const tune = async (body: object) => (await put("/v1/sys/auth/token/tune", body)).body.errors[0];
    expect(await tune({ token_type: "batch" })).toBe(
      "'token_type' cannot be set for 'token' or 'ns_token' auth mounts",
    );
    expect(await tune({ user_lockout_config: { lockout_threshold: 1 } })).toBe(
      'tuning of user lockout configuration for auth type "token" not allowed',
    );
    expect(await tune({ default_lease_ttl: "2h", max_lease_ttl: "1h" })).toContain("backend max lease TTL");
    expect((await put("/v1/sys/auth/token/tune", { listing_visibility: "unauth" })).status).toBe(204);
    const shown = await send("GET", "/v1/sys/internal/ui/mounts", undefined, NOBODY);
    expect(shown.body.data.auth).toEqual({
      "token/": { type: "token", description: "token based credentials", options: null },
    });
    const { status, body } = await del("/v1/sys/auth/token");
    expect([status, body.errors]).toEqual([400, ["token credential backend cannot be disabled"]]);
  });

  it("keeps the settings of a method and returns them", async () => {
    const lockout = { lockout_duration: 60, lockout_counter_reset_duration: 70 };
    const config = {
      force_no_cache: true,
      token_type: "service",
      passthrough_request_headers: ["X-A"],
      allowed_response_headers: ["X-B"],
      audit_non_hmac_request_keys: ["c"],
      audit_non_hmac_response_keys: ["d"],
      user_lockout_config: lockout,
    };
    await put("/v1/sys/auth/x", { type: "userpass", local: true, seal_wrap: true, options: { a: "b" }, config });
    expect((await get("/v1/sys/auth/x")).body.data).toMatchObject({
      local: true,
      seal_wrap: true,
      options: { a: "b" },
      config: { ...config, user_lockout_config: { ...lockout, lockout_threshold: 5, lockout_disable: false } },
    });
    await put("/v1/sys/auth/x/tune", { audit_non_hmac_request_keys: "", options: { e: "f" } });
    const { data } = (await get("/v1/sys/auth/x")).body;
    expect([data.config.audit_non_hmac_request_keys, data.options]).toEqual([undefined, { a: "b", e: "f" }]);
  });

  it("refuses settings without an effect", async () => {
    for (const body of [
      { external_entropy_access: true },
      { config: { plugin_version: "v1" } },
      { config: { token_type: "short" } },
    ]) {
      expect((await put("/v1/sys/auth/x", { type: "userpass", ...body })).status).toBe(400);
    }
    expect((await get("/v1/sys/auth/x")).status).toBe(400);
  });

  itRows<[string, object, RegExp]>([
    ["userpass", { type: "userpass" }, /^path is already in use at userpass\/$/],
    ["userpass/below", { type: "userpass" }, /already in use/],
    ["token", { type: "userpass" }, /token/],
    ["x", { type: "ldap" }, /plugin not found in the catalog: ldap/],
    ["x", {}, /type/],
    ["x*y", { type: "userpass" }, /auth path/],
    ["x", { type: "userpass", config: { default_lease_ttl: "2h", max_lease_ttl: "1h" } }, /default lease TTL/],
  ])("refuses to enable %s with %j", async (at, body, message) => {
    const refused = await put(`/v1/sys/auth/${at}`, body);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringMatching(message)]);
    expect(Object.keys((await get("/v1/sys/auth")).body.data).sort()).toEqual(["token/", "userpass/"]);
  });
});
