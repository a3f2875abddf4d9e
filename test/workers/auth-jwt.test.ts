import { exportSPKI, SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { path, policies } from "./access.ts";
import { del, get, list, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { type Issuer, newIssuer } from "./issuers.ts";

clock.moves = true;

const NOBODY = { token: null };
const MAIN = { sub: "repo:app", aud: "sallyport", ref: "refs/heads/main" };
const ROLE = { role_type: "jwt", user_claim: "sub", bound_audiences: "sallyport", token_policies: "reader" };
const login = (jwt: string, role: string | undefined = "ci", options: Parameters<typeof put>[2] = NOBODY) =>
  put("/v1/auth/jwt/login", { role, jwt }, options);
const configure = (body: object) => put("/v1/auth/jwt/config", body);
const refusal = async (jwt: string, role = "ci") => {
  const { status, body } = await login(jwt, role);
  return [status, body.errors?.[0]];
};
const base64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

let issuer: Issuer;

beforeEach(async () => {
  issuer = await newIssuer("jwt");
  expect((await put("/v1/sys/auth/jwt", { type: "jwt" })).status).toBe(204);
  expect((await configure({ oidc_discovery_url: issuer.url })).status).toBe(204);
  expect((await put("/v1/auth/jwt/role/ci", ROLE)).status).toBe(204);
});

afterEach(() => {
  vi.useRealTimers();
});

/** Sets the clock forward and stops it. */
const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });
const now = () => Math.floor(Date.now() / 1000);

describe("a login by a signed token", () => {
  it("returns a token with the role's policies, metadata and groups", async () => {
    const role = { ...ROLE, claim_mappings: { ref: "branch" }, groups_claim: "/org/teams", alias_metadata: "team=ops" };
    await put("/v1/auth/jwt/role/ci", role);
    const { status, body } = await login(await issuer.sign({ ...MAIN, org: { teams: ["ops", "dev"] } }), "CI");
    expect([status, body.errors]).toEqual([200, undefined]);
    expect(body.auth).toMatchObject({
      policies: ["default", "reader"],
      metadata: { role: "ci", branch: "refs/heads/main" },
      entity_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    const { data } = (await get("/v1/auth/token/lookup-self", { token: body.auth.client_token })).body;
    expect(data).toMatchObject({ display_name: "jwt-repo:app", path: "auth/jwt/login" });
    const { aliases } = (await get(`/v1/identity/entity/id/${body.auth.entity_id}`)).body.data;
    expect(aliases[0].custom_metadata).toEqual({ team: "ops" });
  });

  it("accepts the token as it is in a file, with a line feed at its end", async () => {
    expect((await login(`${await issuer.sign(MAIN)}\n`)).status).toBe(200);
    expect(await refusal((await issuer.sign(MAIN)).replace(".", ".\n"))).toEqual([
      400,
      expect.stringMatching(/malformed/),
    ]);
  });

  it("uses the configured role, and accepts the token of Cloudflare Access", async () => {
    await configure({ oidc_discovery_url: issuer.url, default_role: "ci" });
    const headers = { "Cf-Access-Jwt-Assertion": await issuer.sign(MAIN) };
    expect((await put("/v1/auth/jwt/login", {}, { ...NOBODY, headers })).status).toBe(200);
  });

  it.each<[string, object, object, RegExp | null]>([
    ["bound_claims", { bound_claims: { ref: "refs/heads/main" } }, {}, null],
    ["bound_claims, a list", { bound_claims: { ref: ["x", "refs/heads/main"] } }, {}, null],
    ["bound_claims, a number", { bound_claims: { n: 5 } }, { n: 5 }, null],
    [
      "bound_claims, another type",
      { bound_claims: { n: 5 } },
      { n: "5" },
      /^error validating claims: claim "n" does not/,
    ],
    ["bound_claims, a glob", { bound_claims: { ref: "refs/*" }, bound_claims_type: "glob" }, {}, null],
    ["bound_claims, no glob", { bound_claims: { ref: "refs/*" } }, {}, /does not match any associated/],
    ["bound_claims, missing", { bound_claims: { no: "x" } }, {}, /claim "no" is missing/],
    ["bound_claims, a prototype's name", { bound_claims: { constructor: "x" } }, {}, /"constructor" is missing/],
    ["bound_subject", { bound_subject: "other" }, {}, /invalid subject \(sub\) claim/],
    ["bound_audiences", { bound_audiences: "other" }, {}, /invalid audience \(aud\) claim/],
    ["no bound_audiences", { bound_audiences: "", bound_subject: MAIN.sub }, {}, /^audience claim found in JWT/],
    ["an audience list", {}, { aud: ["x", "sallyport"] }, null],
    ["user_claim", { user_claim: "no" }, {}, /claim "no" not found in token/],
    ["user_claim, a list", { user_claim: "l" }, { l: [] }, /could not be converted to string/],
    ["user_claim_json_pointer", { user_claim: "/a/b", user_claim_json_pointer: true }, { a: { b: "me" } }, null],
    ["groups_claim", { groups_claim: "g" }, {}, /"g" claim not found in token/],
    ["groups_claim, one text", { groups_claim: "g" }, { g: "ops" }, null],
    ["groups_claim, a number", { groups_claim: "g" }, { g: [1] }, /could not be parsed as string/],
  ])("checks %s", async (_name, role, claims, message) => {
    expect((await put("/v1/auth/jwt/role/ci", { ...ROLE, ...role })).status).toBe(204);
    const [status, error] = await refusal(await issuer.sign({ ...MAIN, ...claims }));
    expect([status, error]).toEqual(message === null ? [200, undefined] : [400, expect.stringMatching(message)]);
  });

  it.each([
    ["secureauth", "ops,dev", ["dev", "ops"]],
    ["ibmisam", "ops dev", ["dev", "ops"]],
    [null, "ops,dev", ["ops,dev"]],
  ])("reads the groups of the provider %s in %j", async (provider, given, names) => {
    const config = { oidc_discovery_url: issuer.url, ...(provider && { provider_config: { provider } }) };
    expect((await configure(config)).status).toBe(204);
    expect((await get("/v1/auth/jwt/config")).body.data.provider_config).toEqual(provider ? { provider } : {});
    await put("/v1/auth/jwt/role/ci", { ...ROLE, groups_claim: "groups" });
    const { accessor: mount_accessor } = (await get("/v1/sys/auth/jwt")).body.data;
    for (const name of ["ops", "dev", "ops,dev"]) {
      const group = { name, type: "external", policies: name.replace(",", "-") };
      const { id } = (await put("/v1/identity/group", group)).body.data;
      await put("/v1/identity/group-alias", { name, mount_accessor, canonical_id: id });
    }
    const { auth } = (await login(await issuer.sign({ ...MAIN, groups: given }))).body;
    expect(auth.identity_policies.sort()).toEqual(names.map((name) => name.replace(",", "-")));
  });

  it("changes the rights of the earlier tokens of its entity with its groups", async () => {
    await put("/v1/auth/jwt/role/ci", { ...ROLE, groups_claim: "groups" });
    const { accessor: mount_accessor } = (await get("/v1/sys/auth/jwt")).body.data;
    await policies({ ops: path("kv/data/*", "read") });
    const { id } = (await put("/v1/identity/group", { name: "ops", type: "external", policies: "ops" })).body.data;
    await put("/v1/identity/group-alias", { name: "ops", mount_accessor, canonical_id: id });
    await mountKv();
    await put("/v1/kv/data/app", { data: { v: 1 } });
    const logIn = async (groups: string[]) =>
      (await login(await issuer.sign({ ...MAIN, groups }))).body.auth.client_token as string;
    const earlier = await logIn([]);
    const read = async () => (await get("/v1/kv/data/app", { token: earlier })).status;
    expect(await read()).toBe(403);
    await logIn(["ops"]);
    expect(await read()).toBe(200);
    await logIn(["ops"]);
    expect(await read()).toBe(200);
    await logIn([]);
    expect(await read()).toBe(403);
  });

  it("applies the leeways of the role", async () => {
    const past = { exp: now() - 30, iat: now() - 100 };
    expect((await login(await issuer.sign({ ...MAIN, ...past }))).status).toBe(200);
    const unlimited = { exp: undefined as unknown as number, iat: now() - 100 };
    expect((await login(await issuer.sign({ ...MAIN, ...unlimited }))).status).toBe(200);
    await put("/v1/auth/jwt/role/ci", { ...ROLE, clock_skew_leeway: -1, expiration_leeway: 50, not_before_leeway: -1 });
    expect(await refusal(await issuer.sign({ ...MAIN, ...past }))).toEqual([400, expect.stringContaining("expired")]);
    expect(await refusal(await issuer.sign({ ...MAIN, ...unlimited }))).toEqual([
      400,
      expect.stringContaining("expired"),
    ]);
  });

  it("works from the role's bound networks only, without a request to the issuer from others", async () => {
    await put("/v1/auth/jwt/role/ci", { ...ROLE, token_bound_cidrs: "10.0.0.0/8" });
    const from = (address: string) => ({ ...NOBODY, headers: { "CF-Connecting-IP": address } });
    const jwt = await issuer.sign(MAIN);
    expect((await login(jwt, "ci", from("192.0.2.1"))).status).toBe(403);
    expect((await login(jwt, "ci", from("10.1.2.3"))).status).toBe(200);
  });

  it("is refused without a role, a token or a configuration", async () => {
    expect(await refusal(await issuer.sign(MAIN), "none")).toEqual([400, 'role "none" could not be found']);
    expect(await refusal("", "ci")).toEqual([400, "missing token"]);
    expect(await refusal("x", "")).toEqual([400, "missing role"]);
    await put("/v1/sys/auth/other", { type: "jwt" });
    const bare = await put("/v1/auth/other/login", { role: "ci", jwt: "x" }, NOBODY);
    expect([bare.status, bare.body.errors]).toEqual([400, ["could not load configuration"]]);
  });
});

describe("a hostile token", () => {
  it("is refused for algorithm confusion: HS256 with the public key as the secret", async () => {
    const pem = await exportSPKI(issuer.publicKey);
    const forged = await new SignJWT({ ...MAIN, iss: issuer.url })
      .setProtectedHeader({ alg: "HS256", kid: "key-1" })
      .setIssuedAt()
      .setExpirationTime("5m")
      .sign(new TextEncoder().encode(pem));
    const wanted = [400, "error validating token: token signed with unexpected algorithm"];
    expect(await refusal(forged)).toEqual(wanted);
    await configure({ jwt_validation_pubkeys: [pem], bound_issuer: issuer.url });
    expect(await refusal(forged)).toEqual(wanted);
    expect((await login(await issuer.sign(MAIN))).status).toBe(200);
  });

  it("is refused without a signature", async () => {
    const claims = base64({ ...MAIN, iss: issuer.url, exp: now() + 60 });
    for (const alg of ["none", "None", "NONE"]) {
      expect((await login(`${base64({ alg, typ: "JWT" })}.${claims}.`)).status).toBe(400);
      expect((await login(`${base64({ alg, typ: "JWT" })}.${claims}.AAAA`)).status).toBe(400);
    }
  });

  it("is refused when its algorithm is not a configured one", async () => {
    await configure({ oidc_discovery_url: issuer.url, jwt_supported_algs: ["ES256"] });
    expect(await refusal(await issuer.sign(MAIN))).toEqual([400, expect.stringContaining("unexpected algorithm")]);
  });

  it("is refused from a foreign issuer, by its claim and by its key", async () => {
    const other = await newIssuer("foreign");
    expect(await refusal(await issuer.sign({ ...MAIN, iss: other.url }))).toEqual([
      400,
      "error validating token: invalid issuer (iss) claim",
    ]);
    expect(await refusal(await other.sign({ ...MAIN, iss: issuer.url }))).toEqual([
      400,
      "error validating token: failed to verify id token signature",
    ]);
  });

  itRows<[string, () => object, RegExp]>([
    ["expired", () => ({ exp: now() - 3600, iat: now() - 7200 }), /token is expired/],
    ["not yet valid", () => ({ nbf: now() + 3600 }), /token not yet valid/],
    ["issued in the future", () => ({ nbf: now() - 5, iat: now() + 3600, exp: now() + 7200 }), /issued in the future/],
    ["without times", () => ({ iat: undefined, exp: undefined }), /no issued at/],
    ["with a text as time", () => ({ exp: "9999999999" }), /must be numbers/],
  ])("is refused when it is %s", async (_name, claims, message) => {
    expect(await refusal(await issuer.sign({ ...MAIN, ...claims() }))).toEqual([400, expect.stringMatching(message)]);
  });

  it("with changed claims is refused", async () => {
    const [header, , signature] = (await issuer.sign(MAIN)).split(".");
    const changed = base64({ ...MAIN, sub: "root", iss: issuer.url, exp: now() + 60 });
    expect((await login(`${header}.${changed}.${signature}`)).status).toBe(400);
  });

  it("with an unknown key id causes one request to the issuer in ten seconds", async () => {
    expect((await login(await issuer.sign(MAIN))).status).toBe(200);
    const { count } = await issuer.requests("/keys");
    later(11);
    for (let i = 0; i < 20; i += 1) expect((await login(await issuer.sign(MAIN, `flood-${i}`))).status).toBe(400);
    expect((await issuer.requests("/keys")).count).toBe(count + 1);
  });
});

describe("the issuer's keys", () => {
  it("are fetched again for a new key id", async () => {
    expect((await login(await issuer.sign(MAIN))).status).toBe(200);
    await issuer.rotate("key-2");
    later(11);
    expect((await login(await issuer.sign(MAIN))).status).toBe(200);
  });

  it("are not used when they are older than ten minutes and cannot be fetched", async () => {
    await issuer.put("/.well-known/openid-configuration", { status: 503, body: "{}" });
    expect((await login(await issuer.sign(MAIN))).status).toBe(200);
    later(601);
    expect((await login(await issuer.sign(MAIN))).status).toBe(400);
  });

  it("may be in any of several sets, while others cannot be fetched", async () => {
    const other = await newIssuer("other");
    const pairs = [{ jwks_url: `${other.url}/keys` }, { jwks_url: `${issuer.url}/keys`, jwks_ca_pem: "" }];
    expect((await configure({ jwks_pairs: JSON.stringify(pairs) })).status).toBe(204);
    expect((await get("/v1/auth/jwt/config")).body.data.jwks_pairs).toStrictEqual(pairs);
    expect((await login(await issuer.sign(MAIN))).status).toBe(200);
    expect((await login(await other.sign(MAIN))).status).toBe(200);
    expect(await refusal(await (await newIssuer("third")).sign(MAIN))).toEqual([
      400,
      "error validating token: failed to verify id token signature",
    ]);
    await other.put("/keys", { status: 503, body: "{}" });
    later(601);
    expect((await login(await issuer.sign(MAIN))).status).toBe(200);
    expect((await login(await other.sign(MAIN))).status).toBe(400);
  });

  it("may be of any supported kind", async () => {
    for (const algorithm of ["ES256", "ES384", "PS256", "EdDSA"]) {
      const other = await newIssuer("kinds", algorithm);
      expect((await configure({ jwks_url: `${other.url}/keys`, bound_issuer: other.url })).status).toBe(204);
      expect([algorithm, (await login(await other.sign(MAIN))).status]).toEqual([algorithm, 200]);
    }
  });
});

describe("the configuration", () => {
  it("is stored and returned, and fields without an effect are refused", async () => {
    const config = { bound_issuer: "i", jwt_supported_algs: ["RS256"], default_role: "ci", namespace_in_state: false };
    const unused = { oidc_discovery_ca_pem: "", jwks_ca_pem: "" };
    await configure({ oidc_discovery_url: issuer.url, ...config, ...unused });
    expect((await get("/v1/auth/jwt/config")).body.data).toEqual({
      oidc_discovery_url: issuer.url,
      jwks_url: "",
      jwt_validation_pubkeys: [],
      jwks_pairs: [],
      oidc_client_id: "",
      oidc_response_mode: "",
      oidc_response_types: [],
      provider_config: {},
      ...config,
    });
    for (const name of Object.keys(unused)) {
      const { status, text } = await configure({ oidc_discovery_url: issuer.url, [name]: "x" });
      expect([status, text]).toEqual([400, expect.stringContaining(name)]);
    }
  });

  itRows<[string, () => object | Promise<object>, RegExp]>([
    ["no source of keys", () => ({}), /exactly one of/],
    ["two sources", () => ({ jwks_url: `${issuer.url}/keys`, oidc_discovery_url: issuer.url }), /exactly one of/],
    ["a symmetric algorithm", () => ({ jwks_url: "https://x", jwt_supported_algs: "HS256" }), /jwt_supported_algs/],
    ["the algorithm none", () => ({ jwks_url: "https://x", jwt_supported_algs: "none" }), /jwt_supported_algs/],
    ["no key", () => ({ jwt_validation_pubkeys: "x" }), /error parsing public key/],
    [
      "two keys in one text",
      async () => ({ jwt_validation_pubkeys: [(await exportSPKI(issuer.publicKey)).repeat(2)] }),
      /holds 2 keys or certificates; give each as an item of the list/,
    ],
    [
      "an absent set among several",
      () => ({ jwks_pairs: [{ jwks_url: `${issuer.url}/keys` }, { jwks_url: `${issuer.url}/no` }] }),
      /jwks_pairs: error checking jwks URL/,
    ],
    [
      "sets beside another source",
      () => ({ jwks_pairs: [{ jwks_url: "https://x" }], jwks_url: "https://x" }),
      /exactly/,
    ],
    [
      "a certificate authority of a set",
      () => ({ jwks_pairs: [{ jwks_url: "https://x", jwks_ca_pem: "x" }] }),
      /private authorities/,
    ],
    ["a set at a private address", () => ({ jwks_pairs: [{ jwks_url: "https://10.0.0.1/" }] }), /private address/],
    ["a set without an address", () => ({ jwks_pairs: [{}] }), /jwks_pairs/],
    ["sets as another text", () => ({ jwks_pairs: "x" }), /jwks_pairs/],
    ["Microsoft Graph", () => ({ jwks_url: "https://x", provider_config: { provider: "azure" } }), /Microsoft Graph/],
    ["the Admin SDK", () => ({ jwks_url: "https://x", provider_config: { provider: "gsuite" } }), /Admin SDK/],
    ["another provider", () => ({ jwks_url: "https://x", provider_config: { provider: "toString" } }), /not found/],
    ["no provider", () => ({ jwks_url: "https://x", provider_config: { a: "b" } }), /'provider' field not found/],
    [
      "a setting that its provider lacks",
      () => ({ jwks_url: "https://x", provider_config: { provider: "ibmisam", fetch_groups: true } }),
      /fetch_groups: this provider has no such setting/,
    ],
    ["plain http", () => ({ oidc_discovery_url: "http://issuer.example" }), /must begin with https/],
    ["a private address", () => ({ jwks_url: "https://10.0.0.1/keys" }), /private address/],
    ["a metadata service", () => ({ jwks_url: "https://169.254.169.254/" }), /private address/],
    ["the same in other spellings", () => ({ jwks_url: "https://0xa9.0xfe.43518/" }), /private address/],
    ["the same, mapped into IPv6", () => ({ jwks_url: "https://[::ffff:169.254.169.254]/" }), /private address/],
    ["the same, behind NAT64", () => ({ jwks_url: "https://[64:ff9b::169.254.169.254]/" }), /private address/],
    ["the same, by 6to4", () => ({ jwks_url: "https://[2002:a9fe:a9fe::1]/" }), /private address/],
    ["a reserved address", () => ({ jwks_url: "https://240.0.0.1/" }), /private address/],
    ["credentials in the URL", () => ({ jwks_url: "https://a:b@issuer.example" }), /without credentials/],
    [
      "an issuer that is absent",
      () => ({ oidc_discovery_url: `${issuer.url}/no` }),
      /error checking oidc discovery URL/,
    ],
    [
      "an issuer with another name",
      async () => {
        await issuer.put("/a/.well-known/openid-configuration", { body: '{"issuer":"x","jwks_uri":"https://x"}' });
        return { oidc_discovery_url: `${issuer.url}/a` };
      },
      /names another issuer/,
    ],
    [
      "a redirect",
      async () => {
        await issuer.put("/r", { status: 302, headers: { location: `${issuer.url}/keys` }, body: "" });
        return { jwks_url: `${issuer.url}/r` };
      },
      /redirect/,
    ],
    [
      "a large answer",
      async () => {
        await issuer.put("/l", { body: JSON.stringify({ keys: [], x: "x".repeat(300_000) }) });
        return { jwks_url: `${issuer.url}/l` };
      },
      /too large/,
    ],
  ])("refuses %s, and keeps the previous configuration", async (_name, body, message) => {
    const { status, body: answer } = await configure(await body());
    expect([status, answer.errors[0]]).toEqual([400, expect.stringMatching(message)]);
    expect((await get("/v1/auth/jwt/config")).body.data.oidc_discovery_url).toBe(issuer.url);
  });
});

describe("a role", () => {
  it("stores every field, and keeps those that an update does not name", async () => {
    const fields = {
      role_type: "jwt",
      bound_audiences: ["a"],
      bound_subject: "s",
      bound_claims: { x: ["y"] },
      bound_claims_type: "glob",
      user_claim: "/u",
      user_claim_json_pointer: true,
      claim_mappings: { a: "b" },
      groups_claim: "g",
      expiration_leeway: 1,
      not_before_leeway: 2,
      clock_skew_leeway: -1,
      max_age: 60,
      callback_mode: "client",
      verbose_oidc_logging: true,
      allowed_redirect_uris: ["https://x/cb"],
      oidc_scopes: ["email"],
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
    expect((await put("/v1/auth/jwt/role/All", fields)).status).toBe(204);
    expect((await get("/v1/auth/jwt/role/all")).body.data).toEqual(fields);
    const older = { ttl: 61, max_ttl: 121, period: 31, policies: "b", bound_cidrs: "10.0.0.1", num_uses: 4 };
    await put("/v1/auth/jwt/role/all", { role_type: "jwt", ...older });
    expect((await get("/v1/auth/jwt/role/all")).body.data).toEqual({
      ...fields,
      token_ttl: 61,
      token_max_ttl: 121,
      token_period: 31,
      token_policies: ["b"],
      token_bound_cidrs: ["10.0.0.1"],
      token_num_uses: 4,
      ...older,
      policies: ["b"],
      bound_cidrs: ["10.0.0.1"],
    });
    expect((await list("/v1/auth/jwt/role")).body.data.keys).toEqual(["all", "ci"]);
    expect((await del("/v1/auth/jwt/role/all")).status).toBe(204);
    expect((await get("/v1/auth/jwt/role/all")).status).toBe(404);
  });

  itRows<[object, RegExp]>([
    [{ user_claim: "sub", bound_subject: "s" }, /allowed_redirect_uris/],
    [{ role_type: "saml", user_claim: "sub", bound_subject: "s" }, /role_type/],
    [{ role_type: "jwt", bound_subject: "s" }, /a user claim must be defined/],
    [{ role_type: "jwt", user_claim: "sub" }, /at least one bound constraint/],
    [{ ...ROLE, claim_mappings: { a: "role" } }, /reserved/],
    [{ ...ROLE, claim_mappings: { a: "b", c: "b" } }, /multiple keys/],
    [{ ...ROLE, bound_claims_type: "glob", bound_claims: { a: 1 } }, /claim is not a string/],
    [{ ...ROLE, token_policies: "root" }, /root/],
    [{ ...ROLE, callback_mode: "device" }, /callback_mode: must be "client"/],
    [{ ...ROLE, callback_mode: "direct" }, /callback_mode: must be "client"/],
  ])("is refused with %j and not stored", async (body, message) => {
    const refused = await put("/v1/auth/jwt/role/new", body);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringMatching(message)]);
    expect((await list("/v1/auth/jwt/role")).body.data.keys).toEqual(["ci"]);
  });
});
