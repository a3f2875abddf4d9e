import { DurableObject } from "cloudflare:workers";
import { earliest } from "../../lib/earliest.ts";
import type { Result } from "../../lib/result.ts";
import { loadMasterKey } from "../crypto/master-key.ts";
import { textOf, warn } from "../observability/log.ts";
import { AlarmLag, type HealthStats } from "../observability/metrics/health-stats.ts";
import type { Series } from "../observability/metrics/series.ts";
import { StorageIdentity } from "./birth.ts";
import { GroupedCalls } from "./grouped-calls.ts";
import { objectStub } from "./jurisdiction.ts";
import { isBehind, isEmpty, migrateAll, type Schema } from "./migrations.ts";
import { type ChangedKeys, type NameChanges, NOTHING, type ObjectContext } from "./object-context.ts";
import type { KnownPage, ObjectKind, ObjectName } from "./object-kinds.ts";
import { Outbox, outboxMigrations } from "./outbox.ts";
import type { Deliver } from "./outbox-delivery.ts";
import { remote } from "./rpc.ts";
import type { SnapshotPage, SnapshotPosition } from "./snapshot/object-snapshot.ts";
import { abandonSnapshot, SnapshotLock, type SnapshotView } from "./snapshot/snapshot-lock.ts";
import type { Value } from "./snapshot/tables.ts";

/** The methods of `AccessControl` that every object calls. */
interface DeploymentRegister {
  begins(object: ObjectName, id: string, fresh: boolean): string;
  hasRestore(restore: string): boolean;
}

/** While an alarm runs, the next one is set this far ahead; after a failure it is the retry. */
const ALARM_GUARD_MS = 5_000;
/** More rows than any table has. */
const UNBOUNDED = 1e12;
/** Minimum gap between two alarms of an object: a defect must not become a busy loop. */
const ALARM_GAP_MS = 250;

/**
 * Base class of every Durable Object: a schema, an outbox, and one alarm that is set whenever rows are pending. State
 * changes go through `commit`, never through bare statements. Each request costs no more than the statements of its own
 * work.
 */
export abstract class StoredObject extends DurableObject<Env> {
  /** Migrations of the object's tables. */
  readonly schema: Schema;
  protected readonly sql: SqlStorage;
  protected readonly outbox: Outbox;
  /** This object, as its components use it. */
  protected readonly context: ObjectContext;
  /** The alarm as last set by this instance; undefined when unknown, as after a restart. */
  #armed: number | null | undefined;
  #committing = false;
  /** Changes of the running transaction so far. */
  #changed: ChangedKeys = NOTHING;
  readonly #grouped = new GroupedCalls((run) => this.commit(run, NOTHING));
  readonly #lag = new AlarmLag();
  readonly #lock: SnapshotLock;
  readonly #identity: StorageIdentity | null;
  /** Whether the storage is confirmed as the object's own, so that the object may change it. */
  #hasBegun: boolean;
  /** Work postponed until writes resume. */
  readonly #postponed: (() => void)[] = [];

  constructor(ctx: DurableObjectState, env: Env, schema: Schema, topics: Readonly<Record<string, Deliver>>) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.schema = { outbox: outboxMigrations, ...schema };
    const fresh = isEmpty(this.sql);
    ctx.storage.transactionSync(() => {
      if (!fresh && isBehind(this.sql, this.schema)) abandonSnapshot(ctx.storage);
      migrateAll(ctx.storage, this.schema);
    });
    const { kind } = this;
    const name = ctx.id.name ?? ctx.id.toString();
    this.#identity = kind && new StorageIdentity(ctx.storage, { kind, name }, fresh);
    this.#hasBegun = this.#identity?.isRecorded ?? true;
    this.#lock = new SnapshotLock(ctx.storage, this.schema);
    this.outbox = new Outbox(this.sql, topics, (change) => this.commit(change, NOTHING));
    const current = () => this.env;
    this.context = {
      name,
      sql: this.sql,
      outbox: this.outbox,
      get env() {
        return current();
      },
      commit: (change, keys) => this.commit(change, keys),
      waitUntil: (work) => ctx.waitUntil(work),
    };
    void loadMasterKey(env, (read) => ctx.blockConcurrencyWhile(read));
    if (!this.#hasBegun) ctx.blockConcurrencyWhile(() => this.#begin()).catch(() => {});
  }

  /** The object type, for objects included in snapshots: their storage is recorded, so its loss is detected. */
  protected get kind(): ObjectKind | null {
    return null;
  }

  /** See `StorageIdentity`. `AccessControl` keeps the record of all others. */
  protected register(object: ObjectName, id: string, fresh: boolean): Promise<string> {
    const ask = () => this.#deployment().begins(object, id, fresh);
    // One retry, since every deployment restarts the target.
    return ask().catch(ask);
  }

  #deployment() {
    return remote<DeploymentRegister>(objectStub(this.env, this.env.ACCESS_CONTROL, "main"));
  }

  /** Blocks requests meanwhile; on failure all pending requests receive the error. */
  async #begin(): Promise<void> {
    await this.#identity?.record((...given) => this.register(...given));
    this.#hasBegun = true;
    this.#catchUp();
  }

  /** The next deadline of this object's own rows (ms since 1970), or null. */
  protected abstract ownDeadline(): number | null;

  /** The object's own part of the alarm; the outbox is drained in parallel. May throw: the alarm is retried. */
  protected abstract onAlarm(now: number): Promise<void>;

  /** Called at each alarm, whether or not a deadline has passed. */
  protected onAnyAlarm(_now: number): void {}

  /** Like `ownDeadline` and `onAlarm`, while writes are blocked. */
  protected frozenDeadline(): number | null {
    return null;
  }

  protected async onFrozenAlarm(_now: number): Promise<void> {}

  /** Called at the end of each transaction that readers can see, inside it. */
  protected onChange(_keys: ChangedKeys): void {}

  /** Called after a rollback, also of an inner transaction: values cached from rows may be stale. */
  protected onRollback(): void {}

  /** Deadlines of pending rows: with any, an alarm is set. Tests check it on every object. */
  nextDue(): number | null {
    const now = Date.now();
    const own = this.#lock.isFrozen(now) ? [this.frozenDeadline()] : [this.outbox.nextDue(), this.ownDeadline()];
    return earliest(...own, this.#lock.nextDue(now));
  }

  /** Health stats of the object. Reads a few rows, independent of the table sizes. */
  vitals(): HealthStats {
    this.settle();
    const now = Date.now();
    return {
      bytes: this.sql.databaseSize,
      outbox: this.outbox.waiting(now),
      alarmLagMs: this.#lag.ms(this.nextDue(), now),
      series: this.measured(now),
    };
  }

  /** Metrics of this object type, without the leading labels that only callers can add. */
  protected measured(_now: number): Series[] {
    return [];
  }

  /**
   * Runs `change` as one transaction, rolled back whole when it throws, together with the alarm of its rows.
   * @param keys what it changes for readers; an outer transaction changes that of its inner ones, too
   * @throws Frozen while a snapshot or a restore blocks writes
   */
  protected commit<T>(change: () => T, keys: NameChanges = null): T {
    // The alarm releases an object that was held by mistake; an earlier version has set none.
    if (this.isBeingRestored) this.arm();
    this.#lock.check();
    // Before the transaction, which may fail, and in its turn, so that one write to disk has both.
    if (!this.#committing) this.outbox.settle();
    const named = () => {
      const result = change();
      const changed = typeof keys === "function" ? keys() : keys;
      this.#changed = this.#changed && changed && [...this.#changed, ...changed];
      return result;
    };
    // Only the outermost transaction arms the alarm: a rollback of the outer one would undo an alarm set by an inner
    // one.
    if (this.#committing) {
      try {
        return this.ctx.storage.transactionSync(named);
      } catch (failure) {
        this.#forget();
        throw failure;
      }
    }
    this.#committing = true;
    try {
      const { result, due } = this.ctx.storage.transactionSync(() => {
        const result = named();
        if (this.#changed === null || this.#changed.length > 0) this.onChange(this.#changed);
        return { result, due: this.nextDue() };
      });
      this.#arm(due);
      return result;
    } catch (failure) {
      this.#forget();
      throw failure;
    } finally {
      this.#committing = false;
      this.#changed = NOTHING;
    }
  }

  /** Runs a call with others that arrive together, as one transaction: see `GroupedCalls`. */
  protected grouped<T>(call: () => T, committed: (result: T) => T): T | Promise<T> {
    return this.#grouped.run(call, committed);
  }

  /** Runs calls that wait for their group, and stores what deliveries have written back: see `storedLater`. */
  protected settle(): void {
    if (!this.#committing) this.#grouped.flush();
    if (this.outbox.isUnsettled && !this.isFrozen) this.outbox.settle();
  }

  /** Drops values cached from rows, after a rollback of a transaction or of one inside it. */
  #forget(): void {
    this.outbox.forget();
    this.onRollback();
  }

  /** Sets the alarm after a deadline has appeared outside of a transaction. */
  protected arm(): void {
    this.#arm(this.nextDue());
  }

  /** Whether a restore is in progress on this object. */
  protected get isBeingRestored(): boolean {
    return this.#lock.restore !== null;
  }

  /** Whether writes are blocked. */
  protected get isFrozen(): boolean {
    return this.#lock.isFrozen(Date.now());
  }

  /** Resolves once writes resume, for all callers in their order. */
  protected resumed(): Promise<void> {
    return new Promise((resolve) => this.whenResumed(resolve));
  }

  /** Runs a write now, or once writes resume. */
  protected whenResumed(work: () => void): void {
    this.#postponed.push(work);
    // A freeze by itself sets no alarm.
    if (this.isFrozen) this.#arm(this.nextDue());
    else this.#catchUp();
  }

  // ---- snapshots and restores: see `SnapshotLock` ----

  prepareCut(snapshot: string): Result<null> {
    const prepared = this.#lock.prepare(snapshot, Date.now());
    this.#arm(this.nextDue());
    return prepared;
  }

  freeze(snapshot: string): Result<SnapshotView> {
    this.settle();
    const cut = this.#lock.freeze(snapshot, Date.now());
    // That of `prepareCut`, unless the object is new: writes resume without one.
    this.#arm(this.#lock.ends);
    return cut;
  }

  thaw(snapshot: string): boolean {
    const wasFrozen = this.#lock.thaw(snapshot);
    this.#catchUp();
    return wasFrozen;
  }

  cutPart(snapshot: string, from: SnapshotPosition | null): Result<SnapshotPage> {
    return this.#lock.page(snapshot, from);
  }

  keepCut(snapshot: string): void {
    this.#lock.heartbeat(snapshot, Date.now());
  }

  endCut(snapshot: string): void {
    this.#lock.endSnapshot(snapshot, Date.now());
    this.#arm(this.nextDue());
    this.#catchUp();
  }

  /** A page of the objects created by this one. @param after end of the previous page */
  known(_after: string): KnownPage {
    return { objects: [], next: null };
  }

  /** Whether only these tables have rows. */
  holdsOnly(tables: readonly string[]): boolean {
    const any = Object.fromEntries(tables.map((table) => [table, UNBOUNDED]));
    return this.#lock.tableBeyond(any) === null;
  }

  holdForRestore(restore: string, mayHold: Readonly<Record<string, number>>): Result<null> {
    const held = this.#lock.lockForRestore(restore, mayHold);
    this.#arm(this.nextDue());
    return held;
  }

  beginStaging(restore: string, view: SnapshotView): Result<null> {
    return this.#lock.beginStaging(restore, view);
  }

  stage(restore: string, table: string, columns: readonly string[], rows: readonly (readonly Value[])[]): Result<null> {
    return this.#lock.stage(restore, table, columns, rows);
  }

  swap(restore: string): Result<null> {
    this.outbox.reset();
    return this.#lock.swap(restore);
  }

  release(restore: string): void {
    if (this.#lock.release(restore)) this.#catchUp();
  }

  /** Whether a restore has begun and has not ended. `AccessControl` keeps the ledger. */
  protected restoreExists(restore: string): Promise<boolean> {
    return this.#deployment().hasRestore(restore);
  }

  /** Releases an object that a late call of a restore has held after the end of that restore. */
  async #releaseWithoutRestore(now: number): Promise<void> {
    const restore = this.#lock.restoreToCheck(now);
    if (restore === null) return;
    // An unknown answer is asked for again.
    const exists = await this.restoreExists(restore).catch(() => true);
    if (!exists) this.release(restore);
  }

  /** Discards all in-memory state. The call itself fails. */
  restart(): void {
    this.ctx.abort("its rows have been replaced");
  }

  // ---- the alarm ----

  /** Never throws: the runtime drops a failing alarm after six retries, and rows would wait for ever. */
  override async alarm(): Promise<void> {
    const now = Date.now();
    this.#armed = null;
    try {
      this.#lock.tick(now);
      if (this.#lock.isFrozen(now)) {
        await this.#releaseWithoutRestore(now);
        await this.onFrozenAlarm(now);
        return this.#arm(this.nextDue());
      }
      this.settle();
      this.#runPostponed();
      this.onAnyAlarm(now);
      const due = this.nextDue();
      this.#lag.recordAlarm(due, now);
      if (due === null || due > now) return this.#arm(due);
      // Set before any work: rows never wait without an alarm, also after a crash here.
      this.#arm(now + ALARM_GUARD_MS);
      const own = (async () => this.onAlarm(now))();
      // In parallel, so that a hanging receiver does not delay the object's own deadlines.
      await Promise.all([own, this.outbox.drain()]);
      const next = this.nextDue();
      if (next !== null) this.#arm(Math.max(next, Date.now() + ALARM_GAP_MS));
    } catch (failure) {
      // A commit of the handler may have armed for rows that are due, which would fail again without a pause.
      this.#armed = null;
      warn("alarm-failed", { object: this.ctx.id.name, because: textOf(failure) });
      this.#arm(now + ALARM_GUARD_MS);
    }
  }

  /** Runs postponed work if writes have resumed. */
  #catchUp(): void {
    if (this.isFrozen || !this.#hasBegun) return;
    this.#runPostponed();
    this.#arm(this.nextDue());
  }

  #runPostponed(): void {
    for (const work of this.#postponed.splice(0)) work();
  }

  /**
   * The alarm only moves to an earlier time. An alarm without due rows is cheap and re-arms itself; moving it with
   * every commit and delivery would cost one write each, and a round trip in production.
   */
  #arm(due: number | null): void {
    if (due === null || (typeof this.#armed === "number" && this.#armed <= due)) return;
    // Joins the running transaction: rows and alarm become durable together. Later than now, because workerd may lose
    // an alarm that, during its handler, is set again for the same millisecond.
    void this.ctx.storage.setAlarm(Math.max(due, Date.now() + 1));
    this.#armed = due;
  }
}
