import type { Result } from "../lib/result.ts";
import type { Append } from "./event.ts";
import type { AlertsView, NamedRule, NotificationRule } from "./notification-rule.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** The range of the buffer; `oldest` is 0 when it is empty. */
export interface Bounds {
  readonly oldest: number;
  readonly newest: number;
  /** The newest index given out, whose line readers may not see yet; absent from a log of version 0.2.0. */
  readonly assigned?: number;
  /** All gaps of accounts; absent from a log of version 0.2.0. */
  readonly gaps?: readonly AccountGap[];
}

/** Lines of one account that were evicted for its share of the buffer, while older lines of others are there. */
export interface AccountGap {
  readonly account: string;
  /** Lines of the account up to this index are gone. */
  readonly upTo: number;
}

/** A page of the backlog, for readers of a relay behind its own buffer. */
export interface FeedPage {
  readonly lines: readonly StoredLine[];
  /** The page is complete up to this index. */
  readonly upTo: number;
  /** Lines up to this index have left the buffer. */
  readonly evicted: number;
  /** Gaps that reach beyond the cursor and `evicted`; absent from a log of version 0.2.0. */
  readonly gaps?: readonly AccountGap[];
}

/** A stored line: index, event headers if stored, events. */
export type StoredLine = readonly [index: number, headers: string | null, events: string];

/** The methods of `EventLog` that other objects and Workers call. */
export interface EventLogApi extends StoredObjectApi {
  /**
   * Appends lines, one per entry, in order. Idempotent by (source, seq): a repeated entry adds nothing and gets its first
   * index again, or the newest index of its source once its line has left the buffer.
   * @returns the index of each entry
   */
  append(source: string, entries: readonly Append[]): Promise<number[]>;
  /** The newest index given out; 1 before the first event, because an index is never 0 on the wire. */
  newest(): number;
  /** Buffer size and open readers. `oldest` is 0 when it is empty. */
  state(): { lines: number; bytes: number; oldest: number; newest: number; readers: number };
  /** The range that readers may see now. */
  bounds(): Bounds;
  /** A page of lines after a cursor, for a relay. */
  lines(cursor: number, traces: readonly string[] | null): FeedPage;
  /** Names of the connected relays. */
  relays(): string[];
  /** Names of the event subscriptions. */
  subscriptions(): readonly string[];
  /** Adds or removes an event subscription, which is woken after an append. @returns false when there is no room */
  setSubscription(name: string, exists: boolean): boolean;
  /**
   * Calls a relay after an append from now on, until it has no subscribers to event notifications. Idempotent.
   * @param secrets whether they may want events of secrets, which every mount publishes once this resolves
   * @returns the index up to which those events may be missing; 0 for none
   */
  notifyRelay(name: string, secrets?: boolean): Promise<number>;
  /** Ends the publication of events of secrets on demand without a subscriber. @returns its epoch; null while wanted */
  unwantedSecrets(): number | null;
  /** Notification rules, by name. */
  notificationRules(): readonly NamedRule[];
  /** Creates or replaces a rule. Its channels must exist. */
  writeNotificationRule(name: string, rule: NotificationRule): Promise<Result<null>>;
  /** Idempotent. */
  deleteNotificationRule(name: string): Promise<null>;
  /** The alerts of all rules. */
  alerts(): AlertsView;
  /** Sends a test to a channel. @returns the index of its line */
  testChannel(channel: string): Promise<Result<number>>;
}
