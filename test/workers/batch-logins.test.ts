import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { dump, path, policies } from "./access.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { newCluster, newIssuer } from "./issuers.ts";
import { closeAll, openStream, withSettings } from "./streams.ts";

clock.moves = true;

const ADDRESS = "192.0.2.7";
const from = (address: string) => ({ token: null, headers: { "CF-Connecting-IP": address } });
const NOBODY = from(ADDRESS);
const SELF = "/v1/auth/token/lookup-self";
const USER = "/v1/auth/userpass/users/ann";
const HELD = { token_policies: "reader", token_ttl: "1h" };

const tune = async (mount: string, token_type: string) =>
  expect((await put(`/v1/sys/auth/${mount}/tune`, { token_type })).status).toBe(204);
const signIn = () => put("/v1/auth/userpass/login/ann", { password: "right" }, NOBODY);
const statusOf = async (token: string) => (await get("/v1/kv/data/app", { token })).status;
const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });

beforeEach(async () => {
  await mountKv();
  await put("/v1/kv/data/app", { data: { a: "1" } });
  await policies({ reader: path("kv/data/app", "read") });
  await put("/v1/sys/auth/userpass", { type: "userpass" });
  await put(USER, { password: "right", ...HELD });
});

afterEach(async () => {
  await closeAll();
  vi.useRealTimers();
});

/** Logins of the methods, each by a role whose tokens are of type `batch`. */
const METHODS: Readonly<Record<string, () => Promise<Awaited<ReturnType<typeof put>>>>> = {
  userpass: async () => {
    expect((await put(USER, { token_type: "batch" })).status).toBe(204);
    return signIn();
  },
  approle: async () => {
    await put("/v1/sys/auth/approle", { type: "approle" });
    expect((await put("/v1/auth/approle/role/web", { ...HELD, token_type: "batch" })).status).toBe(204);
    const { role_id } = (await get("/v1/auth/approle/role/web/role-id")).body.data;
    const { secret_id } = (await put("/v1/auth/approle/role/web/secret-id", {})).body.data;
    return put("/v1/auth/approle/login", { role_id, secret_id }, NOBODY);
  },
  jwt: async () => {
    const issuer = await newIssuer("batch");
    await put("/v1/sys/auth/jwt", { type: "jwt" });
    await put("/v1/auth/jwt/config", { oidc_discovery_url: issuer.url });
    const role = { role_type: "jwt", user_claim: "sub", bound_audiences: "us", ...HELD, token_type: "batch" };
    expect((await put("/v1/auth/jwt/role/ci", role)).status).toBe(204);
    return put("/v1/auth/jwt/login", { role: "ci", jwt: await issuer.sign({ sub: "job", aud: "us" }) }, NOBODY);
  },
  kubernetes: async () => {
    const cluster = await newCluster("batch", ["reviewer.token.x"]);
    await put("/v1/sys/auth/kubernetes", { type: "kubernetes" });
    await put("/v1/auth/kubernetes/config", { kubernetes_host: cluster.url, token_reviewer_jwt: "reviewer.token.x" });
    const bound = { bound_service_account_names: "app", bound_service_account_namespaces: "shop" };
    expect((await put("/v1/auth/kubernetes/role/app", { ...bound, ...HELD, token_type: "batch" })).status).toBe(200);
    const jwt = await cluster.sign({
      sub: "system:serviceaccount:shop:app",
      "kubernetes.io": { namespace: "shop", serviceaccount: { name: "app", uid: "u-1" } },
    });
    return put("/v1/auth/kubernetes/login", { role: "app", jwt }, NOBODY);
  },
};

describe("a login with a role of token_type batch", () => {
  it.each(Object.keys(METHODS))("by %s gets a token that is not stored", async (method) => {
    const { status, body, text } = await (METHODS[method] as () => ReturnType<typeof put>)();
    expect(status, text).toBe(200);
    expect(body.auth).toMatchObject({
      client_token: expect.stringMatching(/^hvb\./),
      accessor: "",
      policies: ["default", "reader"],
      orphan: true,
      token_type: "batch",
      renewable: false,
      lease_duration: 3600,
      num_uses: 0,
      entity_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    const token = body.auth.client_token;
    expect(await statusOf(token)).toBe(200);
    expect((await get("/v1/kv/data/other", { token })).status).toBe(403);
    expect((await get(SELF, { token })).body.data).toMatchObject({
      type: "batch",
      accessor: "",
      entity_id: body.auth.entity_id,
      orphan: true,
      ttl: expect.any(Number),
    });
    expect((await list("/v1/auth/token/accessors")).body.data.keys).toHaveLength(1);
    expect((await send("POST", "/v1/auth/token/renew-self", {}, { token })).status).toBe(400);
    expect((await send("POST", "/v1/auth/token/revoke-self", {}, { token })).status).toBe(400);
  });

  it("stores nothing in later logins of the same caller, and ends by its time", async () => {
    await put(USER, { token_type: "batch" });
    await signIn();
    later(0);
    const before = await dump();
    const { body } = await signIn();
    expect(await dump()).toBe(before);
    later(3_599);
    expect(await statusOf(body.auth.client_token)).toBe(200);
    later(2);
    expect(await statusOf(body.auth.client_token)).toBe(403);
  });

  it("ends with its auth method, also when another one is enabled at the same path", async () => {
    await put(USER, { token_type: "batch" });
    const token = (await signIn()).body.auth.client_token;
    expect(await statusOf(token)).toBe(200);
    await del("/v1/sys/auth/userpass");
    expect((await get(SELF, { token })).status).toBe(403);
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put(USER, { password: "right", ...HELD });
    expect((await get(SELF, { token })).status).toBe(403);
  });

  it("loses its open event streams with its auth method", async () => {
    await put("/v1/acl/policy/reads-jobs", { Rules: 'namespace "default" { capabilities = ["read-job"] }' });
    await put(USER, { token_policies: ["reads-jobs"] });
    await tune("userpass", "batch");
    const token = (await signIn()).body.auth.client_token;
    await withSettings({ EVENT_HEARTBEAT_MS: "600000" });
    const stream = await openStream("?topic=Job&errors=true", { token });
    await stream.next();
    await del("/v1/sys/auth/userpass");
    for (let line = await stream.next(); !("Error" in line); line = await stream.next())
      expect(line.Events).toEqual([]);
    expect(await stream.next()).toBeNull();
  });

  it("is refused while its entity is disabled, and outside its networks", async () => {
    await put(USER, { token_type: "batch", token_bound_cidrs: `${ADDRESS}/32` });
    const { client_token: token, entity_id } = (await signIn()).body.auth;
    const here = { token, headers: { "CF-Connecting-IP": ADDRESS } };
    expect((await get("/v1/kv/data/app", here)).status).toBe(200);
    expect((await get("/v1/kv/data/app", { token, headers: { "CF-Connecting-IP": "198.51.100.1" } })).status).toBe(403);
    await put(`/v1/identity/entity/id/${entity_id}`, { disabled: true });
    expect((await get(SELF, here)).status).toBe(403);
    await put(`/v1/identity/entity/id/${entity_id}`, { disabled: false });
    expect((await get(SELF, here)).status).toBe(200);
  });

  it("can be wrapped, and the wrapped token opens once", async () => {
    await put(USER, { token_type: "batch" });
    const wrapped = await put(
      "/v1/auth/userpass/login/ann",
      { password: "right" },
      { ...NOBODY, headers: { ...NOBODY.headers, "X-Vault-Wrap-TTL": "60" } },
    );
    expect(wrapped.body.auth).toBeNull();
    const token = wrapped.body.wrap_info.token;
    const opened = await put("/v1/sys/wrapping/unwrap", {}, { token });
    expect(opened.body.auth.client_token).toMatch(/^hvb\./);
    expect((await put("/v1/sys/wrapping/unwrap", {}, { token })).status).toBe(400);
  });

  it("is refused when it would be longer than a batch token may be", async () => {
    const names = Array.from({ length: 40 }, (_, i) => `a-policy-with-a-rather-long-name-${i}`);
    await put(USER, { token_type: "batch", token_policies: names });
    const { status, body } = await signIn();
    expect([status, body.errors]).toEqual([400, [expect.stringContaining("use a service token")]]);
  });
});

describe("the token_type of an auth method", () => {
  it.each([
    ["default-service", "default", "service"],
    ["default-service", "service", "service"],
    ["default-service", "batch", "batch"],
    ["default-service", "default-batch", "batch"],
    ["default-batch", "default", "batch"],
    ["default-batch", "service", "service"],
    ["default-batch", "default-service", "service"],
    ["default-batch", "batch", "batch"],
    ["service", "default", "service"],
    ["service", "batch", "service"],
    ["batch", "default", "batch"],
    ["batch", "service", "batch"],
  ])("%s with that of a user %s gives %s", async (ofMount, ofUser, type) => {
    await tune("userpass", ofMount);
    await put(USER, { token_type: ofUser });
    expect((await get("/v1/sys/auth/userpass/tune")).body.data.token_type).toBe(ofMount);
    expect((await get(USER)).body.data.token_type).toBe(ofUser);
    expect((await signIn()).body.auth.token_type).toBe(type);
  });

  it("batch refuses users with limited uses, and bounds periods", async () => {
    await tune("userpass", "batch");
    await put(USER, { token_num_uses: 3 });
    const refused = await signIn();
    expect([refused.status, refused.body.errors]).toEqual([400, ['batch tokens cannot have "num_uses" set']]);
    await put(USER, { token_num_uses: 0, token_period: "30m" });
    expect((await signIn()).body.auth).toMatchObject({ renewable: false, lease_duration: 1800, token_type: "batch" });
  });
});

describe("POST a role or user with token_type batch", () => {
  it.each([
    [{ token_type: "batch", token_period: 60 }, "periodic tokens"],
    [{ token_type: "default-batch", token_num_uses: 2 }, "tokens with limited use count"],
  ])("%j is refused", async (body, kind) => {
    const { status, body: answer } = await put(USER, body);
    const text = `'token_type' cannot be 'batch' or 'default_batch' when set to generate ${kind}`;
    expect([status, answer.errors]).toEqual([400, [text]]);
  });

  it("refuses other types", async () => {
    const { status, body } = await put(USER, { token_type: "short" });
    expect([status, body.errors]).toEqual([400, ["invalid 'token_type' value"]]);
  });
});
