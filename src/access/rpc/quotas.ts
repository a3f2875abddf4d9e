import type { CountedRequest, QuotaBody, QuotasApi, QuotasConfig, RateLimitQuota } from "../../contracts/quotas.ts";
import type { RateLimit } from "../../lib/rate-limit.ts";
import type { Result } from "../../lib/result.ts";
import type { RateLimitQuotas } from "../system/rate-limit-quotas.ts";

/** RPC methods about quotas. */
export class QuotaMethods implements QuotasApi {
  readonly #rateLimits: RateLimitQuotas;

  constructor(rateLimits: RateLimitQuotas) {
    this.#rateLimits = rateLimits;
  }

  rateLimitQuotas(): RateLimitQuota[] {
    return this.#rateLimits.list();
  }

  rateLimitQuota(name: string): Result<RateLimitQuota> {
    return this.#rateLimits.read(name);
  }

  putRateLimitQuota(name: string, body: QuotaBody): Result<null> {
    return this.#rateLimits.put(name, body);
  }

  deleteRateLimitQuota(name: string): void {
    this.#rateLimits.delete(name);
  }

  quotasConfig(): QuotasConfig {
    return this.#rateLimits.config();
  }

  setQuotasConfig(changes: Partial<QuotasConfig>): void {
    this.#rateLimits.setConfig(changes);
  }

  countRequest(request: CountedRequest): Result<RateLimit | null> {
    return this.#rateLimits.take(request, Date.now());
  }
}
