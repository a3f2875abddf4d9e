import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { WorkQueue } from "../../platform/durable/work-queue.ts";
import type { DestinationDeletion } from "../configuration/destination-deletion.ts";
import { SingleRow } from "../rows.ts";
import type { Breaker } from "../scheduler/breaker.ts";
import type { PurgeRow } from "../schema.ts";
import type { Associations } from "./associations.ts";

/** During a purge a transient failure is final after this many attempts. */
export const PURGE_ATTEMPTS = 5;
/** A purge fails after this many failures in a row, even with untried secrets left. */
const HOPELESS = 10;
const PAGE = 500;

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
  readonly #row: SingleRow<PurgeRow>;

  constructor(
    object: ObjectContext,
    private readonly associations: Associations,
    private readonly work: WorkQueue,
    private readonly breaker: Breaker,
    private readonly deletion: DestinationDeletion,
  ) {
    this.#row = new SingleRow(object.sql, "purge");
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
    if (!this.runs()) {
      this.#row.put({ initiated: now, cursor: "", error: null, force: this.find()?.force ?? 0 });
      // A repeated request retries at once: earlier failures no longer hold the work back.
      this.breaker.close();
    }
    if (force) this.#row.put({ ...this.find(), force: 1 });
    if (!removes) this.#end();
  }

  /** When the next step is due (ms since 1970), or null while the purge waits or none is running. */
  due(): number | null {
    const purge = this.find();
    if (!purge || purge.error !== null) return null;
    return purge.cursor !== null || this.deletion.hasBegun() || this.#isOver() ? 0 : null;
  }

  /**
   * Performs one step: sets a page of associations to absent, deletes the destination, fails, or clears a page of rows.
   */
  step(now: number): void {
    const purge = this.find();
    if (!purge || this.due() === null) return;
    if (this.deletion.hasBegun()) this.#clearSome();
    else if (purge.cursor !== null) this.#removeSome(purge, purge.cursor, now);
    else if (purge.force === 1 || !this.associations.any()) this.#end();
    else this.#fail(purge);
  }

  #isOver(): boolean {
    // Work may be left of an association that was released during a task.
    if (!this.associations.any()) return true;
    return this.work.queued() + this.work.waiting() === 0 || (this.breaker.view()?.failures ?? 0) >= HOPELESS;
  }

  #removeSome(purge: PurgeRow, after: string, now: number): void {
    const page = this.associations.page(after, PAGE);
    for (const row of page) this.associations.setDesired(row, "absent", now);
    this.#row.put({ ...purge, cursor: page.length < PAGE ? null : (page.at(-1)?.id ?? null) });
  }

  #fail(purge: PurgeRow): void {
    this.#row.put({ ...purge, error: this.associations.failures(), force: 0 });
  }

  #end(): void {
    if (this.deletion.hasBegun()) return;
    this.breaker.close();
    this.deletion.begin();
    this.#clearSome();
  }

  #clearSome(): void {
    if (!this.deletion.clearSome()) return;
    this.work.clear();
    this.#row.delete();
  }
}
