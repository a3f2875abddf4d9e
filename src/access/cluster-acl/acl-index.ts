import type { Append } from "../../contracts/event.ts";
import { Waiters } from "../../platform/durable/blocking/waiters.ts";
import type { EventSource } from "../../publishing/event-publisher.ts";

/** One table for all: a waiting read looks again after any change of them, and decides by its own objects. */
const TABLE = "acl";

/**
 * The index of the newest change of tokens, policies, roles, auth methods and binding rules, and the blocking queries that
 * wait for the next. Changes are published through it. In memory: after a restart it begins with the newest index of the
 * event log. So a waiting read may look once too often, but misses no change.
 */
export class AclIndex {
  readonly #waiters = new Waiters(() => this.#newest);
  #newest = 0;

  constructor(private readonly source: EventSource) {}

  /** Appends published changes to the event log. Waiting queries read again: by then the rows have their indexes. */
  async append(entries: Append[]): Promise<number[]> {
    const indexes = await this.source.append(entries);
    this.#record(indexes);
    this.#waiters.wake([TABLE]);
    return indexes;
  }

  async newest(): Promise<number> {
    if (this.#newest === 0) this.#record([await this.source.newest()]);
    return this.#newest;
  }

  /** The newest index, as soon as it is beyond `since` or after `waitMs`: see `Waiters`. */
  async changed(since: number, waitMs: number): Promise<number | null> {
    await this.newest();
    return this.#waiters.changed([TABLE], since, waitMs);
  }

  #record(indexes: readonly number[]): void {
    this.#newest = Math.max(this.#newest, ...indexes);
  }
}
