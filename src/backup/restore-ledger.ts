import { ok, type Result, refuse } from "../lib/result.ts";
import type { ObjectKind, ObjectName } from "../platform/durable/object-kinds.ts";
import { RESTORE_RUNS } from "../platform/durable/snapshot/snapshot-lock.ts";
import { storedObject } from "../rpc/stored-objects.ts";

/**
 * Phases of a restore.
 *
 *   loading ──complete──> swapping ──every object──> releasing ──every object──> done
 *      └──undo──> undoing ──every object──> done, or loading for the next restore
 *
 * loading: rows arrive in shadow tables. swapping: shadow tables replace the tables, one object after the other.
 * releasing: objects resume work. From swapping on, a restore cannot be undone. undoing: no object joins any more, and
 * those that have joined are released; the alarm goes on after a crash.
 */
type Phase = "loading" | "swapping" | "releasing" | "undoing";

interface RestoreState {
  readonly restore: string;
  readonly phase: Phase;
}

interface RestoreLedgerDependencies {
  readonly env: Env;
  readonly storage: DurableObjectStorage;
  /** Blocks writes; refused for a used object. */
  hold(restore: string): Result<null>;
  swap(restore: string): Result<null>;
  release(restore: string): void;
  /** Discards all in-memory state; the call itself fails. */
  restart(): void;
}

const KEY = "restore";
const LEDGER = '"restore:objects"';
const PAGE = 16;
/** Pause between two steps without a caller. */
const STEP_MS = 1_000;
const ENDED = refuse("conflict", "the restore has ended: another was begun, or it was undone");

/**
 * Ledger and driver of a restore: it survives a crash of any participant. Belongs to `AccessControl`, which is locked
 * itself meanwhile, so the ledger is stored beside its tables.
 */
export class RestoreLedger {
  /** Whether the tables of the object were replaced under the state that it holds in memory. */
  #isStale = false;

  constructor(private readonly dependencies: RestoreLedgerDependencies) {}

  state(): RestoreState | null {
    return this.dependencies.storage.kv.get<RestoreState>(KEY) ?? null;
  }

  has(restore: string): boolean {
    return this.state()?.restore === restore;
  }

  /** When the next step is due without a caller, ms since 1970, or null. */
  nextDue(now: number): number | null {
    const state = this.state();
    return state === null || state.phase === "loading" ? null : now + STEP_MS;
  }

  /** Starts a restore. An abandoned one in phase loading is undone first. */
  async begin(restore: string): Promise<Result<null>> {
    const before = this.state();
    if (before && !isLoading(before)) return refuse("conflict", "a restore is about to end; wait for it");
    if (before) await this.#letGo(before.restore);
    const now = this.state();
    if (now && now.restore !== before?.restore) return refuse("conflict", "another restore has begun meanwhile");
    const held = this.dependencies.hold(restore);
    if (!held.ok) return held;
    this.dependencies.storage.transactionSync(() => {
      this.#sql.exec(
        `CREATE TABLE IF NOT EXISTS ${LEDGER} (
           kind TEXT NOT NULL, name TEXT NOT NULL, swapped INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID`,
      );
      this.#keep({ restore, phase: "loading" });
    });
    return ok(null);
  }

  /** Records an object before it is locked, so that it will be released in any case. */
  join(restore: string, { kind, name }: ObjectName): Result<null> {
    if (!this.#is(restore, "loading")) return ENDED;
    this.#sql.exec(`INSERT OR IGNORE INTO ${LEDGER} (kind, name) VALUES (?, ?)`, kind, name);
    return ok(null);
  }

  /** All rows have arrived. */
  complete(restore: string): Result<null> {
    if (!this.#is(restore, "loading")) return ENDED;
    this.#move(restore, "swapping");
    return ok(null);
  }

  /** Undoes the given restore, or any. No-op without one. */
  async undo(restore: string | null): Promise<Result<null>> {
    const state = this.state();
    if (!state || (restore !== null && state.restore !== restore)) return ok(null);
    if (!isLoading(state)) return refuse("conflict", "all rows have come: the restore ends by itself in a moment");
    await this.#letGo(state.restore);
    // A concurrent call may have ended it, or begun the next.
    if (this.has(state.restore)) this.#end(state.restore);
    return ok(null);
  }

  /** Performs the next step after all rows have arrived, or of an undo that was cut off. @returns whether steps remain */
  async step(): Promise<boolean> {
    const state = this.state();
    if (!state || state.phase === "loading") return false;
    if (state.phase === "undoing") {
      await this.undo(state.restore);
      return false;
    }
    // In a separate call: the swap is acknowledged and durable, and no request is served before the restart.
    if (this.#isStale) this.dependencies.restart();
    const { restore, phase } = state;
    if (phase === "swapping") {
      const page = this.#page("WHERE swapped = 0");
      await Promise.all(page.map((object) => this.#swap(restore, object)));
      if (page.length > 0) return true;
      const swapped = this.dependencies.swap(restore);
      if (!swapped.ok) throw new Error(swapped.message);
      this.#move(restore, "releasing");
      this.#isStale = true;
      return true;
    }
    const page = this.#page("");
    await Promise.all(page.map((object) => this.#release(restore, object)));
    if (page.length > 0) return true;
    this.#end(restore);
    return false;
  }

  get #sql(): SqlStorage {
    return this.dependencies.storage.sql;
  }

  #is(restore: string, phase: Phase): boolean {
    const state = this.state();
    return state?.restore === restore && state.phase === phase;
  }

  #keep(state: RestoreState): void {
    this.dependencies.storage.kv.put(KEY, state);
  }

  #move(restore: string, phase: Phase): void {
    this.#keep({ restore, phase });
    void this.dependencies.storage.setAlarm(Date.now() + STEP_MS);
  }

  #page(where: string): ObjectName[] {
    return this.#sql
      .exec<{ kind: ObjectKind; name: string }>(`SELECT kind, name FROM ${LEDGER} ${where} LIMIT ${PAGE}`)
      .toArray();
  }

  async #swap(restore: string, object: ObjectName): Promise<void> {
    const swapped = await storedObject(this.dependencies.env, object).swap(restore);
    if (!swapped.ok) throw new Error(swapped.message);
    // The call fails because its object restarts.
    await storedObject(this.dependencies.env, object)
      .restart()
      .catch(() => undefined);
    this.#sql.exec(`UPDATE ${LEDGER} SET swapped = 1 WHERE kind = ? AND name = ?`, object.kind, object.name);
  }

  async #release(restore: string, object: ObjectName): Promise<void> {
    await storedObject(this.dependencies.env, object).release(restore);
    // A concurrent call may have ended the restore, and the next one may have the object in its ledger.
    if (!this.has(restore)) return;
    this.#sql.exec(`DELETE FROM ${LEDGER} WHERE kind = ? AND name = ?`, object.kind, object.name);
  }

  /** Lets no more objects join, and releases those that have joined, unless a concurrent call ends the restore first. */
  async #letGo(restore: string): Promise<void> {
    if (this.#is(restore, "loading")) this.#move(restore, "undoing");
    while (this.#is(restore, "undoing")) {
      const page = this.#page("");
      if (page.length === 0) return;
      await Promise.all(page.map((object) => this.#release(restore, object)));
    }
  }

  #end(restore: string): void {
    this.dependencies.storage.transactionSync(() => {
      this.#sql.exec(`DROP TABLE ${LEDGER}`);
      this.dependencies.storage.kv.delete(KEY);
      this.dependencies.release(restore);
    });
  }
}

/** Whether the rows of a restore have not all come, so that it can be undone. */
const isLoading = ({ phase }: RestoreState): boolean => phase === "loading" || phase === "undoing";

/** Refusal of other requests during a restore. */
export const refusedByRestore = () => refuse("unavailable", RESTORE_RUNS);
