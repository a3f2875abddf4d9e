import type { AuthorizeRequest, Grant } from "../contracts/access-control.ts";
import type { Capability } from "../contracts/policies.ts";
import { accessControl } from "../contracts/stubs.ts";
import type { Refusal } from "../lib/result.ts";

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

/**
 * Authorizes a request through `AccessControl`. Grants and refusals are cached per isolate for `REUSE_MS`, except calls
 * that must see a revocation at once (`fresh`) and tokens with limited uses. A cache hit costs no call of the object.
 */
export async function authorize(env: Env, ask: AuthorizeRequest, fresh: boolean): Promise<Grant | Refusal> {
  const key = JSON.stringify([ask.token, ask.namespace, ask.path, ask.list ?? false, ask.wrapTtl ?? 0]);
  // Grants hold at every address, or are not cached; a refusal may be about the caller's.
  const refusedKey = `${key} ${ask.address ?? ""}`;
  const now = Date.now();
  const known = cache.get(key) ?? cache.get(refusedKey);
  if (known && known.until > now && !fresh) return known.answer;
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
