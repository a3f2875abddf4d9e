import { compactVerify, decodeProtectedHeader, errors, importSPKI, importX509, type JWTVerifyGetKey } from "jose";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { type KeySource, keysOf } from "./key-sources.ts";

/** Signature algorithms with a public key. A symmetric algorithm would accept the public key as its secret. */
export const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "ES256",
  "ES384",
  "ES512",
  "PS256",
  "PS384",
  "PS512",
  "EdDSA",
] as const;

export type Claims = Readonly<Record<string, unknown>>;

/** Where keys come from: PEM texts, or sources that are fetched. */
export type Keys = readonly string[] | KeySource | readonly KeySource[];

/** Requirements of a token. Leeways are seconds: 0 = upstream's default, negative = none. */
export interface Expected {
  /** Empty: the issuer of the discovery document; any when the keys have none. */
  readonly issuer: string;
  /** Empty: any. */
  readonly subject: string;
  /** Any match suffices; empty: any. */
  readonly audiences: readonly string[];
  /** Empty: all of `ALGORITHMS`. */
  readonly algorithms: readonly string[];
  readonly expirationLeeway: number;
  readonly notBeforeLeeway: number;
  readonly clockSkewLeeway: number;
}

/** The shape of a compact signature (RFC 7515, 7.1). */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * The claims of a token whose signature, issuer, subject, audience and times hold. Refusals state the rule, never a
 * claim's value.
 */
export async function verifyToken(given: string, keys: Keys, expected: Expected): Promise<Result<Claims>> {
  // Clients send a file as it is, with the line feed at its end.
  const token = given.trim();
  const algorithm = algorithmOf(token);
  const allowed = expected.algorithms.length > 0 ? expected.algorithms : ALGORITHMS;
  if (algorithm === null) return refuse("invalid", "malformed token");
  if (!allowed.includes(algorithm)) return refuse("invalid", "token signed with unexpected algorithm");
  const signed = await (isPems(keys)
    ? byPem(token, keys, algorithm)
    : bySources(token, "url" in keys ? [keys] : keys, algorithm));
  if (!signed.ok) return signed;
  const { claims, issuer } = signed.value;
  const problem = bindingProblem(claims, expected, expected.issuer || issuer) ?? timeProblem(claims, expected);
  return problem === null ? ok(claims) : refuse("invalid", problem);
}

const isPems = (keys: Keys): keys is readonly string[] =>
  !("url" in keys) && keys.every((key) => typeof key === "string");

/**
 * Why a text is no PEM public key or certificate of a supported kind, as the end of a message; null when it is one.
 */
export async function publicKeyProblem(pem: string): Promise<string | null> {
  const blocks = pem.match(/-----BEGIN /g)?.length ?? 0;
  if (blocks > 1) return `: one text holds ${blocks} keys or certificates; give each as an item of the list`;
  for (const algorithm of ["RS256", "ES256", "ES384", "ES512", "EdDSA"]) {
    if ((await imported(pem, algorithm)) !== null) return null;
  }
  return "";
}

interface Signed {
  readonly claims: Claims;
  readonly issuer: string | null;
}

function algorithmOf(token: string): string | null {
  if (!COMPACT.test(token)) return null;
  try {
    const { alg, crit } = decodeProtectedHeader(token);
    return typeof alg === "string" && crit === undefined ? alg : null;
  } catch {
    return null;
  }
}

/** By the first source that has the key. An answer of one source never stands for another one. */
async function bySources(token: string, sources: readonly KeySource[], algorithm: string): Promise<Result<Signed>> {
  let refused: Result<Signed> = refuse("invalid", "failed to verify id token signature");
  for (const source of sources) {
    const signed = await bySource(token, source, algorithm);
    if (signed.ok) return signed;
    refused = signed;
  }
  return refused;
}

async function bySource(token: string, source: KeySource, algorithm: string): Promise<Result<Signed>> {
  for (const renewed of [false, true]) {
    const keys = await keysOf(source, renewed);
    if (!keys.ok) return keys;
    const payload = await bySet(token, keys.value.keyOf, algorithm);
    if (payload !== null && payload !== "no-key") return claimsOf(payload, keys.value.issuer);
    // Only an unknown key id is a reason to look for new keys.
    if (payload === null) break;
  }
  return refuse("invalid", "failed to verify id token signature");
}

/** The payload of a token, null for a wrong signature, `no-key` when the set lacks its key. */
async function bySet(token: string, keyOf: JWTVerifyGetKey, algorithm: string): Promise<Uint8Array | "no-key" | null> {
  try {
    return (await compactVerify(token, keyOf, { algorithms: [algorithm] })).payload;
  } catch (failure) {
    if (failure instanceof errors.JWKSNoMatchingKey) return "no-key";
    if (!(failure instanceof errors.JWKSMultipleMatchingKeys)) return null;
    for await (const key of failure) {
      const payload = await byKey(token, key, algorithm);
      if (payload !== null) return payload;
    }
    return null;
  }
}

async function byPem(token: string, pems: readonly string[], algorithm: string): Promise<Result<Signed>> {
  for (const pem of pems) {
    const key = await imported(pem, algorithm);
    const payload = key === null ? null : await byKey(token, key, algorithm);
    if (payload !== null) return claimsOf(payload, null);
  }
  return refuse("invalid", "no known key successfully validated the token signature");
}

async function byKey(token: string, key: CryptoKey, algorithm: string): Promise<Uint8Array | null> {
  try {
    return (await compactVerify(token, key, { algorithms: [algorithm] })).payload;
  } catch {
    return null;
  }
}

/** The key in a PEM text for one algorithm; null when the key is of another kind. */
async function imported(pem: string, algorithm: string): Promise<CryptoKey | null> {
  const text = pem.trim();
  try {
    return await (text.startsWith("-----BEGIN CERTIFICATE") ? importX509 : importSPKI)(text, algorithm);
  } catch {
    return null;
  }
}

function claimsOf(payload: Uint8Array, issuer: string | null): Result<Signed> {
  try {
    const claims: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(payload));
    if (isPlainObject(claims)) return ok({ claims, issuer });
  } catch {
    // Answered below.
  }
  return refuse("invalid", "malformed token claims");
}

/** The values of `aud`, which is a text or a list of texts (RFC 7519, 4.1.3). */
export function audiencesOf({ aud }: Claims): readonly string[] {
  return (Array.isArray(aud) ? aud : [aud]).filter((value) => typeof value === "string");
}

/** Why issuer, subject or audience do not match; null when they do. */
function bindingProblem(claims: Claims, { subject, audiences }: Expected, issuer: string | null): string | null {
  if (issuer !== null && issuer !== "" && claims["iss"] !== issuer) return "invalid issuer (iss) claim";
  if (subject !== "" && claims["sub"] !== subject) return "invalid subject (sub) claim";
  const matches = audiences.length === 0 || audiencesOf(claims).some((value) => audiences.includes(value));
  return matches ? null : "invalid audience (aud) claim: audience claim does not match any expected audience";
}

const leewayOf = (given: number, usual: number): number => (given < 0 ? 0 : given || usual);

/**
 * Why a token is not valid now; null when it is. A missing `exp` or `nbf` follows from the other times, with a leeway
 * (https://developer.hashicorp.com/vault/api-docs/auth/jwt#expiration_leeway).
 */
function timeProblem(claims: Claims, expected: Expected): string | null {
  const times = ["iat", "nbf", "exp"].map((name) => claims[name] ?? null);
  if (!times.every((time) => time === null || (typeof time === "number" && Number.isFinite(time)))) {
    return "malformed token claims: iat, nbf and exp must be numbers";
  }
  const [issued, from, until] = times as (number | null)[];
  if (issued == null && from == null && until == null) {
    return "no issued at (iat), not before (nbf), or expiration time (exp) claims in token";
  }
  const start = Math.max(issued ?? 0, from ?? 0);
  const expires = until ?? start + leewayOf(expected.expirationLeeway, 150);
  const begins = from ?? issued ?? expires - leewayOf(expected.notBeforeLeeway, 150);
  const skew = leewayOf(expected.clockSkewLeeway, 60);
  const now = Date.now() / 1000;
  if (now + skew < begins) return "invalid not before (nbf) claim: token not yet valid";
  if (now - skew > expires) return "invalid expiration time (exp) claim: token is expired";
  if (issued != null && now + skew < issued) return "invalid issued at (iat) claim: token issued in the future";
  return null;
}
