import { ok, type Refusal, type Result, refuse } from "../../../lib/result.ts";
import { textOf, warn } from "../../observability/log.ts";
import { NewerSchema, type Schema, type Versions, versionsOf } from "../migrations.ts";
import { Frozen, QUIESCE_MS } from "./frozen.ts";
import {
  beginSnapshot,
  endSnapshot,
  renewSnapshot,
  type SnapshotPage,
  type SnapshotPosition,
  snapshotPage,
} from "./object-snapshot.ts";
import { createShadowTables, dropShadowTables, insertShadowRows, swapShadowTables } from "./shadow-tables.ts";
import { type Ddl, quoted, sequencesOf, tablesOf, type Value } from "./tables.ts";

/** What an object is at the moment of a snapshot, but for its rows. */
export interface SnapshotView {
  readonly versions: Versions;
  /** The last number that each table has given out. */
  readonly sequences: Readonly<Record<string, number>>;
}

interface CutHold {
  readonly kind: "cut";
  readonly snapshot: string;
  /** Until when no change is taken, ms since 1970. */
  readonly frozenUntil: number;
  /** When the cut ends by itself. */
  readonly ends: number;
}

interface LoadHold {
  readonly kind: "load";
  readonly restore: string;
  readonly staged: {
    readonly ddl: Ddl;
    readonly versions: Versions;
    readonly sequences: SnapshotView["sequences"];
  } | null;
  readonly swapped: boolean;
}

/** A snapshot that takes longer than this has failed. */
export const SNAPSHOT_TIMEOUT_MS = 60 * 60_000;
/** Nothing was heard of a snapshot for so long: it has died. */
const HEARTBEAT_TIMEOUT_MS = 60_000;
/** When a cut that could not be ended is tried again. */
const RETRY_MS = 5_000;
const KEY = "hold";

export const SNAPSHOT_RUNS = "a snapshot is being taken; try again in a moment";
export const RESTORE_RUNS =
  "a restore is under way, or has not ended: POST /v1/sys/snapshot begins it again, DELETE /v1/sys/snapshot undoes it";

/**
 * How an object is held for a snapshot or a restore: frozen, so that it takes no change, and with a cut or with rows to come.
 * Kept beside the tables, so that no snapshot has it, and that it outlives the object's memory.
 */
export class SnapshotLock {
  readonly #storage: DurableObjectStorage;
  readonly #schema: Schema;
  #held: CutHold | LoadHold | null;
  /** Until when no other snapshot may be begun; forgotten with the object's memory. */
  #aliveUntil = 0;

  constructor(storage: DurableObjectStorage, schema: Schema) {
    this.#storage = storage;
    this.#schema = schema;
    this.#held = storage.kv.get<CutHold | LoadHold>(KEY) ?? null;
  }

  /** @throws Frozen while no change is taken */
  check(): void {
    if (!this.#held || !this.isFrozen(Date.now())) return;
    throw new Frozen(this.#held.kind === "load" ? RESTORE_RUNS : SNAPSHOT_RUNS);
  }

  isFrozen(now: number): boolean {
    return this.#held !== null && (this.#held.kind === "load" || now < this.#held.frozenUntil);
  }

  /** The restore that the object is held for, or null. */
  get restore(): string | null {
    return this.#held?.kind === "load" ? this.#held.restore : null;
  }

  /** When a cut thaws or ends by itself, ms since 1970, or null. */
  nextDue(now: number): number | null {
    if (this.#held?.kind !== "cut") return null;
    return now < this.#held.frozenUntil ? this.#held.frozenUntil : this.#held.ends;
  }

  /** Ends a cut whose snapshot has died. */
  tick(now: number): void {
    if (this.#held?.kind === "cut" && this.#held.ends <= now) this.endCut(this.#held.snapshot, now);
  }

  // ---- snapshot ----

  /** Does ahead what a freeze takes time for, while changes are taken. Refused while another snapshot lives. */
  prepare(snapshot: string, now: number): Result<null> {
    return this.#cut(snapshot, now, 0);
  }

  /** Has the cut be of now, and takes no change until `thaw`, or for `FREEZE_MS`. Refused while another snapshot lives. */
  freeze(snapshot: string, now: number): Result<SnapshotView> {
    const cut = this.#cut(snapshot, now, now + QUIESCE_MS);
    if (!cut.ok) return cut;
    const { sql } = this.#storage;
    return ok({ versions: versionsOf(sql), sequences: sequencesOf(sql) });
  }

  #cut(snapshot: string, now: number, frozenUntil: number): Result<null> {
    if (this.#held?.kind === "load") return refuse("conflict", RESTORE_RUNS);
    const isMine = this.#held?.snapshot === snapshot;
    if (this.#held && !isMine && now < this.#aliveUntil)
      return refuse(
        "conflict",
        `another snapshot is being taken, or has died less than ${HEARTBEAT_TIMEOUT_MS / 1000} seconds ago`,
      );
    this.#aliveUntil = now + HEARTBEAT_TIMEOUT_MS;
    this.#change({ kind: "cut", snapshot, frozenUntil, ends: now + SNAPSHOT_TIMEOUT_MS }, (sql) => {
      if (isMine) return renewSnapshot(sql);
      endSnapshot(sql);
      beginSnapshot(sql);
    });
    return ok(null);
  }

  /** Takes changes again; the cut stays. @returns whether none was taken until now */
  thaw(snapshot: string, now: number): boolean {
    if (this.#held?.kind !== "cut" || this.#held.snapshot !== snapshot || now >= this.#held.frozenUntil) return false;
    this.#change({ ...this.#held, frozenUntil: 0 });
    return true;
  }

  /** Rows from a place on; null: from the first. */
  part(snapshot: string, from: SnapshotPosition | null): Result<SnapshotPage> {
    const isMine = this.#held?.kind === "cut" && this.#held.snapshot === snapshot;
    const part = isMine ? snapshotPage(this.#storage.sql, from) : null;
    return part ? ok(part) : refuse("conflict", "the snapshot has ended: another was begun, or it took too long");
  }

  /** The snapshot goes on. */
  keep(snapshot: string, now: number): void {
    if (this.#held?.kind === "cut" && this.#held.snapshot === snapshot) this.#aliveUntil = now + HEARTBEAT_TIMEOUT_MS;
  }

  /** Ends a cut; a little later when a walk through a table was left halfway, which locks all until it is forgotten. */
  endCut(snapshot: string, now: number): void {
    const held = this.#held;
    if (held?.kind !== "cut" || held.snapshot !== snapshot) return;
    try {
      this.#change(null, endSnapshot);
    } catch (failure) {
      warn("cut-left", { snapshot, because: textOf(failure) });
      this.#change({ ...held, frozenUntil: 0, ends: now + RETRY_MS });
    }
  }

  // ---- restore ----

  /**
   * Takes no change until the restore has ended. Idempotent.
   * @param mayHold tables that have rows in an object nobody has used yet, and how many at most
   * @returns a refusal when the object holds more
   */
  hold(restore: string, mayHold: Readonly<Record<string, number>>): Result<null> {
    if (this.#held?.kind === "cut") return refuse("conflict", SNAPSHOT_RUNS);
    if (this.#held?.restore === restore) return ok(null);
    const full = this.#held ? null : this.tableBeyond(mayHold);
    if (full !== null) return refuse("conflict", `the deployment is not empty: there are rows in ${full}`);
    this.#change({ kind: "load", restore, staged: null, swapped: false }, dropShadowTables);
    return ok(null);
  }

  /** Makes room for the rows to come. @param view what the object was */
  beginStaging(restore: string, { versions, sequences }: SnapshotView): Result<null> {
    const held = this.#heldFor(restore);
    if (!held.ok) return held;
    for (const [module, applied] of Object.entries(versions)) {
      const known = this.#schema[module]?.length ?? 0;
      if (applied > known) return refuse("invalid", `snapshot: ${new NewerSchema(module, applied, known).message}`);
    }
    const ddl = this.#storage.transactionSync(() => createShadowTables(this.#storage, this.#schema, versions));
    this.#change({ ...held.value, staged: { ddl, versions, sequences } });
    return ok(null);
  }

  stage(restore: string, table: string, columns: readonly string[], rows: readonly (readonly Value[])[]): Result<null> {
    const held = this.#heldFor(restore);
    if (!held.ok) return held;
    try {
      this.#storage.transactionSync(() => insertShadowRows(this.#storage.sql, table, columns, rows));
    } catch {
      // Not its text: that may quote a row.
      return refuse("invalid", `the rows of table ${table} do not fit its schema`);
    }
    return ok(null);
  }

  /** Puts what has come in place; the object stays held. Idempotent. What it remembers of its rows is not true any more. */
  swap(restore: string): Result<null> {
    const held = this.#heldFor(restore);
    if (!held.ok || held.value.swapped) return held.ok ? ok(null) : held;
    const { staged } = held.value;
    if (!staged) return refuse("invalid", "no rows have come");
    this.#change({ ...held.value, swapped: true }, () => swapShadowTables(this.#storage, this.#schema, staged));
    return ok(null);
  }

  /** Ends what a restore did: keeps what was swapped, forgets what was not. @returns whether the object was held for it */
  release(restore: string): boolean {
    if (this.restore !== restore) return false;
    this.#change(null, dropShadowTables);
    return true;
  }

  #heldFor(restore: string): { ok: true; value: LoadHold } | Refusal {
    return this.#held?.kind === "load" && this.#held.restore === restore
      ? ok(this.#held)
      : refuse("conflict", "the restore has ended: another was begun, or it was undone");
  }

  /** A table that has more rows than it may have (none, where nothing is said), or null. */
  tableBeyond(mayHold: Readonly<Record<string, number>>): string | null {
    const { sql } = this.#storage;
    for (const { name } of tablesOf(sql)) {
      const { n } = sql
        .exec<{ n: number }>(
          `SELECT count(*) AS n FROM (SELECT 1 FROM ${quoted(name)} LIMIT ?)`,
          (mayHold[name] ?? 0) + 1,
        )
        .one();
      if (n > (mayHold[name] ?? 0)) return name;
    }
    return null;
  }

  /** In memory only once it is certain. */
  #change(held: CutHold | LoadHold | null, change?: (sql: SqlStorage) => void): void {
    this.#storage.transactionSync(() => {
      change?.(this.#storage.sql);
      if (held) this.#storage.kv.put(KEY, held);
      else this.#storage.kv.delete(KEY);
    });
    this.#held = held;
  }
}
