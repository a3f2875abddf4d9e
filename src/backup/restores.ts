import { storedObject } from "../contracts/stored-objects.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { ObjectKind, ObjectName } from "../platform/durable/object-kinds.ts";
import { RESTORE_RUNS } from "../platform/durable/snapshot/snapshot-lock.ts";

/**
 * loading: rows come, and lie beside the tables; it may be undone. swapping: all have come, and they take the tables' places, in
 * one object after the other. releasing: they have, and the objects begin to work. From swapping on there is no way back.
 */
type Phase = "loading" | "swapping" | "releasing";

export interface RestoreState {
  readonly restore: string;
  readonly phase: Phase;
}

interface Host {
  readonly env: Env;
  readonly storage: DurableObjectStorage;
  /** Takes no change from now on; refused when the object was used. */
  hold(restore: string): Result<null>;
  swap(restore: string): Result<null>;
  release(restore: string): void;
  /** Forgets all memory; the call that asked for it fails. */
  restart(): void;
}

const KEY = "restore";
const LEDGER = '"restore:objects"';
const PAGE = 16;
/** Between two steps that nobody asks for. */
const STEP_MS = 1_000;

/**
 * A restore's ledger, and what it does once all rows have come: so that it goes on whoever dies. Belongs to `AccessControl`,
 * which is held itself meanwhile, and so keeps this beside its tables.
 */
export class Restores {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  state(): RestoreState | null {
    return this.#host.storage.kv.get<RestoreState>(KEY) ?? null;
  }

  /** When the next step is due without anybody asking, ms since 1970, or null. */
  nextDue(now: number): number | null {
    const state = this.state();
    return state === null || state.phase === "loading" ? null : now + STEP_MS;
  }

  /** Begins a restore. One that has died before all rows had come is undone first. */
  async begin(restore: string): Promise<Result<null>> {
    const before = this.state();
    if (before && before.phase !== "loading") return refuse("conflict", "a restore is about to end; wait for it");
    if (before) await this.#letGo(before.restore);
    const held = this.#host.hold(restore);
    if (!held.ok) return held;
    this.#host.storage.transactionSync(() => {
      this.#sql.exec(
        `CREATE TABLE IF NOT EXISTS ${LEDGER} (
           kind TEXT NOT NULL, name TEXT NOT NULL, swapped INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID`,
      );
      this.#keep({ restore, phase: "loading" });
    });
    return ok(null);
  }

  /** An object is about to be held: whatever happens, it will be let go. */
  join(restore: string, { kind, name }: ObjectName): Result<null> {
    if (!this.#is(restore, "loading"))
      return refuse("conflict", "the restore has ended: another was begun, or it was undone");
    this.#sql.exec(`INSERT OR IGNORE INTO ${LEDGER} (kind, name) VALUES (?, ?)`, kind, name);
    return ok(null);
  }

  /** All rows have come. */
  complete(restore: string): Result<null> {
    if (!this.#is(restore, "loading"))
      return refuse("conflict", "the restore has ended: another was begun, or it was undone");
    this.#move(restore, "swapping");
    return ok(null);
  }

  /** Undoes a restore, this one or whichever there is. Without one there is nothing to undo. */
  async undo(restore: string | null): Promise<Result<null>> {
    const state = this.state();
    if (!state || (restore !== null && state.restore !== restore)) return ok(null);
    if (state.phase !== "loading")
      return refuse("conflict", "all rows have come: the restore ends by itself in a moment");
    await this.#letGo(state.restore);
    this.#end(state.restore);
    return ok(null);
  }

  /** Goes on with what is to be done once all rows have come. @returns whether there is more */
  async step(): Promise<boolean> {
    const state = this.state();
    if (!state || state.phase === "loading") return false;
    const { restore, phase } = state;
    if (phase === "swapping") {
      const page = this.#page("WHERE swapped = 0");
      await Promise.all(page.map((object) => this.#swap(restore, object)));
      if (page.length > 0) return true;
      const swapped = this.#host.swap(restore);
      if (!swapped.ok) throw new Error(swapped.message);
      this.#move(restore, "releasing");
      // Behind the answer: what this object remembers is no longer true.
      setTimeout(() => this.#host.restart(), 0);
      return true;
    }
    const page = this.#page("");
    await Promise.all(page.map((object) => this.#release(restore, object)));
    if (page.length > 0) return true;
    this.#end(restore);
    return false;
  }

  get #sql(): SqlStorage {
    return this.#host.storage.sql;
  }

  #is(restore: string, phase: Phase): boolean {
    const state = this.state();
    return state?.restore === restore && state.phase === phase;
  }

  #keep(state: RestoreState): void {
    this.#host.storage.kv.put(KEY, state);
  }

  #move(restore: string, phase: Phase): void {
    this.#keep({ restore, phase });
    void this.#host.storage.setAlarm(Date.now() + STEP_MS);
  }

  #page(where: string): ObjectName[] {
    return this.#sql
      .exec<{ kind: ObjectKind; name: string }>(`SELECT kind, name FROM ${LEDGER} ${where} LIMIT ${PAGE}`)
      .toArray();
  }

  async #swap(restore: string, object: ObjectName): Promise<void> {
    const swapped = await storedObject(this.#host.env, object).swap(restore);
    if (!swapped.ok) throw new Error(swapped.message);
    // The call fails, as its object is gone with it.
    await storedObject(this.#host.env, object)
      .restart()
      .catch(() => undefined);
    this.#sql.exec(`UPDATE ${LEDGER} SET swapped = 1 WHERE kind = ? AND name = ?`, object.kind, object.name);
  }

  async #release(restore: string, object: ObjectName): Promise<void> {
    await storedObject(this.#host.env, object).release(restore);
    this.#sql.exec(`DELETE FROM ${LEDGER} WHERE kind = ? AND name = ?`, object.kind, object.name);
  }

  async #letGo(restore: string): Promise<void> {
    for (let page = this.#page(""); page.length > 0; page = this.#page(""))
      await Promise.all(page.map((object) => this.#release(restore, object)));
  }

  #end(restore: string): void {
    this.#host.storage.transactionSync(() => {
      this.#sql.exec(`DROP TABLE ${LEDGER}`);
      this.#host.storage.kv.delete(KEY);
      this.#host.release(restore);
    });
  }
}

/** What everybody is told while a restore has not ended. */
export const refusedByRestore = () => refuse("unavailable", RESTORE_RUNS);
