import { CLUSTER_CONTENT } from "../cluster/namespace-content.ts";
import { nodeMigrations } from "../cluster/nodes/schema.ts";
import { Ingestion, nodesOf } from "../cluster/reports/ingestion.ts";
import { JobJoins } from "../cluster/reports/job-joins.ts";
import { JOB_SUMMARY_TABLES } from "../cluster/reports/job-shapes.ts";
import { fromStream } from "../cluster/reports/report-stream.ts";
import { Reported } from "../cluster/reports/reported.ts";
import { clusterMigrations } from "../cluster/reports/schema.ts";
import { together } from "../contracts/change-set.ts";
import type { ClusterRegistryApi } from "../contracts/cluster-registry.ts";
import { EventPublisher, EventSource } from "../contracts/event-publisher.ts";
import type { OperationResult } from "../contracts/node-operation.ts";
import type { CountedJob, JoinedPage, ReportedQuery } from "../contracts/reports.ts";
import {
  type FullList,
  type JobTexts,
  type NamedObjects,
  REPORTED_TOPICS,
  type ReportedObject,
  type ReportedPage,
  type ReportedTopic,
  type SourceLine,
} from "../contracts/reports.ts";
import { accessControl, nodeSession } from "../contracts/stubs.ts";
import { type Result, refuse } from "../lib/result.ts";
import { enrolmentMigrations } from "../node-agents/schema.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import type { IndexBackfill, IndexedRows } from "../platform/durable/blocking/index-backfill.ts";
import { SharedRead } from "../platform/durable/blocking/shared-read.ts";
import { TableIndexes } from "../platform/durable/blocking/table-indexes.ts";
import type { Timed } from "../platform/durable/blocking/timed.ts";
import { Waiters } from "../platform/durable/blocking/waiters.ts";
import { EndedNamespaces } from "../platform/durable/ended-namespaces.ts";
import { knownPage, type Source } from "../platform/durable/object-inventory.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import { clusterMeasures } from "../platform/observability/metrics/measures.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import type { Series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";
import { claimMigrations } from "../volumes/claims/schema.ts";
import { Csi } from "../volumes/csi/csi.ts";
import { CSI_OPERATION } from "../volumes/csi/operations.ts";
import { csiPluginMigrations, csiVolumeMigrations } from "../volumes/csi/schema.ts";
import { HostVolumeComponents } from "../volumes/host/components.ts";
import { VOLUME_OPERATION } from "../volumes/host/operations.ts";
import { hostVolumeMigrations } from "../volumes/host/schema.ts";
import { NodeParts } from "./node-parts.ts";
import { NodeSurface } from "./node-surface.ts";

/**
 * Owns the cluster state: nodes, volumes, claims and scheduler reports. One instance per deployment, so that an
 * allocation and its claims change in one transaction. Components decide; this class is their RPC surface. Reads cost
 * index seeks; blocking queries share one read per change.
 */
export class ClusterRegistry extends NodeSurface implements ClusterRegistryApi {
  readonly #indexes: TableIndexes;
  readonly #waiters: Waiters;
  readonly #publisher: EventPublisher<IndexBackfill>;
  readonly #reported: Reported;
  readonly #joins: JobJoins;
  readonly #joined: SharedRead<JoinedPage>;
  readonly #ingestion: Ingestion;
  protected override readonly members: NodeParts;
  protected override readonly host: HostVolumeComponents;
  protected override readonly csi: Csi;
  protected override readonly ended: EndedNamespaces;
  #keys: DataKeys | undefined;
  /** Whether registering as a key holder was enlisted since start. */
  #isKeyHolderEnlisted = false;
  /** Components that set the indexes of a table's rows. */
  readonly #indexedRows: Readonly<Record<string, IndexedRows>>;
  /** Components with deadlines. */
  readonly #timed: readonly Timed[];
  /** One statement for all deadlines, because every commit evaluates it. */
  readonly #due: string;

  protected override get kind() {
    return "cluster-registry" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      {
        cluster: clusterMigrations,
        nodes: nodeMigrations,
        enrolment: enrolmentMigrations,
        volumes: hostVolumeMigrations,
        claims: claimMigrations,
        csi_plugins: csiPluginMigrations,
        data_keys: dataKeyMigrations,
        csi_volumes: csiVolumeMigrations,
        measures: clusterMeasures,
      },
      {
        event: (_lane, rows) => this.#publisher.deliver(rows),
        revocation: (node) => nodeSession(this.env, node).revoke(),
        volume: (_volume, rows) => this.host.volumes.deliver(rows),
        csi: (_operation, rows) => this.csi.dispatcher.deliver(rows),
        "key-holder": () => this.#tellKeyHolder(),
      },
    );
    this.#indexes = new TableIndexes(this.sql);
    this.#waiters = new Waiters((table) => this.#indexes.of(table));
    this.#publisher = new EventPublisher({
      source: new EventSource(env, "cluster-registry"),
      outbox: this.outbox,
      rows: { setIndex: (stamp, index) => this.#stamp(stamp, index), indexesSet: () => this.#wakeAfterCommit() },
      commit: (change) => this.commit(change),
    });
    this.#reported = new Reported(this.sql);
    this.ended = new EndedNamespaces(this.sql, CLUSTER_CONTENT, GONE);
    this.#joins = new JobJoins(this.sql);
    this.#joined = new SharedRead(this.sql);
    this.csi = new Csi({
      ...{ sql: this.sql, publisher: this.#publisher },
      keys: () => this.#dataKeys(),
      holdKeys: () => this.#promiseKeyHolder(),
      promise: (operation) => this.#enlistCsi(operation),
      start: (node, operation) => nodeSession(this.env, node).start(operation),
    });
    this.host = new HostVolumeComponents({
      ...{ sql: this.sql, publisher: this.#publisher },
      promise: (volume, operation) => this.outbox.enlist("volume", volume, operation),
      send: (volume) => this.outbox.drain("volume", volume),
      start: (node, operation) => nodeSession(this.env, node).start(operation),
    });
    this.members = new NodeParts({
      ...{ sql: this.sql, publisher: this.#publisher, reported: this.#reported },
      followers: () => [...this.host.followers, ...this.csi.followers],
      graceMs: () => settings(this.env).NODE_GRACE_MS,
      commit: (change) => this.commit(change),
      enqueueRevocation: (node) => this.outbox.enlist("revocation", node, null),
      abandon: (node) => this.host.volumes.abandon(node),
      revoked: (node) => this.outbox.drain("revocation", node),
    });
    const { nodes, drains } = this.members;
    this.#ingestion = new Ingestion({
      ...{ sql: this.sql, publisher: this.#publisher, reported: this.#reported, nodes },
      observers: {
        Allocation: [
          (before, after, line) => together(nodesOf(before, after).map((id) => drains.allocationChanged(id, line))),
          (before, after, _line, report) => this.host.claims.allocationChanged(before, after, report),
          (before, after, _line, report) => this.csi.intake.allocationChanged(before, after, report),
        ],
        Job: [
          (_before, after, _line, report) => this.host.claims.jobChanged(after, report),
          (_before, after, _line, report) => this.csi.intake.jobChanged(after, report),
        ],
      },
    });
    this.#indexedRows = {
      ...this.members.stamped,
      ...this.host.stamped,
      ...this.csi.stamped,
      ...Object.fromEntries(REPORTED_TOPICS.map((topic) => [topic, this.#reported])),
      report_sources: this.#ingestion,
    };
    this.#timed = [...this.members.timed, ...this.host.timed, ...this.csi.timed];
    this.#due = `SELECT ${this.#timed.map(({ due }) => `(${due})`).join(", ")}`;
  }

  // ---- reads ----

  /** The newest index of these tables, as soon as it is beyond `since` or after `waitMs`. */
  changed(tables: readonly string[], since: number, waitMs: number): Promise<number> {
    return this.#waiters.changed(tables, since, waitMs);
  }

  /** One page of reported objects with their joined rows, and its index. */
  reported(query: ReportedQuery, whole = false): JoinedPage & { readonly index: number } {
    const page = this.#joined.of({ query, whole }, () => this.#join(this.#reported.page(query), query.topic, whole));
    return { ...page, index: this.#newestOf(query.topic) };
  }

  /** One reported object (see `Reported.find`) and the index of its table. */
  readReported(
    topic: ReportedTopic,
    id: string,
    namespace: string,
    only: boolean,
  ): { readonly object: ReportedObject | null; readonly index: number; readonly jobs: JobTexts } {
    const object = this.#reported.find(topic, id, namespace, only);
    const { jobs } = this.#join({ rows: object ? [object] : [], next: null }, topic, true);
    return { object, index: this.#indexes.of(topic), jobs };
  }

  /** A job, the state of its allocations, and the index of both; null when missing. */
  jobSummary(namespace: string, id: string): { readonly found: CountedJob | null; readonly index: number } {
    const job = this.#reported.find("Job", id, namespace, true);
    const found = job && { job, counts: this.#joins.counts(job) };
    return { found, index: this.#newestOf("Job") };
  }

  /** Allocations by id (see `Reported.named`) and the types of their jobs. */
  allocations(ids: readonly string[], namespace: string | null): NamedObjects & { readonly jobs: JobTexts } {
    const named = this.#reported.named("Allocation", ids, namespace);
    return { ...named, jobs: this.#joins.types(named.objects) };
  }

  // ---- writes ----

  /** Ingests scheduler reports: see `Ingestion`. */
  ingest(...parameters: Parameters<Ingestion["apply"]>): ReturnType<Ingestion["apply"]> {
    return this.#ingestion.apply(...parameters);
  }

  /** Like `ingest`, for bodies larger than one RPC. */
  async ingestStream(
    source: SourceLine | null,
    reports: ReadableStream<Uint8Array>,
    full: FullList | null,
  ): ReturnType<Ingestion["apply"]> {
    return this.#ingestion.apply(source, await fromStream(reports), full);
  }

  /** Result of a node operation. May be delivered twice. */
  async operationDone(nodeId: string, id: string, result: OperationResult): Promise<void> {
    if (await this.host.volumes.operationDone(nodeId, id, result)) return;
    await this.csi.dispatcher.operationDone(nodeId, id, result);
  }

  /** Sessions of agents, and of nodes with open operations. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, SESSIONS, after);
  }

  rekey(term: number): void {
    this.commit(() => this.#dataKeys().rotate(term, Date.now()));
  }

  /** Deletes a flat namespace without content, and its ended reports: see `EndedNamespaces`. */
  endNamespace(id: string, name: string): Result<null> {
    return this.commit(() => {
      const ended = this.ended.end(id, name, Date.now());
      if (ended.ok) this.#reported.forget(name);
      return ended;
    });
  }

  // ---- inside ----

  #join(page: ReportedPage, topic: ReportedTopic, whole: boolean): JoinedPage {
    if (topic === "Allocation") {
      return whole ? this.#joins.withJobs(page) : { ...page, jobs: this.#joins.types(page.rows) };
    }
    if (topic === "Job") return { ...page, jobs: {}, counts: page.rows.map((job) => this.#joins.counts(job)) };
    return { ...page, jobs: {} };
  }

  /** A list of jobs includes the state of their allocations, so it changes with them. */
  #newestOf(topic: ReportedTopic): number {
    const tables = topic === "Job" ? JOB_SUMMARY_TABLES : [topic];
    return Math.max(...tables.map((table) => this.#indexes.of(table)));
  }

  protected override indexOf(table: string): number {
    return this.#indexes.of(table);
  }

  protected override measured(): Series[] {
    return countedSeries(this.sql);
  }

  protected override ownDeadline(): number | null {
    const [times = []] = this.sql.exec(this.#due).raw<(number | null)[]>();
    const due = times.filter((at) => at !== null);
    return due.length === 0 ? null : Math.min(...due);
  }

  protected override async onAlarm(now: number): Promise<void> {
    await Promise.all(this.#timed.map((part) => part.onAlarm(now)));
  }

  protected override onRollback(): void {
    this.#isKeyHolderEnlisted = false;
    // The discarded transaction may have created the first key.
    this.#keys = undefined;
    this.#indexes.reload();
    this.csi.plugins.forget();
  }

  /** Delivers after the transaction that enlists it. */
  #enlistCsi(operation: string): void {
    this.outbox.enlist("csi", operation, operation);
    queueMicrotask(() => void this.outbox.drain("csi", operation));
  }

  #promiseKeyHolder(): void {
    if (!this.#isKeyHolderEnlisted) this.outbox.enlistLatest("key-holder", "", null);
    this.#isKeyHolderEnlisted = true;
  }

  async #tellKeyHolder(): Promise<void> {
    this.rekey(await accessControl(this.env).holdsKeys("cluster-registry", "main", true));
  }

  /** Created with the first secret. */
  #dataKeys(): DataKeys {
    this.#keys ??= new DataKeys(this.sql, "cluster-registry", () => this.env.MASTER_KEY);
    return this.#keys;
  }

  #stamp(stamp: IndexBackfill, index: number): void {
    this.#indexedRows[stamp.table]?.setIndex(stamp, index);
    if (!TABLES_WITHOUT_READERS.has(stamp.table)) this.#indexes.set(stamp.table, index);
  }

  /** Readers see rows after their transaction. */
  #wakeAfterCommit(): void {
    queueMicrotask(() => this.#waiters.wake(this.#indexes.takeMoved()));
  }
}

const GONE = refuse("invalid", "volume validation failed: the namespace was deleted meanwhile");

/** Tables without blocking queries. */
const TABLES_WITHOUT_READERS: ReadonlySet<string> = new Set(["report_sources", VOLUME_OPERATION, CSI_OPERATION]);

const SESSIONS = [
  "SELECT node_id AS name FROM agents",
  "SELECT DISTINCT node_id AS name FROM volume_operations WHERE state = 'running'",
  "SELECT DISTINCT node_id AS name FROM csi_operations WHERE state = 'running'",
  "SELECT DISTINCT lane AS name FROM outbox WHERE topic = 'revocation'",
].map((from): Source => ({ kind: "node-session", from }));
