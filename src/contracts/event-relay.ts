import type { HealthStats } from "../platform/observability/metrics/health-stats.ts";

/** The methods of `EventRelay` that other objects and Workers call. */
export interface EventRelayApi {
  /** How far this relay is, how many readers it has, and whether it follows the log. */
  state(): {
    newest: number;
    readers: number;
    following: boolean;
  };
  /** How the relay is: it has no rows, and nothing that is due. */
  vitals(): HealthStats;
}
