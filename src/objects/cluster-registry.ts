import { Ingestion } from "../cluster/ingestion.ts";
import { REPORTED_TOPICS, type Report } from "../cluster/report.ts";
import { Reported, type ReportedObject, type ReportedPage, type ReportedQuery } from "../cluster/reported.ts";
import { clusterMigrations } from "../cluster/schema.ts";
import type { Stamp, Stamped } from "../cluster/stamp.ts";
import { TableIndexes } from "../cluster/table-indexes.ts";
import { Waiters } from "../cluster/waiters.ts";
import { Journal } from "../events/journal.ts";
import { StoredObject } from "./stored-object.ts";
import { eventLog } from "./stubs.ts";

/**
 * Owner of what the cluster consists of. One for the deployment, so that an allocation and what it claims change in one
 * transaction. The parts decide; this class is their surface.
 */
export class ClusterRegistry extends StoredObject {
  readonly #indexes: TableIndexes;
  readonly #waiters: Waiters;
  readonly #journal: Journal<Stamp>;
  readonly #reported: Reported;
  readonly #ingestion: Ingestion;
  /** Who gives the rows of a table their indexes. */
  readonly #stamped: Readonly<Record<string, Stamped>>;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, { cluster: clusterMigrations }, { event: (_lane, rows) => this.#journal.deliver(rows) });
    this.#indexes = new TableIndexes(this.sql);
    this.#waiters = new Waiters((table) => this.#indexes.of(table));
    this.#journal = new Journal({
      commit: (change) => this.commit(change),
      enlist: (entry) => this.outbox.enlist("event", "log", entry),
      drain: () => this.outbox.drain("event"),
      append: (entries) => eventLog(this.env).append("cluster-registry", entries),
      stamp: (stamp, index) => this.#stamp(stamp, index),
      stamped: () => this.#wakeLater(),
    });
    this.#reported = new Reported(this.sql);
    this.#ingestion = new Ingestion(this.sql, this.#journal, this.#reported);
    this.#stamped = {
      ...Object.fromEntries(REPORTED_TOPICS.map((topic) => [topic, this.#reported])),
      report_sources: this.#ingestion,
    };
  }

  // ---- reads ----

  /** The newest index of these tables, as soon as it is beyond `since` or `waitMs` are over. */
  changed(tables: readonly string[], since: number, waitMs: number): Promise<number> {
    return this.#waiters.changed(tables, since, waitMs);
  }

  /** One page of reported objects, and the index of their table. */
  reported(query: ReportedQuery): ReportedPage & { readonly index: number } {
    return { ...this.#reported.page(query), index: this.#indexes.of(query.topic) };
  }

  readReported(
    topic: Report["topic"],
    id: string,
    namespace: string | null,
  ): (ReportedObject & { index: number }) | null {
    const found = this.#reported.find(topic, id, namespace);
    return found && { ...found, index: this.#indexes.of(topic) };
  }

  // ---- writes ----

  /** Takes in what a scheduler reports: see `Ingestion`. */
  ingest(...[source, reports]: Parameters<Ingestion["take"]>): ReturnType<Ingestion["take"]> {
    return this.#ingestion.take(source, reports);
  }

  // ---- inside ----

  protected override ownDeadline(): number | null {
    return null;
  }

  protected override async onAlarm(): Promise<void> {}

  protected override rolledBack(): void {
    this.#indexes.reload();
  }

  #stamp(stamp: Stamp, index: number): void {
    this.#stamped[stamp.table]?.stamp(stamp, index);
    this.#indexes.note(stamp.table, index);
  }

  /** Readers look at rows once the transaction that changed them is over. */
  #wakeLater(): void {
    queueMicrotask(() => this.#waiters.wake(this.#indexes.takeMoved()));
  }
}
