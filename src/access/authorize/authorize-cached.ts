import type { AuthorizeRequest, Grant } from "../../contracts/access-control.ts";
import type { Capability } from "../../contracts/policies.ts";
import type { Refusal } from "../../lib/result.ts";
import { within } from "../../lib/timeout.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { type ClientLocation, nearestPlace, placedName } from "../../platform/place.ts";
import { settings } from "../../platform/settings.ts";
import { accessControl, readReplica } from "../../rpc/stubs.ts";

/** Lifetime of a cached answer. A revocation reaches every isolate within 2 s, including the time of the call. */
const REUSE_MS = 1_500;
/** Bounds of the cache against callers with ever new tokens and paths. */
const MAX_CACHED = 5_000;
const MAX_CACHED_CHARACTERS = 2 * 1024 * 1024;

interface Cached {
  readonly until: number;
  readonly answer: Grant | Refusal;
}

/** Cached answers, oldest first, and the total length of their keys. */
const cache = new Map<string, Cached>();
let characters = 0;

/** Drops all cached answers, after this isolate has changed tokens, policies or mounts. */
export function clearAuthorizeCache(): void {
  cache.clear();
  characters = 0;
}

/** Size of the cache. */
export const authorizeCacheSize = () => ({ entries: cache.size, characters });

function forget(key: string): void {
  if (cache.delete(key)) characters -= key.length;
}

/** Caches an answer, and evicts expired ones and those above the bounds. */
function keep(key: string, cached: Cached, now: number): void {
  forget(key);
  cache.set(key, cached);
  characters += key.length;
  for (const [oldest, { until }] of cache) {
    if (until > now && cache.size <= MAX_CACHED && characters <= MAX_CACHED_CHARACTERS) break;
    forget(oldest);
  }
}

/** Time after which a replica counts as failed. A change that waits for another replica delays its answers by 2.1 s. */
const REPLICA_MS = 8_000;

/** A request to authorize, with what decides how it is authorized. */
export interface Authorization {
  readonly ask: AuthorizeRequest;
  /** Whether the answer must see a revocation at once, also where answers are cached; `owner`: without a replica. */
  readonly fresh: boolean | "owner";
  /** Of the caller. */
  readonly location: unknown;
  /** The version of the secret to read along, 0 = the newest; null for requests that read none. */
  readonly version: number | null;
  /** Whether the request may change the secret at its path. */
  readonly changes?: boolean;
}

/** Whether authorizations are those of this moment, so that `fresh` makes no difference. */
export const isCoherent = (env: Env): boolean => settings(env).READ_REPLICAS > 0;

/** Authorizes a request through the replica of the caller's place, or by a cached answer where there are no replicas. */
export async function authorize(env: Env, authorization: Authorization): Promise<Grant | Refusal> {
  const { ask, fresh } = authorization;
  if (!isCoherent(env)) return authorizeCached(env, ask, fresh);
  // No other request can use the answer: it shows the caller's own token.
  return ask.self || fresh === "owner" ? authorizeWithRetry(env, ask) : authorizeNear(env, authorization);
}

/** Asks a replica, and `AccessControl` itself while the replica fails. */
async function authorizeNear(
  env: Env,
  { ask, location, version, changes = false }: Authorization,
): Promise<Grant | Refusal> {
  const place = nearestPlace((location ?? {}) as ClientLocation);
  const shard = `${ask.namespace} ${ask.path ?? ask.token}`;
  const name = placedName(place ?? "anywhere", shard, settings(env).READ_REPLICAS);
  try {
    const asked = readReplica(env, name, place).authorizeAsText(ask, version, changes);
    const answer = JSON.parse(await within(REPLICA_MS, asked)) as Grant | Refusal;
    return answer.ok ? Object.assign(answer, { replica: name }) : answer;
  } catch (failure) {
    warn("replica-failed", { replica: name, because: textOf(failure) });
    return authorizeWithRetry(env, ask);
  }
}

/**
 * Authorizes a request through `AccessControl`. Grants and refusals are cached per isolate for `REUSE_MS`, except calls
 * that must see a revocation at once (`fresh`) and tokens with limited uses. A cache hit costs no call of the object.
 */
async function authorizeCached(
  env: Env,
  ask: AuthorizeRequest,
  fresh: Authorization["fresh"],
): Promise<Grant | Refusal> {
  const key = JSON.stringify([ask.token, ask.namespace, ask.path, ask.list ?? false, ask.wrapTtl ?? 0]);
  // Grants hold at every address, or are not cached; a refusal may be about the caller's.
  const refusedKey = `${key} ${ask.address ?? ""}`;
  const now = Date.now();
  const known = cache.get(key) ?? cache.get(refusedKey);
  // The last request of a token goes on although others with the token are refused by then.
  if (known && known.until > now && !fresh && !ask.again) return known.answer;
  const answer = await authorizeWithRetry(env, ask);
  // A path without a mount is not cached: the mount may be created a moment later.
  const reusable = answer.ok
    ? answer.cacheable && !answer.self && (answer.mount !== null || !ask.path)
    : answer.reason === "denied";
  forget(key);
  forget(refusedKey);
  if (reusable) keep(answer.ok ? key : refusedKey, { until: now + REUSE_MS, answer }, now);
  return answer;
}

/**
 * Retries once after a restart of the object, which every deployment causes. The retry is safe: the call changes only
 * the use count of a limited token, which may then be counted twice.
 */
async function authorizeWithRetry(env: Env, ask: AuthorizeRequest): Promise<Grant | Refusal> {
  try {
    return await accessControl(env).authorize(ask);
  } catch (failure) {
    if ((failure as { overloaded?: boolean }).overloaded) throw failure;
    return accessControl(env).authorize(ask);
  }
}

/** Whether a grant includes a capability; root includes all. */
export const may = (grant: Grant, capability: Capability): boolean =>
  grant.capabilities.includes("root") || grant.capabilities.includes(capability);
