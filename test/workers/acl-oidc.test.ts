import { createHash } from "node:crypto";
import { exportSPKI, type JWTPayload, SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { dump } from "./access.ts";
import { get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { type Issuer, newIssuer } from "./issuers.ts";

clock.moves = true;

const NOBODY = { token: null };
const CLIENT = "sallyport";
const SECRET = "client secret/1";
const RedirectURI = "https://nomad.example/ui/settings/tokens";
const NONCE = "nonce-of-the-client";
const method = (Config: object = {}, more: object = {}) => ({
  Name: "sso",
  Type: "OIDC",
  TokenLocality: "local",
  MaxTokenTTL: "1h",
  Config: {
    OIDCDiscoveryURL: issuer.url,
    OIDCClientID: CLIENT,
    OIDCClientSecret: SECRET,
    OIDCScopes: ["groups"],
    AllowedRedirectURIs: [RedirectURI, "http://localhost:4649/oidc/callback"],
    ClaimMappings: { sub: "subject", email: "email", team: "team" },
    ListClaimMappings: { groups: "groups" },
    ...Config,
  },
  ...more,
});
const putMethod = async (Config: object = {}, more: object = {}) => {
  const written = await put("/v1/acl/auth-method", method(Config, more));
  expect(written.status, written.text).toBe(200);
  return written.body;
};
const begin = (body: object = {}) =>
  put("/v1/acl/oidc/auth-url", { AuthMethodName: "sso", RedirectURI, ClientNonce: NONCE, ...body }, NOBODY);
/** The URL of a begun login. */
const begun = async (body: object = {}): Promise<URL> => {
  const answer = await begin(body);
  expect(answer.status, answer.text).toBe(200);
  return new URL(answer.body.AuthURL);
};
const complete = (state: string, body: object = {}) =>
  put(
    "/v1/acl/oidc/complete-auth",
    { AuthMethodName: "sso", RedirectURI, ClientNonce: NONCE, State: state, Code: "code-1", ...body },
    NOBODY,
  );
const stateOf = (url: URL): string => url.searchParams.get("state") ?? "";
/** The issuer's answer to the redemption of a code. */
const answerWith = async (idToken: string, more: object = {}) =>
  issuer.put("/token", {
    body: JSON.stringify({ id_token: idToken, access_token: "at", token_type: "Bearer", ...more }),
  });
const idToken = (claims: JWTPayload = {}) => issuer.sign({ sub: "ann", aud: CLIENT, nonce: NONCE, ...claims });
const document = (more: object = {}) =>
  issuer.put("/.well-known/openid-configuration", {
    body: JSON.stringify({
      issuer: issuer.url,
      jwks_uri: `${issuer.url}/keys`,
      token_endpoint: `${issuer.url}/token`,
      authorization_endpoint: `${issuer.url}/authorize?tenant=1`,
      userinfo_endpoint: `${issuer.url}/userinfo`,
      ...more,
    }),
  });
const userInfo = (info: object) => issuer.put("/userinfo", { body: JSON.stringify(info) });
const now = () => Math.floor(Date.now() / 1000);

let issuer: Issuer;

beforeEach(async () => {
  issuer = await newIssuer("oidc");
  await document();
  await userInfo({ sub: "ann", email: "ann@example.com", groups: ["ops"] });
  await put("/v1/acl/policy/ops", { Rules: 'node { policy = "read" }' });
  await putMethod();
  await put("/v1/acl/binding-rule", {
    AuthMethod: "sso",
    BindType: "policy",
    BindName: "ops",
    Selector: '"ops" in list.groups and value.email == "ann@example.com"',
  });
});

afterEach(() => {
  vi.useRealTimers();
});

describe("a login in a browser", () => {
  it("redirects to the issuer with PKCE, and returns a token for the code", async () => {
    const url = await begun();
    expect(`${url.origin}${url.pathname}`).toBe(`${issuer.url}/authorize`);
    const { state = "", code_challenge: challenge, ...sent } = Object.fromEntries(url.searchParams);
    expect(sent).toEqual({
      tenant: "1",
      response_type: "code",
      client_id: CLIENT,
      redirect_uri: RedirectURI,
      scope: "openid groups",
      nonce: NONCE,
      code_challenge_method: "S256",
    });
    await answerWith(await idToken());
    const { status, body, text } = await complete(state, { Iss: issuer.url });
    expect(status, text).toBe(200);
    expect(body).toMatchObject({ Name: "OIDC-sso", Type: "client", Policies: ["ops"], ExpirationTTL: "1h0m0s" });
    expect((await get("/v1/nodes", { token: body.SecretID })).status).toBe(200);
    const redeemed = await issuer.requests("/token");
    const form = Object.fromEntries(new URLSearchParams(redeemed.body));
    expect(form).toEqual({
      grant_type: "authorization_code",
      code: "code-1",
      redirect_uri: RedirectURI,
      code_verifier: expect.stringMatching(/^[\w-]{43}$/),
    });
    const verifier = form["code_verifier"] ?? "";
    expect(createHash("sha256").update(verifier).digest("base64url")).toBe(challenge);
    expect(url.toString()).not.toContain(verifier);
    const basic = Buffer.from(redeemed.authorization.replace("Basic ", ""), "base64").toString();
    expect(basic).toBe(`${CLIENT}:client+secret%2F1`);
    expect((await issuer.requests("/userinfo")).authorization).toBe("Bearer at");
  });

  it("accepts a state once, also in 20 parallel requests, and for ten minutes", async () => {
    await answerWith(await idToken());
    const state = stateOf(await begun());
    const answers = await Promise.all(Array.from({ length: 20 }, () => complete(state)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 19 }, () => 400)]);
    expect((await issuer.requests("/token")).count).toBe(1);
    const late = stateOf(await begun());
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 600_001 });
    const refused = await complete(late);
    expect([refused.status, refused.text]).toEqual([400, "invalid or expired state"]);
  });

  it("refuses a state of another login before any request to the issuer", async () => {
    await putMethod({}, { Name: "other" });
    await answerWith(await idToken());
    const state = stateOf(await begun());
    const [id = "", until = "", mac = ""] = state.split(".");
    const cases: [string, string, object][] = [
      ["a foreign nonce", state, { ClientNonce: "another" }],
      ["another method", state, { AuthMethodName: "other" }],
      ["another redirect", state, { RedirectURI: "http://localhost:4649/oidc/callback" }],
      ["another id", `${id.slice(1)}x.${until}.${mac}`, {}],
      ["a later end", `${id}.${until}0.${mac}`, {}],
      ["a forged state", `${id}.${until}.${"a".repeat(43)}`, {}],
      ["an unknown state", "st_1", {}],
    ];
    for (const [what, given, body] of cases) {
      const { status, text } = await complete(given, body);
      expect([status, text], what).toEqual([400, "invalid or expired state"]);
    }
    await putMethod({ OIDCScopes: [] });
    expect((await complete(state)).status, "a changed method").toBe(400);
    expect((await issuer.requests("/token")).count ?? 0).toBe(0);
  });

  itRows([
    "https://evil.example/ui/settings/tokens",
    "https://nomad.example/ui/settings/tokens/../../x",
    "https://nomad.example/ui/settings/tokens?next=//evil.example",
    "https://nomad.example.evil.example/ui/settings/tokens",
    "https://a@nomad.example/ui/settings/tokens",
    "//nomad.example/ui/settings/tokens",
    "javascript:alert(1)",
    "http://localhost:4649/other",
    "http://localhost.evil.example:4649/oidc/callback",
    "https://localhost:4649/oidc/callback",
  ])("is refused for the redirect %s", async (redirect) => {
    for (const answer of [await begin({ RedirectURI: redirect }), await complete("x", { RedirectURI: redirect })]) {
      expect([answer.status, answer.text]).toEqual([400, "RedirectURI: unauthorized redirect URI"]);
    }
  });

  it("may be redirected to any port of the caller's own machine", async () => {
    const local = { RedirectURI: "http://localhost:50123/oidc/callback" };
    const url = await begun(local);
    expect(url.searchParams.get("redirect_uri")).toBe(local.RedirectURI);
    await answerWith(await idToken());
    expect((await complete(stateOf(url), local)).status).toBe(200);
  });

  it("refuses forged, foreign, expired and premature ID tokens", async () => {
    const other = await newIssuer("foreign");
    const pem = await exportSPKI(issuer.publicKey);
    const claims = { sub: "ann", aud: CLIENT, nonce: NONCE, iss: issuer.url, exp: now() + 60, iat: now() };
    const confused = await new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(pem));
    const payload = (await idToken()).split(".")[1];
    const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
    const cases: [string, string, string][] = [
      ["another nonce", await idToken({ nonce: "another" }), "nonce"],
      ["no nonce", await idToken({ nonce: undefined }), "nonce"],
      ["another audience", await idToken({ aud: "another" }), "audience"],
      ["several audiences", await idToken({ aud: [CLIENT, "another"] }), "azp"],
      ["another party", await idToken({ azp: "another" }), "azp"],
      ["no subject", await idToken({ sub: "" }), "sub"],
      ["another issuer", await idToken({ iss: other.url }), "issuer"],
      ["expired", await idToken({ exp: now() - 120 }), "expired"],
      ["foreign keys", await other.sign(claims), "signature"],
      ["algorithm confusion", confused, "unexpected algorithm"],
      ["none", `${none}.${payload}.`, "malformed token"],
    ];
    for (const [what, token, because] of cases) {
      await answerWith(token);
      const { status, text } = await complete(stateOf(await begun()));
      expect([status, text], what).toEqual([401, expect.stringContaining(because)]);
      expect(text, what).toMatch(/^failed to exchange token with provider: /);
    }
  });

  it("sends no code of one issuer to another", async () => {
    await answerWith(await idToken());
    const refused = await complete(stateOf(await begun()), { Iss: "https://evil.example" });
    expect([refused.status, refused.text]).toEqual([401, expect.stringContaining("from another issuer")]);
    expect((await issuer.requests("/token")).count ?? 0).toBe(0);
  });

  it("is refused when the issuer rejects the code", async () => {
    await issuer.put("/token", { status: 400, body: JSON.stringify({ error: "invalid_grant" }) });
    const refused = await complete(stateOf(await begun()));
    expect([refused.status, refused.text]).toEqual([
      401,
      "failed to exchange token with provider: the issuer answered with status 400",
    ]);
    await issuer.put("/token", { body: JSON.stringify({ access_token: "at" }) });
    expect((await complete(stateOf(await begun()))).text).toContain("the issuer's answer has no ID token");
  });

  it("adds the user info of the same subject, unless the method disables it", async () => {
    await answerWith(await idToken());
    await userInfo({ sub: "bob", email: "ann@example.com", groups: ["ops"] });
    const foreign = await complete(stateOf(await begun()));
    expect([foreign.status, foreign.text]).toEqual([401, expect.stringContaining("about another subject")]);
    await userInfo({ sub: "ann", iss: "https://evil.example", email: "ann@example.com", groups: ["ops"] });
    expect((await complete(stateOf(await begun()))).status).toBe(200);
    await putMethod({ OIDCDisableUserInfo: true });
    const none = await complete(stateOf(await begun()));
    expect([none.status, none.text]).toEqual([400, "no role or policy bindings matched"]);
    await answerWith(await idToken({ email: "ann@example.com", groups: ["ops"] }));
    expect((await complete(stateOf(await begun()))).status).toBe(200);
  });

  it("sends the client secret in the form that the issuer requires, and none for a public client", async () => {
    issuer = await newIssuer("post");
    await document({ token_endpoint_auth_methods_supported: ["client_secret_post"] });
    await userInfo({ sub: "ann", email: "ann@example.com", groups: ["ops"] });
    await putMethod();
    await answerWith(await idToken());
    expect((await complete(stateOf(await begun()))).status).toBe(200);
    const posted = await issuer.requests("/token");
    const form = new URLSearchParams(posted.body);
    expect([form.get("client_id"), form.get("client_secret"), posted.authorization]).toEqual([CLIENT, SECRET, ""]);
    await putMethod({ OIDCClientSecret: "" });
    expect((await complete(stateOf(await begun()))).status).toBe(200);
    const open = new URLSearchParams((await issuer.requests("/token")).body);
    expect([open.get("client_id"), open.get("client_secret")]).toEqual([CLIENT, null]);
  });

  itRows([
    ["auth-url", { AuthMethodName: "" }, "invalid OIDC auth-url request: missing auth method name"],
    ["auth-url", { ClientNonce: "" }, "invalid OIDC auth-url request: missing client nonce"],
    ["auth-url", { RedirectURI: "" }, "invalid OIDC auth-url request: missing redirect URI"],
    ["auth-url", { AuthMethodName: "absent" }, 'auth-method "absent" not found'],
    ["complete-auth", { State: "" }, "invalid OIDC complete-auth request: missing state"],
    ["complete-auth", { State: "x", Code: "" }, "invalid OIDC complete-auth request: missing code"],
  ])("returns 400 from %s for %j", async (path, body, because) => {
    const given = { AuthMethodName: "sso", RedirectURI, ClientNonce: NONCE, ...(path !== "auth-url" && { Code: "c" }) };
    const refused = await put(`/v1/acl/oidc/${path}`, { ...given, ...body }, NOBODY);
    expect([refused.status, refused.text]).toEqual([400, because]);
  });

  it("is not offered by methods of type JWT, nor a login by signed token by those of type OIDC", async () => {
    const config = { Config: { JWKSURL: `${issuer.url}/keys` }, Type: "JWT", Name: "jwt" };
    await putMethod({}, config);
    const refused = await begin({ AuthMethodName: "jwt" });
    expect([refused.status, refused.text]).toEqual([400, "unsupported auth-method type: JWT"]);
    const direct = await put("/v1/acl/login", { AuthMethodName: "sso", LoginToken: await idToken() }, NOBODY);
    expect([direct.status, direct.text]).toEqual([400, "unsupported auth-method type: OIDC"]);
  });

  it("returns the error when the issuer is unreachable", async () => {
    await putMethod({ OIDCDiscoveryURL: `${issuer.url}/absent` });
    const refused = await begin();
    expect([refused.status, refused.text]).toEqual([502, expect.stringContaining("failed to generate auth URL")]);
    await begin();
    expect((await issuer.requests("/absent/.well-known/openid-configuration")).count).toBe(1);
  });
});

describe("the client secret of an auth method", () => {
  it("is sealed, never shown, and kept by a write with the redacted value", async () => {
    const { body } = await get("/v1/acl/auth-method/sso");
    expect(body.Config.OIDCClientSecret).toBe("redacted");
    expect(await dump()).not.toContain(SECRET);
    const again = await put("/v1/acl/auth-method/sso", body);
    expect(again.body.Hash).toBe(body.Hash);
    await answerWith(await idToken());
    expect((await complete(stateOf(await begun()))).status).toBe(200);
    const { authorization } = await issuer.requests("/token");
    expect(Buffer.from(authorization.slice(6), "base64").toString()).toContain("client+secret%2F1");
  });
});
