import type { AgentChange, AgentIdentity, AgentView, JoinTokenView } from "../agents/agent.ts";
import { Agents } from "../agents/agents.ts";
import { type Cut, Enrolment, type EnrolmentPage } from "../agents/enrolment.ts";
import type { OperationResult } from "../agents/operation.ts";
import { enrolmentMigrations } from "../agents/schema.ts";
import type { KnownPage } from "../backup/kinds.ts";
import { knownPage, type Source } from "../backup/known.ts";
import { type DrainNote, type DrainSpec, Drains } from "../cluster/drains.ts";
import { Ingestion, nodesOf } from "../cluster/ingestion.ts";
import type { GivenNode } from "../cluster/node/fields.ts";
import type { Eligibility } from "../cluster/node/record.ts";
import { together } from "../cluster/node/told.ts";
import { type NodePoolPage, type NodePoolQuery, NodePools } from "../cluster/node-pools.ts";
import { type NodeEventGiven, Nodes, type Written } from "../cluster/nodes.ts";
import { nodeMigrations } from "../cluster/nodes-schema.ts";
import { type NodePage, type NodeQuery, NodeStore, type NodeText } from "../cluster/nodes-store.ts";
import { REPORTED_TOPICS, type ReportedTopic } from "../cluster/report.ts";
import { type NamedObjects, Reported, type ReportedObject, type ReportedPage } from "../cluster/reported.ts";
import type { ReportedQuery } from "../cluster/reported-order.ts";
import { clusterMigrations } from "../cluster/schema.ts";
import type { Stamp, Stamped } from "../cluster/stamp.ts";
import { TableIndexes } from "../cluster/table-indexes.ts";
import type { Timed } from "../cluster/timed.ts";
import { Waiters } from "../cluster/waiters.ts";
import { settings } from "../env.ts";
import { Journal } from "../events/journal.ts";
import { countedSeries } from "../metrics/counted.ts";
import { clusterMeasures } from "../metrics/measures.ts";
import type { Series } from "../metrics/series.ts";
import type { Result } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { VolumeClaims } from "../volumes/claims.ts";
import { claimMigrations } from "../volumes/claims-schema.ts";
import { type ClaimPage, type ClaimQuery, ClaimStore, VOLUME_CLAIM } from "../volumes/claims-store.ts";
import { Csi } from "../volumes/csi/csi.ts";
import { CSI_OPERATION } from "../volumes/csi/operations.ts";
import { csiPluginMigrations, csiVolumeMigrations } from "../volumes/csi/schema.ts";
import { HOST_VOLUME, HostVolumeStore, type VolumePage, type VolumeQuery } from "../volumes/host-volume-store.ts";
import { type FoundVolume, HostVolumes, type Outcome } from "../volumes/host-volumes.ts";
import { VOLUME_OPERATION, VolumeOperations } from "../volumes/operations.ts";
import { hostVolumeMigrations } from "../volumes/schema.ts";
import { VolumeStates } from "../volumes/volume-states.ts";
import { CsiSurface } from "./csi-surface.ts";
import { accessControl, eventLog, nodeSession } from "./stubs.ts";

/**
 * Owner of what the cluster consists of. One for the deployment, so that an allocation and what it claims change in one
 * transaction. The parts decide; this class is their surface.
 */
export class ClusterRegistry extends CsiSurface {
  readonly #indexes: TableIndexes;
  readonly #waiters: Waiters;
  readonly #journal: Journal<Stamp>;
  readonly #reported: Reported;
  readonly #ingestion: Ingestion;
  readonly #nodePools: NodePools;
  readonly #nodes: Nodes;
  readonly #drains: Drains;
  readonly #enrolment: Enrolment;
  readonly #agents: Agents;
  readonly #volumes: HostVolumeStore;
  readonly #claimStore: ClaimStore;
  readonly #claims: VolumeClaims;
  readonly #hostVolumes: HostVolumes;
  readonly #volumeStates: VolumeStates;
  protected override readonly csi: Csi;
  #keys: DataKeys | undefined;
  /** That this object holds data keys has been promised to be told since it woke. */
  #keysTold = false;
  /** Who gives the rows of a table their indexes. */
  readonly #stamped: Readonly<Record<string, Stamped>>;
  /** Whose rows the alarm is for. */
  readonly #timed: readonly Timed[];

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
        event: (_lane, rows) => this.#journal.deliver(rows),
        revocation: (node) => nodeSession(this.env, node).revoke(),
        volume: (_volume, rows) => this.#hostVolumes.deliver(rows),
        csi: (_operation, rows) => this.csi.work.deliver(rows),
        "key-holder": () => this.#tellKeyHolder(),
      },
    );
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
    this.csi = new Csi({
      ...{ sql: this.sql, journal: this.#journal },
      keys: () => this.#dataKeys(),
      holdKeys: () => this.#promiseKeyHolder(),
      promise: (operation) => this.#promiseCsi(operation),
      start: (node, operation) => nodeSession(this.env, node).start(operation),
    });
    const nodeStore = new NodeStore(this.sql, () => [this.#volumeStates, ...this.csi.followers]);
    this.#nodePools = new NodePools(this.sql, this.#reported);
    this.#nodes = new Nodes(nodeStore, this.#nodePools, this.#journal, () => settings(this.env).NODE_GRACE_MS);
    this.#drains = new Drains(this.sql, nodeStore, this.#journal);
    this.#ingestion = new Ingestion({
      ...{ sql: this.sql, journal: this.#journal, reported: this.#reported, nodes: this.#nodes },
      takers: {
        Allocation: [
          (before, after, line) =>
            together(nodesOf(before, after).map((id) => this.#drains.allocationChanged(id, line))),
          (before, after, _line, report) => this.#claims.allocationChanged(before, after, report),
          (before, after, _line, report) => this.csi.intake.allocationChanged(before, after, report),
        ],
        Job: [
          (_before, after, _line, report) => this.#claims.jobChanged(after, report),
          (_before, after, _line, report) => this.csi.intake.jobChanged(after, report),
        ],
      },
    });
    this.#enrolment = new Enrolment(this.sql, (change) => this.commit(change));
    this.#agents = new Agents({
      enrolment: this.#enrolment,
      nodes: this.#nodes,
      commit: (change) => this.commit(change),
      promiseRevocation: (node) => this.outbox.enlist("revocation", node, null),
      abandon: (node) => this.#hostVolumes.abandon(node),
      revoked: (node) => this.outbox.drain("revocation", node),
    });
    this.#volumes = new HostVolumeStore(this.sql);
    this.#claimStore = new ClaimStore(this.sql);
    this.#claims = new VolumeClaims({
      ...{ sql: this.sql, journal: this.#journal, store: this.#claimStore, volumes: this.#volumes },
    });
    const operations = new VolumeOperations({
      sql: this.sql,
      enlist: (volume, operation) => this.outbox.enlist("volume", volume, operation),
      start: (node, operation) => nodeSession(this.env, node).start(operation),
    });
    this.#volumeStates = new VolumeStates(this.#volumes, operations, this.#claims);
    this.#hostVolumes = new HostVolumes({
      ...{ sql: this.sql, journal: this.#journal, store: this.#volumes, operations, claims: this.#claims },
      send: (volume) => this.outbox.drain("volume", volume),
    });
    this.#stamped = {
      Node: nodeStore,
      ...this.csi.stamped,
      [HOST_VOLUME]: this.#volumes,
      [VOLUME_OPERATION]: operations,
      [VOLUME_CLAIM]: this.#claimStore,
      ...Object.fromEntries(REPORTED_TOPICS.map((topic) => [topic, this.#reported])),
      report_sources: this.#ingestion,
    };
    this.#timed = [this.#nodes, this.#drains, this.#enrolment, this.#hostVolumes, ...this.csi.timed];
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

  /** One reported object, see `Reported.find`, and the index of its table. */
  readReported(
    topic: ReportedTopic,
    id: string,
    namespace: string,
    only: boolean,
  ): { readonly object: ReportedObject | null; readonly index: number } {
    return { object: this.#reported.find(topic, id, namespace, only), index: this.#indexes.of(topic) };
  }

  /** Allocations by their ids: see `Reported.named`. */
  allocations(ids: readonly string[], namespace: string | null): NamedObjects {
    return this.#reported.named("Allocation", ids, namespace);
  }

  // ---- writes ----

  /** Takes in what a scheduler reports: see `Ingestion`. */
  ingest(...[source, reports]: Parameters<Ingestion["take"]>): ReturnType<Ingestion["take"]> {
    return this.#ingestion.take(source, reports);
  }

  // ---- nodes ----

  /** One page of nodes, and the index of their table. */
  nodes(query: NodeQuery): NodePage & { readonly index: number } {
    return { ...this.#nodes.page(query), index: this.#indexes.of("Node") };
  }

  readNode(id: string): (NodeText & { readonly index: number }) | null {
    const found = this.#nodes.read(id);
    return found && { ...found, index: this.#indexes.of("Node") };
  }

  /** What an agent found out about its node, all of it or what changed: see `Nodes.register`. */
  registerNode(id: string, given: GivenNode, heard?: number): Promise<Result<Written>> {
    return this.#nodes.register(id, given, heard);
  }

  /** A node's agent is there: it is ready. */
  nodeConnected(id: string, heard?: number): Promise<Result<Written>> {
    return this.#nodes.connected(id, heard);
  }

  /** A node's agent is gone: it is disconnected, and down unless it comes back in time. */
  nodeLost(id: string, heard?: number): Promise<Result<Written>> {
    return this.#nodes.lost(id, heard);
  }

  addNodeEvents(id: string, events: readonly NodeEventGiven[]): Promise<Result<Written>> {
    return this.#nodes.addEvents(id, events);
  }

  setNodeEligibility(id: string, eligibility: Eligibility): Promise<Result<Written>> {
    return this.#nodes.setEligibility(id, eligibility);
  }

  drainNode(id: string, spec: DrainSpec, note: DrainNote): Promise<Result<Written>> {
    return this.#drains.start(id, spec, note);
  }

  stopDraining(id: string, markEligible: boolean, note: DrainNote): Promise<Result<Written>> {
    return this.#drains.stop(id, markEligible, note);
  }

  /** One page of node pools, and the index of their table. */
  nodePools(query: NodePoolQuery): NodePoolPage & { readonly index: number } {
    return { ...this.#nodePools.page(query), index: this.#indexes.of("NodePool") };
  }

  /** A pool as JSON text, or null. */
  readNodePool(name: string): string | null {
    return this.#nodePools.read(name);
  }

  purgeNode(id: string, force: boolean): Promise<Result<Written>> {
    return this.#nodes.purge(id, force);
  }

  // ---- agents ----

  createJoinToken(...[wanted]: Parameters<Agents["createToken"]>): ReturnType<Agents["createToken"]> {
    return this.#agents.createToken(wanted);
  }

  joinTokens(cut: Cut): EnrolmentPage<JoinTokenView> {
    return this.#enrolment.tokens(cut);
  }

  deleteJoinToken(accessor: string): Result<null> {
    return this.#agents.deleteToken(accessor);
  }

  /** Lets an agent's key in: see `Enrolment.join`. @returns the node's id */
  joinAgent(...[request, service]: Parameters<Agents["join"]>): Result<string> {
    return this.#agents.join(request, service);
  }

  agentIdentity(nodeId: string): AgentIdentity | null {
    return this.#enrolment.identity(nodeId);
  }

  agent(nodeId: string): AgentView | null {
    return this.#enrolment.agent(nodeId);
  }

  agents(cut: Cut): EnrolmentPage<AgentView> {
    return this.#enrolment.agents(cut);
  }

  removeAgent(nodeId: string): Promise<Result<Written>> {
    return this.#agents.remove(nodeId);
  }

  /** What the session of a node's agent tells: see `Agents.changed`. */
  agentChanged(nodeId: string, change: AgentChange): Promise<Result<null>> {
    return this.#agents.changed(nodeId, change);
  }

  /** What came of an operation that a node was asked for. May be told twice. */
  async operationDone(nodeId: string, id: string, result: OperationResult): Promise<void> {
    await this.#hostVolumes.operationDone(nodeId, id, result);
    await this.csi.work.operationDone(nodeId, id, result);
  }

  /** Which of these volumes of a node nobody knows here. */
  unknownVolumes(nodeId: string, held: readonly string[]): string[] {
    return this.#volumeStates.unknownOn(nodeId, held);
  }

  // ---- host volumes ----

  /** One page of host volumes, and the index of their table. */
  hostVolumes(query: VolumeQuery): VolumePage & { readonly index: number } {
    return { ...this.#volumes.page(query), index: this.#indexes.of(HOST_VOLUME) };
  }

  /** Whether a host volume names this plugin. */
  hasHostVolumesOf(pluginId: string): boolean {
    return this.#volumes.hasPlugin(pluginId);
  }

  readHostVolume(id: string): FoundVolume | null {
    return this.#hostVolumes.read(id);
  }

  createHostVolume(...given: Parameters<HostVolumes["create"]>): ReturnType<HostVolumes["create"]> {
    return this.#hostVolumes.create(...given);
  }

  registerHostVolume(...given: Parameters<HostVolumes["register"]>): ReturnType<HostVolumes["register"]> {
    return this.#hostVolumes.register(...given);
  }

  updateHostVolume(...given: Parameters<HostVolumes["update"]>): ReturnType<HostVolumes["update"]> {
    return this.#hostVolumes.update(...given);
  }

  deleteHostVolume(...given: Parameters<HostVolumes["delete"]>): ReturnType<HostVolumes["delete"]> {
    return this.#hostVolumes.delete(...given);
  }

  /** How an operation on a volume has ended: see `HostVolumes.outcome`. */
  volumeOperation(...given: Parameters<HostVolumes["outcome"]>): Promise<Outcome | null> {
    return this.#hostVolumes.outcome(...given);
  }

  /** Why an operation on a volume has no outcome yet: see `HostVolumes.doubt`. */
  volumeDoubt(operation: string): string | null {
    return this.#hostVolumes.doubt(operation);
  }

  /** Sessions of agents, and of nodes that owe something still. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, SESSIONS, after);
  }

  rekey(term: number): void {
    this.commit(() => this.#dataKeys().rotate(term, Date.now()));
  }

  // ---- sticky claims ----

  /** One page of claims, and the index of their table. */
  volumeClaims(query: ClaimQuery): ClaimPage & { readonly index: number } {
    return { ...this.#claimStore.page(query), index: this.#indexes.of(VOLUME_CLAIM) };
  }

  deleteVolumeClaim(...given: Parameters<VolumeClaims["delete"]>): ReturnType<VolumeClaims["delete"]> {
    return this.#claims.delete(...given);
  }

  // ---- inside ----

  protected override indexOf(table: string): number {
    return this.#indexes.of(table);
  }

  protected override measured(): Series[] {
    return countedSeries(this.sql);
  }

  protected override ownDeadline(): number | null {
    const due = this.#timed.map((part) => part.nextDue()).filter((at) => at !== null);
    return due.length === 0 ? null : Math.min(...due);
  }

  protected override async onAlarm(now: number): Promise<void> {
    await Promise.all(this.#timed.map((part) => part.onAlarm(now)));
  }

  protected override rolledBack(): void {
    this.#keysTold = false;
    // The first one may have been made in there.
    this.#keys = undefined;
    this.#indexes.reload();
  }

  /** Sends it as soon as the transaction that promises it is over. */
  #promiseCsi(operation: string): void {
    this.outbox.enlist("csi", operation, operation);
    queueMicrotask(() => void this.outbox.drain("csi", operation));
  }

  #promiseKeyHolder(): void {
    if (!this.#keysTold) this.outbox.enlistLatest("key-holder", "", null);
    this.#keysTold = true;
  }

  async #tellKeyHolder(): Promise<void> {
    this.rekey(await accessControl(this.env).holdsKeys("cluster-registry", "main", true));
  }

  /** Made when the first secret comes. */
  #dataKeys(): DataKeys {
    this.#keys ??= new DataKeys(this.sql, "cluster-registry", () => this.env.MASTER_KEY);
    return this.#keys;
  }

  #stamp(stamp: Stamp, index: number): void {
    this.#stamped[stamp.table]?.stamp(stamp, index);
    if (!UNREAD.has(stamp.table)) this.#indexes.note(stamp.table, index);
  }

  /** Readers look at rows once the transaction that changed them is over. */
  #wakeLater(): void {
    queueMicrotask(() => this.#waiters.wake(this.#indexes.takeMoved()));
  }
}

/** Tables of which nobody asks when they last changed. */
const UNREAD: ReadonlySet<string> = new Set(["report_sources", VOLUME_OPERATION, CSI_OPERATION]);

const SESSIONS = [
  "SELECT node_id AS name FROM agents",
  "SELECT DISTINCT node_id AS name FROM volume_operations WHERE state = 'running'",
  "SELECT DISTINCT node_id AS name FROM csi_operations WHERE state = 'running'",
  "SELECT DISTINCT lane AS name FROM outbox WHERE topic = 'revocation'",
].map((from): Source => ({ kind: "node-session", from }));
