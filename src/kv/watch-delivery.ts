import { syncDestination } from "../contracts/stubs.ts";
import type { Outbox, OutboxRow } from "../platform/durable/outbox.ts";
import type { Watchers } from "./watchers.ts";

/** How many destinations of a secret the Worker that writes it polls. */
const POLLED_AFTER_WRITE = 8;

/**
 * Notifies sync destinations of changes of the paths they watch, and of moves of the mount. Owned by `KvStore`. Costs
 * one outbox row per destination, and one RPC per delivery.
 */
export class WatchDelivery {
  readonly #env: Env;
  readonly #mount: string;
  readonly #watchers: Watchers;
  readonly #outbox: Outbox;
  /** Destinations that a Worker polls after their next notice. In memory: without it they send a wake-up. */
  readonly #polled = new Set<string>();

  constructor(env: Env, mount: string, watchers: Watchers, outbox: Outbox) {
    this.#env = env;
    this.#mount = mount;
    this.#watchers = watchers;
    this.#outbox = outbox;
  }

  /**
   * Enqueues a change of a path for each destination that watches it. Runs inside a transaction.
   * @returns the destinations
   */
  enlist(path: string): string[] {
    const watchers = this.#watchers.of(path, Date.now());
    for (const destination of watchers) this.#outbox.enlistOnce("changed", destination, path);
    return watchers;
  }

  /**
   * Has the next notices announce the poll of the Worker that wrote.
   * @returns the destinations that it polls; the others send a wake-up
   */
  expectPolls(destinations: readonly string[]): readonly string[] {
    const polled = destinations.slice(0, POLLED_AFTER_WRITE);
    for (const destination of polled) this.#polled.add(destination);
    return polled;
  }

  /** Enqueues the notice of a move for a destination. Runs inside a transaction. */
  enlistMoved(destination: string): void {
    this.#outbox.enlistLatest("moved", destination, null);
  }

  async changed(destination: string, rows: readonly OutboxRow[]): Promise<void> {
    const paths = new Set(rows.map(({ body }) => JSON.parse(body) as string));
    const pollFollows = this.#polled.delete(destination);
    await syncDestination(this.#env, destination).changed(this.#mount, [...paths], pollFollows);
  }

  async moved(destination: string): Promise<void> {
    await syncDestination(this.#env, destination).mountMoved(this.#mount);
  }
}
