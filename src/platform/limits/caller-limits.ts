import { RequestError } from "../http/errors.ts";
import type { Answered, Exchange } from "../http/exchange.ts";
import { isHealthCheck } from "../http/health.ts";
import { textOf, warn } from "../observability/log.ts";
import { settings } from "../settings.ts";
import { networkOf } from "./address.ts";

/*
 * Rate limits by caller (docs/reference/limits.md). The platform counts per location and approximately; the numbers are
 * in wrangler.toml. A request over its limit is refused before any work is done.
 */

/** Periods of the limits in wrangler.toml, in seconds; used as Retry-After. */
export const PERIOD_S = { LIMIT_TOKEN: 10, LIMIT_OPEN: 60, LIMIT_REFUSED: 60 } as const;
type Limit = keyof typeof PERIOD_S;

const MAX_REMEMBERED = 10_000;

/** Networks with too many refused callers, and the end of their block (ms since 1970). Per isolate. */
const blockedNetworks = new Map<string, number>();
/** Keyed hashes of recently valid tokens: they are exempt from blocks of their network. Per isolate. */
const goodTokens = new Set<string>();

/** Clears this isolate's knowledge of callers. */
export function forgetCallers(): void {
  blockedNetworks.clear();
  goodTokens.clear();
}

function tooMany(limit: Limit): RequestError {
  const seconds = String(PERIOD_S[limit]);
  const text = `too many requests: ${OF[limit]}; try again in ${seconds} s`;
  return new RequestError(429, text, { "Retry-After": seconds });
}

const OF: Readonly<Record<Limit, string>> = {
  LIMIT_TOKEN: "by this token",
  LIMIT_OPEN: "without a token, from this address",
  LIMIT_REFUSED: "refused, from this address",
};

let missed = false;

/** Increments the counter of `key`. @returns whether it is within the limit; true where counting is unavailable */
async function isWithin(env: Env, name: Limit, key: string): Promise<boolean> {
  if (settings(env).RATE_LIMITS === "off") return true;
  const limit = env[name];
  if (!limit) {
    if (!missed) warn("limit-missing", { binding: name });
    missed = true;
    return true;
  }
  try {
    return (await limit.limit({ key })).success;
  } catch (failure) {
    warn("limit-failed", { binding: name, because: textOf(failure) });
    return true;
  }
}

/** Admits a request by its token and address, before authentication. @throws RequestError 429 */
export async function admit(exchange: Exchange, env: Env): Promise<void> {
  const { tokenHash, address } = exchange;
  const network = networkOf(address);
  // For health checks, 429 means a standby server.
  if (network === null || isHealthCheck(exchange)) return;
  if (isShut(network) && !(tokenHash !== null && goodTokens.has(tokenHash))) throw tooMany("LIMIT_REFUSED");
  if (tokenHash === null) return;
  if (!(await isWithin(env, "LIMIT_TOKEN", tokenHash))) throw tooMany("LIMIT_TOKEN");
}

/** Admits a request to an unauthenticated route. @throws RequestError 429 */
export async function admitUnauthenticated(exchange: Exchange, env: Env): Promise<void> {
  const network = networkOf(exchange.address);
  if (network === null || isHealthCheck(exchange)) return;
  if (!(await isWithin(env, "LIMIT_OPEN", network))) throw tooMany("LIMIT_OPEN");
}

function isShut(network: string): boolean {
  const until = blockedNetworks.get(network);
  if (until === undefined) return false;
  if (until > Date.now()) return true;
  blockedNetworks.delete(network);
  return false;
}

/** Counts requests refused without a token, or for an unknown one, after the answer. */
export function countRefusal({ status, caller, tokenHash, address }: Answered, env: Env, exec: ExecutionContext): void {
  if (caller !== null && tokenHash !== null) {
    if (!goodTokens.has(tokenHash)) remember(goodTokens, () => goodTokens.add(tokenHash));
    return;
  }
  if (status !== 401 && status !== 403) return;
  if (tokenHash !== null) goodTokens.delete(tokenHash);
  const network = networkOf(address);
  if (network !== null) exec.waitUntil(shutIfTooMany(network, env));
}

async function shutIfTooMany(network: string, env: Env): Promise<void> {
  if (await isWithin(env, "LIMIT_REFUSED", network)) return;
  remember(blockedNetworks, () => blockedNetworks.set(network, Date.now() + PERIOD_S.LIMIT_REFUSED * 1_000));
}

/** Clearing the memory is harmless: the next requests fill it again. */
function remember(memory: { readonly size: number; clear(): void }, add: () => unknown): void {
  if (memory.size >= MAX_REMEMBERED) memory.clear();
  add();
}
