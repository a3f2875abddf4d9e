import type { CsiMethod, OperationState } from "@sallyport/agent-protocol";
import type { Refusal, Result } from "../lib/result.ts";
import type { Instance } from "../wire/csi.ts";
import type { Wire } from "../wire/infer.ts";
import type { Capability, Step } from "./host-volumes.ts";
import type { Indexed, Page, PageQuery, RowIndexes, RowKey, Written } from "./rows.ts";
import type { MountOptions } from "./volume-requests.ts";

/** A checked request to register, create or update a volume. Empty = not given. */
export interface CsiRequest {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly pluginId: string;
  readonly externalId: string;
  readonly capabilities: readonly Capability[];
  /** Null = unchanged. */
  readonly mount: MountOptions | null;
  readonly topologyRequest: TopologyRequest | null;
  readonly parameters: Texts;
  /** Absent in volumes of version 0.1. */
  readonly mutableParameters?: Texts;
  readonly context: Texts;
  readonly capacityMin: number;
  readonly capacityMax: number;
  readonly cloneId: string;
  readonly snapshotId: string;
  /** Null = unchanged. */
  readonly secrets: Texts | null;
}

export interface TopologyRequest {
  readonly Required: readonly Topology[] | null;
  readonly Preferred: readonly Topology[] | null;
}

export interface Topology {
  readonly Segments: Readonly<Record<string, string>>;
}

export type Texts = Readonly<Record<string, string>>;

/** The next step of a request. */
export type CsiStep =
  | Extract<Step, { readonly kind: "begun" | "busy" }>
  /** No plugin call is needed. */
  | { readonly kind: "ready" };

export interface Name {
  readonly namespace: string;
  readonly id: string;
}

export interface PageRequest {
  readonly pluginId: string;
  readonly maxEntries: number;
  readonly startingToken: string;
}

/** An operation whose outcome is the only stored state. */
export interface StartedOperation {
  readonly operation: string;
}

export interface SnapshotRequest {
  readonly source: Name;
  /** Empty = the plugin of the volume. */
  readonly pluginId: string;
  /** Empty = generated. */
  readonly name: string;
  readonly parameters: Texts;
  /** Merged over the stored secrets of the volume. */
  readonly secrets: Texts;
}

/** A pending snapshot with the fields that responses show. */
export interface StartedSnapshot extends StartedOperation {
  readonly pluginId: string;
  readonly name: string;
}

export interface PluginPage {
  readonly plugins: readonly CsiPlugin[];
  /** The first id of the next page. */
  readonly next: string | null;
}

/** A stored plugin with its counts. Times in milliseconds. */
export interface CsiPlugin extends RowIndexes, PluginCounts {
  readonly id: string;
  readonly provider: string;
  readonly version: string;
  readonly controllerRequired: boolean;
  readonly createTime: number;
  readonly modifyTime: number;
}

export interface PluginCounts {
  readonly controllersHealthy: number;
  readonly controllersExpected: number;
  readonly nodesHealthy: number;
  readonly nodesExpected: number;
}

export type Role = (typeof ROLES)[number];

export const ROLES = ["controller", "node"] as const;

export interface InstancePage {
  readonly instances: readonly (readonly [nodeId: string, info: CsiInfo])[];
  /** The first node id of the next page. */
  readonly next: string | null;
}

export type CsiInfo = Wire<typeof Instance>;

export interface CsiVolumeQuery extends PageQuery<RowKey> {
  /** null = all of them. */
  readonly namespace: string | null;
  readonly pluginId?: string;
  /** Prefixes. */
  readonly pluginPrefix?: string;
  readonly prefix?: string;
  /** Prefix of the nodes with claims. */
  readonly nodePrefix?: string;
}

export type CsiVolumePage = Page<FoundCsiVolume, RowKey>;

/** A volume, its current plugin, and its users. */
export interface FoundCsiVolume {
  readonly volume: CsiVolume;
  readonly plugin: CsiPlugin | null;
  readonly users: readonly CsiUser[];
  /** The modes of its first claim; null without claims. */
  readonly modes: Capability | null;
}

/** A stored volume without secrets and mount flags. Sizes in bytes, times in milliseconds. */
export interface CsiVolume extends Omit<CsiRequest, "secrets">, RowIndexes {
  readonly provider: string;
  readonly providerVersion: string;
  readonly controllerRequired: boolean;
  readonly topologies: readonly Topology[];
  /** 0 = unknown. */
  readonly capacityBytes: number;
  /** The disk was expanded; file systems on nodes are not yet. */
  readonly nodeExpansionOwed: boolean;
  readonly createTime: number;
  readonly modifyTime: number;
}

/** An allocation that uses a volume. */
export interface CsiUser {
  readonly allocId: string;
  readonly nodeId: string;
  readonly readOnly: boolean;
}

/** A claim without its sealed columns. */
export type ShowableClaim = Omit<CsiClaim, "mount" | "publishContext">;
/** A claim, and why its volume cannot be used on its node; empty when it can. */
export type ReadClaim = ShowableClaim & { readonly problem: string };

/** An allocation's claim on a volume. Times in milliseconds. */
export interface CsiClaim {
  readonly row: number;
  readonly namespace: string;
  readonly volumeId: string;
  readonly allocId: string;
  readonly nodeId: string;
  /** The plugin's id of the node at the time of the claim; the node may be gone later. */
  readonly externalNodeId: string;
  /** Empty while the volume is unknown. */
  readonly pluginId: string;
  readonly mode: Mode;
  /** The requested modes until the claim is taken; empty = those of the volume. */
  readonly accessMode: string;
  readonly attachmentMode: string;
  /** The access mode of the volume's first claim while it is held. Empty until this claim is taken. */
  readonly volumeMode: string;
  readonly state: ClaimState;
  /** The running operation. */
  readonly operation: string | null;
  readonly attachAsked: boolean;
  readonly publishAsked: boolean;
  readonly owesExpansion: boolean;
  /** Boot id of the node when publishing was requested; empty = unknown. */
  readonly boot: string;
  /** Failures of the current step. */
  readonly attempts: number;
  /** The last failure of the current step. */
  readonly refusal: Refusal | null;
  /** Time of the next attempt; null = on the next change. */
  readonly due: number | null;
  /** Requested mount options, and the publish context of the controller; sealed. */
  readonly mount: ArrayBuffer | null;
  readonly publishContext: ArrayBuffer | null;
  readonly path: string;
  readonly created: number;
  readonly updated: number;
}

export type Mode = "read" | "write";

export type ClaimState = (typeof CLAIM_STATES)[number];

/**
 * States of a claim. Acquired: `pending` (recorded, in use, not admitted), `taken`, `attached` (attached to its node),
 * `published` (mounted for its allocation). Released: `unpublishing`, `node-detached`, `controller-detached`.
 */
export const CLAIM_STATES = [
  "pending",
  "taken",
  "attached",
  "published",
  "unpublishing",
  "node-detached",
  "controller-detached",
] as const;

/** The outcome of an operation. */
export interface CsiOutcome extends Written {
  /** Null on success. */
  readonly refusal: Refusal | null;
  readonly result: unknown;
}

/** A current or recent operation of a plugin. Times in milliseconds. */
export interface CsiOperation {
  readonly id: string;
  readonly gen: number;
  readonly pluginId: string;
  readonly namespace: string;
  /** Empty for operations without a volume. */
  readonly volumeId: string;
  readonly nodeId: string;
  /** Every node that received the operation, the last one included. */
  readonly tried: readonly string[];
  /** One of these may have performed it, or may still do so. */
  readonly uncertain: boolean;
  readonly method: CsiMethod;
  readonly state: OperationState;
  readonly params: Readonly<Record<string, unknown>>;
  /** The change of the volume on success. */
  readonly change: unknown;
  /** Excludes other changes of the volume. */
  readonly locks: boolean;
  readonly sealed: ArrayBuffer | null;
  readonly refusal: Refusal | null;
  readonly result: unknown;
  /** The index of the event of its end; null while unknown, or without an event. */
  readonly index: number | null;
  readonly created: number;
  readonly ended: number | null;
}

/** The methods of `ClusterRegistry` about CSI plugins. */
export interface CsiPluginsApi {
  /** Plugins by id prefix, and the index of their table. */
  csiPlugins(prefix: string, from: string): Indexed<PluginPage>;
  csiPlugin(id: string): Indexed<{ readonly plugin: CsiPlugin | null }>;
  csiPluginInstances(id: string, role: Role, from: string): InstancePage;
  /** Whether a CSI volume, or a node, names this plugin. */
  hasCsiVolumesOf(pluginId: string): boolean;
}

/** The methods of `ClusterRegistry` about CSI volumes. */
export interface CsiVolumesApi {
  /** One page of CSI volumes, and the index of their table. */
  csiVolumes(query: CsiVolumeQuery): Indexed<CsiVolumePage>;
  readCsiVolume(name: Name): Indexed<{ readonly found: FoundCsiVolume | null }>;
  validateCsiVolume(request: CsiRequest, nodeId: string | null, digest: string): Result<CsiStep>;
  growCsiVolume(request: CsiRequest, digest: string): Result<CsiStep>;
  modifyCsiVolume(request: CsiRequest, digest: string): Result<CsiStep>;
  /** @param namespaceId the id of the volume's namespace; refused once it has ended */
  createCsiVolume(namespaceId: string, request: CsiRequest, digest: string): Result<CsiStep>;
  /** @param namespaceIds the ids of the volumes' namespaces; refused once one has ended */
  commitCsiVolumes(namespaceIds: readonly string[], requests: readonly CsiRequest[]): Promise<Result<Written>>;
  deregisterCsiVolume(name: Name, force: boolean): Promise<Result<Written>>;
  deleteCsiVolume(name: Name, given: Texts, digest: string): Result<CsiStep>;
}

/** The methods of `ClusterRegistry` about claims on CSI volumes. */
export interface CsiClaimsApi {
  detachCsiVolume(name: Name, nodeId: string): Result<null>;
  csiDetached(name: Name, nodeId: string, waitMs: number, last: boolean): Promise<Result<null> | null>;
  csiExpanded(name: Name, waitMs: number, last: boolean): Promise<Result<null> | null>;
  /** Claims on a CSI volume, oldest first, from a row on, without sealed columns. */
  csiClaims(name: Name, from: number, limit: number): ReadClaim[];
}

/** The methods of `ClusterRegistry` about calls to CSI plugins. */
export interface CsiOperationsApi {
  listExternalVolumes(page: PageRequest): Result<StartedOperation>;
  createSnapshot(request: SnapshotRequest, digest: string): Result<StartedSnapshot>;
  deleteSnapshot(pluginId: string, snapshotId: string, secrets: Texts, digest: string): Result<StartedOperation>;
  listSnapshots(page: PageRequest, secrets: Texts): Result<StartedOperation>;
  /** Waits for the outcome of a plugin operation: see `CsiDispatcher.outcome`. */
  csiOutcome(id: string, waitMs: number, last: boolean): Promise<CsiOutcome | null>;
  /** Recent operations of a CSI volume, newest first, without sealed columns. */
  csiOperations({ namespace, id }: Name, from: number, limit: number): Omit<CsiOperation, "sealed">[];
}
