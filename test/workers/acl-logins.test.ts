// biome-ignore-all lint/suspicious/noTemplateCurlyInString: binding rules are templates
import { exportSPKI, SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { accessObject, dump, eventsOf } from "./access.ts";
import { del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { type Issuer, newIssuer } from "./issuers.ts";

clock.moves = true;

const NOBODY = { token: null };
const AUDIENCE = "cluster";
const CLAIMS = { sub: "repo:app", aud: AUDIENCE, team: "ops", groups: ["a", "b"] };
const MAPPINGS = { ClaimMappings: { sub: "subject", team: "team" }, ListClaimMappings: { groups: "groups" } };
const method = (Config: object = {}, more: object = {}) => ({
  Name: "ci",
  Type: "JWT",
  TokenLocality: "local",
  MaxTokenTTL: "1h",
  Config: { OIDCDiscoveryURL: issuer.url, BoundAudiences: [AUDIENCE], ...MAPPINGS, ...Config },
  ...more,
});
const oidc = (Config: object) =>
  method({ OIDCClientID: "sallyport", AllowedRedirectURIs: ["https://a.example/cb"], ...Config }, { Type: "OIDC" });
const putMethod = async (Config: object = {}, more: object = {}) => {
  const written = await put("/v1/acl/auth-method", method(Config, more));
  expect(written.status, written.text).toBe(200);
  return written.body;
};
const bind = async (rule: object) => {
  const written = await put("/v1/acl/binding-rule", { AuthMethod: "ci", ...rule });
  expect(written.status, written.text).toBe(200);
  return written.body;
};
const login = (LoginToken: string, AuthMethodName = "ci") =>
  put("/v1/acl/login", { AuthMethodName, LoginToken }, NOBODY);
const refusal = async (LoginToken: string) => {
  const { status, text } = await login(LoginToken);
  return [status, text];
};
const base64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const now = () => Math.floor(Date.now() / 1000);
const NONE = [400, "no role or policy bindings matched"];

let issuer: Issuer;

beforeEach(async () => {
  issuer = await newIssuer("cluster");
  for (const name of ["ops", "team-ops", "default-x", "a.b"]) {
    expect((await put(`/v1/acl/policy/${name}`, { Rules: 'node { policy = "read" }' })).status).toBe(200);
  }
});

afterEach(() => {
  vi.useRealTimers();
});

describe("auth methods of the cluster API", () => {
  it("return every field, lists of them without a token, and send events", async () => {
    const Config = {
      JWKSURL: `${issuer.url}/keys`,
      OIDCDiscoveryURL: "",
      BoundIssuer: ["https://a"],
      SigningAlgs: ["ES256"],
      ExpirationLeeway: "1m",
      NotBeforeLeeway: 60_000_000_000,
      ClockSkewLeeway: "-1s",
      VerboseLogging: true,
    };
    const Format = "${auth_method_name}/${value.subject}";
    const made = await put("/v1/acl/auth-method", method(Config, { Default: true, TokenNameFormat: Format }));
    expect(made.body).toEqual({
      Name: "ci",
      Type: "JWT",
      TokenLocality: "local",
      TokenNameFormat: Format,
      MaxTokenTTL: "1h0m0s",
      Default: true,
      Config: {
        JWTValidationPubKeys: null,
        JWKSURL: `${issuer.url}/keys`,
        JWKSCACert: "",
        OIDCDiscoveryURL: "",
        OIDCClientID: "",
        OIDCClientSecret: "",
        OIDCClientAssertion: null,
        OIDCEnablePKCE: false,
        OIDCDisableUserInfo: false,
        OIDCScopes: null,
        BoundAudiences: [AUDIENCE],
        BoundIssuer: ["https://a"],
        AllowedRedirectURIs: null,
        DiscoveryCaPem: null,
        SigningAlgs: ["ES256"],
        ...MAPPINGS,
        ExpirationLeeway: "1m0s",
        NotBeforeLeeway: "1m0s",
        ClockSkewLeeway: "-1s",
        VerboseLogging: true,
      },
      Hash: expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/),
      CreateTime: expect.any(String),
      ModifyTime: made.body.CreateTime,
      CreateIndex: expect.any(Number),
      ModifyIndex: made.body.CreateIndex,
    });
    expect((await get("/v1/acl/auth-method/ci")).body).toEqual(made.body);
    const { Name, Type, Default, Hash, CreateIndex, ModifyIndex } = made.body;
    const stub = { Name, Type, Default, Hash, CreateIndex, ModifyIndex };
    expect((await get("/v1/acl/auth-methods", NOBODY)).body).toEqual([stub]);
    const again = await put("/v1/acl/auth-method/ci", made.body);
    expect(again.body).toMatchObject({ Hash, CreateIndex, Config: made.body.Config });
    const gone = await del("/v1/acl/auth-method/ci");
    expect([gone.status, gone.text]).toEqual([200, ""]);
    expect((await get("/v1/acl/auth-methods")).body).toEqual([]);
    const events = await eventsOf("ACLAuthMethod:ci");
    expect(events.map((event) => [event.Type, event.Index])).toEqual([
      ["ACLAuthMethodUpserted", CreateIndex],
      ["ACLAuthMethodUpserted", again.body.ModifyIndex],
      ["ACLAuthMethodDeleted", Number(gone.headers.get("x-nomad-index"))],
    ]);
    expect(events[0].Payload).toEqual({ AuthMethod: made.body });
  });

  it("keep their values when an update leaves them empty, except Default", async () => {
    const made = await putMethod({}, { Default: true, TokenLocality: "global" });
    const kept = await put("/v1/acl/auth-method/ci", { Name: "ci", MaxTokenTTL: "2h" });
    expect(kept.body).toEqual({
      ...made,
      MaxTokenTTL: "2h0m0s",
      Default: false,
      Hash: expect.not.stringContaining(made.Hash),
      ModifyTime: expect.any(String),
      ModifyIndex: expect.any(Number),
    });
  });

  itRows<[string, () => object, string]>([
    ["name", () => method({}, { Name: "a b" }), "auth method 0 invalid: invalid name 'a b'"],
    ["Type", () => method({}, { Type: "SAML" }), "auth method 0 invalid: invalid token type 'SAML'"],
    ["TokenLocality", () => method({}, { TokenLocality: "" }), "invalid token locality ''"],
    [
      "MaxTokenTTL",
      () => method({}, { MaxTokenTTL: "25h" }),
      "invalid MaxTokenTTL value '25h0m0s' (should be between 1m0s and 24h0m0s)",
    ],
    ["MaxTokenTTL, absent", () => method({}, { MaxTokenTTL: 0 }), "invalid MaxTokenTTL value '0s'"],
    ["Config", () => method({}, { Config: null }), "missing auth method Config"],
    ["TokenNameFormat", () => method({}, { TokenNameFormat: "${uuid()}" }), "TokenNameFormat"],
    ["no keys", () => method({ OIDCDiscoveryURL: "" }), "requires either OIDCDiscoveryURL, or JWKS URL"],
    ["a private address", () => method({ OIDCDiscoveryURL: "https://10.0.0.1" }), "must not be a private address"],
    ["JWKSCACert", () => method({ JWKSCACert: "pem" }), "JWKSCACert"],
    ["DiscoveryCaPem", () => method({ DiscoveryCaPem: ["pem"] }), "DiscoveryCaPem"],
    ["SigningAlgs, none", () => method({ SigningAlgs: ["none"] }), "SigningAlgs"],
    ["SigningAlgs, symmetric", () => method({ SigningAlgs: ["HS256"] }), "SigningAlgs"],
    ["no key", () => method({ OIDCDiscoveryURL: "", JWTValidationPubKeys: ["x"] }), "error parsing public key"],
    ["no client", () => oidc({ OIDCClientID: "" }), "missing OIDCClientID"],
    ["no issuer", () => oidc({ OIDCDiscoveryURL: "" }), "missing OIDCDiscoveryURL"],
    ["a redirect", () => oidc({ AllowedRedirectURIs: ["javascript:alert(1)"] }), "AllowedRedirectURIs: must be URLs"],
    ["OIDCClientAssertion", () => method({ OIDCClientAssertion: { KeySource: "nomad" } }), "OIDCClientAssertion"],
    ["ClaimMappings", () => method({ ClaimMappings: { a: "" } }), "ClaimMappings"],
    ["Configs", () => method({ Audiences: [] }), "Config.Audiences"],
  ])("return 400 for %s", async (_what, body, because) => {
    const refused = await put("/v1/acl/auth-method", body());
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(because)]);
    expect((await get("/v1/acl/auth-methods")).body).toEqual([]);
  });

  it.each<[string, () => object, object]>([
    ["two sources", () => method({ JWKSURL: "https://a.example/keys" }), { JWKSURL: "https://a.example/keys" }],
    ["a field of OIDC", () => method({ OIDCClientID: "id" }), { OIDCClientID: "id" }],
    ["a field of JWT", () => oidc({ BoundIssuer: ["a"] }), { BoundIssuer: ["a"] }],
    ["no redirects", () => oidc({ AllowedRedirectURIs: [] }), { AllowedRedirectURIs: null }],
  ])("accept and show %s, as upstream", async (_what, body, shown) => {
    const made = await put("/v1/acl/auth-method", body());
    expect([made.status, made.body.Config]).toEqual([200, expect.objectContaining(shown)]);
  });

  it("have at most one default, and the name of the path", async () => {
    await putMethod({}, { Default: true });
    const second = await put("/v1/acl/auth-method", method({}, { Name: "other", Default: true }));
    expect([second.status, second.text]).toEqual([400, "default method already exists: ci"]);
    const renamed = await put("/v1/acl/auth-method/ci", method({}, { Name: "other" }));
    expect([renamed.status, renamed.text]).toEqual([400, "ACL auth-method name does not match request path"]);
    for (const verb of [get, del]) {
      const absent = await verb("/v1/acl/auth-method/absent");
      expect([absent.status, absent.text]).toEqual([404, "ACL auth-method not found"]);
    }
  });
});

describe("binding rules", () => {
  it("return every field, lists of them without selectors, and send events", async () => {
    await putMethod();
    const rule = {
      Description: "operators",
      AuthMethod: "ci",
      Selector: 'value.team == "ops"',
      BindType: "policy",
      BindName: "team-${value.team}",
    };
    const made = await put("/v1/acl/binding-rule", rule);
    expect(made.body).toEqual({
      ID: expect.stringMatching(/^[0-9a-f-]{36}$/),
      ...rule,
      Hash: expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/),
      CreateTime: expect.any(String),
      ModifyTime: made.body.CreateTime,
      CreateIndex: expect.any(Number),
      ModifyIndex: made.body.CreateIndex,
    });
    const at = `/v1/acl/binding-rule/${made.body.ID}`;
    expect((await get(at)).body).toEqual(made.body);
    const { ID, Description, AuthMethod, Hash, CreateIndex, ModifyIndex } = made.body;
    const stub = { ID, Description, AuthMethod, Hash, CreateIndex, ModifyIndex };
    expect((await get("/v1/acl/binding-rules")).body).toEqual([stub]);
    const changed = await put(at, { ID, Description: "all", BindName: "ops" });
    expect(changed.body).toMatchObject({
      ID,
      Description: "all",
      AuthMethod: "ci",
      Selector: "",
      BindType: "policy",
      BindName: "ops",
      CreateIndex,
    });
    const gone = await del(at);
    expect([gone.status, gone.text]).toEqual([200, ""]);
    const events = await eventsOf(`ACLBindingRule:${ID}`);
    expect(events.map((event) => [event.Type, event.FilterKeys])).toEqual([
      ["ACLBindingRuleUpserted", ["ci"]],
      ["ACLBindingRuleUpserted", ["ci"]],
      ["ACLBindingRuleDeleted", ["ci"]],
    ]);
    expect(events[0].Payload).toEqual({ ACLBindingRule: made.body });
  });

  itRows([
    [{ BindType: "policy", BindName: "p", AuthMethod: "" }, "binding rule 0 invalid: auth method is missing"],
    [{ BindType: "policy", BindName: "p", AuthMethod: "absent" }, "ACL auth method absent not found"],
    [{ BindType: "policy", BindName: "p", Description: "x".repeat(257) }, "description longer than 256"],
    [{ BindName: "p" }, "binding rule 0 invalid: bind type is missing"],
    [{ BindType: "group", BindName: "p" }, 'unsupported bind type: "group"'],
    [{ BindType: "policy" }, "bind name is missing"],
    [{ BindType: "management", BindName: "p" }, "bind name should be empty"],
    [{ BindType: "policy", BindName: "${value.a + 1}" }, "only claims can be interpolated"],
    [{ BindType: "policy", BindName: "${env.a}" }, "only claims can be interpolated"],
    [{ BindType: "policy", BindName: "a/*" }, "bind name is no name of a policy"],
    [{ BindType: "role", BindName: "a.b" }, "bind name is no name of a role"],
    [{ BindType: "policy", BindName: "p", Selector: "value.team ==" }, "selector is invalid"],
    [{ BindType: "policy", BindName: "p", Selector: "claims.team == a" }, "selector is invalid"],
    [{ BindType: "policy", BindName: "p", Selector: 'value.team matches "("' }, "selector is invalid"],
    [{ ID: "absent", BindType: "policy", BindName: "p" }, "cannot find binding rule absent"],
    [{ BindType: "policy", BindName: "p", Policy: "p" }, "Policy"],
  ])("return 400 for %j", async (body, because) => {
    await putMethod();
    const refused = await put("/v1/acl/binding-rule", { AuthMethod: "ci", ...body });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(because)]);
    expect((await get("/v1/acl/binding-rules")).body).toEqual([]);
  });

  it("keep their auth method, and have the name of the path", async () => {
    await putMethod();
    await putMethod({}, { Name: "other" });
    const { ID } = await bind({ BindType: "management" });
    const moved = await put(`/v1/acl/binding-rule/${ID}`, { AuthMethod: "other" });
    expect([moved.status, moved.text]).toEqual([400, expect.stringContaining("cannot update auth method")]);
    const renamed = await put(`/v1/acl/binding-rule/${ID}`, { ID: "other" });
    expect([renamed.status, renamed.text]).toEqual([400, "ACL binding rule ID does not match request path"]);
    for (const verb of [get, del]) {
      const absent = await verb("/v1/acl/binding-rule/absent");
      expect([absent.status, absent.text]).toEqual([404, "ACL binding rule not found"]);
    }
  });
});

describe("a login of the cluster API", () => {
  it("returns a token with the roles and policies of the rules that select the caller", async () => {
    const role = (await put("/v1/acl/role", { Name: "readers", Policies: [{ Name: "ops" }] })).body;
    await putMethod({}, { TokenNameFormat: "${auth_method_type}-${auth_method_name}-${value.subject}" });
    await bind({ BindType: "policy", BindName: "team-${value.team}" });
    await bind({ BindType: "policy", BindName: "absent" });
    await bind({ BindType: "role", BindName: "readers", Selector: '"a" in list.groups' });
    await bind({ BindType: "management", Selector: 'value.team == "admins"' });
    const { status, body, text } = await login(await issuer.sign(CLAIMS));
    expect(status, text).toBe(200);
    expect(body).toMatchObject({
      Name: "JWT-ci-repo:app",
      Type: "client",
      Policies: ["team-ops"],
      Global: false,
      ExpirationTTL: "1h0m0s",
      Roles: [{ ID: role.ID, Name: "readers" }],
    });
    expect(Date.parse(body.ExpirationTime) - Date.parse(body.CreateTime)).toBe(3_600_000);
    expect((await get("/v1/nodes", { token: body.SecretID })).status).toBe(200);
    expect((await get("/v1/acl/tokens", { token: body.SecretID })).status).toBe(403);
    // Only the caller has the secret.
    const upstream = { token: null, headers: { "X-Nomad-Token": "root" } };
    expect((await get(`/v1/acl/token/${body.AccessorID}`, upstream)).body.SecretID).toBe("");
    expect(await dump()).not.toContain(body.SecretID);
    expect((await eventsOf(`ACLToken:${body.AccessorID}`)).map(({ Type }) => Type)).toEqual(["ACLTokenUpserted"]);
  });

  it("issues management tokens by management rules only, and global ones by the method's locality", async () => {
    await putMethod({}, { TokenLocality: "global" });
    await bind({ BindType: "management", Selector: 'value.team == "admins"' });
    expect(await refusal(await issuer.sign(CLAIMS))).toEqual(NONE);
    const { body } = await login(await issuer.sign({ ...CLAIMS, team: "admins" }));
    expect(body).toMatchObject({ Name: "JWT-ci", Type: "management", Policies: null, Roles: [], Global: true });
    expect((await get("/v1/acl/tokens", { token: body.SecretID })).status).toBe(200);
  });

  it.each<[string, string, boolean]>([
    ["equal", 'value.team == "ops"', true],
    ["unequal", 'value.team != "ops"', false],
    ["an absent claim", 'value.absent == "ops"', false],
    ["in a list", '"a" in list.groups', true],
    ["not in a list", '"a" not in list.groups', false],
    ["contains", 'list.groups contains "b"', true],
    ["matches", 'value.subject matches "^repo:.*$"', true],
    ["is empty", "list.groups is empty", false],
    ["is not empty", "list.groups is not empty", true],
    ["parentheses, and, or, not", '(value.team == "x" or value.team == "ops") and not "c" in list.groups', true],
  ])("selects rules by %s", async (_what, Selector, selects) => {
    await putMethod();
    await bind({ BindType: "policy", BindName: "ops", Selector });
    expect((await login(await issuer.sign(CLAIMS))).status).toBe(selects ? 200 : 400);
  });

  itRows(["${value.team}", "team-${value.team}", "${value.team}-ops", "team${value.team}"])(
    "does not let a claim choose a policy outside of %j",
    async (BindName) => {
      await put("/v1/acl/role", { Name: "team-ops", Policies: [{ Name: "ops" }] });
      await putMethod();
      await bind({ BindType: "policy", BindName });
      const hostile = [
        "root",
        "*",
        "../root",
        "ops/*",
        "a.b",
        "ops ",
        " ops",
        "ops\n",
        "ops\0",
        "${value.subject}",
        "%72oot",
        "response-wrapping",
        "Ops,root",
        '["root"]',
        "ｒｏｏｔ",
        "K",
        "x".repeat(200),
      ];
      for (const team of hostile) {
        const { status, body } = await login(await issuer.sign({ ...CLAIMS, team }));
        expect([status, body?.Policies ?? []], JSON.stringify(team)).toEqual([400, []]);
      }
    },
  );

  it("is refused for claims of other types", async () => {
    await putMethod();
    await bind({ BindType: "policy", BindName: "${value.team}" });
    expect((await login(await issuer.sign({ ...CLAIMS, team: ["ops"] } as never))).status).toBe(401);
    expect((await login(await issuer.sign({ ...CLAIMS, team: { a: "ops" } } as never))).status).toBe(401);
    expect((await login(await issuer.sign({ ...CLAIMS, team: true } as never))).status).toBe(400);
    const claims = JSON.parse('{"__proto__":{"team":"ops"},"constructor":"ops"}');
    expect((await login(await issuer.sign({ ...claims, sub: "a", aud: AUDIENCE }))).status).toBe(400);
    await putMethod({ ClaimMappings: { constructor: "team" } });
    expect((await login(await issuer.sign({ ...CLAIMS }))).status).toBe(400);
  });

  it("reads claims by JSON pointer", async () => {
    await putMethod({ ClaimMappings: { "/org/teams/0": "team" } });
    await bind({ BindType: "policy", BindName: "team-${value.team}" });
    const { body } = await login(await issuer.sign({ sub: "a", aud: AUDIENCE, org: { teams: ["OPS"] } }));
    expect(body.Policies).toEqual(["team-ops"]);
  });

  it("refuses forged, foreign, expired and premature tokens", async () => {
    await putMethod();
    await bind({ BindType: "policy", BindName: "ops" });
    const good = await issuer.sign(CLAIMS);
    const [head = "", payload = "", signature = ""] = good.split(".");
    const pem = await exportSPKI(issuer.publicKey);
    const symmetric = new SignJWT({ ...CLAIMS, iss: issuer.url, exp: now() + 60 }).setProtectedHeader({ alg: "HS256" });
    const other = await newIssuer("foreign");
    const cases: [string, string, string][] = [
      ["algorithm confusion", await symmetric.sign(new TextEncoder().encode(pem)), "unexpected algorithm"],
      ["none", `${base64({ alg: "none" })}.${payload}.`, "malformed token"],
      ["none with a signature", `${base64({ alg: "none" })}.${payload}.${signature}`, "unexpected algorithm"],
      ["another payload", `${head}.${base64({ ...CLAIMS, team: "x", exp: now() + 60 })}.${signature}`, "signature"],
      ["foreign keys", await other.sign(CLAIMS), "signature"],
      ["a foreign issuer", await issuer.sign({ ...CLAIMS, iss: other.url }), "issuer"],
      ["a wrong audience", await issuer.sign({ ...CLAIMS, aud: "other" }), "audience"],
      ["no audience", await issuer.sign({ sub: "a" }), "audience"],
      ["expired", await issuer.sign({ ...CLAIMS, exp: now() - 120 }), "expired"],
      ["not yet valid", await issuer.sign({ ...CLAIMS, nbf: now() + 120 }), "not yet valid"],
      ["no token", "x", "malformed"],
    ];
    for (const [what, token, because] of cases) {
      const { status, text } = await login(token);
      expect([status, text], what).toEqual([401, expect.stringContaining(because)]);
      expect(text, what).toMatch(/^unable to validate provided token: /);
      expect(text).not.toContain("repo:app");
    }
    expect((await login(good)).status).toBe(200);
  });

  it("accepts bound issuers only, and checks the issuer after the signature", async () => {
    const keys = { OIDCDiscoveryURL: "", JWTValidationPubKeys: [await exportSPKI(issuer.publicKey)] };
    await putMethod({ ...keys, BoundIssuer: ["https://a.example", issuer.url] });
    await bind({ BindType: "policy", BindName: "ops" });
    expect((await login(await issuer.sign(CLAIMS))).status).toBe(200);
    const foreign = await refusal(await issuer.sign({ ...CLAIMS, iss: "https://b.example" }));
    expect(foreign).toEqual([401, "unable to validate provided token: invalid JWT issuer"]);
    const other = await newIssuer("forger");
    expect(await refusal(await other.sign({ ...CLAIMS, iss: issuer.url }))).toEqual([
      401,
      "unable to validate provided token: no known key successfully validated the token signature",
    ]);
  });

  it("accepts only RS256 unless SigningAlgs names others", async () => {
    const ecdsa = await newIssuer("ecdsa", "ES256");
    await putMethod({ OIDCDiscoveryURL: ecdsa.url });
    await bind({ BindType: "policy", BindName: "ops" });
    expect((await login(await ecdsa.sign(CLAIMS))).status).toBe(401);
    await putMethod({ OIDCDiscoveryURL: ecdsa.url, SigningAlgs: ["ES256"] });
    expect((await login(await ecdsa.sign(CLAIMS))).status).toBe(200);
  });

  itRows([
    [{}, 400, "invalid login request: missing auth method name"],
    [{ AuthMethodName: "ci" }, 400, "invalid login request: missing login token"],
    [{ AuthMethodName: "absent", LoginToken: "x" }, 400, 'auth-method "absent" not found'],
  ])("returns an error for %j", async (body, status, text) => {
    const answer = await put("/v1/acl/login", body, NOBODY);
    expect([answer.status, answer.text]).toEqual([status, text]);
  });

  it("grants nothing by rules of other methods, or of a method that was replaced meanwhile", async () => {
    await putMethod();
    await putMethod({}, { Name: "other" });
    await put("/v1/acl/binding-rule", { AuthMethod: "other", BindType: "policy", BindName: "ops" });
    expect(await refusal(await issuer.sign(CLAIMS))).toEqual(NONE);
    await bind({ BindType: "policy", BindName: "ops" });
    const claims = { value: {}, list: {} };
    const stale = await accessObject().clusterLogin({ method: "ci", version: crypto.randomUUID(), claims });
    expect(stale).toMatchObject({ ok: false, reason: "denied" });
  });

  it("returns a token that expires", async () => {
    await putMethod({}, { MaxTokenTTL: "1m" });
    await bind({ BindType: "policy", BindName: "ops" });
    const { body } = await login(await issuer.sign(CLAIMS));
    expect((await get("/v1/nodes", { token: body.SecretID })).status).toBe(200);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
    expect((await get("/v1/nodes", { token: body.SecretID })).status).toBe(403);
  });
});
