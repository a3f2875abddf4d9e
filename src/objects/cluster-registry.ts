import { CLUSTER_CONTENT } from "../cluster/namespace-content.ts";
import { Drains } from "../cluster/nodes/drains.ts";
import { NodePools } from "../cluster/nodes/node-pools.ts";
import { NodeStore } from "../cluster/nodes/node-store.ts";
import { Nodes } from "../cluster/nodes/nodes.ts";
import { nodeMethods } from "../cluster/nodes/rpc.ts";
import { nodeMigrations } from "../cluster/nodes/schema.ts";
import { Ingestion, nodesOf } from "../cluster/reports/ingestion.ts";
import { Reported } from "../cluster/reports/reported.ts";
import { ReportReads, reportMethods } from "../cluster/reports/rpc.ts";
import { clusterMigrations } from "../cluster/reports/schema.ts";
import type { ClusterRegistryApi } from "../contracts/cluster-registry.ts";
import type { OperationResult } from "../contracts/node-operation.ts";
import { REPORTED_TOPICS } from "../contracts/reports.ts";
import { earliest } from "../lib/earliest.ts";
import { type Result, refuse } from "../lib/result.ts";
import { Agents } from "../node-agents/agents.ts";
import { Enrolment } from "../node-agents/enrolment.ts";
import { agentMethods } from "../node-agents/rpc.ts";
import { enrolmentMigrations } from "../node-agents/schema.ts";
import { NODES_WITH_AGENTS } from "../node-agents/view.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import type { IndexBackfill, IndexedRows } from "../platform/durable/blocking/index-backfill.ts";
import { TableIndexes } from "../platform/durable/blocking/table-indexes.ts";
import type { Timed } from "../platform/durable/blocking/timed.ts";
import { Waiters } from "../platform/durable/blocking/waiters.ts";
import { EndedNamespaces } from "../platform/durable/ended-namespaces.ts";
import { knownPage, type Source } from "../platform/durable/object-inventory.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import { lanesOf } from "../platform/durable/outbox-lanes.ts";
import { composedOf } from "../platform/durable/rpc-methods.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import type { Series } from "../platform/observability/metrics/series.ts";
import { mergeChangeSets } from "../publishing/change-set.ts";
import { EventPublisher, EventSource } from "../publishing/event-publisher.ts";
import { nodeSession } from "../rpc/stubs.ts";
import { Csi } from "../volumes/csi/csi.ts";
import { CSI_OPERATION } from "../volumes/csi/csi-operations.ts";
import { csiClaimMethods, csiOperationMethods, csiPluginMethods, csiVolumeMethods } from "../volumes/csi/rpc.ts";
import { csiPluginMigrations, csiVolumeMigrations } from "../volumes/csi/schema.ts";
import { NODES_WITH_CSI_OPERATIONS } from "../volumes/csi/view.ts";
import { HostVolumeComponents } from "../volumes/host/components.ts";
import { hostVolumeMethods, volumeClaimMethods } from "../volumes/host/rpc.ts";
import { hostVolumeMigrations } from "../volumes/host/schema.ts";
import { NODES_WITH_HOST_OPERATIONS } from "../volumes/host/view.ts";
import { VOLUME_OPERATION } from "../volumes/host/volume-operations.ts";
import { claimMigrations } from "../volumes/host-claims/schema.ts";
import { RegisteredKeys } from "../volumes/registered-keys.ts";
import { clusterMeasures } from "./cluster-measures.ts";

/** The components that rows of the object's method tables call. */
interface ClusterParts {
  readonly agents: Agents;
  readonly csi: Csi;
  readonly drains: Drains;
  readonly ended: EndedNamespaces;
  readonly enrolment: Enrolment;
  readonly host: HostVolumeComponents;
  readonly indexes: TableIndexes;
  readonly ingestion: Ingestion;
  readonly nodes: Nodes;
  readonly pools: NodePools;
  readonly reportReads: ReportReads;
}

const ClusterMethods = composedOf<ClusterParts>()(
  agentMethods,
  csiClaimMethods,
  csiOperationMethods,
  csiPluginMethods,
  csiVolumeMethods,
  hostVolumeMethods,
  nodeMethods,
  reportMethods,
  volumeClaimMethods,
);

/**
 * Owns the cluster state: nodes, volumes, claims and scheduler reports. One instance per deployment, so that an
 * allocation and its claims change in one transaction. Its methods by subject are
 * in files `rpc.ts` of the domain folders. Reads cost index seeks; blocking queries share one read per change.
 */
export class ClusterRegistry extends ClusterMethods implements ClusterRegistryApi {
  protected override readonly parts: ClusterParts;
  readonly #indexes: TableIndexes;
  readonly #waiters: Waiters;
  readonly #publisher: EventPublisher<IndexBackfill>;
  readonly #reported: Reported;
  readonly #host: HostVolumeComponents;
  readonly #csi: Csi;
  readonly #ended: EndedNamespaces;
  readonly #keys: RegisteredKeys;
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
        volume: (_volume, rows) => this.#host.volumes.deliver(rows),
        csi: (_operation, rows) => this.#csi.dispatcher.deliver(rows),
        "key-holder": () => this.#keys.deliver(),
      },
    );
    const { sql, outbox } = this;
    const commit = <T>(change: () => T): T => this.commit(change);
    this.#indexes = new TableIndexes(sql);
    this.#waiters = new Waiters((table) => this.#indexes.of(table));
    this.#publisher = new EventPublisher({
      source: new EventSource(env, "cluster-registry"),
      rows: {
        setIndex: (backfill, index) => this.#setIndex(backfill, index),
        indexesSet: () => this.#wakeAfterCommit(),
      },
      outbox,
      commit,
    });
    this.#reported = new Reported(sql);
    this.#ended = new EndedNamespaces(sql, CLUSTER_CONTENT, GONE);
    this.#keys = new RegisteredKeys(sql, env, outbox, commit);
    this.#csi = new Csi(sql, env, this.#publisher, this.#keys, outbox);
    this.#host = new HostVolumeComponents(sql, env, this.#publisher, outbox);
    const nodeStore = new NodeStore(sql, [...this.#host.followers, ...this.#csi.followers]);
    const pools = new NodePools(sql, this.#reported, this.#publisher);
    const nodes = new Nodes(nodeStore, pools, this.#publisher, env);
    const drains = new Drains(sql, nodeStore, this.#publisher);
    const enrolment = new Enrolment(sql, commit);
    const agents = new Agents(enrolment, nodes, outbox, this.#host.volumes, commit);
    const ingestion = new Ingestion(sql, this.#publisher, this.#reported, nodes, {
      Allocation: [
        (before, after, line) =>
          mergeChangeSets(nodesOf(before, after).map((id) => drains.allocationChanged(id, line))),
        (before, after, _line, report) => this.#host.claims.allocationChanged(before, after, report),
        (before, after, _line, report) => this.#csi.intake.allocationChanged(before, after, report),
      ],
      Job: [
        (_before, after, _line, report) => this.#host.claims.jobChanged(after, report),
        (_before, after, _line, report) => this.#csi.intake.jobChanged(after, report),
      ],
    });
    this.parts = {
      agents,
      csi: this.#csi,
      drains,
      ended: this.#ended,
      enrolment,
      host: this.#host,
      indexes: this.#indexes,
      ingestion,
      nodes,
      pools,
      reportReads: new ReportReads(sql, this.#reported, this.#indexes),
    };
    this.#indexedRows = {
      Node: nodeStore,
      ...this.#host.indexedRows,
      ...this.#csi.indexedRows,
      ...Object.fromEntries(REPORTED_TOPICS.map((topic) => [topic, this.#reported])),
      report_sources: ingestion,
    };
    this.#timed = [nodes, drains, enrolment, ...this.#host.timed, ...this.#csi.timed];
    this.#due = `SELECT ${this.#timed.map(({ due }) => `(${due})`).join(", ")}`;
  }

  /** The newest index of these tables, as soon as it is beyond `since` or after `waitMs`: see `Waiters`. */
  changed(tables: readonly string[], since: number, waitMs: number): Promise<number | null> {
    return this.#waiters.changed(tables, since, waitMs);
  }

  /** Result of a node operation. May be delivered twice. */
  async operationDone(nodeId: string, id: string, result: OperationResult): Promise<void> {
    if (await this.#host.volumes.operationDone(nodeId, id, result)) return;
    await this.#csi.dispatcher.operationDone(nodeId, id, result);
  }

  /** Sessions of agents, and of nodes with open operations. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, SESSIONS, after);
  }

  rekey(term: number): void {
    this.#keys.rotate(term);
  }

  /**
   * Nodes refuse generations below the highest accepted one of a key, also of operations after the snapshot. The time
   * in milliseconds is above all of them, also after earlier restores: fewer than 1,000 operations begin per second.
   */
  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    if (swapped.ok) {
      this.#csi.operations.raiseGenerations(Date.now());
      this.#host.store.raiseGenerations(Date.now());
    }
    return swapped;
  }

  /** Deletes a flat namespace without content, with its ended reports and operations: see `EndedNamespaces`. */
  endNamespace(id: string, name: string): Result<null> {
    return this.commit(() => {
      const ended = this.#ended.end(id, name, Date.now());
      if (ended.ok) {
        this.#reported.forget(name);
        this.#csi.forgetNamespace(name);
      }
      return ended;
    });
  }

  // ---- inside ----

  protected override measured(): Series[] {
    return countedSeries(this.sql);
  }

  protected override ownDeadline(): number | null {
    const [times = []] = this.sql.exec(this.#due).raw<(number | null)[]>();
    return earliest(...times);
  }

  protected override async onAlarm(now: number): Promise<void> {
    await Promise.all(this.#timed.map((part) => part.onAlarm(now)));
  }

  protected override onRollback(): void {
    this.#keys.onRollback();
    this.#indexes.reload();
    this.#csi.plugins.forget();
  }

  #setIndex(backfill: IndexBackfill, index: number): void {
    this.#indexedRows[backfill.table]?.setIndex(backfill, index);
    if (!TABLES_WITHOUT_READERS.has(backfill.table)) this.#indexes.set(backfill.table, index);
  }

  /** Readers see rows after their transaction. */
  #wakeAfterCommit(): void {
    queueMicrotask(() => this.#waiters.wake(this.#indexes.takeMoved()));
  }
}

const GONE = refuse("invalid", "volume validation failed: the namespace was deleted meanwhile");

/** Tables without blocking queries. */
const TABLES_WITHOUT_READERS: ReadonlySet<string> = new Set(["report_sources", VOLUME_OPERATION, CSI_OPERATION]);

const SESSIONS = [NODES_WITH_AGENTS, NODES_WITH_HOST_OPERATIONS, NODES_WITH_CSI_OPERATIONS, lanesOf("revocation")].map(
  (from): Source => ({ kind: "node-session", from }),
);
