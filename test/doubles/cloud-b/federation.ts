import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, errors, type JSONWebKeySet, jwtVerify } from "jose";
import { LoginError } from "./login.ts";

/** Whose assertions an application accepts instead of a secret; compared exactly. */
export interface FederatedCredential {
  issuer: string;
  subject: string;
  audience: string;
}

interface Documents {
  configuration: unknown;
  keys: unknown;
}

/** The longest lifetime that an assertion may have, in seconds. */
const maxLifetime = 24 * 3600;

/** The issuers of assertions, which are asked for their keys over HTTP unless they were published here. */
export class Issuers {
  readonly #published = new Map<string, Documents>();

  publish(issuer: string, documents: Documents): void {
    this.#published.set(issuer, documents);
  }

  /** Throws `LoginError` unless the issuer's discovery document is its own and leads to keys. */
  async keys(issuer: string): Promise<JSONWebKeySet> {
    const published = this.#published.get(issuer);
    const configuration = published?.configuration ?? (await fetchJson(`${issuer}/.well-known/openid-configuration`));
    const { issuer: named, jwks_uri: keysUri } = configuration as { issuer?: unknown; jwks_uri?: unknown };
    if (named !== issuer || typeof keysUri !== "string") {
      throw unreachable(`The discovery document of '${issuer}' names the issuer '${named}' and the keys '${keysUri}'.`);
    }
    const keys = (published?.keys ?? (await fetchJson(keysUri))) as JSONWebKeySet;
    if (!Array.isArray(keys.keys)) throw unreachable(`There are no keys at '${keysUri}'.`);
    return keys;
  }
}

/** Throws `LoginError` unless the assertion is one of a registered issuer, about a registered subject, and valid now. */
export async function checkAssertion(
  assertion: string,
  { credentials, issuers, now }: { credentials: FederatedCredential[]; issuers: Issuers; now: number },
): Promise<void> {
  const { iss = "", sub = "", aud = "", exp = 0, nbf, alg } = read(assertion);
  const audience = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud;
  const sameIssuer = credentials.filter(({ issuer }) => issuer === iss);
  if (sameIssuer.length === 0) throw noMatch(700211, `issuer '${iss}'`);
  const sameSubject = sameIssuer.filter(({ subject }) => subject === sub);
  if (sameSubject.length === 0) throw noMatch(700213, `subject '${sub}'`);
  if (!sameSubject.some((credential) => credential.audience === audience)) throw noMatch(700212, `audience '${aud}'`);
  if (alg !== "RS256") throw refused(5002738, `Invalid JWT token. '${alg}' is not a supported signature algorithm.`);
  const seconds = now / 1000;
  if (exp <= seconds || (nbf ?? 0) > seconds || exp - seconds > maxLifetime) {
    throw refused(700024, "Client assertion is not within its valid time range.");
  }
  const keys = await issuers.keys(iss);
  try {
    await jwtVerify(assertion, createLocalJWKSet(keys), { algorithms: ["RS256"], currentDate: new Date(now) });
  } catch (problem) {
    if (!(problem instanceof errors.JOSEError)) throw problem;
    throw refused(700027, `Client assertion failed signature validation: ${problem.code}.`);
  }
}

function read(assertion: string) {
  try {
    return { ...decodeJwt(assertion), alg: decodeProtectedHeader(assertion).alg };
  } catch {
    throw new LoginError("invalid_request", 50027, "JWT token is invalid or malformed.");
  }
}

async function fetchJson(url: string): Promise<unknown> {
  if (!/^https:|^http:\/\/(127\.0\.0\.1|localhost)[:/]/.test(url))
    throw unreachable(`'${url}' is not an https address.`);
  try {
    const response = await fetch(url, { redirect: "error", signal: AbortSignal.timeout(5000) });
    return response.ok ? await response.json() : {};
  } catch {
    throw unreachable(`'${url}' cannot be fetched.`);
  }
}

const refused = (number: number, message: string) => new LoginError("invalid_client", number, message, 401);
const unreachable = (message: string) => new LoginError("invalid_request", 50166, message);
const noMatch = (number: number, what: string) =>
  refused(
    number,
    `No matching federated identity record found for presented assertion ${what}. Check your federated identity credential Subject, Audience and Issuer against the presented assertion.`,
  );
