import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from "jose";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Federation } from "../../src/contracts/federation.ts";
import { assertionFor } from "../../src/credentials/assertion.ts";
import type { IdentityIssuer } from "../../src/objects/identity-issuer.ts";
import { identityIssuer } from "../../src/rpc/stubs.ts";
import { itRows } from "../support/rows.ts";
import { holderOf, path } from "./access.ts";
import { get, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { deployWithMasterKey, dump, FIRST_KEY, key, spellings } from "./sealing-helpers.ts";

clock.moves = true;

/** The service as an issuer of identity tokens (docs/internals/wire/credentials.md). */

const ROOT = "/identity/oidc/plugins/.well-known";
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const anonymous = { token: null };
const mount: Federation = {
  namespace: "",
  namespaceId: "root",
  mountAccessor: "cloud-b_0123abcd",
  mountPath: "cloud-b/",
  audience: "api://AzureADTokenExchange",
  ttlSeconds: 3_600,
  origin: "https://x",
};

const issuer = () => env.IDENTITY_ISSUER.getByName("main") as DurableObjectStub<IdentityIssuer>;
const inIssuer = <T>(look: (object: IdentityIssuer, state: DurableObjectState) => T | Promise<T>) =>
  runInDurableObject(issuer(), look);
const keySet = async (): Promise<JSONWebKeySet> => (await get(`/v1${ROOT}/keys`, anonymous)).body;
const kids = async () => (await keySet()).keys.map(({ kid }) => kid);
const token = async (ask: Partial<Federation> = {}) => (await assertionFor(env, { ...mount, ...ask }, "azure")).sign();
const kidOf = (jwt: string) => decodeProtectedHeader(jwt).kid;
const verified = async (jwt: string, options = {}) =>
  (await jwtVerify(jwt, createLocalJWKSet(await keySet()), { currentDate: new Date(Date.now()), ...options })).payload;

/** Advances time and runs the issuer's alarm. */
async function pass(ms: number): Promise<void> {
  const now = Date.now() + ms;
  const real = performance.now();
  vi.spyOn(Date, "now").mockImplementation(() => now + performance.now() - real);
  await runDurableObjectAlarm(issuer());
}

afterEach(() => void vi.restoreAllMocks());

describe("the discovery document", () => {
  it("is public JSON, cacheable for an hour, and names the issuer of its URL", async () => {
    for (const prefix of ["/v1", ""]) {
      const found = await get(`${prefix}${ROOT}/openid-configuration`, anonymous);
      expect(found.status).toBe(200);
      expect(found.headers.get("content-type")).toBe("application/json");
      expect(found.headers.get("cache-control")).toBe("max-age=3600");
      expect(found.body).toEqual({
        issuer: "https://x/v1/identity/oidc/plugins",
        jwks_uri: "https://x/v1/identity/oidc/plugins/.well-known/keys",
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["RS256"],
      });
    }
  });

  it("belongs to its namespace, by path and by header", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/team/sys/namespaces/sub", {});
    const header = (namespace: string) => ({ token: null, headers: { "X-Vault-Namespace": namespace } });
    const named = async (at: string, options = header("")) =>
      (await get(`${at}${ROOT}/openid-configuration`, options)).body.issuer;
    expect(await named("/v1/team")).toBe("https://x/v1/team/identity/oidc/plugins");
    expect(await named("/team")).toBe("https://x/v1/team/identity/oidc/plugins");
    expect(await named("/v1", header("team"))).toBe("https://x/v1/team/identity/oidc/plugins");
    expect(await named("/v1/team/sub")).toBe("https://x/v1/team/sub/identity/oidc/plugins");
    expect(await named("/v1/sub", header("team/"))).toBe("https://x/v1/team/sub/identity/oidc/plugins");
    for (const at of ["/v1/team", "/v1/team/sub"]) {
      expect((await get(`${at}${ROOT}/keys`, anonymous)).body).toEqual(await keySet());
    }
  });

  it("returns 404 for unknown namespaces and for mounts of that path", async () => {
    await mountKv();
    await put(`/v1/kv/data${ROOT}/keys`, { data: { value: "mine" } });
    for (const document of ["openid-configuration", "keys"]) {
      expect((await get(`/v1/nobody${ROOT}/${document}`, anonymous)).status).toBe(403);
      const header = { token: null, headers: { "X-Orch-Namespace": "nobody" } };
      const missing = await get(`/v1${ROOT}/${document}`, header);
      expect([missing.status, missing.headers.get("cache-control")]).toEqual([404, "no-store"]);
      const bad = { token: null, headers: { "X-Orch-Namespace": "a b" } };
      expect((await get(`/v1${ROOT}/${document}`, bad)).status).toBe(400);
      expect((await get(`/v1/kv/data${ROOT}/${document}`, anonymous)).status).toBe(403);
    }
    expect((await get(`/v1/kv/data${ROOT}/keys`)).body.data.data).toEqual({ value: "mine" });
    expect((await get("/v1/identity/oidc/plugins/.well-known/other", anonymous)).status).toBe(403);
  });

  it("supports GET and HEAD with equal headers, with and without a token", async () => {
    for (const document of ["openid-configuration", "keys"]) {
      const head = await send("HEAD", `/v1${ROOT}/${document}`, undefined, anonymous);
      expect([head.status, head.text]).toEqual([200, ""]);
      expect(head.headers.get("cache-control")).toMatch(/^max-age=\d+$/);
      const posted = await send("POST", `/v1${ROOT}/${document}`, {}, anonymous);
      expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
      expect((await get(`/v1${ROOT}/${document}`, { token: "unknown" })).status).toBe(200);
    }
  });
});

describe("the keys", () => {
  it("are the public halves of current and next key, cacheable for less than a rotation", async () => {
    const found = await get(`/v1${ROOT}/keys`, anonymous);
    expect(found.status).toBe(200);
    expect(found.headers.get("content-type")).toBe("application/json");
    const publicKey = {
      use: "sig",
      kty: "RSA",
      kid: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
      alg: "RS256",
      n: expect.stringMatching(/^[\w-]{342}$/),
      e: "AQAB",
    };
    expect(found.body).toEqual({ keys: [publicKey, publicKey] });
    const ages = await Promise.all(Array.from({ length: 20 }, () => get(`/v1${ROOT}/keys`, anonymous)));
    const seconds = ages.map(({ headers }) => Number(/^max-age=(\d+)$/.exec(headers.get("cache-control") ?? "")?.[1]));
    for (const age of seconds) expect(age).toBeGreaterThan(0);
    for (const age of seconds) expect(age).toBeLessThan(86_400);
    expect(new Set(seconds).size).toBeGreaterThan(1);
  });

  it("are created once by concurrent first requests, and survive a restart", async () => {
    const [first, ...others] = await Promise.all([keySet(), keySet(), keySet(), token().then(keySet)]);
    for (const other of others) expect(other).toEqual(first);
    await abortAllDurableObjects();
    expect(await keySet()).toEqual(first);
  });

  it("are stored sealed, and their private halves are deleted after their last signature", async () => {
    await token();
    const old = (await kids())[0];
    expect((await put("/v1/identity/oidc/key/default/rotate", {})).status).toBe(204);
    await inIssuer((_object, state) => {
      const text = dump(state);
      // Version and algorithm at the start of every PKCS#8 RSA key, and markers of other encodings.
      const pkcs8 = Buffer.from("020100300d06092a864886f70d010101", "hex").toString("latin1");
      for (const spelling of [...spellings(pkcs8), pkcs8, "PRIVATE KEY", '"d"', '"p"'])
        expect(text).not.toContain(spelling);
      expect(
        state.storage.sql.exec("SELECT kid FROM signing_keys WHERE state = 'past' AND sealed IS NULL").toArray(),
      ).toEqual([{ kid: old }]);
    });
  });
});

describe("a token", () => {
  // Proves: A.config.identity_token_audience.claim
  it("verifies against the published keys, and names its mount", async () => {
    const { sign, ...names } = await assertionFor(env, mount, "azure");
    const jwt = await sign();
    expect(names).toEqual({
      issuer: "https://x/v1/identity/oidc/plugins",
      subject: "plugin-identity:root:secret:cloud-b_0123abcd",
      audience: mount.audience,
    });
    expect(decodeProtectedHeader(jwt)).toEqual({ alg: "RS256", typ: "JWT", kid: (await kids())[0] });
    const claims = await verified(jwt, names);
    expect(claims).toMatchObject({
      iss: names.issuer,
      sub: names.subject,
      aud: [names.audience],
      "vaultproject.io": { accessor: mount.mountAccessor, class: "secret", namespace_id: "root", path: "cloud-b/" },
    });
    expect([claims.nbf, Number(claims.exp) - Number(claims.iat)]).toEqual([claims.iat, 3_600]);
    await expect(verified(`${jwt.slice(0, -8)}AAAAAAAA`)).rejects.toThrow("signature verification failed");
  });

  it("names the same issuer as the discovery document, for every configuration", async () => {
    await put("/v1/sys/namespaces/team", {});
    const team = { ...mount, namespace: "team/", namespaceId: "a1B2c" };
    const same = async () => {
      const { iss = "" } = await verified(await token(team));
      const { pathname } = new URL(iss);
      const found = await get(`${pathname}/.well-known/openid-configuration`, anonymous);
      expect(found.body.issuer).toBe(iss);
      return iss;
    };
    expect(await same()).toBe("https://x/v1/team/identity/oidc/plugins");
    await put("/v1/identity/oidc/config", { issuer: "https://vault.example:8443/" });
    expect(await same()).toBe("https://vault.example:8443/v1/team/identity/oidc/plugins");
    await put("/v1/identity/oidc/config", { issuer: "" });
    expect(await same()).toBe("https://x/v1/team/identity/oidc/plugins");
    await inIssuer((object) => {
      const own = object as unknown as { env: Env };
      own.env = { ...own.env, PUBLIC_URL: "https://public.example/" } as Env;
    });
    expect(await same()).toBe("https://public.example/v1/team/identity/oidc/plugins");
    await put("/v1/identity/oidc/config", { issuer: "https://vault.example" });
    expect(await same()).toBe("https://vault.example/v1/team/identity/oidc/plugins");
  });

  it("has the subject of its mount and namespace", async () => {
    const { subject } = await assertionFor(env, { ...mount, namespace: "team/", namespaceId: "a1B2c" }, "azure");
    expect(subject).toBe("plugin-identity:a1B2c:secret:cloud-b_0123abcd");
  });
});

describe("rotation", () => {
  it("runs daily: the next key, published a day before, signs, and a new one is published", async () => {
    const [current, next] = await kids();
    expect(kidOf(await token())).toBe(current);
    await pass(DAY - 60_000);
    expect(kidOf(await token())).toBe(current);
    await pass(60_000);
    expect(kidOf(await token())).toBe(next);
    const [first, second, third, ...more] = await kids();
    expect([first, third, more]).toEqual([next, current, []]);
    await pass(DAY);
    expect(kidOf(await token())).toBe(second);
  });

  it("keeps the previous key published until its last token has expired", async () => {
    await token();
    await pass(DAY - 60_000);
    const last = await token({ ttlSeconds: 10 * 86_400 });
    const old = kidOf(last);
    await pass(60_000);
    expect(kidOf(await token())).not.toBe(old);
    await pass(DAY - 130_000);
    expect(await verified(last)).toMatchObject({ aud: [mount.audience] });
    await pass(140_000);
    expect(await kids()).not.toContain(old);
    await expect(verified(last)).rejects.toThrow("no applicable key");
  });

  it("runs once after a long pause, and then daily", async () => {
    const [, next] = await kids();
    await pass(10 * DAY);
    expect(kidOf(await token())).toBe(next);
    expect(await kids()).toHaveLength(3);
    await pass(DAY - 60_000);
    expect(kidOf(await token())).toBe(next);
  });

  it("can be requested, and unpublishes a compromised key at once", async () => {
    const [current, next] = await kids();
    const jwt = await token();
    const rotated = await put("/v1/identity/oidc/key/default/rotate", {});
    expect([rotated.status, rotated.text]).toEqual([204, ""]);
    expect((await kids())[0]).toBe(next);
    expect(await verified(jwt)).toMatchObject({ aud: [mount.audience] });
    expect((await put("/v1/identity/oidc/key/default/rotate", { verification_ttl: 0 })).status).toBe(204);
    const left = await kids();
    expect(left).toHaveLength(3);
    expect(left).not.toContain(next);
    expect(left).toContain(current);
    expect((await put("/v1/identity/oidc/key/default/rotate", { verification_ttl: "2d" })).status).toBe(204);
    await pass(DAY + HOUR);
    expect(await kids()).not.toContain(current);
    expect(await kids()).toContain(left[0]);
  });

  it("fails without loss under a wrong master key, and runs once the key is right", async () => {
    const [current, next] = await kids();
    try {
      await deployWithMasterKey(key("other"));
      await pass(DAY);
      expect(await kids()).toEqual([current, next]);
      expect((await put("/v1/identity/oidc/key/default/rotate", {})).status).toBe(503);
    } finally {
      await deployWithMasterKey(FIRST_KEY);
    }
    await pass(10_000);
    expect(kidOf(await token())).toBe(next);
    expect((await kids()).at(-1)).toBe(current);
  });

  it("of the master key includes the issuer, which then works without the old key", async () => {
    const jwt = await token();
    try {
      await deployWithMasterKey(`${key("second")},${FIRST_KEY}`);
      expect((await put("/v1/sys/rotate", "")).status).toBe(204);
      expect((await get("/v1/sys/key-status")).body.data).toMatchObject({ pending_rewraps: 0 });
      await deployWithMasterKey(key("second"));
      expect(kidOf(await token())).toBe(kidOf(jwt));
      expect(await verified(await token())).toMatchObject({ aud: [mount.audience] });
      await deployWithMasterKey(key("third"));
      await expect(token()).rejects.toThrow("which MASTER_KEY does not hold");
      // Published keys are readable without the master key.
      expect((await keySet()).keys).toHaveLength(2);
    } finally {
      await deployWithMasterKey(FIRST_KEY);
    }
  });
});

describe("the configuration of the issuer", () => {
  const config = "/v1/identity/oidc/config";

  it("is empty by default, and warns about the trust at providers when it is set", async () => {
    expect((await get(config)).body.data).toEqual({ issuer: "" });
    const set = await put(config, { issuer: "https://Vault.Example" });
    expect([set.status, set.body.data, set.body.warnings]).toEqual([200, null, [expect.stringContaining("federated")]]);
    expect((await get(config)).body.data).toEqual({ issuer: "https://vault.example" });
    expect((await put(config, {})).status).toBe(204);
    await abortAllDurableObjects();
    expect((await get(config)).body.data).toEqual({ issuer: "https://vault.example" });
  });

  itRows([
    "https://h/path",
    "http://vault.example",
    "ftp://h",
    "vault.example",
    "https://h?x=1",
    "https://u:p@h",
    7,
    ["https://h"],
  ])("returns 400 for %j", async (given) => {
    const refused = await put(config, { issuer: given });
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringMatching(/^issuer: must be /)]]);
    expect((await get(config)).body.data).toEqual({ issuer: "" });
  });

  it("and a rotation require the root namespace and the capability", async () => {
    await put("/v1/sys/namespaces/team", {});
    const rotate = "/v1/identity/oidc/key/default/rotate";
    for (const [method, at] of [
      ["GET", config],
      ["PUT", config],
      ["PUT", rotate],
    ] as const) {
      const inside = await send(method, at, method === "GET" ? undefined : {}, {
        headers: { "X-Orch-Namespace": "team" },
      });
      expect([inside.status, inside.body.errors]).toEqual([400, ["operation unavailable in namespaces"]]);
      expect((await send(method, at, undefined, anonymous)).status).toBe(403);
    }
    const update = { token: (await holderOf(path("identity/oidc/*", "read", "update"))).client_token };
    expect((await get(config, update)).status).toBe(200);
    expect((await put(config, { issuer: "https://h" }, update)).status).toBe(200);
    const refused = await put(rotate, {}, update);
    expect([refused.status, refused.body.errors]).toEqual([403, ["permission denied: needs sudo"]]);
    const sudo = { token: (await holderOf(path("identity/oidc/key/*", "update", "sudo"))).client_token };
    expect((await put(rotate, {}, sudo)).status).toBe(204);
  });

  itRows([-1, "x", 1.5, "11d"])("returns 400 for a verification_ttl of %j, and does not rotate", async (given) => {
    const before = await keySet();
    const refused = await put("/v1/identity/oidc/key/default/rotate", { verification_ttl: given });
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringMatching(/^verification_ttl: /)]]);
    expect(await keySet()).toEqual(before);
  });
});

it("does not store signed tokens", async () => {
  const jwt = await token();
  expect(await identityIssuer(env).configured()).toBe("");
  await inIssuer((_object, state) => expect(dump(state)).not.toContain(jwt.split(".")[2]));
});
