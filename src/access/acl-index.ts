import { Waiters } from "../platform/durable/blocking/waiters.ts";

/** One table for all: a waiting read looks again after any change of them, and decides by its own objects. */
const TABLE = "acl";

/**
 * The index of the newest change of tokens, policies, roles, auth methods and binding rules, and the blocking queries that
 * wait for the next. In memory: after a restart it begins with the newest index of the event log, so that a waiting read
 * may look once too often, and never misses a change.
 */
export class AclIndex {
  readonly #newestOfLog: () => Promise<number>;
  readonly #waiters = new Waiters(() => this.#newest);
  #newest = 0;

  /** @param newestOfLog the newest index that the event log has given out */
  constructor(newestOfLog: () => Promise<number>) {
    this.#newestOfLog = newestOfLog;
  }

  /** Records the indexes of published changes; `wake` tells the waiting queries, once the rows have their indexes. */
  record(indexes: readonly number[]): void {
    this.#newest = Math.max(this.#newest, ...indexes);
  }

  wake(): void {
    this.#waiters.wake([TABLE]);
  }

  async newest(): Promise<number> {
    if (this.#newest === 0) this.record([await this.#newestOfLog()]);
    return this.#newest;
  }

  /** The newest index, as soon as it is beyond `since` or after `waitMs`. */
  async changed(since: number, waitMs: number): Promise<number> {
    await this.newest();
    return this.#waiters.changed([TABLE], since, waitMs);
  }
}
