import type { RateLimit } from "../lib/rate-limit.ts";
import type { Result } from "../lib/result.ts";

/** Which requests share one counter: those of one address, or all. */
export type QuotaGrouping = "ip" | "none";

/** The settings of a rate-limit quota, as a request names them. Durations in seconds. */
export interface QuotaBody {
  /** From the root: empty for every request, a namespace, a mount, or a path in a mount, with a final `*` or without. */
  readonly path: string;
  /** Requests in each interval. */
  readonly rate: number;
  readonly interval: number;
  /** How long a client that was refused stays refused; 0 = until the interval ends. */
  readonly block_interval: number;
  /** Whether a quota of a namespace counts for the namespaces below it; absent: only the root's does. */
  readonly inheritable?: boolean | undefined;
  readonly group_by: QuotaGrouping;
}

export interface RateLimitQuota extends QuotaBody {
  readonly name: string;
  readonly inheritable: boolean;
}

export interface QuotasConfig {
  /** Whether answers show the caller's limit. */
  readonly enable_rate_limit_response_headers: boolean;
  /** Paths in the root namespace that no quota counts; a final `*` makes a prefix. */
  readonly rate_limit_exempt_paths: readonly string[];
}

/** A request to count. */
export interface CountedRequest {
  readonly namespace: string;
  /** In that namespace. */
  readonly path: string;
  /** The client's address; null when the platform does not provide it. */
  readonly address: string | null;
}

/** The methods of `AccessControl` about rate-limit quotas. */
export interface QuotasApi {
  rateLimitQuotas(): RateLimitQuota[];
  rateLimitQuota(name: string): Result<RateLimitQuota>;
  putRateLimitQuota(name: string, body: QuotaBody): Result<null>;
  /** Idempotent. */
  deleteRateLimitQuota(name: string): void;
  quotasConfig(): QuotasConfig;
  /** @param changes absent: unchanged */
  setQuotasConfig(changes: Partial<QuotasConfig>): void;
  /** Counts a request without a token; requests with one are counted when they are authorized. */
  countRequest(request: CountedRequest): Result<RateLimit | null>;
}
