import { Kept } from "../platform/durable/memo.ts";
import type { WorkList } from "../platform/durable/work-queue.ts";
import type { Associations } from "./associations.ts";
import type { Breaker } from "./breaker.ts";
import type { DestinationRecord } from "./destination-record.ts";
import type { AssociationRow, DestinationRow, PurgeRow } from "./schema.ts";
import type { StoredObjects } from "./stored-objects.ts";

/** A failure that may pass counts as final for a purge after so many attempts. */
export const PURGE_ATTEMPTS = 5;
/** So many failures in a row, and a purge has failed, however many secrets it has not tried yet. */
const HOPELESS = 10;
const PAGE = 500;

interface Host {
  readonly sql: SqlStorage;
  readonly record: DestinationRecord;
  readonly associations: Associations;
  readonly storedObjects: StoredObjects;
  readonly work: WorkList;
  readonly breaker: Breaker;
  setDesired(row: AssociationRow, wish: "absent", now: number): void;
  /** An association is no more. */
  forget(row: AssociationRow): void;
  /** The destination is no more; nothing but its associations is left to be cleared away. */
  ended(row: DestinationRow): void;
  /** Nothing is left. */
  cleared(): void;
}

/**
 * The end of a destination: each association is told to go, page by page, and when the last is gone so is the destination. A
 * forced end does not wait for that, and clears away behind what nobody sees any more. All methods that write are called
 * inside the object's transaction.
 */
export class Purge {
  readonly #host: Host;

  readonly #row: Kept<PurgeRow | null>;

  constructor(host: Host) {
    this.#host = host;
    this.#row = new Kept(() => host.sql.exec<PurgeRow>("SELECT * FROM purge").toArray()[0] ?? null);
  }

  find(): PurgeRow | null {
    return this.#row.get();
  }

  /** What is kept of it in memory may not be true any more. */
  forget(): void {
    this.#row.forget();
  }

  /** Whether one runs: then nothing is set or removed. One that failed does not. */
  runs(): boolean {
    return this.find()?.error === null;
  }

  /**
   * Begins the end; one that is on its way goes on as it is.
   * @param removes whether what is outside is removed first; @param force ends even if that fails
   */
  begin({ removes, force }: { readonly removes: boolean; readonly force: boolean }, now: number): void {
    const { breaker } = this.#host;
    if (!this.runs()) {
      this.#write(
        `INSERT INTO purge (id, initiated, cursor, error, force) VALUES (1, ?, '', NULL, 0)
         ON CONFLICT (id) DO UPDATE SET initiated = excluded.initiated, cursor = '', error = NULL`,
        now,
      );
      // Whoever asks knows of the failures so far, and has a fresh try coming.
      breaker.close();
    }
    if (force) this.#write("UPDATE purge SET force = 1");
    if (!removes) this.#end();
  }

  /** When the next step can be taken, or null while there is none. */
  due(): number | null {
    const purge = this.find();
    if (!purge || purge.error !== null) return null;
    return purge.cursor !== null || this.#host.record.row() === null || this.#isOver() ? 0 : null;
  }

  /** One step: tells a page of associations to go, ends, fails, or clears away a page. */
  step(now: number): void {
    const { record, associations } = this.#host;
    const purge = this.find();
    if (!purge || this.due() === null) return;
    if (record.row() === null) this.#clearSome();
    else if (purge.cursor !== null) this.#tellSome(purge.cursor, now);
    else if (purge.force === 1 || !associations.any()) this.#end();
    else this.#fail();
  }

  #isOver(): boolean {
    const { work, breaker } = this.#host;
    return work.queued() + work.waiting() === 0 || (breaker.view()?.failures ?? 0) >= HOPELESS;
  }

  #tellSome(after: string, now: number): void {
    const { associations, setDesired } = this.#host;
    const page = associations.page(after, PAGE);
    for (const row of page) setDesired(row, "absent", now);
    this.#write("UPDATE purge SET cursor = ?", page.length < PAGE ? null : (page.at(-1)?.id ?? null));
  }

  #fail(): void {
    this.#write("UPDATE purge SET error = ?, force = 0", this.#host.associations.failures());
  }

  #end(): void {
    const { record, breaker, ended } = this.#host;
    const row = record.row();
    if (!row) return;
    record.delete();
    breaker.close();
    ended(row);
    this.#clearSome();
  }

  #clearSome(): void {
    const { associations, storedObjects, forget, cleared } = this.#host;
    const page = associations.page("", PAGE);
    for (const row of page) {
      associations.delete(row.id);
      forget(row);
    }
    if (page.length === PAGE || storedObjects.clear(PAGE)) return;
    this.#write("DELETE FROM purge");
    cleared();
  }

  #write(statement: string, ...values: SqlStorageValue[]): void {
    this.#host.sql.exec(statement, ...values);
    this.#row.forget();
  }
}
