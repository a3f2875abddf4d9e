import { SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { get, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { CLIENT, newProvider, type Provider } from "./issuers.ts";

clock.moves = true;

const NOBODY = { token: null };
const CLI = "http://localhost:8250/oidc/callback";
const WEB = "https://sallyport.example/v1/auth/oidc/oidc/callback";
const ROLE = { user_claim: "sub", allowed_redirect_uris: [CLI, WEB], token_policies: "reader" };

let provider: Provider;

beforeEach(async () => {
  provider = await newProvider("oidc", [CLI, WEB, "http://localhost:9999/oidc/callback"]);
  await put("/v1/sys/policies/acl/reader", { policy: 'path "kv/data/app" { capabilities = ["read"] }' });
  expect((await put("/v1/sys/auth/oidc", { type: "oidc" })).status).toBe(204);
  const config = { oidc_discovery_url: provider.url, ...CLIENT, default_role: "people" };
  expect((await put("/v1/auth/oidc/config", config)).status).toBe(204);
  expect((await put("/v1/auth/oidc/role/people", ROLE)).status).toBe(204);
});

afterEach(() => {
  vi.useRealTimers();
});

/** Sets the clock forward and stops it. */
const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });
const now = () => Math.floor(Date.now() / 1000);

const begin = async (body: object = {}, mount = "oidc"): Promise<string> => {
  const answer = await put(`/v1/auth/${mount}/oidc/auth_url`, { redirect_uri: CLI, ...body }, NOBODY);
  expect([answer.status, answer.body.errors]).toEqual([200, undefined]);
  return answer.body.data.auth_url;
};
const complete = (parameters: Record<string, string>, mount = "oidc") =>
  get(`/v1/auth/${mount}/oidc/callback?${new URLSearchParams(parameters)}`, NOBODY);
const refusal = async (parameters: Record<string, string>, mount = "oidc") => {
  const { status, body } = await complete(parameters, mount);
  return [status, body.errors?.[0]];
};
/** A whole login. @returns the response of the callback */
const loginRefusal = async () => refusal(await provider.visit(await begin()));
const EXPIRED = [400, "Vault login failed. Expired or missing OAuth state."];

describe("a login in a browser", () => {
  it("returns a token with the role's policies and an entity", async () => {
    const returned = await provider.visit(await begin());
    // The code is exchanged once.
    const callback = `/v1/auth/oidc/oidc/callback?${new URLSearchParams(returned)}`;
    expect((await send("HEAD", callback, undefined, NOBODY)).status).toBe(405);
    const { status, body } = await complete({ ...returned, id_token: "" });
    expect([status, body.errors]).toEqual([200, undefined]);
    expect(body).toMatchObject({
      mount_type: "oidc",
      auth: { policies: ["default", "reader"], metadata: { role: "people" }, entity_id: expect.stringMatching(/-/) },
    });
    const { data } = (await get("/v1/auth/token/lookup-self", { token: body.auth.client_token })).body;
    expect(data).toMatchObject({ display_name: "oidc-ann", path: "auth/oidc/oidc/callback" });
  });

  it("sends what OpenID Connect and PKCE require", async () => {
    await put("/v1/auth/oidc/role/people", { ...ROLE, oidc_scopes: "email,groups", max_age: 60 });
    const url = new URL(await begin({ role: "People" }));
    expect(`${url.origin}${url.pathname}`).toBe(`${provider.url}/authorize`);
    expect(Object.fromEntries(url.searchParams)).toEqual({
      response_type: "code",
      client_id: "sallyport",
      redirect_uri: CLI,
      scope: "openid email groups",
      state: expect.any(String),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: "S256",
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      max_age: "60",
    });
  });

  it("uses the claims of the userinfo endpoint, unless they are of another subject", async () => {
    const groups = { ...ROLE, groups_claim: "groups", claim_mappings: { email: "mail" } };
    await put("/v1/auth/oidc/role/people", groups);
    await provider.change({ userinfo: { sub: "ann", groups: ["ops"], email: "new@example.com", iss: "x" } });
    const { status, body } = await complete(await provider.visit(await begin()));
    expect([status, body.auth?.metadata]).toEqual([200, { role: "people", mail: "new@example.com" }]);
    await provider.change({ userinfo: { sub: "bob", groups: ["ops"] } });
    expect(await loginRefusal()).toEqual([400, expect.stringContaining('"groups" claim not found')]);
  });

  it("works at a mount of the type jwt, beside logins by signed tokens", async () => {
    await put("/v1/sys/auth/both", { type: "jwt" });
    await put("/v1/auth/both/config", { oidc_discovery_url: provider.url, ...CLIENT });
    await put("/v1/auth/both/role/people", ROLE);
    await put("/v1/auth/both/role/ci", { role_type: "jwt", user_claim: "sub", bound_audiences: "app" });
    const login = (role: string, jwt: string) => put("/v1/auth/both/login", { role, jwt }, NOBODY);
    const jwt = await provider.sign({ sub: "job", aud: "app" });
    expect((await login("ci", jwt)).status).toBe(200);
    expect((await login("people", jwt)).body.errors).toEqual(["role with oidc role_type is not allowed"]);
    const returned = await provider.visit(await begin({ role: "people" }, "both"));
    expect((await complete(returned, "both")).status).toBe(200);
    expect(await begin({ role: "ci" }, "both")).toBe("");
  });

  it("sends the client secret in the body if the provider requires it", async () => {
    const other = await newProvider("in-body", [CLI]);
    const discovery = {
      issuer: other.url,
      jwks_uri: `${other.url}/keys`,
      authorization_endpoint: `${other.url}/authorize`,
      token_endpoint: `${other.url}/token`,
      token_endpoint_auth_methods_supported: ["client_secret_post"],
    };
    await other.put("/.well-known/openid-configuration", { body: JSON.stringify(discovery) });
    await put("/v1/auth/oidc/config", { oidc_discovery_url: other.url, ...CLIENT });
    const returned = await other.visit(await begin({ role: "people" }));
    await complete(returned);
    const { body, authorization } = await other.requests("/token");
    expect(authorization).toBe("");
    expect(Object.fromEntries(new URLSearchParams(body))).toMatchObject({
      client_id: CLIENT.oidc_client_id,
      client_secret: CLIENT.oidc_client_secret,
      code: returned["code"],
    });
  });
});

describe("a callback with an issuer parameter", () => {
  it("is refused for another issuer, before the code is sent", async () => {
    const returned = await provider.visit(await begin());
    expect(await refusal({ ...returned, iss: "https://other.example" })).toEqual([
      400,
      "Vault login failed. The redirect is from another issuer.",
    ]);
    expect((await provider.requests("/token")).count).toBe(0);
    expect((await complete({ ...returned, iss: provider.url })).status).toBe(200);
  });
});

describe("a login with response_mode form_post", () => {
  const post = (fields: Record<string, string>) =>
    send("POST", "/v1/auth/oidc/oidc/callback", new URLSearchParams(fields).toString(), {
      ...NOBODY,
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
    });

  it("is completed by a browser, or by the command line client with its nonce", async () => {
    const config = { oidc_discovery_url: provider.url, ...CLIENT, default_role: "people" };
    await put("/v1/auth/oidc/config", { ...config, oidc_response_mode: "form_post" });
    const fields = await provider.visit(await begin({ client_nonce: "n" }));
    const { code = "", state = "" } = fields;
    const page = await post({ ...fields, iss: provider.url, session_state: "x" });
    expect([page.status, page.headers.get("Content-Type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(page.headers.get("Content-Security-Policy")).toContain("default-src 'none'; form-action 'self'");
    expect(page.text).toContain(`<input type="hidden" name="code" value="${code}">`);
    expect(page.text).toContain(`<input type="hidden" name="state" value="${state}">`);
    expect(page.text).toContain(`<input type="hidden" name="iss" value="${provider.url}">`);
    expect((await complete(fields)).status).toBe(400);
    expect((await complete({ ...fields, client_nonce: "n" })).status).toBe(200);
  });

  it("is refused with a foreign state, and without configuration; the page escapes its content", async () => {
    const { state = "" } = await provider.visit(await begin());
    expect((await post({ state, code: "c" })).body.errors).toEqual(["oidc_response_mode is not form_post"]);
    const config = { oidc_discovery_url: provider.url, ...CLIENT, default_role: "people" };
    await put("/v1/auth/oidc/config", { ...config, oidc_response_mode: "form_post" });
    expect((await post({ state, code: "c" })).body.errors[0]).toContain("Expired or missing OAuth state");
    const own = await provider.visit(await begin());
    const page = await post({ state: own["state"] ?? "", code: '"><script>', error: "'&" });
    expect(page.text).toContain('value="&#34;&#62;&#60;script&#62;"');
    expect(page.text).not.toContain("<script");
  });
});

describe("a redirect URI", () => {
  itRows<[string, boolean]>([
    [CLI, true],
    ["http://localhost:9999/oidc/callback", true],
    [WEB, true],
    ["http://localhost:8250/other", false],
    ["http://127.0.0.1:8250/oidc/callback", false],
    ["https://localhost:8250/oidc/callback", false],
    ["http://a:b@localhost:8250/oidc/callback", false],
    ["http://localhost:8250@evil.example/oidc/callback", false],
    ["http://localhost.evil.example/oidc/callback", false],
    ["http://localhost:8250/oidc/callback#x", false],
    ["https://sallyport.example:444/v1/auth/oidc/oidc/callback", false],
    [`${WEB}?x=1`, false],
    [`${WEB}/../../x`, false],
    ["https://evil.example", false],
    ["//evil.example", false],
    ["javascript:alert(1)", false],
  ])("%s: allowed = %s; the answer for a foreign one is empty (no open redirect)", async (uri, allowed) => {
    expect((await begin({ redirect_uri: uri })) !== "").toBe(allowed);
  });
});

describe("a hostile callback", () => {
  it("is refused with a replayed state, also with a fresh code", async () => {
    const authUrl = await begin();
    const returned = await provider.visit(authUrl);
    expect((await complete(returned)).status).toBe(200);
    expect((await complete(returned)).status).toBe(400);
    expect(await refusal(await provider.visit(authUrl))).toEqual(EXPIRED);
  });

  it("returns one token for one state under parallel requests", async () => {
    const authUrl = await begin();
    const all = await Promise.all([0, 1, 2, 3, 4, 5].map(() => provider.visit(authUrl)));
    const statuses = await Promise.all(all.map(async (returned) => (await complete(returned)).status));
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
  });

  it("is refused with a foreign state, and without one", async () => {
    const { code = "", state = "" } = await provider.visit(await begin());
    for (const foreign of ["", "x", "AAAA".repeat(30), `${state}A`, `A${state.slice(1)}`, "x".repeat(9000)]) {
      expect(await refusal({ code, state: foreign })).toEqual(EXPIRED);
    }
  });

  it("is refused with the state of another mount, or of a previous configuration", async () => {
    const config = { oidc_discovery_url: provider.url, ...CLIENT, default_role: "people" };
    await put("/v1/sys/auth/other", { type: "oidc" });
    await put("/v1/auth/other/config", config);
    await put("/v1/auth/other/role/people", ROLE);
    const returned = await provider.visit(await begin());
    expect(await refusal(returned, "other")).toEqual(EXPIRED);
    await put("/v1/auth/oidc/config", config);
    expect(await refusal(returned)).toEqual(EXPIRED);
  });

  it("is refused after ten minutes", async () => {
    const returned = await provider.visit(await begin());
    later(601);
    expect(await refusal(returned)).toEqual(EXPIRED);
  });

  it("is refused without the client's nonce, which prevents login CSRF", async () => {
    const returned = await provider.visit(await begin({ client_nonce: "of this browser" }));
    expect(await refusal(returned)).toEqual([400, "invalid client_nonce"]);
    expect(await refusal({ ...returned, client_nonce: "another" })).toEqual([400, "invalid client_nonce"]);
    expect((await complete({ ...returned, client_nonce: "of this browser" })).status).toBe(200);
  });

  it("is refused with the code of another login, because of PKCE", async () => {
    const { code = "" } = await provider.visit(await begin());
    const { state = "" } = await provider.visit(await begin());
    expect(await refusal({ code, state })).toEqual([400, expect.stringContaining("Error exchanging oidc code")]);
  });

  it("is refused when the role, its redirect URI or its networks changed meanwhile", async () => {
    const returned = await provider.visit(await begin());
    await put("/v1/auth/oidc/role/people", { ...ROLE, token_bound_cidrs: "10.0.0.0/8" });
    const from = { ...NOBODY, headers: { "CF-Connecting-IP": "192.0.2.1" } };
    expect((await get(`/v1/auth/oidc/oidc/callback?${new URLSearchParams(returned)}`, from)).status).toBe(403);
    await put("/v1/auth/oidc/role/people", { ...ROLE, allowed_redirect_uris: WEB, token_bound_cidrs: "" });
    expect(await refusal(returned)).toEqual([400, expect.stringContaining("no longer allows")]);
    const { count } = await provider.requests("/token");
    expect(count).toBe(0);
  });

  it("returns the provider's error, if it is a known one", async () => {
    await provider.change({ error: "access_denied" });
    expect(await loginRefusal()).toEqual([400, "Vault login failed. The provider reported an error: access_denied."]);
    await provider.change({ error: "<script>" });
    expect(await loginRefusal()).toEqual([400, "Vault login failed. The provider reported an error."]);
  });
});

describe("a hostile ID token", () => {
  itRows<[string, () => Record<string, unknown>, RegExp]>([
    ["another nonce", () => ({ nonce: "x" }), /Invalid ID token nonce/],
    ["no nonce", () => ({ nonce: undefined }), /Invalid ID token nonce/],
    ["a wrong audience", () => ({ aud: "other" }), /invalid audience/],
    ["a foreign issuer", () => ({ iss: "https://other.example" }), /invalid issuer/],
    ["another authorized party", () => ({ aud: ["sallyport", "other"], azp: "other" }), /authorized party/],
    ["two audiences and no party", () => ({ aud: ["sallyport", "other"] }), /authorized party/],
    ["no exp", () => ({ exp: undefined }), /no exp or iat/],
    ["no iat", () => ({ iat: undefined, nbf: now() }), /no exp or iat/],
    ["an exp in the past", () => ({ iat: now() - 7200, exp: now() - 3600 }), /token is expired/],
    ["an iat in the future", () => ({ iat: now() + 3600, exp: now() + 7200 }), /not yet valid|in the future/],
    ["a wrong at_hash", () => ({ at_hash: "x" }), /at_hash/],
    ["no sub", () => ({ sub: undefined, name: "x" }), /no sub claim/],
  ])("with %s is refused", async (_name, claims, message) => {
    const known = { sub: "ann", ...claims() };
    // JSON drops members without a value, which must override the usual ones.
    const entries = Object.entries(known).map(([name, value]) => [name, value === undefined ? null : value]);
    await provider.change({ claims: Object.fromEntries(entries) });
    expect(await loginRefusal()).toEqual([400, expect.stringMatching(message)]);
  });

  it("is refused for algorithm confusion and without a signature", async () => {
    const claims = { sub: "ann", aud: "sallyport", iss: provider.url, iat: now(), exp: now() + 300 };
    const secret = new TextEncoder().encode(CLIENT.oidc_client_secret.repeat(2));
    const symmetric = await new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(secret);
    const base64 = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    for (const idToken of [symmetric, `${base64({ alg: "none" })}.${base64(claims)}.`, "x", ""]) {
      await provider.change({ idToken });
      expect(await loginRefusal()).toEqual([400, expect.stringMatching(/^Token verification failed/)]);
    }
  });

  it("is refused without a bound claim or audience, or when the login is too old", async () => {
    const refused = async (role: object) => {
      await put("/v1/auth/oidc/role/people", { ...ROLE, ...role });
      return loginRefusal();
    };
    expect(await refused({ bound_claims: { team: "ops" } })).toEqual([400, expect.stringContaining('"team" is miss')]);
    expect(await refused({ bound_claims: {}, bound_audiences: "x" })).toEqual([400, expect.stringContaining("(aud)")]);
    const young = { bound_audiences: "", max_age: 60 };
    expect(await refused(young)).toEqual([400, expect.stringContaining("auth_time")]);
    await provider.change({ claims: { sub: "ann", auth_time: now() - 3600 } });
    expect(await refused(young)).toEqual([400, expect.stringContaining("older than max_age")]);
    await provider.change({ claims: { sub: "ann", auth_time: now() } });
    expect(await refused(young)).toEqual([200, undefined]);
  });
});

describe("a provider", () => {
  it("that is down or slow fails the login with the reason", async () => {
    await provider.change({ fails: 503 });
    expect(await loginRefusal()).toEqual([400, expect.stringContaining("answered with status 503")]);
    await provider.change({ fails: 0, delayMs: 120_000 } as object);
    expect(await loginRefusal()).toEqual([400, expect.stringContaining("did not answer within 10000 ms")]);
  });

  it("with another client secret fails the login, and the secret appears in no answer", async () => {
    const config = { oidc_discovery_url: provider.url, ...CLIENT, oidc_client_secret: "a-wrong-one" };
    await put("/v1/auth/oidc/config", { ...config, default_role: "people" });
    const answer = await complete(await provider.visit(await begin()));
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining("status 401")]);
    expect(answer.text + (await get("/v1/auth/oidc/config")).text).not.toContain("a-wrong-one");
  });
});

describe("the configuration of logins in a browser", () => {
  it("is read back without the client's secret", async () => {
    const settings = { oidc_response_mode: "query", oidc_response_types: "code", provider_config: {} };
    await put("/v1/auth/oidc/config", { oidc_discovery_url: provider.url, ...CLIENT, ...settings });
    expect((await get("/v1/auth/oidc/config")).body.data).toEqual({
      jwks_pairs: [],
      oidc_discovery_url: provider.url,
      jwks_url: "",
      jwt_validation_pubkeys: [],
      bound_issuer: "",
      jwt_supported_algs: [],
      default_role: "",
      namespace_in_state: true,
      oidc_client_id: "sallyport",
      ...settings,
      oidc_response_types: ["code"],
    });
  });

  itRows<[object, RegExp]>([
    [{ oidc_client_secret: "" }, /both 'oidc_client_id' and 'oidc_client_secret'/],
    [{ oidc_client_id: "" }, /both 'oidc_client_id' and 'oidc_client_secret'/],
    [{ oidc_discovery_url: "", jwks_url: "https://x.example" }, /'oidc_discovery_url' must be set for OIDC/],
    [{ oidc_response_mode: "fragment" }, /oidc_response_mode/],
    [
      { oidc_response_types: "id_token", oidc_response_mode: "form_post" },
      /oidc_response_types.*: must be "code": a token/,
    ],
    [{ provider_config: { provider: "azure" } }, /provider_config/],
  ])("refuses %j", async (settings, message) => {
    const body = { oidc_discovery_url: provider.url, ...CLIENT, ...settings };
    const { status, body: answer } = await put("/v1/auth/oidc/config", body);
    expect([status, answer.errors[0]]).toEqual([400, expect.stringMatching(message)]);
    expect((await get("/v1/auth/oidc/config")).body.data.default_role).toBe("people");
  });

  it("and roles are required before a login begins", async () => {
    const error = async (body: object, mount = "oidc") =>
      (await put(`/v1/auth/${mount}/oidc/auth_url`, body, NOBODY)).body.errors?.[0];
    expect(await error({ redirect_uri: CLI, role: "none" })).toBe('role "none" could not be found');
    expect(await error({})).toBe("missing redirect_uri");
    await put("/v1/auth/oidc/config", { oidc_discovery_url: provider.url, ...CLIENT });
    expect(await error({ redirect_uri: CLI })).toBe("missing role");
    await put("/v1/auth/oidc/config", { oidc_discovery_url: provider.url });
    expect(await error({ redirect_uri: CLI })).toBe("OIDC login is not configured for this mount");
    await put("/v1/sys/auth/bare", { type: "oidc" });
    expect(await error({ redirect_uri: CLI }, "bare")).toBe("could not load configuration");
    const role = await put("/v1/auth/oidc/role/bare", { user_claim: "sub" });
    expect([role.status, role.text]).toEqual([400, expect.stringContaining("allowed_redirect_uris")]);
  });
});
