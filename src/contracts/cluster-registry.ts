import type { JoinRequest } from "@sallyport/agent-protocol";
import type { Result } from "../lib/result.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import type {
  Asked,
  CsiOperation,
  CsiOutcome,
  CsiPlugin,
  CsiRequest,
  CsiStep,
  CsiVolumePage,
  CsiVolumeQuery,
  FoundCsiVolume,
  InstancePage,
  Name,
  PageAsk,
  PluginPage,
  Role,
  ShowableClaim,
  SnapshotAsked,
  SnapshotRequest,
  Texts,
} from "./csi-volumes.ts";
import type {
  Begun,
  ClaimPage,
  ClaimQuery,
  FoundVolume,
  HostVolumeRequest,
  Outcome,
  Search,
  Step,
  VolumeMethod,
  VolumePage,
  VolumeQuery,
} from "./host-volumes.ts";
import type {
  DrainNote,
  DrainSpec,
  Eligibility,
  NodeEventGiven,
  NodeFields,
  NodePage,
  NodePoolPage,
  NodePoolQuery,
  NodeQuery,
  NodeText,
  Written,
} from "./node.ts";
import type {
  AgentChange,
  AgentIdentity,
  AgentView,
  Cut,
  EnrolmentPage,
  JoinTokenView,
  NewJoinToken,
} from "./node-agents.ts";
import type { OperationResult } from "./node-operation.ts";
import type {
  CountedJob,
  FullList,
  Ingested,
  JobTexts,
  JoinedPage,
  NamedObjects,
  Report,
  ReportedObject,
  ReportedQuery,
  ReportedTopic,
  SourceLine,
} from "./reports.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** The methods of `ClusterRegistry` that other objects and Workers call. */
export interface ClusterRegistryApi extends StoredObjectApi {
  /** Blocking query: resolves with the newest index of the tables once it exceeds `since`, or after `waitMs`. */
  changed(tables: readonly string[], since: number, waitMs: number): Promise<number>;
  /** One page of reported objects with joined data, and its index. */
  reported(
    query: ReportedQuery,
    whole?: boolean,
  ): JoinedPage & {
    readonly index: number;
  };
  /** One reported object, see `Reported.find`, and the index of its table. */
  readReported(
    topic: ReportedTopic,
    id: string,
    namespace: string,
    only: boolean,
  ): {
    readonly object: ReportedObject | null;
    readonly index: number;
    readonly jobs: JobTexts;
  };
  /** A job with the counts of its allocations, and their index; null for none. */
  jobSummary(
    namespace: string,
    id: string,
  ): {
    readonly found: CountedJob | null;
    readonly index: number;
  };
  /** Allocations by their ids, see `Reported.named`, and the types of their jobs. */
  allocations(
    ids: readonly string[],
    namespace: string | null,
  ): NamedObjects & {
    readonly jobs: JobTexts;
  };
  /** Stores reports of a scheduler: see `Ingestion`. */
  ingest(source: SourceLine | null, reports: readonly Report[], full?: FullList | null): Promise<Result<Ingested>>;
  /** As `ingest`, for more reports than one call may hold. */
  ingestStream(
    source: SourceLine | null,
    reports: ReadableStream<Uint8Array>,
    full: FullList | null,
  ): Promise<Result<Ingested>>;
  /** Delivers the outcome of a node operation. At least once. */
  operationDone(nodeId: string, id: string, result: OperationResult): Promise<void>;
  /** Lists sessions of agents and of nodes with pending operations. */
  known(after: string): KnownPage;
  rekey(term: number): void;
  /** Ends an empty flat namespace and removes its terminal reports: see `EndedNamespaces`. */
  endNamespace(id: string, name: string): Result<null>;
  /** One page of nodes, and the index of their table. */
  nodes(query: NodeQuery): NodePage & {
    readonly index: number;
  };
  readNode(id: string):
    | (NodeText & {
        readonly index: number;
      })
    | null;
  /** Stores a full or partial node report of an agent: see `Nodes.register`. */
  registerNode(id: string, given: NodeFields, heard?: number): Promise<Result<Written>>;
  /** Marks a node ready: its agent is connected. */
  nodeConnected(id: string, heard?: number): Promise<Result<Written>>;
  /** Marks a node disconnected, and down after the grace period. */
  nodeLost(id: string, heard?: number): Promise<Result<Written>>;
  addNodeEvents(id: string, events: readonly NodeEventGiven[]): Promise<Result<Written>>;
  setNodeEligibility(id: string, eligibility: Eligibility): Promise<Result<Written>>;
  drainNode(id: string, spec: DrainSpec, note: DrainNote): Promise<Result<Written>>;
  stopDraining(id: string, markEligible: boolean, note: DrainNote): Promise<Result<Written>>;
  /** One page of node pools, and the index of their table. */
  nodePools(query: NodePoolQuery): NodePoolPage & {
    readonly index: number;
  };
  /** A pool as JSON text, or null. */
  readNodePool(name: string): string | null;
  purgeNode(id: string, force: boolean): Promise<Result<Written>>;
  createJoinToken(wanted: NewJoinToken): {
    secret: string;
    token: JoinTokenView;
  };
  joinTokens(cut: Cut): EnrolmentPage<JoinTokenView>;
  deleteJoinToken(accessor: string): Result<null>;
  /** Registers an agent's key: see `Enrolment.join`. @returns the node id */
  joinAgent(request: JoinRequest, service: string): Result<string>;
  agentIdentity(nodeId: string): AgentIdentity | null;
  agent(nodeId: string): AgentView | null;
  agents(cut: Cut): EnrolmentPage<AgentView>;
  removeAgent(nodeId: string): Promise<Result<Written>>;
  /** Stores the state of an agent from its session: see `Agents.changed`. */
  agentNews(nodeId: string, change: AgentChange): Promise<Result<null>>;
  /** Alias of `agentNews` for sessions of the previous release. */
  agentChanged(nodeId: string, change: AgentChange): Promise<Result<null>>;
  /** One page of host volumes, and the index of their table. */
  hostVolumes(query: VolumeQuery): VolumePage & {
    readonly index: number;
  };
  /** Whether a host volume names this plugin. */
  hasHostVolumesOf(pluginId: string): boolean;
  readHostVolume(id: string): FoundVolume | null;
  /** @param namespaceId the id of the volume's namespace; refused once it has ended */
  createHostVolume(namespaceId: string, request: HostVolumeRequest, begun: Begun, from: Search): Result<Step>;
  /** As `createHostVolume`. */
  registerHostVolume(namespaceId: string, request: HostVolumeRequest, begun: Begun): Result<Step>;
  updateHostVolume(
    method: VolumeMethod,
    request: HostVolumeRequest & {
      readonly id: string;
    },
    begun: Begun,
  ): Result<Step>;
  deleteHostVolume(id: string, namespace: string, force: boolean, begun: Begun): Promise<Result<Step>>;
  /** Waits for the outcome of an operation: see `HostVolumes.outcome`. */
  volumeOperation(id: string, waitMs: number, last: boolean): Promise<Outcome | null>;
  /** The reason why an operation has no outcome yet: see `HostVolumes.doubt`. */
  volumeDoubt(operation: string): string | null;
  /** Returns the volumes of a node that the registry does not know. */
  unknownVolumes(nodeId: string, held: readonly string[]): string[];
  /** One page of claims, and the index of their table. */
  volumeClaims(query: ClaimQuery): ClaimPage & {
    readonly index: number;
  };
  deleteVolumeClaim(
    id: string,
    namespace: string,
  ): Promise<
    Result<{
      readonly index: number | null;
    }>
  >;
  /** Plugins by id prefix, and the index of their table. */
  csiPlugins(
    prefix: string,
    from: string,
  ): PluginPage & {
    readonly index: number;
  };
  csiPlugin(id: string): {
    readonly plugin: CsiPlugin | null;
    readonly index: number;
  };
  csiPluginInstances(id: string, role: Role, from: string): InstancePage;
  /** One page of CSI volumes, and the index of their table. */
  csiVolumes(query: CsiVolumeQuery): CsiVolumePage & {
    readonly index: number;
  };
  /** Whether a CSI volume, or a node, names this plugin. */
  hasCsiVolumesOf(pluginId: string): boolean;
  readCsiVolume(name: Name): {
    readonly found: FoundCsiVolume | null;
    readonly index: number;
  };
  validateCsiVolume(request: CsiRequest, nodeId: string | null, digest: string): Result<CsiStep>;
  growCsiVolume(request: CsiRequest, digest: string): Result<CsiStep>;
  /** @param namespaceId the id of the volume's namespace; refused once it has ended */
  createCsiVolume(namespaceId: string, request: CsiRequest, digest: string): Result<CsiStep>;
  /** @param namespaceIds the ids of the volumes' namespaces; refused once one has ended */
  commitCsiVolumes(
    namespaceIds: readonly string[],
    requests: readonly CsiRequest[],
  ): Promise<
    Result<{
      readonly index: number | null;
    }>
  >;
  deregisterCsiVolume(
    name: Name,
    force: boolean,
  ): Promise<
    Result<{
      readonly index: number | null;
    }>
  >;
  deleteCsiVolume(name: Name, given: Texts, digest: string): Result<CsiStep>;
  detachCsiVolume(name: Name, nodeId: string): Result<null>;
  csiDetached(name: Name, nodeId: string, waitMs: number, last: boolean): Promise<Result<null> | null>;
  csiExpanded(name: Name, waitMs: number, last: boolean): Promise<Result<null> | null>;
  /** Claims on a CSI volume, oldest first, from a row on, without sealed columns. */
  csiClaims(name: Name, from: number, limit: number): ShowableClaim[];
  listExternalVolumes(page: PageAsk): Result<Asked>;
  createSnapshot(request: SnapshotRequest, digest: string): Result<SnapshotAsked>;
  deleteSnapshot(pluginId: string, snapshotId: string, secrets: Texts, digest: string): Result<Asked>;
  listSnapshots(page: PageAsk, secrets: Texts): Result<Asked>;
  /** Waits for the outcome of a plugin operation: see `CsiDispatcher.outcome`. */
  csiOutcome(id: string, waitMs: number, last: boolean): Promise<CsiOutcome | null>;
  /** Recent operations of a CSI volume, newest first, without sealed columns. */
  csiOperations({ namespace, id }: Name, from: number, limit: number): Omit<CsiOperation, "sealed">[];
}
