import type { HealthStats } from "../platform/observability/metrics/health-stats.ts";

/** The methods of `EventRelay` that other objects and Workers call. */
export interface EventRelayApi {
  /** Newest index, open readers, and whether the relay is connected to the log. */
  state(): {
    newest: number;
    readers: number;
    following: boolean;
  };
  /** Health statistics; a relay has no rows and no deadlines. */
  vitals(): HealthStats;
}
