import type { Ask, Grant } from "../contracts/access-control.ts";
import { accessControl } from "../contracts/stubs.ts";
import type { Refusal } from "../lib/result.ts";

/** How long an isolate may use an answer again. A revocation is seen everywhere within 2 s, the request's own time included. */
const REUSE_MS = 1_500;
/** Bounds of the cache: anybody can ask with tokens and paths that are new each time. */
const MAX_CACHED = 5_000;
const MAX_CACHED_CHARACTERS = 2 * 1024 * 1024;

interface Cached {
  readonly until: number;
  readonly answer: Grant | Refusal;
}

/** The answers that may be used again, the oldest first, and the characters of their keys. */
const cache = new Map<string, Cached>();
let characters = 0;

/** Forgets all answers: this isolate has just changed what they were made of. */
export function forgetAnswers(): void {
  cache.clear();
  characters = 0;
}

/** What the cache holds. */
export const cachedAnswers = () => ({ entries: cache.size, characters });

function forget(key: string): void {
  if (cache.delete(key)) characters -= key.length;
}

/** Keeps an answer, and lets go of those that are over or too many. */
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
 * Asks `AccessControl` who calls and what they may do. Answers are used again for a while within an isolate, refusals too, unless
 * the call must see a revocation at once (`fresh`) or the token counts its uses.
 */
export async function authorize(env: Env, ask: Ask, fresh: boolean): Promise<Grant | Refusal> {
  const key = JSON.stringify([ask.token, ask.namespace, ask.path, ask.list ?? false]);
  const now = Date.now();
  const known = cache.get(key);
  if (known && known.until > now && !fresh) return known.answer;
  const answer = await askedOrAgain(env, ask);
  // A path without a mount is not remembered: the mount may come a moment later.
  const reusable = answer.ok ? answer.cacheable && (answer.mount !== null || !ask.path) : answer.reason === "denied";
  if (reusable) keep(key, { until: now + REUSE_MS, answer }, now);
  else forget(key);
  return answer;
}

/**
 * Asks once more when the object was restarted under the question, as every deployment does. Safe, because asking changes
 * nothing but the count of a limited token, which may then count a use that was not had.
 */
async function askedOrAgain(env: Env, ask: Ask): Promise<Grant | Refusal> {
  try {
    return await accessControl(env).authorize(ask);
  } catch (failure) {
    if ((failure as { overloaded?: boolean }).overloaded) throw failure;
    return accessControl(env).authorize(ask);
  }
}
