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

/** Metadata of an object at the moment of a snapshot, without its rows. */
export interface SnapshotView {
  readonly versions: Versions;
  /** Last number issued by each AUTOINCREMENT table. */
  readonly sequences: Readonly<Record<string, number>>;
}

interface SnapshotHolder {
  readonly kind: "cut";
  readonly snapshot: string;
  /** Time at which the snapshot expires. */
  readonly ends: number;
}

interface RestoreHolder {
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
/** Heartbeat timeout after which a snapshot counts as abandoned. */
const HEARTBEAT_TIMEOUT_MS = 60_000;
/** Delay before a snapshot that could not be ended is ended again. */
const RETRY_MS = 5_000;
/** Interval at which an object that is held for a restore asks whether that restore still exists. */
export const RESTORE_CHECK_MS = 5 * 60_000;
const KEY = "hold";

const SNAPSHOT_RUNS = "a snapshot is being taken; try again in a moment";
export const RESTORE_RUNS =
  "a restore is under way, or has not ended: POST /v1/sys/snapshot begins it again, DELETE /v1/sys/snapshot undoes it";

/** Stored beside the tables, like the lock. */
const RESTORED = "restored";

/**
 * Ends the snapshot of an object, if there is one, because its tables are about to be altered: a step of the schema may
 * fail beside the triggers of the snapshot, or drop them. Its reader is told that it has ended. Call inside a
 * transaction, and before the lock is created.
 */
export function abandonSnapshot({ kv, sql }: DurableObjectStorage): void {
  const held = kv.get<SnapshotHolder | RestoreHolder>(KEY);
  if (held?.kind !== "cut") return;
  warn("cut-abandoned", { snapshot: held.snapshot });
  endSnapshot(sql);
  kv.delete(KEY);
}

/** The id of the restore that an object's rows came from; empty without one. */
export const restoredBy = ({ kv }: DurableObjectStorage): string => kv.get<string>(RESTORED) ?? "";

/**
 * Lock of one object for a snapshot or a restore. Stored beside the tables: no snapshot contains it, and it survives a
 * restart, except the freeze: a stored one would cost a commit in the time in which writes wait. `thaw` tells whether
 * the object has restarted since, so that the snapshot is refused then.
 *
 *   free ──prepare──> copying ──freeze──> frozen ──thaw, or QUIESCE_MS──> copying ──endCut, timeout──> free
 *   free ──hold──> held for a restore ──createShadowTables, insertShadowRows, swap──> held ──release──> free
 *
 * A call that arrives after the end of its restore may hold an object. So a held one asks for its restore from time to
 * time, and is released without it.
 */
export class SnapshotLock {
  #holder: SnapshotHolder | RestoreHolder | null;
  /** When an object that is held for a restore next asks for it; 0 after a restart, as idle objects have at each alarm. */
  #restoreCheck = 0;
  /** Until this time no other snapshot may start; lost with the object's memory. */
  #aliveUntil = 0;
  /** The snapshot that blocks writes, and when the block ends, ms since 1970; lost with the object's memory. */
  #frozen: { readonly snapshot: string; readonly until: number } | null = null;

  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly schema: Schema,
  ) {
    this.#holder = storage.kv.get<SnapshotHolder | RestoreHolder>(KEY) ?? null;
  }

  /** @throws Frozen while writes are blocked */
  check(): void {
    if (this.isFrozen(Date.now())) throw new Frozen(this.restore === null ? SNAPSHOT_RUNS : RESTORE_RUNS);
  }

  isFrozen(now: number): boolean {
    return this.restore !== null || (this.#frozen !== null && now < this.#frozen.until);
  }

  /** The id of the restore that holds the lock, or null. */
  get restore(): string | null {
    return this.#holder?.kind === "load" ? this.#holder.restore : null;
  }

  /** Time at which the snapshot expires, ms since 1970; null without one. */
  get ends(): number | null {
    return this.#holder?.kind === "cut" ? this.#holder.ends : null;
  }

  /** Time at which writes resume, the snapshot expires or the restore is asked for, ms since 1970, or null. */
  nextDue(now: number): number | null {
    if (this.restore !== null) return this.#restoreCheck;
    return this.#frozen && now < this.#frozen.until ? this.#frozen.until : this.ends;
  }

  /** Ends an abandoned snapshot. */
  tick(now: number): void {
    if (this.#holder?.kind === "cut" && this.#holder.ends <= now) this.endSnapshot(this.#holder.snapshot, now);
  }

  // ---- snapshot ----

  /** Does the slow part of a freeze in advance, while writes continue. Refused while another snapshot is alive. */
  prepare(snapshot: string, now: number): Result<null> {
    if (this.#holder?.kind === "load") return refuse("conflict", RESTORE_RUNS);
    const isMine = this.#holder?.snapshot === snapshot;
    if (this.#holder && !isMine && now < this.#aliveUntil)
      return refuse(
        "conflict",
        `another snapshot is being taken, or has died less than ${HEARTBEAT_TIMEOUT_MS / 1000} seconds ago`,
      );
    this.#aliveUntil = now + HEARTBEAT_TIMEOUT_MS;
    this.#frozen = null;
    this.#change({ kind: "cut", snapshot, ends: now + SNAPSHOT_TIMEOUT_MS }, (sql) => {
      // `freeze` moves it to its own moment.
      if (isMine) return;
      endSnapshot(sql);
      beginSnapshot(sql);
    });
    return ok(null);
  }

  /**
   * Moves the snapshot to this moment and blocks writes until `thaw`, at most for `QUIESCE_MS`. Writes nothing where
   * nothing has changed since `prepare`. Refused while another snapshot is alive.
   */
  freeze(snapshot: string, now: number): Result<SnapshotView> {
    if (this.#holder?.kind === "cut" && this.#holder.snapshot === snapshot) {
      renewSnapshot(this.storage);
      this.#aliveUntil = now + HEARTBEAT_TIMEOUT_MS;
    } else {
      const prepared = this.prepare(snapshot, now);
      if (!prepared.ok) return prepared;
    }
    this.#frozen = { snapshot, until: now + QUIESCE_MS };
    const { sql } = this.storage;
    return ok({ versions: versionsOf(sql), sequences: sequencesOf(sql) });
  }

  /** Resumes writes; the snapshot stays. @returns false when the object has restarted since `freeze`: it may have changed */
  thaw(snapshot: string): boolean {
    if (this.#frozen?.snapshot !== snapshot) return false;
    this.#frozen = null;
    return true;
  }

  /** Rows from a position on; null starts at the first. */
  page(snapshot: string, from: SnapshotPosition | null): Result<SnapshotPage> {
    const isMine = this.#holder?.kind === "cut" && this.#holder.snapshot === snapshot;
    const part = isMine ? snapshotPage(this.storage.sql, from) : null;
    return part ? ok(part) : refuse("conflict", "the snapshot has ended: another was begun, or it took too long");
  }

  /** Heartbeat of a snapshot. */
  heartbeat(snapshot: string, now: number): void {
    if (this.#holder?.kind === "cut" && this.#holder.snapshot === snapshot)
      this.#aliveUntil = now + HEARTBEAT_TIMEOUT_MS;
  }

  /** Ends a snapshot; retries later while a partially read cursor locks the tables. */
  endSnapshot(snapshot: string, now: number): void {
    const held = this.#holder;
    if (held?.kind !== "cut" || held.snapshot !== snapshot) return;
    this.#frozen = null;
    try {
      this.#change(null, endSnapshot);
    } catch (failure) {
      warn("cut-left", { snapshot, because: textOf(failure) });
      this.#change({ ...held, ends: now + RETRY_MS });
    }
  }

  // ---- restore ----

  /** The restore that holds the lock, at most once in `RESTORE_CHECK_MS`; null otherwise. */
  restoreToCheck(now: number): string | null {
    if (this.restore === null || now < this.#restoreCheck) return null;
    this.#restoreCheck = now + RESTORE_CHECK_MS;
    return this.restore;
  }

  /**
   * Blocks writes until the restore has ended. Idempotent.
   * @param mayHold tables with rows in an unused object, and their maximum number of rows
   * @returns a refusal when the object holds more
   */
  lockForRestore(restore: string, mayHold: Readonly<Record<string, number>>): Result<null> {
    if (this.#holder?.kind === "cut") return refuse("conflict", SNAPSHOT_RUNS);
    if (this.#holder?.restore === restore) return ok(null);
    const full = this.#holder ? null : this.tableBeyond(mayHold);
    if (full !== null) return refuse("conflict", `the deployment is not empty: there are rows in ${full}`);
    this.#change({ kind: "load", restore, staged: null, swapped: false }, dropShadowTables);
    this.#restoreCheck = Date.now() + RESTORE_CHECK_MS;
    return ok(null);
  }

  /** Creates the shadow tables. @param view metadata of the object in the snapshot */
  beginStaging(restore: string, { versions, sequences }: SnapshotView): Result<null> {
    const held = this.#restoreOf(restore);
    if (!held.ok) return held;
    for (const [module, applied] of Object.entries(versions)) {
      const known = this.schema[module]?.length ?? 0;
      if (applied > known) return refuse("invalid", `snapshot: ${new NewerSchema(module, applied, known).message}`);
    }
    const ddl = this.storage.transactionSync(() => createShadowTables(this.storage, this.schema, versions));
    this.#change({ ...held.value, staged: { ddl, versions, sequences } });
    return ok(null);
  }

  stage(restore: string, table: string, columns: readonly string[], rows: readonly (readonly Value[])[]): Result<null> {
    const held = this.#restoreOf(restore);
    if (!held.ok) return held;
    try {
      this.storage.transactionSync(() => insertShadowRows(this.storage.sql, table, columns, rows));
    } catch {
      // The database's message may quote a row, so it is not repeated.
      return refuse("invalid", `the rows of table ${table} do not fit its schema`);
    }
    return ok(null);
  }

  /** Replaces the tables; the object stays locked. Idempotent. The caller must discard values cached from the rows. */
  swap(restore: string): Result<null> {
    const held = this.#restoreOf(restore);
    if (!held.ok || held.value.swapped) return held.ok ? ok(null) : held;
    const { staged } = held.value;
    if (!staged) return refuse("invalid", "no rows have come");
    this.#change({ ...held.value, swapped: true }, () => {
      swapShadowTables(this.storage, this.schema, staged);
      this.storage.kv.put(RESTORED, restore);
    });
    return ok(null);
  }

  /** Ends a restore: keeps replaced tables, drops shadow tables. @returns whether the object was locked for it */
  release(restore: string): boolean {
    if (this.restore !== restore) return false;
    this.#change(null, dropShadowTables);
    return true;
  }

  #restoreOf(restore: string): { ok: true; value: RestoreHolder } | Refusal {
    return this.#holder?.kind === "load" && this.#holder.restore === restore
      ? ok(this.#holder)
      : refuse("conflict", "the restore has ended: another was begun, or it was undone");
  }

  /** A table with more rows than allowed (none, unless stated), or null. */
  tableBeyond(mayHold: Readonly<Record<string, number>>): string | null {
    const { sql } = this.storage;
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

  /** Updates memory only after the write succeeded. */
  #change(held: SnapshotHolder | RestoreHolder | null, change?: (sql: SqlStorage) => void): void {
    this.storage.transactionSync(() => {
      change?.(this.storage.sql);
      if (held) this.storage.kv.put(KEY, held);
      else this.storage.kv.delete(KEY);
    });
    this.#holder = held;
  }
}
