import { ApiError } from "./state.ts";

export interface RateLimitQuotas {
  /** Calls in an hour. */
  perHour: number;
  /** Points in a minute: a reading call is 1, any other 5. */
  pointsPerMinute: number;
  /** Calls in a minute that make content: all that are not reading. */
  writesPerMinute: number;
}

/** The documented figures. */
export const documentedLimits: RateLimitQuotas = { perHour: 5000, pointsPerMinute: 900, writesPerMinute: 80 };

interface Usage {
  hour: number;
  calls: number;
  minute: number;
  points: number;
  writes: number;
}

/** Counts the calls of every bearer against the primary and the secondary limits. */
export class RateLimiter {
  readonly #limits: RateLimitQuotas;
  readonly #usage = new Map<string, Usage>();

  constructor(limits: RateLimitQuotas) {
    this.#limits = limits;
  }

  /** Counts one call; answers the headers that every answer bears. Throws the refusal of whichever limit is used up. */
  count(bearer: string, method: string, now: number): Record<string, string> {
    const usage = this.#usage.get(bearer) ?? { hour: now, calls: 0, minute: now, points: 0, writes: 0 };
    this.#usage.set(bearer, usage);
    if (now - usage.hour >= 3_600_000) Object.assign(usage, { hour: now, calls: 0 });
    if (now - usage.minute >= 60_000) Object.assign(usage, { minute: now, points: 0, writes: 0 });
    const reads = method === "GET";
    usage.calls++;
    usage.points += reads ? 1 : 5;
    usage.writes += reads ? 0 : 1;

    const headers = {
      "x-ratelimit-limit": String(this.#limits.perHour),
      "x-ratelimit-remaining": String(Math.max(this.#limits.perHour - usage.calls, 0)),
      "x-ratelimit-used": String(usage.calls),
      "x-ratelimit-reset": String(Math.ceil((usage.hour + 3_600_000) / 1000)),
      "x-ratelimit-resource": "core",
    };
    if (usage.calls > this.#limits.perHour) {
      throw new ApiError(403, "API rate limit exceeded for user ID 1.", { headers });
    }
    if (usage.points > this.#limits.pointsPerMinute || usage.writes > this.#limits.writesPerMinute) {
      const wait = String(Math.ceil((usage.minute + 60_000 - now) / 1000));
      throw new ApiError(403, "You have exceeded a secondary rate limit. Please wait a few minutes.", {
        headers: { ...headers, "retry-after": wait },
      });
    }
    return headers;
  }
}
