import type { HealthStats } from "../platform/observability/metrics/health-stats.ts";
import type { FeedPage } from "./event-log.ts";

/** Lines that matter to event notifications, and changes of rights: all of them after an index. */
export interface NotifiedPage extends FeedPage {
  readonly after: number;
}

/** The methods of `EventRelay` that other objects and Workers call. */
export interface EventRelayApi {
  /** Newest index, open readers, and whether the relay is connected to the log. */
  state(): { newest: number; readers: number; following: boolean };
  /** Health statistics; a relay has no rows and no deadlines. */
  vitals(): HealthStats;
  /** Wakes the subscribers to event notifications. @returns their number */
  notify(page: NotifiedPage): number;
}
