import { goDuration } from "../../lib/go-duration.ts";

/** Upstream's warning for the period of a token above a maximum, both in seconds. */
export const cappedPeriodWarning = (period: number, most: number): string =>
  `period of "${goDuration(period)}" exceeded the effective max_ttl of "${goDuration(most)}"; period value is capped accordingly`;

/** Upstream's warning for a TTL above a maximum, both in seconds. */
export const cappedTtlWarning = (ttl: number, most: number): string =>
  `TTL of "${goDuration(ttl)}" exceeded the effective max_ttl of "${goDuration(most)}"; TTL value is capped accordingly`;
