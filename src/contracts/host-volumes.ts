import type { Method } from "@sallyport/agent-protocol";
import type { Refusal, Result } from "../lib/result.ts";
import type { Wire } from "../wire/infer.ts";
import type { Capabilities } from "../wire/shapes.ts";
import type { Indexed, Page, PageQuery, RowIndexes, RowKey, Written } from "./rows.ts";

/** A checked request to create, register or update a volume. Empty = not given. */
export interface HostVolumeRequest extends Omit<Wanted, "capabilities"> {
  /** The volume to update; null makes a new one. */
  readonly id: string | null;
  readonly namespace: string;
  readonly name: string;
  readonly nodeId: string;
  readonly nodePool: string;
  readonly pluginId: string;
  /** Empty = unchanged. */
  readonly capabilities: readonly Capability[];
  /** Only a registration names these. */
  readonly hostPath: string;
  readonly capacityBytes: number;
}

export type Capability = Wire<typeof Capabilities>[number];

/** The idempotency key of a request. */
export interface Begun {
  readonly request: string;
  /** The key was chosen by the caller, so it also identifies later repeats. */
  readonly named: boolean;
}

/** Progress of the search for a node. */
export interface Search {
  /** The first node id that is not examined yet. */
  readonly from: string;
  readonly hadVolume: number;
  /** Nodes that cannot take the volume, counted by reason. */
  readonly infeasible: Readonly<Record<string, number>>;
}

/** The next step of a request. */
export type Step =
  /** Wait for this operation; its outcome is the response. */
  | { readonly kind: "begun"; readonly operation: string }
  /** Another operation of the volume runs: wait for it, then retry. */
  | { readonly kind: "busy"; readonly operation: string }
  /** No node found yet: continue from here. */
  | { readonly kind: "searching"; readonly search: Search }
  /** Completed without an operation at the node. */
  | ({ readonly kind: "done" } & Written);

export type VolumeMethod = Extract<Method, `dhv.${string}`>;

export interface VolumeQuery extends PageQuery<RowKey> {
  /** null = all of them. */
  readonly namespace: string | null;
  readonly nodeId?: string;
  readonly pluginId?: string;
  /** Prefixes. */
  readonly nodePrefix?: string;
  readonly pluginPrefix?: string;
  readonly nodePool?: string;
  /** Prefix of the id or name. */
  readonly prefix?: string;
}

export type VolumePage = Page<StoredVolume, RowKey>;

/** A stored volume. Times in milliseconds. */
export interface StoredVolume extends RowIndexes {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly nodeId: string;
  readonly nodePool: string;
  readonly pluginId: string;
  readonly state: State;
  /** False while its create operation runs: the name is reserved on the node and reads do not show it. */
  readonly made: boolean;
  readonly wanted: Wanted;
  readonly capacityBytes: number;
  readonly hostPath: string;
  readonly createTime: number;
  readonly modifyTime: number;
}

export type State = "pending" | "ready" | "unavailable";

/** The requested properties of a volume, without its placement. */
export interface Wanted {
  readonly parameters: Readonly<Record<string, string>>;
  readonly constraints: readonly Constraint[];
  readonly capabilities: readonly Capability[];
  /** In bytes; 0 is unset. */
  readonly capacityMin: number;
  readonly capacityMax: number;
}

/** A constraint on nodes. Targets are literals or node attributes: `${attr.kernel.name}`. */
export interface Constraint {
  readonly LTarget: string;
  readonly Operand: string;
  readonly RTarget: string;
}

/** A volume and the allocations that use it. */
export interface FoundVolume {
  readonly volume: StoredVolume;
  readonly users: readonly string[];
}

/** The outcome of an operation. */
export interface Outcome extends Written {
  /** Null on success. */
  readonly refusal: Refusal | null;
  /** The volume after the operation; null once deleted. */
  readonly volume: StoredVolume | null;
}

export interface ClaimQuery extends PageQuery<RowKey> {
  /** null = all of them. */
  readonly namespace: string | null;
  readonly jobId?: string;
  readonly taskGroup?: string;
  readonly volumeName?: string;
  /** Prefix of the id. */
  readonly prefix: string;
}

export type ClaimPage = Page<StoredClaim, RowKey>;

/** A stored claim of a task group on a host volume. */
export interface StoredClaim extends RowIndexes {
  readonly id: string;
  readonly namespace: string;
  readonly jobId: string;
  readonly taskGroup: string;
  readonly volumeId: string;
  readonly volumeName: string;
  /** The current or last allocation of the claim. */
  readonly allocId: string;
}

/** The methods of `ClusterRegistry` about host volumes. */
export interface HostVolumesApi {
  /** One page of host volumes, and the index of their table. */
  hostVolumes(query: VolumeQuery): Indexed<VolumePage>;
  /** Whether a host volume names this plugin. */
  hasHostVolumesOf(pluginId: string): boolean;
  readHostVolume(id: string): FoundVolume | null;
  /** @param namespaceId the id of the volume's namespace; refused once it has ended */
  createHostVolume(namespaceId: string, request: HostVolumeRequest, begun: Begun, from: Search): Result<Step>;
  /** As `createHostVolume`. */
  registerHostVolume(namespaceId: string, request: HostVolumeRequest, begun: Begun): Result<Step>;
  updateHostVolume(
    method: VolumeMethod,
    request: HostVolumeRequest & { readonly id: string },
    begun: Begun,
  ): Result<Step>;
  deleteHostVolume(id: string, namespace: string, force: boolean, begun: Begun): Promise<Result<Step>>;
  /** Waits for the outcome of an operation: see `HostVolumes.outcome`. */
  volumeOperation(id: string, waitMs: number, last: boolean): Promise<Outcome | null>;
  /** The caller of an operation has left: see `HostVolumes.leave`. */
  leaveVolumeOperation(operation: string): void;
  /** The reason why an operation has no outcome yet: see `HostVolumes.doubt`. */
  volumeDoubt(operation: string): string | null;
  /** Returns the volumes of a node that the registry does not know. */
  unknownVolumes(nodeId: string, held: readonly string[]): string[];
}

/** The methods of `ClusterRegistry` about sticky claims. */
export interface VolumeClaimsApi {
  /** One page of claims, and the index of their table. */
  volumeClaims(query: ClaimQuery): Indexed<ClaimPage>;
  deleteVolumeClaim(id: string, namespace: string): Promise<Result<Written>>;
}
