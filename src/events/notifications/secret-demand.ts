import { mapLimit } from "../../lib/map-limit.ts";

/** How long events of secrets are published after the last subscriber has left, so that it may resume without a gap. */
const LINGER_MS = 15 * 60_000;
const MAX_CONCURRENT = 16;

type SecretDemandRow = { epoch: number; published: number; since: number; idle: number | null };

interface SecretDemandDependencies {
  readonly sql: SqlStorage;
  commit<T>(change: () => T): T;
  newest(): number;
  /** Tells the table of mounts, and lists the KV mounts. */
  tell(epoch: number, on: boolean): Promise<string[]>;
  /** Lets a mount publish its events. */
  publish(mount: string, epoch: number): Promise<void>;
}

/**
 * Whether KV mounts publish events for subscribers to event notifications, where the topic is not enabled for every reader:
 * an event costs six rows, so that they do while a relay has a subscriber that may want them, and for a while longer.
 * Every mount knows of it before the first subscription opens.
 *
 *     silent ──first subscriber──> beginning ──all mounts told──> published
 *       ^                                                             │
 *       └──────────── no subscriber for LINGER_MS, and an event ──────┘
 */
export class SecretDemand {
  #beginning: Promise<void> | null = null;

  constructor(private readonly deps: SecretDemandDependencies) {}

  /**
   * Registers a relay with such a subscriber; resolves when every mount publishes.
   * @returns the index up to which events may be missing
   */
  async require(relay: string): Promise<number> {
    const { sql, commit } = this.deps;
    commit(() => {
      sql.exec("INSERT OR IGNORE INTO secret_relays VALUES (?)", relay);
      sql.exec("UPDATE secret_demand SET idle = NULL");
    });
    if (this.#row().published === 0) {
      this.#beginning ??= this.#begin().finally(() => {
        this.#beginning = null;
      });
      await this.#beginning;
    }
    return this.#row().since;
  }

  /** Forgets a relay without subscribers. Runs inside a transaction. */
  remove(relay: string, now: number): void {
    const { sql } = this.deps;
    const { rowsWritten } = sql.exec("DELETE FROM secret_relays WHERE name = ?", relay);
    if (rowsWritten > 0 && !this.#hasRelays()) sql.exec("UPDATE secret_demand SET idle = ?", now);
  }

  /** Ends the publication without subscribers. @returns its epoch; null while events are wanted */
  endIfUnwanted(now: number): number | null {
    const { sql, commit, tell } = this.deps;
    const { epoch, published, idle } = this.#row();
    if (this.#beginning || this.#hasRelays() || (idle !== null && now - idle < LINGER_MS)) return null;
    if (published === 1) {
      commit(() => sql.exec("UPDATE secret_demand SET published = 0"));
      // A later mount that publishes without need asks, too.
      void tell(epoch, false).catch(() => undefined);
    }
    return epoch;
  }

  async #begin(): Promise<void> {
    const { sql, commit, newest, tell, publish } = this.deps;
    // A new epoch for each attempt: mounts may have ended the last one.
    const epoch = this.#row().epoch + 1;
    commit(() => sql.exec("UPDATE secret_demand SET epoch = ?", epoch));
    const mounts = await tell(epoch, true);
    await mapLimit(mounts, MAX_CONCURRENT, (mount) => publish(mount, epoch));
    commit(() => sql.exec("UPDATE secret_demand SET published = 1, since = ?", newest()));
  }

  #hasRelays(): boolean {
    return this.deps.sql.exec("SELECT 1 FROM secret_relays LIMIT 1").toArray().length > 0;
  }

  #row(): SecretDemandRow {
    return this.deps.sql.exec<SecretDemandRow>("SELECT epoch, published, since, idle FROM secret_demand").one();
  }
}
