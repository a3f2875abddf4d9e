import type { FeedPage } from "../../contracts/event-log.ts";
import type { NotifiedPage } from "../../contracts/event-relay.ts";
import { backoff } from "../../lib/backoff.ts";
import { within } from "../../lib/timeout.ts";
import { Memo } from "../../platform/durable/memo.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { parseHeaders } from "../../publishing/event-headers.ts";
import { concernsNotifications } from "./wanted.ts";

const DEADLINE_MS = 10_000;
const BACKOFF = { base: 250, cap: 5_000 };
/** Failures after which a relay is left to its own check of the log. */
const MAX_FAILURES = 5;

interface Relay {
  /** Lines up to here were sent, or do not matter. */
  upTo: number;
  isCalled: boolean;
  /** Grows with each registration: an answer from before it does not end it. */
  registrations: number;
}

interface NotifiedRelaysDependencies {
  readonly sql: SqlStorage;
  /** Lines after a cursor. */
  readonly pageAfter: (cursor: number) => FeedPage;
  readonly newest: () => number;
  /** Calls a relay. @returns the number of its subscribers */
  readonly notify: (name: string, page: NotifiedPage) => Promise<number>;
  /** Forgets a relay, in a transaction. */
  readonly forget: (name: string) => void;
}

/**
 * The relays with subscribers to event notifications, which the log wakes with the lines that matter to them. A relay
 * has no connection here, so that it may hibernate: a lost call is repaired by the next one, because its subscribers
 * know their place, and by the relay's own check. Costs nothing without subscribers.
 */
export class NotifiedRelays {
  readonly #names: Memo<ReadonlySet<string>>;
  readonly #relays = new Map<string, Relay>();
  #isFirst = true;

  constructor(private readonly deps: NotifiedRelaysDependencies) {
    this.#names = new Memo(
      () =>
        new Set(
          deps.sql
            .exec<{ name: string }>("SELECT name FROM notified_relays")
            .toArray()
            .map(({ name }) => name),
        ),
    );
  }

  /** Inside a transaction. */
  register(name: string): void {
    this.#relay(name).registrations += 1;
    if (this.#names.get().has(name)) return;
    this.deps.sql.exec("INSERT INTO notified_relays VALUES (?)", name);
    this.reload();
  }

  /** Inside a transaction. */
  remove(name: string): void {
    this.deps.sql.exec("DELETE FROM notified_relays WHERE name = ?", name);
    this.reload();
  }

  reload(): void {
    this.#names.forget();
  }

  /** Calls the relays about lines that they were not told of. Never throws. */
  notify(): void {
    try {
      for (const name of this.#names.get()) {
        // After a start: earlier lines may not have been sent.
        if (this.#isFirst) this.#relay(name).upTo = 0;
        void this.#call(name);
      }
      this.#isFirst = false;
    } catch (failure) {
      warn("relays-not-notified", { because: textOf(failure) });
    }
  }

  /** As `notify`, the first time after a start: a repeated append has no new line. */
  notifyFirst(): void {
    if (this.#isFirst) this.notify();
  }

  #relay(name: string): Relay {
    let relay = this.#relays.get(name);
    if (!relay) {
      relay = { upTo: this.deps.newest(), isCalled: false, registrations: 0 };
      this.#relays.set(name, relay);
    }
    return relay;
  }

  async #call(name: string): Promise<void> {
    const relay = this.#relay(name);
    if (relay.isCalled) return;
    relay.isCalled = true;
    try {
      for (let failures = 0; relay.upTo < this.deps.newest() && failures < MAX_FAILURES; ) {
        if (await this.#send(name, relay)) failures = 0;
        else {
          failures += 1;
          await scheduler.wait(backoff(failures, BACKOFF));
        }
      }
    } finally {
      relay.isCalled = false;
    }
  }

  /** Sends the next lines. @returns whether the relay has answered */
  async #send(name: string, relay: Relay): Promise<boolean> {
    const page = this.#pageFor(relay);
    const { registrations } = relay;
    try {
      if (page.upTo <= relay.upTo) throw new Error("no line after the last one");
      const isNeeded = page.lines.length > 0 || page.after === page.upTo;
      const subscribers = isNeeded ? await within(DEADLINE_MS, this.deps.notify(name, page)) : null;
      relay.upTo = page.upTo;
      if (subscribers === 0 && relay.registrations === registrations) this.deps.forget(name);
      return true;
    } catch (failure) {
      warn("relay-not-notified", { relay: name, because: textOf(failure) });
      return false;
    }
  }

  /** The lines that matter; none after a start, when the relay reads what it lacks. */
  #pageFor({ upTo: after }: Relay): NotifiedPage {
    const newest = this.deps.newest();
    if (after === 0) return { after: newest, lines: [], upTo: newest, evicted: 0 };
    const page = this.deps.pageAfter(after);
    const lines = page.lines.filter(([, headers]) => headers === null || concernsNotifications(parseHeaders(headers)));
    return { ...page, after, lines };
  }
}
