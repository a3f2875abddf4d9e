import { DurableObject } from "cloudflare:workers";
import type { Result } from "../../lib/result.ts";
import { textOf, warn } from "../observability/log.ts";
import { AlarmLag, type HealthStats } from "../observability/metrics/health-stats.ts";
import type { Series } from "../observability/metrics/series.ts";
import { StorageIdentity } from "./birth.ts";
import { isEmpty, migrateAll, type Schema } from "./migrations.ts";
import type { KnownPage, ObjectKind, ObjectName } from "./object-kinds.ts";
import { type Deliver, Outbox, outboxMigrations } from "./outbox.ts";
import { remote } from "./rpc.ts";
import type { SnapshotPage, SnapshotPosition } from "./snapshot/object-snapshot.ts";
import { SnapshotLock, type SnapshotView } from "./snapshot/snapshot-lock.ts";
import type { Value } from "./snapshot/tables.ts";

/** `AccessControl`, as far as every object calls it. */
interface BirthRegister {
  begins(object: ObjectName, id: string, fresh: boolean): string;
}

/** While an alarm works, the next one is set this far ahead; after one that failed, it is the next try. */
const ALARM_GUARD_MS = 5_000;
/** More rows than a table has. */
const UNBOUNDED = 1e12;
/** Between two alarms of an object, whatever its rows say: a defect must not become a busy loop. */
const ALARM_GAP_MS = 250;

/**
 * What every object of this service shares: a schema, an outbox, and one alarm that is set whenever rows wait.
 * State changes go through `commit`, never through bare statements.
 */
export abstract class StoredObject extends DurableObject<Env> {
  /** How the object's tables have been made, step by step. */
  readonly schema: Schema;
  protected readonly sql: SqlStorage;
  protected readonly outbox: Outbox;
  /** The alarm as last set by this instance; undefined when unknown, as after a restart. */
  #armed: number | null | undefined;
  #committing = false;
  readonly #lag = new AlarmLag();
  readonly #lock: SnapshotLock;
  readonly #birth: StorageIdentity | null;
  /** Whether the object may change what is in its storage: that is its own. */
  #hasBegun: boolean;
  /** What waits for the object to take changes again. */
  readonly #postponed: (() => void)[] = [];

  constructor(ctx: DurableObjectState, env: Env, schema: Schema, topics: Readonly<Record<string, Deliver>>) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.schema = { outbox: outboxMigrations, ...schema };
    const fresh = isEmpty(this.sql);
    migrateAll(ctx.storage, this.schema);
    const { kind } = this;
    const name = ctx.id.name ?? ctx.id.toString();
    this.#birth = kind && new StorageIdentity(ctx.storage, { kind, name }, fresh);
    this.#hasBegun = this.#birth?.isRecorded ?? true;
    this.#lock = new SnapshotLock(ctx.storage, this.schema);
    this.outbox = new Outbox(this.sql, topics, (change) => this.commit(change));
    if (!this.#hasBegun) ctx.blockConcurrencyWhile(() => this.#begin()).catch(() => {});
  }

  /** Its kind, for objects that a snapshot holds: their storage is on record, so that its loss is noticed. */
  protected get kind(): ObjectKind | null {
    return null;
  }

  /** See `Birth`. `AccessControl` keeps the record of all others. */
  protected register(object: ObjectName, id: string, fresh: boolean): Promise<string> {
    const ask = () => remote<BirthRegister>(this.env.ACCESS_CONTROL.getByName("main")).begins(object, id, fresh);
    // Once more, as every deployment restarts the one that is asked.
    return ask().catch(ask);
  }

  /** Nothing is let in meanwhile; a failure is the answer to all who wait. */
  async #begin(): Promise<void> {
    await this.#birth?.record((...given) => this.register(...given));
    this.#hasBegun = true;
    this.#catchUp();
  }

  /** When this object's own rows next need the alarm (ms since 1970), or null. */
  protected abstract ownDeadline(): number | null;

  /** The object's own part of the alarm; the outbox is drained beside it. May throw: the alarm comes again. */
  protected abstract onAlarm(now: number): Promise<void>;

  /** Like `ownDeadline` and `onAlarm`, while the object takes no change. */
  protected frozenDeadline(): number | null {
    return null;
  }

  protected async onFrozenAlarm(_now: number): Promise<void> {}

  /** A commit has failed: what an object remembers of rows may not be true any more. */
  protected onRollback(): void {}

  /** Rows that wait, as the time they wait for: with any, an alarm is set. Tests check it on every object. */
  nextDue(): number | null {
    const now = Date.now();
    const own = this.#lock.isFrozen(now) ? [this.frozenDeadline()] : [this.outbox.nextDue(), this.ownDeadline()];
    const due = [...own, this.#lock.nextDue(now)].filter((at) => at !== null);
    return due.length === 0 ? null : Math.min(...due);
  }

  /** How the object is. Reads a few rows, however many there are. */
  vitals(): HealthStats {
    const now = Date.now();
    return {
      bytes: this.sql.databaseSize,
      outbox: this.outbox.waiting(now),
      alarmLagMs: this.#lag.ms(this.nextDue(), now),
      series: this.measured(now),
    };
  }

  /** What there is to measure in this kind of object; labels that only others know are left out in front. */
  protected measured(_now: number): Series[] {
    return [];
  }

  /**
   * Runs `change` as one transaction, rolled back whole when it throws, together with the alarm that its rows need.
   * @throws Frozen while a snapshot or a restore lets nothing change
   */
  protected commit<T>(change: () => T): T {
    this.#lock.check();
    // Armed only by the outermost: what an inner one had armed would be undone if the outer one fails.
    if (this.#committing) return this.ctx.storage.transactionSync(change);
    this.#committing = true;
    try {
      const { result, due } = this.ctx.storage.transactionSync(() => ({ result: change(), due: this.nextDue() }));
      this.#arm(due);
      return result;
    } catch (failure) {
      this.onRollback();
      throw failure;
    } finally {
      this.#committing = false;
    }
  }

  /** Whether a restore has begun here that has not ended. */
  protected get isBeingRestored(): boolean {
    return this.#lock.restore !== null;
  }

  /** Whether the object takes no change just now. */
  protected get isFrozen(): boolean {
    return this.#lock.isFrozen(Date.now());
  }

  /** Resolves once the object takes changes again, for all who wait in their order. */
  protected resumed(): Promise<void> {
    return new Promise((resolve) => this.whenResumed(resolve));
  }

  /** Runs what changes rows: now, or once the object takes changes again. */
  protected whenResumed(work: () => void): void {
    this.#postponed.push(work);
    if (!this.isFrozen) this.#catchUp();
  }

  // ---- snapshots and restores: see `Hold` ----

  prepareCut(snapshot: string): Result<null> {
    const prepared = this.#lock.prepare(snapshot, Date.now());
    this.#arm(this.nextDue());
    return prepared;
  }

  freeze(snapshot: string): Result<SnapshotView> {
    const cut = this.#lock.freeze(snapshot, Date.now());
    this.#arm(this.nextDue());
    return cut;
  }

  thaw(snapshot: string): boolean {
    const wasFrozen = this.#lock.thaw(snapshot, Date.now());
    this.#catchUp();
    return wasFrozen;
  }

  cutPart(snapshot: string, from: SnapshotPosition | null): Result<SnapshotPage> {
    return this.#lock.part(snapshot, from);
  }

  keepCut(snapshot: string): void {
    this.#lock.keep(snapshot, Date.now());
  }

  endCut(snapshot: string): void {
    this.#lock.endCut(snapshot, Date.now());
    this.#arm(this.nextDue());
    this.#catchUp();
  }

  /** A page of the objects that exist because of this one. @param after where the page before has ended */
  known(_after: string): KnownPage {
    return { objects: [], next: null };
  }

  /** Whether nothing is here but rows of these tables. */
  holdsOnly(tables: readonly string[]): boolean {
    const any = Object.fromEntries(tables.map((table) => [table, UNBOUNDED]));
    return this.#lock.tableBeyond(any) === null;
  }

  holdForRestore(restore: string, mayHold: Readonly<Record<string, number>>): Result<null> {
    return this.#lock.hold(restore, mayHold);
  }

  beginStaging(restore: string, view: SnapshotView): Result<null> {
    return this.#lock.beginStaging(restore, view);
  }

  stage(restore: string, table: string, columns: readonly string[], rows: readonly (readonly Value[])[]): Result<null> {
    return this.#lock.stage(restore, table, columns, rows);
  }

  swap(restore: string): Result<null> {
    return this.#lock.swap(restore);
  }

  release(restore: string): void {
    if (this.#lock.release(restore)) this.#catchUp();
  }

  /** Forgets everything that is only in memory. The call itself fails. */
  restart(): void {
    this.ctx.abort("its rows have been replaced");
  }

  // ---- the alarm ----

  /** Never throws: the runtime gives a failing alarm up after six more tries, and rows would wait for ever. */
  override async alarm(): Promise<void> {
    const now = Date.now();
    this.#armed = null;
    try {
      this.#lock.tick(now);
      if (this.#lock.isFrozen(now)) {
        await this.onFrozenAlarm(now);
        return this.#arm(this.nextDue());
      }
      this.#runPostponed();
      const due = this.nextDue();
      this.#lag.recordAlarm(due, now);
      if (due === null || due > now) return this.#arm(due);
      // Set before anything is tried: rows never wait without an alarm, however this ends.
      this.#arm(now + ALARM_GUARD_MS);
      const own = (async () => this.onAlarm(now))();
      // Beside each other, so that a receiver that hangs does not hold up the object's own deadlines.
      await Promise.all([own, this.outbox.drain()]);
      const next = this.nextDue();
      if (next !== null) this.#arm(Math.max(next, Date.now() + ALARM_GAP_MS));
    } catch (failure) {
      warn("alarm-failed", { object: this.ctx.id.name, because: textOf(failure) });
      this.#arm(now + ALARM_GUARD_MS);
    }
  }

  /** The object takes changes again, if it does. */
  #catchUp(): void {
    if (this.isFrozen || !this.#hasBegun) return;
    this.#runPostponed();
    this.#arm(this.nextDue());
  }

  #runPostponed(): void {
    for (const work of this.#postponed.splice(0)) work();
  }

  /**
   * The alarm is only ever moved to an earlier time. One that finds nothing due costs little and sets itself again, while
   * moving it with every commit and every delivery would cost each of them a write, and in production a round trip.
   */
  #arm(due: number | null): void {
    if (due === null || (typeof this.#armed === "number" && this.#armed <= due)) return;
    // Joins the running transaction: the rows and their alarm become durable together. Later than now, because workerd may
    // lose an alarm that, while it rings, is set again for the very same millisecond.
    void this.ctx.storage.setAlarm(Math.max(due, Date.now() + 1));
    this.#armed = due;
  }
}
