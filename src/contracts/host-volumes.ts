import type { Method } from "@sallyport/agent-protocol";
import type { Refusal } from "../lib/result.ts";
/** A request to create, register or update, its fields checked. Empty texts were left out. */
export interface HostVolumeRequest extends Omit<Wanted, "capabilities"> {
  /** The volume to update; null makes a new one. */
  readonly id: string | null;
  readonly namespace: string;
  readonly name: string;
  readonly nodeId: string;
  readonly nodePool: string;
  readonly pluginId: string;
  /** Empty = as the volume has it. */
  readonly capabilities: readonly Capability[];
  /** Only a registration names these. */
  readonly hostPath: string;
  readonly capacityBytes: number;
}

export interface Capability {
  readonly AccessMode: string;
  readonly AttachmentMode: string;
}

/** What recognises a request that comes again. */
export interface Begun {
  readonly request: string;
  /** The caller named the request itself, so that it is the same whenever it comes. */
  readonly named: boolean;
}

/** Where the search for a node has come to. */
export interface Search {
  /** The id from which on nodes have not been looked at. */
  readonly from: string;
  readonly hadVolume: number;
  /** Nodes that cannot take the volume, counted by reason. */
  readonly infeasible: Readonly<Record<string, number>>;
}

/** How far a request has come. */
export type Step =
  /** Wait for this operation; its end is the answer. */
  | { readonly kind: "begun"; readonly operation: string }
  /** Another operation of the volume runs: wait for it, then ask again. */
  | { readonly kind: "busy"; readonly operation: string }
  /** No node has been found yet: go on from here. */
  | { readonly kind: "searching"; readonly search: Search }
  /** Nothing had to be done by the node. */
  | { readonly kind: "done"; readonly index: number | null };

export type VolumeMethod = Extract<Method, `dhv.${string}`>;

export interface VolumeQuery {
  /** null = all of them. */
  readonly namespace: string | null;
  readonly nodeId?: string;
  readonly pluginId?: string;
  /** Beginnings of texts. */
  readonly nodePrefix?: string;
  readonly pluginPrefix?: string;
  readonly nodePool?: string;
  /** Of its id or its name. */
  readonly prefix?: string;
  /** Namespace and id of the first row wanted. */
  readonly from: readonly [namespace: string, id: string];
  readonly limit: number;
  readonly reverse: boolean;
}

export interface VolumePage {
  readonly rows: readonly StoredVolume[];
  readonly next: readonly [namespace: string, id: string] | null;
}

/** A volume as a row keeps it. Times in milliseconds. */
export interface StoredVolume {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly nodeId: string;
  readonly nodePool: string;
  readonly pluginId: string;
  readonly state: State;
  /** False while its first operation runs: it holds its name on the node, and nobody sees it yet. */
  readonly made: boolean;
  readonly wanted: Wanted;
  readonly capacityBytes: number;
  readonly hostPath: string;
  readonly createTime: number;
  readonly modifyTime: number;
  /** Null until the stream has taken the line that tells of it. */
  readonly createIndex: number | null;
  readonly modifyIndex: number | null;
}

export type State = "pending" | "ready" | "unavailable";

/** What a volume was asked to be, beyond its place. */
export interface Wanted {
  readonly parameters: Readonly<Record<string, string>>;
  readonly constraints: readonly Constraint[];
  readonly capabilities: readonly Capability[];
  /** In bytes; 0 is unset. */
  readonly capacityMin: number;
  readonly capacityMax: number;
}

/** A rule that a node must keep. Targets are texts, or refer to the node: `${attr.kernel.name}`. */
export interface Constraint {
  readonly LTarget: string;
  readonly Operand: string;
  readonly RTarget: string;
}

/** A volume, and the ids of the allocations that use it. */
export interface FoundVolume {
  readonly volume: StoredVolume;
  readonly users: readonly string[];
}

/** How an operation has ended. */
export interface Outcome {
  /** Null when it has succeeded. */
  readonly refusal: Refusal | null;
  /** The volume as it is now; null once it is deleted. */
  readonly volume: StoredVolume | null;
  readonly index: number | null;
}

export interface ClaimQuery {
  /** null = all of them. */
  readonly namespace: string | null;
  readonly jobId?: string;
  readonly taskGroup?: string;
  readonly volumeName?: string;
  /** Of its id. */
  readonly prefix: string;
  /** Namespace and id of the first row wanted. */
  readonly from: readonly [namespace: string, id: string];
  readonly limit: number;
  readonly reverse: boolean;
}

export interface ClaimPage {
  readonly rows: readonly StoredClaim[];
  readonly next: readonly [namespace: string, id: string] | null;
}

/** A task group's claim on a host volume as rows keep it. */
export interface StoredClaim {
  readonly id: string;
  readonly namespace: string;
  readonly jobId: string;
  readonly taskGroup: string;
  readonly volumeId: string;
  readonly volumeName: string;
  /** The allocation that holds it, or held it last. */
  readonly allocId: string;
  /** Null until the stream has taken the line that tells of it. */
  readonly createIndex: number | null;
  readonly modifyIndex: number | null;
}
