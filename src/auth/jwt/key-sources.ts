import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import * as z from "zod";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { callTenantUrl } from "../../providers/outbound-url.ts";

/*
 * Public keys of token issuers, cached per isolate. A source is fetched at most once per `RETRY_MS`, however many
 * unknown key ids callers present; keys older than `KEEP_MS` are not used. Callers that have no keys wait for a running
 * fetch.
 */

/** Where public keys are fetched: an issuer with a discovery document, or a key set. */
export interface KeySource {
  readonly kind: "discovery" | "jwks";
  readonly url: string;
}

/** Keys of a source, and what its discovery document states. */
interface SourceKeys {
  readonly issuer: string | null;
  readonly endpoints: Endpoints | null;
  readonly keyOf: JWTVerifyGetKey;
}

/** Where people log in; an empty text = the issuer has no such endpoint. */
export interface Endpoints {
  readonly authorization: string;
  readonly token: string;
  readonly userinfo: string;
  /** The client's secret is sent in the body, because the token endpoint does not accept it in a header. */
  readonly secretInBody: boolean;
}

interface Cached {
  keys: SourceKeys | null;
  fetchedAt: number;
  attemptedAt: number;
  /** The time by which a running fetch has ended, ms since 1970; 0 = none runs. */
  runsUntil: number;
}

const KEEP_MS = 10 * 60_000;
const RETRY_MS = 10_000;
const DEADLINE_MS = 10_000;
/** Time of two requests: the discovery document and the keys. */
const FETCH_MS = 2 * DEADLINE_MS;
const POLL_MS = 20;
const MAX_CHARACTERS = 256 * 1024;
const MAX_SOURCES = 256;

const Discovery = z.object({
  issuer: z.string(),
  jwks_uri: z.string(),
  authorization_endpoint: z.string().default(""),
  token_endpoint: z.string().default(""),
  userinfo_endpoint: z.string().default(""),
  token_endpoint_auth_methods_supported: z.array(z.string()).default(["client_secret_basic"]),
});
const KeySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).max(256) });

const cache = new Map<string, Cached>();

/**
 * Fetches a JSON document of an issuer. Redirects, private addresses and bodies above 256 KiB are refused.
 * @param init for requests other than a plain GET
 */
export async function fetchJson(url: string, init: RequestInit = {}): Promise<Result<unknown>> {
  const call = await callTenantUrl(url, init, { deadlineMs: DEADLINE_MS });
  if (!call.ok) return refuse("invalid", call.outcome.message);
  if (!call.response.ok) return refuse("invalid", `the issuer answered with status ${call.response.status}`);
  if (call.text.length > MAX_CHARACTERS) return refuse("invalid", "the issuer's answer is too large");
  try {
    return ok(JSON.parse(call.text));
  } catch {
    return refuse("invalid", "the issuer's answer is not JSON");
  }
}

/** The keys of a source as they are now. Does not use the cache, but fills it. */
export async function fetchKeys(source: KeySource): Promise<Result<SourceKeys>> {
  const entry = entryOf(source);
  entry.attemptedAt = Date.now();
  entry.runsUntil = entry.attemptedAt + FETCH_MS;
  try {
    const keys = await (source.kind === "jwks" ? fromKeySet(source.url) : fromDiscovery(source.url));
    if (keys.ok) {
      entry.keys = keys.value;
      entry.fetchedAt = Date.now();
    }
    return keys;
  } finally {
    // The next attempt is bounded from the end of this one, or all that waited for it would ask a silent issuer again.
    entry.attemptedAt = Date.now();
    entry.runsUntil = 0;
  }
}

/**
 * Resolves when no fetch runs. Polls, because a request of the runtime must not await the promise of another one
 * (https://developers.cloudflare.com/workers/observability/errors/#cannot-perform-io-on-behalf-of-a-different-request).
 */
async function settled(entry: Cached): Promise<void> {
  while (entry.runsUntil > Date.now()) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

/**
 * The keys of a source, from the cache unless they are too old.
 * @param renewed fetch again, because the cached keys lack the wanted one; ignored within 10 s of the last attempt
 */
export async function keysOf(source: KeySource, renewed = false): Promise<Result<SourceKeys>> {
  const entry = entryOf(source);
  const isUsable = () => entry.keys !== null && Date.now() - entry.fetchedAt < KEEP_MS;
  if (!isUsable()) await settled(entry);
  const { keys, fetchedAt, attemptedAt } = entry;
  const now = Date.now();
  const isFresh = keys !== null && isUsable();
  if (isFresh && (!renewed || now - attemptedAt < RETRY_MS)) return ok(keys);
  // After a failure, callers are refused without another request.
  if (!isFresh && attemptedAt > fetchedAt && now - attemptedAt < RETRY_MS) {
    return refuse("invalid", "the issuer's keys could not be fetched");
  }
  const fetched = await fetchKeys(source);
  return !fetched.ok && isFresh ? ok(keys) : fetched;
}

function entryOf({ kind, url }: KeySource): Cached {
  const id = `${kind} ${url}`;
  const known = cache.get(id);
  if (known) return known;
  const [oldest] = cache.keys();
  if (cache.size >= MAX_SOURCES && oldest !== undefined) cache.delete(oldest);
  const entry = { keys: null, fetchedAt: 0, attemptedAt: 0, runsUntil: 0 };
  cache.set(id, entry);
  return entry;
}

async function fromDiscovery(url: string): Promise<Result<SourceKeys>> {
  const answer = await fetchJson(`${url.replace(/\/+$/, "")}/.well-known/openid-configuration`);
  if (!answer.ok) return answer;
  const document = Discovery.safeParse(answer.value);
  if (!document.success) return refuse("invalid", "the discovery document lacks issuer or jwks_uri");
  const { issuer, jwks_uri } = document.data;
  // OpenID Connect Discovery 1.0, 4.3: the issuer is the URL that the document was fetched for.
  if (issuer !== url) return refuse("invalid", "the discovery document names another issuer");
  const { token_endpoint_auth_methods_supported: methods } = document.data;
  return fromKeySet(jwks_uri, issuer, {
    authorization: document.data.authorization_endpoint,
    token: document.data.token_endpoint,
    userinfo: document.data.userinfo_endpoint,
    secretInBody: methods.includes("client_secret_post") && !methods.includes("client_secret_basic"),
  });
}

async function fromKeySet(
  url: string,
  issuer: string | null = null,
  endpoints: Endpoints | null = null,
): Promise<Result<SourceKeys>> {
  const answer = await fetchJson(url);
  if (!answer.ok) return answer;
  const set = KeySet.safeParse(answer.value);
  if (!set.success) return refuse("invalid", "the issuer's keys are not a JSON Web Key Set");
  return ok({ issuer, endpoints, keyOf: createLocalJWKSet(set.data as JSONWebKeySet) });
}
