import type { RateLimit } from "../../lib/rate-limit.ts";

/** Headers that show a caller its limit, in upstream's names; none unless the deployment wants them. */
export const rateHeaders = ({ limit, remaining, resetS, shown }: RateLimit): Record<string, string> =>
  shown
    ? {
        "X-Ratelimit-Limit": String(limit),
        "X-Ratelimit-Remaining": String(remaining),
        "X-Ratelimit-Reset": String(resetS),
      }
    : {};
