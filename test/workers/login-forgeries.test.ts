import {
  exportJWK,
  exportSPKI,
  type GenerateKeyPairResult,
  generateKeyPair,
  type JWTHeaderParameters,
  SignJWT,
} from "jose";
import { beforeEach, describe, expect, it } from "vitest";
import { get, put } from "./client.ts";
import { type Issuer, newIssuer } from "./issuers.ts";

const NOBODY = { token: null };
const MAIN = { sub: "repo:app", aud: "sallyport" };
const ROLE = { role_type: "jwt", user_claim: "sub", bound_audiences: "sallyport", token_policies: "reader" };
const base64 = (value: object | string): string =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const now = () => Math.floor(Date.now() / 1000);
const login = (jwt: string) => put("/v1/auth/jwt/login", { role: "ci", jwt }, NOBODY);
const refusal = async (jwt: string) => {
  const { status, body, text } = await login(jwt);
  return [status, body?.errors?.[0] ?? text];
};
const SIGNATURE = [400, "error validating token: failed to verify id token signature"];
const MALFORMED = [400, "error validating token: malformed token"];

let issuer: Issuer;

beforeEach(async () => {
  issuer = await newIssuer("forgeries");
  await put("/v1/sys/auth/jwt", { type: "jwt" });
  expect((await put("/v1/auth/jwt/config", { oidc_discovery_url: issuer.url })).status).toBe(204);
  expect((await put("/v1/auth/jwt/role/ci", ROLE)).status).toBe(204);
});

/** The attacker's keys by algorithm: to make an RSA key takes longer than the rest of a test. */
const pairs = new Map<string, GenerateKeyPairResult>();

/** A token of the attacker's own key, with a header of the attacker's choice. */
async function forged(header: (own: { jwk: object; pem: string }) => object, alg = "RS256"): Promise<string> {
  const pair = pairs.get(alg) ?? (await generateKeyPair(alg, { extractable: true }));
  pairs.set(alg, pair);
  const { publicKey, privateKey } = pair;
  const own = { jwk: await exportJWK(publicKey), pem: await exportSPKI(publicKey) };
  return new SignJWT({ ...MAIN, iss: issuer.url, iat: now(), exp: now() + 60 })
    .setProtectedHeader({ alg, ...header(own) } as JWTHeaderParameters)
    .sign(privateKey);
}

describe("a token that brings its own key", () => {
  it.each<[string, (own: { jwk: object; pem: string }) => object]>([
    ["embedded (jwk)", ({ jwk }) => ({ jwk, kid: "key-1" })],
    ["embedded (jwk), without a key id", ({ jwk }) => ({ jwk })],
    ["by an address (jku)", () => ({ jku: "https://attacker.example/keys", kid: "key-1" })],
    ["by an address of the issuer (jku)", () => ({ jku: `${issuer.url}/attacker`, kid: "key-9" })],
    ["as a certificate (x5c)", ({ pem }) => ({ x5c: [pem.replace(/-+[^-]+-+|\s/g, "")], kid: "key-1" })],
    ["by the address of a certificate (x5u)", () => ({ x5u: `${issuer.url}/attacker`, kid: "key-1" })],
  ])("%s is refused, and the address is not fetched", async (_how, header) => {
    await issuer.put("/attacker", { body: "{}" });
    expect(await refusal(await forged(header))).toEqual(SIGNATURE);
    expect((await issuer.requests("/attacker")).count).toBe(0);
  });

  it.each([
    ["a path", "../../keys"],
    ["a query", "' OR '1'='1"],
    ["an object's own property", "__proto__"],
    ["a long text", "k".repeat(4_000)],
  ])("with %s as its key id is refused", async (_what, kid) => {
    expect(await refusal(await forged(() => ({ kid })))).toEqual(SIGNATURE);
  });
});

describe("a token with a header that is not understood", () => {
  it.each([
    ["an unknown critical extension", { crit: ["exp"], exp: 1 }],
    ["an empty list of critical extensions", { crit: [] }],
    ["a payload that is not encoded (b64)", { crit: ["b64"], b64: false }],
  ])("has %s and is refused", async (_what, header) => {
    const [, payload, signature] = (await issuer.sign(MAIN)).split(".");
    const text = `${base64({ alg: "RS256", kid: "key-1", ...header })}.${payload}.${signature}`;
    expect((await login(text)).status).toBe(400);
  });

  it.each(["rs256", "RS256 ", "RS1", "HS512", "RSA-OAEP", "dir", "", 256, null, ["RS256"], { a: 1 }])(
    "names the algorithm %j and is refused",
    async (alg) => {
      const [, payload, signature] = (await issuer.sign(MAIN)).split(".");
      expect((await login(`${base64({ alg, kid: "key-1" })}.${payload}.${signature}`)).status).toBe(400);
    },
  );

  it.each([
    ["no header", ".{payload}.{signature}"],
    ["two parts", "{header}.{payload}"],
    ["four parts", "{header}.{payload}.{signature}.AAAA"],
    ["five parts, as an encrypted token", "{header}.AAAA.AAAA.{payload}.{signature}"],
    ["padding", "{header}.{payload}.{signature}=="],
    ["spaces inside", "{header}. {payload}.{signature}"],
    ["the JSON serialization", '{"protected":"{header}","payload":"{payload}","signature":"{signature}"}'],
  ])("has %s and is refused", async (_what, shape) => {
    const [header = "", payload = "", signature = ""] = (await issuer.sign(MAIN)).split(".");
    const text = shape.replace("{header}", header).replace("{payload}", payload).replace("{signature}", signature);
    expect((await refusal(text)).slice(0, 2)).toEqual(MALFORMED);
  });
});

describe("an ECDSA signature", () => {
  it.each(["ES256", "ES384"])(
    "of %s without a private key is refused: zero, the order, a DER sequence",
    async (alg) => {
      const curve = await newIssuer("curve", alg);
      expect((await put("/v1/auth/jwt/config", { oidc_discovery_url: curve.url })).status).toBe(204);
      const good = await curve.sign(MAIN);
      expect((await login(good)).status).toBe(200);
      const [header, payload, signature = ""] = good.split(".");
      const bytes = Buffer.from(signature, "base64url");
      const half = bytes.length / 2;
      const order = {
        ES256: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        ES384: "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
      }[alg] as string;
      const n = Buffer.from(order, "hex");
      const zero = Buffer.alloc(half);
      const s = bytes.subarray(half);
      const hostile = [
        Buffer.concat([zero, zero]),
        Buffer.concat([n, n]),
        Buffer.concat([bytes.subarray(0, half), zero]),
        Buffer.concat([zero, s]),
        Buffer.from("3006020100020100", "hex"),
        bytes.subarray(0, half),
        Buffer.concat([bytes, bytes]),
      ];
      for (const forgery of hostile) {
        expect(await refusal(`${header}.${payload}.${forgery.toString("base64url")}`), forgery.toString("hex")).toEqual(
          SIGNATURE,
        );
      }
    },
  );
});

describe("a claim of another type", () => {
  it.each<[string, object, string]>([
    ["sub as a list", { sub: ["repo:app"] }, 'claim "sub" could not be converted to string'],
    ["sub as an object", { sub: { toString: "repo:app" } }, 'claim "sub" could not be converted to string'],
    ["sub as a number", { sub: 7 }, 'claim "sub" could not be converted to string'],
    ["sub as true", { sub: true }, 'claim "sub" could not be converted to string'],
    ["no sub", { sub: undefined }, 'claim "sub" not found in token'],
    ["sub as null", { sub: null }, 'claim "sub" not found in token'],
    ["an empty sub", { sub: "" }, 'claim "sub" could not be converted to string'],
    ["aud as an object", { aud: { sallyport: true } }, "invalid audience"],
    ["aud as a list in a list", { aud: [["sallyport"]] }, "invalid audience"],
    ["aud as an empty list", { aud: [] }, "invalid audience"],
    ["aud as a number", { aud: 1 }, "invalid audience"],
    ["aud with another letter case", { aud: "Sallyport" }, "invalid audience"],
    ["iss as a list", { iss: ["x"] }, "invalid issuer"],
    ["exp as a list", { exp: [9_999_999_999] }, "must be numbers"],
    ["exp as an object", { exp: {} }, "must be numbers"],
    ["nbf as true", { nbf: true }, "must be numbers"],
  ])("%s is refused", async (_what, claims, message) => {
    // `sub` of any type passes the library only in a list of claims, as another issuer would write it.
    const [status, error] = await refusal(await issuer.sign({ ...MAIN, ...(claims as Record<string, never>) }));
    expect([status, String(error)]).toEqual([400, expect.stringContaining(message)]);
  });

  it("aud as a list matches by one of its texts, and only by a whole one", async () => {
    expect((await login(await issuer.sign({ ...MAIN, aud: ["other", "sallyport"] }))).status).toBe(200);
    expect((await login(await issuer.sign({ ...MAIN, aud: ["other", "sallyport.example", ""] }))).status).toBe(400);
  });

  it("does not satisfy bound claims or a bound subject", async () => {
    await put("/v1/auth/jwt/role/ci", { ...ROLE, bound_claims: { env: "prod", level: 1, ok: true } });
    const claims = { env: "prod", level: 1, ok: true };
    expect((await login(await issuer.sign({ ...MAIN, ...claims }))).status).toBe(200);
    expect((await login(await issuer.sign({ ...MAIN, ...claims, env: ["dev", "prod"] }))).status).toBe(200);
    for (const other of [
      { env: { prod: "prod" } },
      { env: [["prod"]] },
      { env: "Prod" },
      { env: "prod " },
      { env: ["pro", "d"] },
      { level: "1" },
      { level: true },
      { ok: "true" },
      { ok: 1 },
      { ok: [] },
      { env: null },
      { env: undefined },
    ]) {
      expect((await login(await issuer.sign({ ...MAIN, ...claims, ...other }))).status, JSON.stringify(other)).toBe(
        400,
      );
    }
    await put("/v1/auth/jwt/role/ci", { ...ROLE, bound_claims: {}, bound_subject: "repo:app" });
    const lists = { ...MAIN, sub: ["repo:app"] as unknown as string };
    expect((await login(await issuer.sign(lists))).status).toBe(400);
  });

  it("named like a property of every object is absent", async () => {
    const refused = { ...ROLE, bound_claims: JSON.parse('{"__proto__":"x","sub":"repo:app"}') };
    expect(await put("/v1/auth/jwt/role/ci", refused)).toMatchObject({
      status: 400,
      body: { errors: ['bound_claims: must have no key "__proto__"'] },
    });
    for (const name of ["__proto__", "constructor", "toString", "/__proto__/x", "/constructor/name", "/sub/length"]) {
      const pointer = name.startsWith("/");
      await put("/v1/auth/jwt/role/ci", { ...ROLE, user_claim: name, user_claim_json_pointer: pointer });
      expect(await refusal(await issuer.sign(MAIN)), name).toEqual([400, `claim "${name}" not found in token`]);
      await put("/v1/auth/jwt/role/ci", { ...ROLE, user_claim_json_pointer: false });
      if (name !== "__proto__") {
        await put("/v1/auth/jwt/role/ci", { ...ROLE, bound_claims: { [name]: "x" } });
        expect((await login(await issuer.sign(MAIN))).status, name).toBe(400);
      }
      await put("/v1/auth/jwt/role/ci", { ...ROLE, bound_claims: {}, groups_claim: name });
      expect((await login(await issuer.sign(MAIN))).status, name).toBe(400);
      await put("/v1/auth/jwt/role/ci", { ...ROLE, groups_claim: "" });
    }
  });

  it("given twice counts once: the one that the signature's issuer wrote last", async () => {
    const key = await issuer.privateKey();
    const payload = `{"sub":"repo:app","sub":"repo:other","aud":"sallyport","iss":"${issuer.url}","exp":${now() + 60}}`;
    const { CompactSign, importJWK } = await import("jose");
    const jwt = await new CompactSign(new TextEncoder().encode(payload))
      .setProtectedHeader({ alg: "RS256", kid: "key-1" })
      .sign(await importJWK(key, "RS256"));
    const { body } = await login(jwt);
    const { data } = (await get(`/v1/identity/entity/id/${body.auth.entity_id}`)).body;
    expect(data.aliases.map(({ name }: { name: string }) => name)).toEqual(["repo:other"]);
  });
});
