import { DurableObject } from "cloudflare:workers";
import { textOf, warn } from "../log.ts";
import { type Deliver, Outbox, outboxMigrations } from "../outbox.ts";
import { backoff } from "../work/backoff.ts";
import { type Migration, migrate } from "./migrations.ts";

/**
 * What every object of this service shares: a schema, an outbox, and one alarm that is set whenever rows wait.
 * State changes go through `commit`, never through bare statements.
 */
export abstract class StoredObject extends DurableObject<Env> {
  protected readonly sql: SqlStorage;
  protected readonly outbox: Outbox;
  /** The alarm as last set by this instance; undefined when unknown, as after a restart. */
  #armed: number | null | undefined;
  #failedAlarms = 0;

  constructor(
    ctx: DurableObjectState,
    env: Env,
    schema: Readonly<Record<string, readonly Migration[]>>,
    topics: Readonly<Record<string, Deliver>>,
  ) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    migrate(ctx.storage, "outbox", outboxMigrations);
    for (const [module, steps] of Object.entries(schema)) migrate(ctx.storage, module, steps);
    this.outbox = new Outbox(this.sql, topics, (change) => this.commit(change));
  }

  /** When this object's own rows next need the alarm (ms since 1970), or null. */
  protected abstract ownDeadline(): number | null;

  /** The object's own part of the alarm; the outbox is drained before. May throw: the alarm comes again. */
  protected abstract onAlarm(now: number): Promise<void>;

  /** Rows that wait, as the time they wait for: with any, an alarm is set. Tests check it on every object. */
  nextDue(): number | null {
    const due = [this.outbox.nextDue(), this.ownDeadline()].filter((at) => at !== null);
    return due.length === 0 ? null : Math.min(...due);
  }

  /** Runs `change` as one transaction, rolled back whole when it throws, together with the alarm that its rows need. */
  protected commit<T>(change: () => T): T {
    const result = this.ctx.storage.transactionSync(change);
    this.#arm(this.nextDue());
    return result;
  }

  /** Never throws: the runtime gives a failing alarm up after six more tries, and rows would wait for ever. */
  override async alarm(): Promise<void> {
    this.#armed = null;
    let floor = 0;
    try {
      await this.outbox.drain();
      await this.onAlarm(Date.now());
      this.#failedAlarms = 0;
    } catch (failure) {
      warn("alarm-failed", { object: this.ctx.id.name, because: textOf(failure) });
      floor = Date.now() + backoff(this.#failedAlarms++, { cap: 60_000 });
    }
    const due = this.nextDue();
    this.#arm(due === null ? null : Math.max(due, floor));
  }

  #arm(due: number | null): void {
    if (due === this.#armed) return;
    // Both calls join the running transaction: the rows and their alarm become durable together.
    if (due === null) void this.ctx.storage.deleteAlarm();
    else void this.ctx.storage.setAlarm(due);
    this.#armed = due;
  }
}
