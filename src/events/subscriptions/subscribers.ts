import { mapLimit } from "../../lib/map-limit.ts";
import { within } from "../../lib/timeout.ts";
import { Memo } from "../../platform/durable/memo.ts";
import { textOf, warn } from "../../platform/observability/log.ts";

/** Shortest interval between two wake-ups of a subscription. */
const INTERVAL_MS = 250;
const DEADLINE_MS = 5_000;
const MAX_CONCURRENT = 6;
/** Each costs a call per interval in which lines are appended. */
const MAX_SUBSCRIPTIONS = 100;

/**
 * The subscriptions that the log wakes after an append. A lost wake-up is repaired by the subscription's own alarm.
 * Costs nothing without subscriptions.
 */
export class Subscribers {
  readonly #names: Memo<readonly string[]>;
  #newest = 0;
  #runs = false;

  constructor(
    private readonly sql: SqlStorage,
    private readonly wake: (name: string, newest: number) => Promise<void>,
  ) {
    this.#names = new Memo(() =>
      sql
        .exec<{ name: string }>("SELECT name FROM subscriptions ORDER BY name")
        .toArray()
        .map(({ name }) => name),
    );
  }

  names(): readonly string[] {
    return this.#names.get();
  }

  /** Adds or removes a subscription, inside a transaction. @returns false when there is no room */
  set(name: string, exists: boolean): boolean {
    const names = this.names();
    if (exists === names.includes(name)) return true;
    if (exists && names.length >= MAX_SUBSCRIPTIONS) return false;
    this.sql.exec(exists ? "INSERT INTO subscriptions VALUES (?)" : "DELETE FROM subscriptions WHERE name = ?", name);
    this.forget();
    return true;
  }

  forget(): void {
    this.#names.forget();
  }

  /** Wakes all subscriptions, in rounds. Never rejects. */
  async notify(newest: number): Promise<void> {
    this.#newest = newest;
    if (this.#runs) return;
    this.#runs = true;
    try {
      for (let notified = 0; notified < this.#newest && this.names().length > 0; ) {
        notified = this.#newest;
        await mapLimit(this.names(), MAX_CONCURRENT, (name) => this.#wakeOne(name, notified));
        await scheduler.wait(INTERVAL_MS);
      }
    } catch (failure) {
      warn("subscription-not-woken", { because: textOf(failure) });
    } finally {
      this.#runs = false;
    }
  }

  #wakeOne(name: string, newest: number): Promise<void> {
    return within(DEADLINE_MS, this.wake(name, newest)).catch((failure: unknown) =>
      warn("subscription-not-woken", { subscription: name, because: textOf(failure) }),
    );
  }
}
