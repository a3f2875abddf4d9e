import { Memo } from "../platform/durable/memo.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import type { WorkQueue } from "../platform/durable/work-queue.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { announceAssociation, announceDestination } from "./announcements.ts";
import { type Associations, secretOf } from "./associations.ts";
import type { Breaker } from "./breaker.ts";
import type { DestinationRecord } from "./destination-record.ts";
import type { Resync } from "./resync.ts";
import type { PurgeRow } from "./schema.ts";
import type { StoredObjects } from "./stored-objects.ts";

/** During a purge a transient failure is final after this many attempts. */
export const PURGE_ATTEMPTS = 5;
/** A purge fails after this many failures in a row, even with untried secrets left. */
const HOPELESS = 10;
const PAGE = 500;

interface Dependencies {
  readonly sql: SqlStorage;
  readonly record: DestinationRecord;
  readonly associations: Associations;
  readonly storedObjects: StoredObjects;
  readonly work: WorkQueue;
  readonly breaker: Breaker;
  readonly resync: Resync;
  readonly outbox: Outbox;
  /** The destination object's name. */
  readonly self: string;
}

/**
 * Deletion of a destination: sets each association to absent, page by page, and deletes the destination after the last
 * one. A forced purge deletes the destination at once and clears the rows afterwards. Owned by `SyncDestination`, driven
 * by its alarm and by polls. Costs one transaction per page of 500 associations. Methods that write are called inside
 * the object's transaction.
 *
 *            begin             last association gone, or force
 *   (none) --------> running ----------------------------------> clearing --> (none)
 *                     ^  |                                           ^
 *               begin |  | work left that fails                      |
 *                     |  v                                           |
 *                    failed ---------------- begin with force -------+
 */
export class Purge {
  readonly #dependencies: Dependencies;

  readonly #row: Memo<PurgeRow | null>;

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
    this.#row = new Memo(() => dependencies.sql.exec<PurgeRow>("SELECT * FROM purge").toArray()[0] ?? null);
  }

  find(): PurgeRow | null {
    return this.#row.get();
  }

  /** Drops the cached row after a rollback. */
  forget(): void {
    this.#row.forget();
  }

  /** Whether a purge is running, which refuses set and remove. A failed purge does not count. */
  runs(): boolean {
    return this.find()?.error === null;
  }

  /**
   * Begins a purge; a running one continues.
   * @param removes whether the objects are removed at the provider first; @param force deletes even if that fails
   */
  begin({ removes, force }: { readonly removes: boolean; readonly force: boolean }, now: number): void {
    const { breaker } = this.#dependencies;
    if (!this.runs()) {
      this.#write(
        `INSERT INTO purge (id, initiated, cursor, error, force) VALUES (1, ?, '', NULL, 0)
         ON CONFLICT (id) DO UPDATE SET initiated = excluded.initiated, cursor = '', error = NULL`,
        now,
      );
      // A repeated request retries at once: earlier failures no longer hold the work back.
      breaker.close();
    }
    if (force) this.#write("UPDATE purge SET force = 1");
    if (!removes) this.#end();
  }

  /** When the next step is due (ms since 1970), or null while the purge waits or none is running. */
  due(): number | null {
    const purge = this.find();
    if (!purge || purge.error !== null) return null;
    return purge.cursor !== null || this.#dependencies.record.row() === null || this.#isOver() ? 0 : null;
  }

  /** Performs one step: sets a page of associations to absent, deletes the destination, fails, or clears a page of rows. */
  step(now: number): void {
    const { record, associations } = this.#dependencies;
    const purge = this.find();
    if (!purge || this.due() === null) return;
    if (record.row() === null) this.#clearSome();
    else if (purge.cursor !== null) this.#removeSome(purge.cursor, now);
    else if (purge.force === 1 || !associations.any()) this.#end();
    else this.#fail();
  }

  #isOver(): boolean {
    const { work, breaker } = this.#dependencies;
    return work.queued() + work.waiting() === 0 || (breaker.view()?.failures ?? 0) >= HOPELESS;
  }

  #removeSome(after: string, now: number): void {
    const { associations } = this.#dependencies;
    const page = associations.page(after, PAGE);
    for (const row of page) associations.setDesired(row, "absent", now);
    this.#write("UPDATE purge SET cursor = ?", page.length < PAGE ? null : (page.at(-1)?.id ?? null));
  }

  #fail(): void {
    this.#write("UPDATE purge SET error = ?, force = 0", this.#dependencies.associations.failures());
  }

  #end(): void {
    const { record, breaker, outbox, self } = this.#dependencies;
    if (!record.row()) return;
    record.delete();
    breaker.close();
    announceDestination(outbox, true);
    recordAction("destination-ended", { destination: self });
    this.#clearSome();
  }

  #clearSome(): void {
    const { associations, storedObjects, resync, outbox } = this.#dependencies;
    const page = associations.page("", PAGE);
    for (const row of page) {
      associations.delete(row.id);
      announceAssociation(outbox, secretOf(row));
    }
    if (page.length === PAGE || storedObjects.clear(PAGE)) return;
    this.#write("DELETE FROM purge");
    resync.end();
    outbox.enlistLatest("key-holder", "", null);
  }

  #write(statement: string, ...values: SqlStorageValue[]): void {
    this.#dependencies.sql.exec(statement, ...values);
    this.#row.forget();
  }
}
