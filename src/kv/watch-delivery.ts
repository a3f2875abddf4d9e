import { syncDestination } from "../contracts/stubs.ts";
import type { Outbox, OutboxRow } from "../platform/durable/outbox.ts";
import type { Watchers } from "./watchers.ts";

/** Maximum of paths per destination that are announced inline. */
const MAX_INLINE_ANNOUNCEMENTS = 100;

/**
 * Notifies sync destinations of changes of the paths they watch, and of moves of the mount. Owned by `KvStore`. Costs
 * one outbox row per destination, and one RPC per delivery.
 */
export class WatchDelivery {
  readonly #env: Env;
  readonly #mount: string;
  readonly #watchers: Watchers;
  readonly #outbox: Outbox;

  constructor(env: Env, mount: string, watchers: Watchers, outbox: Outbox) {
    this.#env = env;
    this.#mount = mount;
    this.#watchers = watchers;
    this.#outbox = outbox;
  }

  /**
   * Enqueues a change of a path; one pending row per destination, for any number of paths. Runs inside a transaction.
   * @returns the destinations
   */
  enlist(path: string): string[] {
    const watchers = this.#watchers.of(path, Date.now());
    for (const destination of watchers) {
      this.#watchers.mark(path, destination, this.#outbox.enlistLatest("changed", destination, null));
    }
    return watchers;
  }

  /** Enqueues the notice of a move for a destination. Runs inside a transaction. */
  enlistMoved(destination: string): void {
    this.#outbox.enlistLatest("moved", destination, null);
  }

  async changed(lane: string, rows: readonly OutboxRow[]): Promise<() => void> {
    // Rows of an earlier release also name the path.
    const [destination = ""] = lane.split("\n");
    const paths = this.#watchers.pending(destination, MAX_INLINE_ANNOUNCEMENTS);
    if (paths.length > 0) await syncDestination(this.#env, destination).changed(this.#mount, paths);
    return () => {
      this.#watchers.acknowledge(destination, paths, rows.at(-1)?.seq ?? 0);
      if (paths.length === MAX_INLINE_ANNOUNCEMENTS) this.#outbox.enlistLatest("changed", destination, null);
    };
  }

  async moved(destination: string): Promise<void> {
    await syncDestination(this.#env, destination).mountMoved(this.#mount);
  }
}
