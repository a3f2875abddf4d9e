import type { Outbox } from "../platform/durable/outbox.ts";
import type { OutboxRow } from "../platform/durable/outbox-delivery.ts";
import { syncDestination } from "../rpc/stubs.ts";
import type { Followers } from "./followers.ts";
import type { Watchers } from "./watchers.ts";

/**
 * Notifies sync destinations of changes of the paths they watch, and of moves of the mount. Owned by `KvStore`. Costs
 * one outbox row per destination, and one RPC per delivery.
 */
export class WatchDelivery {
  constructor(
    private readonly env: Env,
    private readonly mount: string,
    private readonly watchers: Watchers,
    private readonly followers: Followers,
    private readonly outbox: Outbox,
  ) {}

  /**
   * Enqueues a change of a path for each destination that watches it. Runs inside a transaction.
   * @returns the destinations
   */
  enlist(path: string): string[] {
    const watchers = this.watchers.of(path, Date.now());
    for (const destination of watchers) this.outbox.enlistOnce("changed", destination, path);
    return watchers;
  }

  /**
   * Enqueues a secret that rules may match from now on, or no longer, for each destination with such rules. Runs inside a
   * transaction. @param path null for all secrets of the mount
   * @returns whether there is one
   */
  enlistFollowers(path: string | null): boolean {
    const followers = this.followers.of(path);
    for (const destination of followers) this.outbox.enlistOnce("matching", destination, path ?? "");
    return followers.length > 0;
  }

  /** Enqueues the notice of a move for a destination. Runs inside a transaction. */
  enlistMoved(destination: string): void {
    this.outbox.enlistLatest("moved", destination, null);
  }

  /** Delivers the rows of a destination about paths. */
  async deliver(topic: "changed" | "matching", destination: string, rows: readonly OutboxRow[]): Promise<void> {
    const paths = new Set(rows.map(({ body }) => JSON.parse(body) as string));
    await syncDestination(this.env, destination)[topic](this.mount, [...paths]);
  }

  async moved(destination: string): Promise<void> {
    await syncDestination(this.env, destination).mountMoved(this.mount);
  }
}
