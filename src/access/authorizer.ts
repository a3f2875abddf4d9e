import { accessControl } from "../objects/stubs.ts";
import type { Refusal } from "../result.ts";
import type { Ask, Grant } from "./authorize.ts";

/** How long an isolate may use an answer again. A revocation is seen everywhere within 2 s, the request's own time included. */
const REUSE_MS = 1_500;
const MAX_CACHED = 5_000;

const cache = new Map<string, { until: number; answer: Grant | Refusal }>();

/** Forgets all answers: this isolate has just changed what they were made of. */
export const forgetAnswers = (): void => cache.clear();

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
  if (reusable) {
    if (cache.size >= MAX_CACHED) cache.clear();
    cache.set(key, { until: now + REUSE_MS, answer });
  } else cache.delete(key);
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
