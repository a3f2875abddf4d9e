import type { RateLimit } from "../lib/rate-limit.ts";
import type { Result } from "../lib/result.ts";
import type { Quota, QuotasSettings } from "../wire/access.ts";
import type { Wire } from "../wire/infer.ts";
import type { Located } from "./namespaces.ts";

/** A rate-limit quota. */
export type RateLimitQuota = Omit<Wire<typeof Quota>, "type" | "role" | "secondary_rate">;

/** The settings of a rate-limit quota, as a request names them. */
export interface QuotaBody extends Omit<RateLimitQuota, "name" | "inheritable"> {
  /** Absent: only a quota of the root counts for the namespaces below it. */
  readonly inheritable?: boolean | undefined;
}

export type QuotasConfig = Omit<Wire<typeof QuotasSettings>, "enable_rate_limit_audit_logging">;

/** A request to count. */
export interface CountedRequest extends Located {
  /** The client's address; null when the platform does not provide it. */
  readonly address: string | null;
}

/** The settings of a lease-count quota, as a request names them. */
export interface LeaseQuotaBody {
  /** As of a rate-limit quota. */
  readonly path: string;
  readonly max_leases: number;
  /** The role of a login, for a quota of an auth mount; empty: logins with any. */
  readonly role: string;
  /** Whether a quota of a namespace counts for the namespaces below it; absent: only the root's does. */
  readonly inheritable?: boolean | undefined;
}

export interface LeaseQuota extends LeaseQuotaBody {
  readonly name: string;
  readonly inheritable: boolean;
}

/** A lease-count quota and the number of leases that it counts now. */
export interface CountedLeaseQuota extends LeaseQuota {
  readonly counter: number;
}

/** The leases of one mount, by the path below the mount that issued them. */
export interface LeaseCounts {
  /** Leases, and requests for one that `AccessControl` has admitted. */
  readonly counts: Readonly<Record<string, number>>;
  /** Ids of requests for a lease that wait for its answer. */
  readonly pending: readonly string[];
}

/** The methods of `AccessControl` about quotas. */
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
  leaseQuotaNames(): string[];
  leaseQuota(name: string): Promise<Result<CountedLeaseQuota>>;
  putLeaseQuota(name: string, body: LeaseQuotaBody): Result<null>;
  /** Idempotent. */
  deleteLeaseQuota(name: string): void;
  /**
   * Counts the lease that a mount is about to issue, before anything is created for it. Leases to root tokens are counted
   * and never refused.
   * @param id of the lease, relative to the mount
   * @param accessor of the token that it is issued to
   */
  admitLease(mount: string, id: string, accessor: string): Promise<Result<null>>;
}
