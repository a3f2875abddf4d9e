import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { dump, path, policies } from "./access.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";

clock.moves = true;

const ROLE = "/v1/auth/approle/role/web";
const from = (address: string) => ({ token: null, headers: { "CF-Connecting-IP": address } });
const HERE = "192.0.2.7";
const NOBODY = from(HERE);
const INVALID = [400, { errors: ["invalid role or secret ID"] }];
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

const signIn = (role_id: string, secret_id?: string, options: Parameters<typeof put>[2] = NOBODY) =>
  put("/v1/auth/approle/login", { role_id, ...(secret_id !== undefined && { secret_id }) }, options);
const secretId = async (body: object = {}, role = ROLE): Promise<Record<string, string>> => {
  const answer = await put(`${role}/secret-id`, body);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.data;
};
const roleId = async (role = ROLE): Promise<string> => (await get(`${role}/role-id`)).body.data.role_id;

/** Sets the clock forward and stops it. */
const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });

afterEach(() => {
  vi.useRealTimers();
});

beforeEach(async () => {
  expect((await put("/v1/sys/auth/approle", { type: "approle" })).status).toBe(204);
  await policies({ reader: path("kv/data/app", "read") });
  expect((await put(ROLE, { token_policies: "reader", token_ttl: "1h" })).status).toBe(204);
});

describe("a login by role id and secret id", () => {
  it("returns a token with the role's policies, and metadata of role and secret id", async () => {
    await mountKv();
    await put("/v1/kv/data/app", { data: { a: "1" } });
    await put("/v1/kv/data/other", { data: { a: "1" } });
    await put(ROLE, { alias_metadata: { team: "ops" } });
    const { secret_id } = await secretId({ metadata: '{"tag":"blue"}' });
    const { status, body } = await signIn(` ${await roleId()}\n`, ` ${secret_id}\n`);
    expect(status).toBe(200);
    expect(body.auth).toMatchObject({
      policies: ["default", "reader"],
      metadata: { role_name: "web", tag: "blue" },
      lease_duration: 3600,
      renewable: true,
      orphan: true,
      token_type: "service",
      entity_id: expect.stringMatching(UUID),
    });
    const token = body.auth.client_token;
    expect((await get("/v1/kv/data/app", { token })).status).toBe(200);
    expect((await get("/v1/kv/data/other", { token })).status).toBe(403);
    expect((await get("/v1/auth/token/lookup-self", { token })).body.data).toMatchObject({
      display_name: "approle",
      path: "auth/approle/login",
      meta: { role_name: "web", tag: "blue" },
    });
    const { aliases } = (await get(`/v1/identity/entity/id/${body.auth.entity_id}`)).body.data;
    const metadata = { metadata: { role_name: "web", tag: "blue" }, custom_metadata: { team: "ops" } };
    expect(aliases).toMatchObject([{ name: await roleId(), mount_type: "approle", ...metadata }]);
  });

  it("finds the same entity each time", async () => {
    const role = await roleId();
    const { secret_id } = await secretId();
    const [first, second] = [await signIn(role, secret_id), await signIn(role, secret_id)];
    expect(first.body.auth.entity_id).toBe(second.body.auth.entity_id);
  });

  it("returns the same answer for an unknown role id, an unknown secret id and that of another role", async () => {
    await put("/v1/auth/approle/role/other", {});
    const { secret_id } = await secretId();
    const other = await secretId({}, "/v1/auth/approle/role/other");
    const role = await roleId();
    const attempts = [
      await signIn("none", secret_id),
      await signIn(role, "none"),
      await signIn(role, other["secret_id"]),
      await signIn("", secret_id),
    ];
    expect(attempts.slice(0, 3).map(({ status, body }) => [status, body])).toEqual([INVALID, INVALID, INVALID]);
    expect(attempts[3]?.body).toEqual({ errors: ["role_id: missing role_id"] });
    const missing = [await signIn(role), await signIn("none"), await signIn(role, " ")];
    expect(missing.map(({ status, body }) => [status, body.errors])).toEqual(
      missing.map(() => [400, ["missing secret_id"]]),
    );
  });

  it("lets one of 50 parallel logins succeed when the secret id has one use left", async () => {
    const role = await roleId();
    const { secret_id } = await secretId({ num_uses: 1 });
    await put("/v1/sys/auth/approle/tune", { user_lockout_config: { lockout_disable: true } });
    const answers = await Promise.all(Array.from({ length: 50 }, () => signIn(role, secret_id)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    const others = answers.filter(({ status }) => status !== 200).map(({ status, body }) => [status, body]);
    expect(others).toEqual(others.map(() => INVALID));
    expect((await list(`${ROLE}/secret-id`)).status).toBe(404);
    const tokens = (await list("/v1/auth/token/accessors")).body.data.keys;
    expect(tokens).toHaveLength(2);
  });

  it("counts down the uses of a secret id", async () => {
    const role = await roleId();
    const { secret_id, secret_id_accessor, secret_id_num_uses } = await secretId({ num_uses: 2 });
    expect(secret_id_num_uses).toBe(2);
    expect((await signIn(role, secret_id)).status).toBe(200);
    const left = await put(`${ROLE}/secret-id-accessor/lookup`, { secret_id_accessor });
    expect(left.body.data.secret_id_num_uses).toBe(1);
    expect((await signIn(role, secret_id)).status).toBe(200);
    const { status, body } = await signIn(role, secret_id);
    expect([status, body]).toEqual(INVALID);
  });

  it("does not count a use when no token is issued", async () => {
    await put(ROLE, { token_bound_cidrs: "198.51.100.0/24" });
    const { secret_id } = await secretId({ num_uses: 1 });
    const role = await roleId();
    expect((await signIn(role, secret_id)).status).toBe(403);
    expect((await signIn(role, secret_id, from("198.51.100.9"))).status).toBe(200);
  });

  it("is refused with an expired secret id, which is removed", async () => {
    const { secret_id, secret_id_ttl, secret_id_accessor } = await secretId({ ttl: "60s" });
    expect(secret_id_ttl).toBe(60);
    const role = await roleId();
    expect((await signIn(role, secret_id)).status).toBe(200);
    expect(await dump()).toContain(secret_id_accessor);
    later(61);
    const { status, body } = await signIn(role, secret_id);
    expect([status, body]).toEqual(INVALID);
    expect((await list(`${ROLE}/secret-id`)).status).toBe(404);
    const tidied = await put("/v1/auth/approle/tidy/secret-id", {});
    expect([tidied.status, tidied.body.warnings]).toEqual([
      202,
      ["Tidy operation successfully started. Expired secret ids are removed."],
    ]);
    expect(await dump()).not.toContain(secret_id_accessor);
  });

  it("requires only the role id when bind_secret_id is off, from the bound networks", async () => {
    expect((await put(ROLE, { bind_secret_id: false })).body).toEqual({
      errors: ["at least one constraint should be enabled on the role"],
    });
    await put(ROLE, { bind_secret_id: false, secret_id_bound_cidrs: ["192.0.2.0/24"] });
    const role = await roleId();
    expect((await signIn(role)).status).toBe(200);
    const outside = await signIn(role, "any", from("198.51.100.9"));
    expect([outside.status, outside.body]).toEqual(INVALID);
    expect((await put(`${ROLE}/secret-id`, {})).body).toEqual({ errors: ["bind_secret_id is not set on the role"] });
  });

  it("accepts a secret id from its networks and those of the role, and bounds the token to others", async () => {
    await put(ROLE, { secret_id_bound_cidrs: ["192.0.2.0/24", "2001:db8::/32"], token_bound_cidrs: "192.0.2.0/24" });
    const { secret_id } = await secretId({ cidr_list: "192.0.2.7/32", token_bound_cidrs: ["192.0.2.0/28"] });
    const role = await roleId();
    const { status, body } = await signIn(role, secret_id);
    expect(status).toBe(200);
    const token = body.auth.client_token;
    expect((await get("/v1/auth/token/lookup-self", { ...NOBODY, token })).status).toBe(200);
    expect((await get("/v1/auth/token/lookup-self", { ...from("192.0.2.99"), token })).status).toBe(403);
    expect((await signIn(role, secret_id, from("192.0.2.8"))).body).toEqual({
      errors: ["source address unauthorized through CIDR restrictions on the secret ID"],
    });
    const open = await secretId();
    expect((await signIn(role, open["secret_id"], from("198.51.100.9"))).body).toEqual({
      errors: ["source address unauthorized by CIDR restrictions on the role"],
    });
    await put(ROLE, { secret_id_bound_cidrs: ["198.51.100.0/24"] });
    expect((await signIn(role, secret_id)).body.errors[0]).toMatch(/no longer a subset/);
  });

  it("is locked by role id after five failures, until it is unlocked", async () => {
    const role = await roleId();
    const { secret_id } = await secretId();
    for (let i = 0; i < 5; i += 1) expect((await signIn(role, "wrong")).status).toBe(400);
    expect((await signIn(role, secret_id)).status).toBe(403);
    const { accessor } = (await get("/v1/sys/auth/approle")).body.data;
    const locked = (await get("/v1/sys/locked-users")).body.data;
    const mounts = [{ mount_accessor: accessor, counts: 1, alias_identifiers: [role] }];
    expect(locked).toEqual({
      total: 1,
      by_namespace: [{ namespace_id: "root", namespace_path: "", counts: 1, mount_accessors: mounts }],
    });
    expect((await get(`/v1/sys/locked-users?mount_accessor=${accessor}`)).body.data.total).toBe(1);
    expect((await get("/v1/sys/locked-users?mount_accessor=other")).body.data).toEqual({ total: 0, by_namespace: [] });
    expect((await put(`/v1/sys/locked-users/none/unlock/${role}`, {})).status).toBe(400);
    expect((await put(`/v1/sys/locked-users/${accessor}/unlock/${role}`, {})).status).toBe(204);
    expect((await signIn(role, secret_id)).status).toBe(200);
  });

  it("is refused after the role was deleted, and its tokens are not renewed", async () => {
    const role = await roleId();
    const { secret_id } = await secretId();
    const { client_token: token } = (await signIn(role, secret_id)).body.auth;
    expect((await put("/v1/auth/token/renew-self", {}, { token })).status).toBe(200);
    expect((await del(ROLE)).status).toBe(204);
    expect((await put("/v1/auth/token/renew-self", {}, { token })).status).toBe(400);
    // A later role with the same name and role id does not accept the earlier secret id.
    await put(ROLE, { role_id: role });
    const { status, body } = await signIn(role, secret_id);
    expect([status, body]).toEqual(INVALID);
  });

  it("is refused at another mount and in another namespace", async () => {
    await put("/v1/sys/auth/second", { type: "approle" });
    await put("/v1/sys/namespaces/team", {});
    const there = { headers: { "X-Orch-Namespace": "team" } };
    await put("/v1/sys/auth/approle", { type: "approle" }, there);
    const role = await roleId();
    await put("/v1/auth/second/role/web", { role_id: role });
    await put(ROLE, { role_id: role }, there);
    const { secret_id } = await secretId();
    const login = { role_id: role, secret_id };
    const second = await put("/v1/auth/second/login", login, NOBODY);
    expect([second.status, second.body]).toEqual(INVALID);
    const elsewhere = await put("/v1/team/auth/approle/login", login, NOBODY);
    expect([elsewhere.status, elsewhere.body]).toEqual(INVALID);
    expect((await signIn(role, secret_id)).status).toBe(200);
  });

  it("is deleted with its mount; a later mount has neither", async () => {
    const role = await roleId();
    const { secret_id } = await secretId();
    const { client_token: token } = (await signIn(role, secret_id)).body.auth;
    expect((await del("/v1/sys/auth/approle")).status).toBe(204);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
    await put("/v1/sys/auth/approle", { type: "approle" });
    expect((await list("/v1/auth/approle/role")).status).toBe(404);
    expect((await signIn(role, secret_id)).status).toBe(400);
    expect(await dump()).not.toContain(secret_id);
  });

  it("works after a rotation of the keys", async () => {
    const role = await roleId();
    const { secret_id } = await secretId({ metadata: { tag: "blue" } });
    expect((await put("/v1/sys/rotate", {})).status).toBe(204);
    expect((await signIn(role, secret_id)).body.auth.metadata).toEqual({ role_name: "web", tag: "blue" });
  });
});

describe("a role", () => {
  const stored = {
    token_policies: ["reader", "ops"],
    token_ttl: 60,
    token_max_ttl: 120,
    token_explicit_max_ttl: 180,
    token_period: 30,
    token_bound_cidrs: ["192.0.2.0/24"],
    token_no_default_policy: true,
    token_num_uses: 3,
    token_type: "service",
    alias_metadata: { team: "ops" },
    bind_secret_id: true,
    local_secret_ids: true,
    secret_id_bound_cidrs: ["10.0.0.0/8"],
    secret_id_num_uses: 4,
    secret_id_ttl: 3600,
  };
  const at = "/v1/auth/approle/role/full";

  it("stores every field, and accepts older names of some", async () => {
    expect((await put(at, stored)).status).toBe(204);
    expect((await get("/v1/auth/approle/role/FULL")).body.data).toEqual(stored);
    await put(at, { policies: "ops", period: "1m", bound_cidr_list: "10.1.0.0/16" });
    expect((await get(at)).body.data).toEqual({
      ...stored,
      token_policies: ["ops"],
      token_period: 60,
      secret_id_bound_cidrs: ["10.1.0.0/16"],
      policies: ["ops"],
      period: 60,
    });
    expect((await get(`${at}/policies`)).body.data).toEqual({ token_policies: ["ops"], policies: ["ops"] });
    expect((await get(`${at}/period`)).body.data).toEqual({ token_period: 60, period: 60 });
    await del(`${at}/period`);
    expect((await get(at)).body.data).not.toHaveProperty("period");
    expect((await put(at, { local_secret_ids: false })).body).toEqual({
      errors: ["local_secret_ids can only be modified during role creation"],
    });
    expect((await list("/v1/auth/approle/role")).body.data.keys).toEqual(["full", "web"]);
    expect((await del(at)).status).toBe(204);
    expect([(await get(at)).status, (await del(at)).status]).toEqual([404, 204]);
  });

  it.each([
    ["policies", { token_policies: ["a", "b"] }, { token_policies: [] }],
    ["bind-secret-id", { bind_secret_id: false }, { bind_secret_id: true }],
    ["secret-id-bound-cidrs", { secret_id_bound_cidrs: ["10.2.0.0/16"] }, { secret_id_bound_cidrs: [] }],
    ["bound-cidr-list", { bound_cidr_list: ["10.2.0.0/16"] }, { bound_cidr_list: [] }],
    ["secret-id-num-uses", { secret_id_num_uses: 7 }, { secret_id_num_uses: 0 }],
    ["secret-id-ttl", { secret_id_ttl: 77 }, { secret_id_ttl: 0 }],
    ["period", { token_period: 70 }, { token_period: 0 }],
    ["token-ttl", { token_ttl: 70 }, { token_ttl: 0 }],
    ["token-max-ttl", { token_max_ttl: 700 }, { token_max_ttl: 0 }],
    ["token-num-uses", { token_num_uses: 7 }, { token_num_uses: 0 }],
    ["token-bound-cidrs", { token_bound_cidrs: ["10.3.0.0/16"] }, { token_bound_cidrs: [] }],
  ])("has a path for its field %s, set to %j, then %j", async (field, set, reset) => {
    await put(at, stored);
    expect((await put(`${at}/${field}`, set)).status).toBe(204);
    expect((await get(`${at}/${field}`)).body.data).toEqual(set);
    expect((await del(`${at}/${field}`)).status).toBe(204);
    expect((await get(`${at}/${field}`)).body.data).toEqual(reset);
    expect((await put(`${at}/${field}`, {})).body).toEqual({ errors: [`missing ${Object.keys(set)[0]}`] });
    const none = "/v1/auth/approle/role/none";
    const absent = [await get(`${none}/${field}`), await put(`${none}/${field}`, set), await del(`${none}/${field}`)];
    expect(absent.map(({ status }) => status)).toEqual([404, 404, 204]);
  });

  it("has a role id that can be set, and is unique in its mount", async () => {
    const random = await roleId();
    expect(random).toMatch(UUID);
    await put(at, { role_id: "chosen" });
    expect((await put(`${ROLE}/role-id`, { role_id: "chosen" })).body).toEqual({ errors: ["role_id already in use"] });
    expect((await put(ROLE, { role_id: "chosen" })).status).toBe(400);
    expect(await roleId()).toBe(random);
    expect((await put(`${ROLE}/role-id`, { role_id: "other" })).status).toBe(204);
    const { secret_id } = await secretId();
    expect((await signIn("other", secret_id)).status).toBe(200);
    expect((await signIn(random, secret_id)).status).toBe(400);
    expect((await get(`${ROLE}/local-secret-ids`)).body.data).toEqual({ local_secret_ids: false });
    expect((await put(`${ROLE}/role-id`, { role_id: "" })).status).toBe(400);
  });

  itRows(["a/b", "..", "{{x}}", "*", "-a", "é", "a".repeat(129)])("is not created with the name %s", async (name) => {
    const { status } = await put(`/v1/auth/approle/role/${encodeURIComponent(name)}`, {});
    expect([400, 404, 405]).toContain(status);
    expect((await list("/v1/auth/approle/role")).body.data.keys).toEqual(["web"]);
  });

  itRows([
    { secret_id_num_uses: -1 },
    { secret_id_ttl: "-1s" },
    { secret_id_bound_cidrs: "10.0.0.0/99" },
    { token_policies: "root" },
    { token_type: "short" },
    { role_id: "x".repeat(513) },
    { token_ttl: 5, token_max_ttl: 4 },
  ])("returns 400 for %j and changes nothing", async (body) => {
    const before = (await get(ROLE)).body.data;
    expect((await put(ROLE, body)).status).toBe(400);
    expect((await get(ROLE)).body.data).toEqual(before);
  });

  it("keeps both of two changes at the same time", async () => {
    const changes = [put(`${ROLE}/token-ttl`, { token_ttl: 90 }), put(`${ROLE}/secret-id-ttl`, { secret_id_ttl: 91 })];
    expect((await Promise.all(changes)).map(({ status }) => status)).toEqual([204, 204]);
    expect((await get(ROLE)).body.data).toMatchObject({ token_ttl: 90, secret_id_ttl: 91 });
  });
});

describe("a secret id", () => {
  it("is shown once, and looked up and destroyed by itself and by its accessor", async () => {
    const { secret_id, secret_id_accessor } = await secretId({ metadata: { tag: "blue" }, cidr_list: "10.0.0.0/8" });
    expect([secret_id, secret_id_accessor]).toEqual([expect.stringMatching(UUID), expect.stringMatching(UUID)]);
    const record = {
      secret_id_accessor,
      secret_id_num_uses: 0,
      secret_id_ttl: 0,
      metadata: { tag: "blue" },
      cidr_list: ["10.0.0.0/8"],
      token_bound_cidrs: [],
      expiration_time: "0001-01-01T00:00:00Z",
      creation_time: expect.stringMatching(/^20/),
      last_updated_time: expect.stringMatching(/^20/),
    };
    expect((await put(`${ROLE}/secret-id/lookup`, { secret_id })).body.data).toEqual(record);
    expect((await put(`${ROLE}/secret-id-accessor/lookup`, { secret_id_accessor })).body.data).toEqual(record);
    expect((await list(`${ROLE}/secret-id`)).body.data.keys).toEqual([secret_id_accessor]);
    expect((await put(`${ROLE}/secret-id/destroy`, { secret_id })).status).toBe(204);
    expect((await put(`${ROLE}/secret-id/destroy`, { secret_id })).status).toBe(204);
    expect((await put(`${ROLE}/secret-id/lookup`, { secret_id })).status).toBe(204);
    expect((await put(`${ROLE}/secret-id-accessor/lookup`, { secret_id_accessor })).status).toBe(404);
    const second = await secretId();
    const accessor = { secret_id_accessor: second["secret_id_accessor"] };
    const removed = [await send("DELETE", `${ROLE}/secret-id-accessor/destroy`, accessor)];
    removed.push(await send("DELETE", `${ROLE}/secret-id-accessor/destroy`, accessor));
    expect(removed.map(({ status }) => status)).toEqual([204, 404]);
    const third = await secretId();
    expect((await send("DELETE", `${ROLE}/secret-id/destroy`, { secret_id: third["secret_id"] })).status).toBe(204);
    expect((await list(`${ROLE}/secret-id`)).status).toBe(404);
  });

  it("can be chosen by the caller, once", async () => {
    const custom = { secret_id: "my own secret", ttl: "2h", num_uses: 3, token_bound_cidrs: "192.0.2.0/24" };
    const { body } = await put(`${ROLE}/custom-secret-id`, custom);
    expect(body.data).toMatchObject({ secret_id: "my own secret", secret_id_ttl: 7200, secret_id_num_uses: 3 });
    expect((await put(`${ROLE}/custom-secret-id`, custom)).body).toEqual({
      errors: ["secret_id: already registered"],
    });
    expect((await signIn(await roleId(), "my own secret")).status).toBe(200);
    expect((await put(`${ROLE}/custom-secret-id`, { secret_id: " " })).status).toBe(400);
    expect(await dump()).not.toContain("my own secret");
  });

  it("does not exceed the limits of its role", async () => {
    const limits = { secret_id_num_uses: 5, secret_id_ttl: 60, secret_id_bound_cidrs: ["10.0.0.0/8", "2001:db8::/32"] };
    await put(ROLE, { ...limits, token_bound_cidrs: "192.0.2.0/24" });
    expect(await secretId()).toMatchObject({ secret_id_num_uses: 5, secret_id_ttl: 60 });
    expect(await secretId({ num_uses: 4, ttl: 59 })).toMatchObject({ secret_id_num_uses: 4, secret_id_ttl: 59 });
    await secretId({ cidr_list: "10.9.0.0/16,2001:db8:1::/48", token_bound_cidrs: "192.0.2.1" });
    const refused = [
      { num_uses: 6 },
      { num_uses: 0 },
      { ttl: 61 },
      { ttl: 0 },
      { ttl: -1 },
      { num_uses: -1 },
      { cidr_list: "11.0.0.0/8" },
      { cidr_list: "10.0.0.0/7" },
      { cidr_list: "2001:db9::/48" },
      { token_bound_cidrs: "192.0.3.1" },
      { cidr_list: "none" },
      { metadata: "{" },
      { metadata: [1] },
    ];
    for (const body of refused) expect((await put(`${ROLE}/secret-id`, body)).status, JSON.stringify(body)).toBe(400);
    expect((await list(`${ROLE}/secret-id`)).body.data.keys).toHaveLength(3);
  });

  it("returns 404 for a role that does not exist", async () => {
    const none = "/v1/auth/approle/role/none";
    const answers = [
      await put(`${none}/secret-id`, {}),
      await put(`${none}/custom-secret-id`, { secret_id: "x" }),
      await list(`${none}/secret-id`),
      await put(`${none}/secret-id/lookup`, { secret_id: "x" }),
      await put(`${none}/secret-id/destroy`, { secret_id: "x" }),
      await put(`${none}/secret-id-accessor/lookup`, { secret_id_accessor: "x" }),
      await put(`${none}/secret-id-accessor/destroy`, { secret_id_accessor: "x" }),
    ];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    expect(answers.map(({ body }) => body)).toEqual(answers.map(() => ({ errors: ['role "none" does not exist'] })));
  });

  it("is not found through another role of its mount", async () => {
    await put("/v1/auth/approle/role/other", {});
    const { secret_id, secret_id_accessor } = await secretId();
    const other = "/v1/auth/approle/role/other";
    expect((await put(`${other}/secret-id/lookup`, { secret_id })).status).toBe(204);
    expect((await put(`${other}/secret-id-accessor/destroy`, { secret_id_accessor })).status).toBe(404);
    expect((await list(`${ROLE}/secret-id`)).body.data.keys).toEqual([secret_id_accessor]);
  });

  it("is stored as a keyed hash, and never written to the log", async () => {
    const lines: string[] = [];
    for (const method of ["log", "info", "warn", "error"] as const) {
      vi.spyOn(console, method).mockImplementation((text: unknown) => void lines.push(String(text)));
    }
    const { secret_id } = await secretId({ metadata: { tag: "canary-tag-41" } });
    const { auth } = (await signIn(await roleId(), secret_id)).body;
    await signIn(await roleId(), `${secret_id}-wrong`);
    await vi.waitFor(() => expect(lines.join("\n")).toContain('"event":"login"'));
    vi.restoreAllMocks();
    for (const secret of [secret_id, auth.client_token]) {
      expect(lines.join("\n")).not.toContain(secret);
      expect(await dump()).not.toContain(secret);
    }
  });
});
