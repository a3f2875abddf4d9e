import type { CsiMethod } from "@sallyport/agent-protocol";
import type { Refusal } from "../lib/result.ts";
import type { Capability } from "./host-volumes.ts";
import type { MountOptions } from "./volume-asks.ts";
/** A request to register, create or update, its fields checked. Empty texts and maps were left out. */
export interface CsiRequest {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly pluginId: string;
  readonly externalId: string;
  readonly capabilities: readonly Capability[];
  /** Null = as the volume has them. */
  readonly mount: MountOptions | null;
  readonly topologyRequest: TopologyRequest | null;
  readonly parameters: Texts;
  readonly context: Texts;
  readonly capacityMin: number;
  readonly capacityMax: number;
  readonly cloneId: string;
  readonly snapshotId: string;
  /** Null = as the volume has them. */
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

/** How far a request has come. */
export type CsiStep =
  /** Wait for this operation. */
  | { readonly kind: "begun"; readonly operation: string }
  /** Another change of the volume runs: wait for it, then ask again. */
  | { readonly kind: "busy"; readonly operation: string }
  /** No plugin has to be asked. */
  | { readonly kind: "ready" };

export interface Name {
  readonly namespace: string;
  readonly id: string;
}

export interface PageAsk {
  readonly pluginId: string;
  readonly maxEntries: number;
  readonly startingToken: string;
}

/** An operation of which nothing is kept here but how it ends. */
export interface Asked {
  readonly operation: string;
}

export interface SnapshotRequest {
  readonly source: Name;
  /** Empty = that of the volume. */
  readonly pluginId: string;
  /** Empty = one is made up. */
  readonly name: string;
  readonly parameters: Texts;
  /** Laid over those that are kept with the volume. */
  readonly secrets: Texts;
}

/** What of a volume answers about its snapshots show. */
export interface SnapshotAsked extends Asked {
  readonly pluginId: string;
  readonly name: string;
}

export interface PluginPage {
  readonly plugins: readonly CsiPlugin[];
  /** The id of the plugin that follows. */
  readonly next: string | null;
}

/** A plugin as it is stored, and its counts. Times in milliseconds. */
export interface CsiPlugin extends PluginCounts {
  readonly id: string;
  readonly provider: string;
  readonly version: string;
  readonly controllerRequired: boolean;
  readonly createTime: number;
  readonly modifyTime: number;
  /** Null until the stream has taken the line that tells of it. */
  readonly createIndex: number | null;
  readonly modifyIndex: number | null;
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
  /** The id of the node that follows. */
  readonly next: string | null;
}

/** One instance of a plugin, on one node. */
export interface CsiInfo {
  readonly AllocID: string;
  readonly ControllerInfo?: Readonly<Record<string, boolean>>;
  readonly HealthDescription: string;
  readonly Healthy: boolean;
  readonly NodeInfo?: Readonly<Record<string, unknown>>;
  readonly PluginID: string;
  readonly Provider: string;
  readonly ProviderVersion: string;
  readonly RequiresControllerPlugin: boolean;
  readonly RequiresTopologies: boolean;
  readonly UpdateTime: string | null;
}

export interface CsiVolumeQuery {
  /** null = all of them. */
  readonly namespace: string | null;
  readonly pluginId?: string;
  /** Beginnings of texts. */
  readonly pluginPrefix?: string;
  readonly prefix?: string;
  /** Of the nodes that it is claimed on. */
  readonly nodePrefix?: string;
  /** Namespace and id of the first row wanted. */
  readonly from: readonly [namespace: string, id: string];
  readonly limit: number;
  readonly reverse: boolean;
}

export interface CsiVolumePage {
  readonly rows: readonly FoundCsiVolume[];
  readonly next: readonly [namespace: string, id: string] | null;
}

/** A volume, its plugin as it is now, and who uses it. */
export interface FoundCsiVolume {
  readonly volume: CsiVolume;
  readonly plugin: CsiPlugin | null;
  readonly users: readonly CsiUser[];
  /** Those of its first claim; null when nobody has claimed it. */
  readonly modes: Capability | null;
}

/** A volume as a row keeps it; its secrets, and the flags of its mounts, lie elsewhere. Sizes in bytes, times in milliseconds. */
export interface CsiVolume extends Omit<CsiRequest, "secrets"> {
  readonly provider: string;
  readonly providerVersion: string;
  readonly controllerRequired: boolean;
  readonly topologies: readonly Topology[];
  /** 0 = not known. */
  readonly capacityBytes: number;
  /** The disk has grown, and file systems on nodes have yet to. */
  readonly nodeExpansionOwed: boolean;
  readonly createTime: number;
  readonly modifyTime: number;
  /** Null until the stream has taken the line that tells of it. */
  readonly createIndex: number | null;
  readonly modifyIndex: number | null;
}

/** An allocation that uses a volume. */
export interface CsiUser {
  readonly allocId: string;
  readonly nodeId: string;
  readonly readOnly: boolean;
}

/** A claim without what is sealed in its row. */
export type ShowableClaim = Omit<CsiClaim, "mount" | "publishContext">;

/** An allocation's claim on a volume. Times in milliseconds. */
export interface CsiClaim {
  readonly row: number;
  readonly namespace: string;
  readonly volumeId: string;
  readonly allocId: string;
  readonly nodeId: string;
  /** What the plugin calls the node, as it was when the claim was taken: later the node may be gone. */
  readonly externalNodeId: string;
  /** Empty while the volume is not known. */
  readonly pluginId: string;
  readonly mode: Mode;
  /** Until it is taken, what was asked for; empty = the volume's. */
  readonly accessMode: string;
  readonly attachmentMode: string;
  /** The volume's access mode while it is held: that of its first claim. Empty until this one is taken. */
  readonly volumeMode: string;
  readonly state: ClaimState;
  /** The operation that is under way for it. */
  readonly operation: string | null;
  readonly attachAsked: boolean;
  readonly publishAsked: boolean;
  readonly owesExpansion: boolean;
  /** In which start of its machine the node was asked to publish it; empty when that is not known. */
  readonly boot: string;
  /** How often the step has failed. */
  readonly attempts: number;
  /** Why the step has not been done. */
  readonly refusal: Refusal | null;
  /** When to look at it; null = when something changes. */
  readonly due: number | null;
  /** Mount options asked for, and what the controller told for the node service; sealed. */
  readonly mount: ArrayBuffer | null;
  readonly publishContext: ArrayBuffer | null;
  readonly path: string;
  readonly created: number;
  readonly updated: number;
}

export type Mode = "read" | "write";

export type ClaimState = (typeof CLAIM_STATES)[number];

/**
 * How far a claim has come. Taken: `pending` (recorded, in use, not admitted), `taken`, `attached` (its node may use the
 * volume), `published` (its allocation finds it at a path). Released: `unpublishing`, `node-detached`, `controller-detached`.
 */
export const CLAIM_STATES = [
  ...["pending", "taken", "attached", "published", "unpublishing", "node-detached", "controller-detached"],
] as const;

/** How an operation has ended. */
export interface CsiOutcome {
  /** Null when it has succeeded. */
  readonly refusal: Refusal | null;
  readonly result: unknown;
  readonly index: number | null;
}

/** What a plugin is doing, or has lately done. Times in milliseconds. */
export interface CsiOperation {
  readonly id: string;
  readonly gen: number;
  readonly pluginId: string;
  readonly namespace: string;
  /** Empty when it is about none. */
  readonly volumeId: string;
  readonly nodeId: string;
  /** Every node that was asked, the last one included. */
  readonly tried: readonly string[];
  /** One of these may have done it, or may yet. */
  readonly uncertain: boolean;
  readonly method: CsiMethod;
  readonly state: "queued" | "running" | "done" | "failed";
  readonly params: Readonly<Record<string, unknown>>;
  /** What becomes of the volume once it has succeeded. */
  readonly change: unknown;
  /** No other change of the volume may run meanwhile. */
  readonly locks: boolean;
  readonly sealed: ArrayBuffer | null;
  readonly refusal: Refusal | null;
  readonly result: unknown;
  /** The index of the line that told of its end; null while it is not known, or when there was nothing to tell. */
  readonly index: number | null;
  readonly created: number;
  readonly ended: number | null;
}
