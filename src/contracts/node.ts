import type { Result } from "../lib/result.ts";
import type { Wire } from "../wire/infer.ts";
import type * as schemas from "../wire/node.ts";
import type { ELIGIBILITIES, STATUSES } from "../wire/node-words.ts";
import type { Indexed, Page, Written } from "./rows.ts";

export type NodeStatus = (typeof STATUSES)[number];
export type Eligibility = (typeof ELIGIBILITIES)[number];

export const NODE_EVENT_TYPES = [
  "NodeRegistration",
  "NodeDeregistration",
  "NodeEligibility",
  "NodeDrain",
  "NodeEvent",
] as const;
/** The type of a node event. Scheduler events other than node events may change a node, too. */
export type NodeEventType = (typeof NODE_EVENT_TYPES)[number] | "PlanResult" | "AllocationUpdated" | "NodePoolUpserted";

/** Number of recent events in a node record. */
export const KEPT_EVENTS = 10;

/**
 * A node as it is stored, read and sent in events: every documented field (docs/internals/wire/nomad.md) but the indexes.
 * A reported one may have further fields. The index of an event is negative while it is unknown: the number of its
 * pending line.
 */
export interface Node extends Omit<Wire<typeof schemas.Node>, "CreateIndex" | "ModifyIndex" | "DrainStrategy"> {
  readonly DrainStrategy: DrainStrategy | null;
}

export type NodeEvent = Node["Events"][number];
export type Network = Wire<typeof schemas.Network>;
export type NodeNetwork = Wire<typeof schemas.NodeNetwork>;
export type LegacyResources = Wire<typeof schemas.LegacyResources>;
export type LastDrain = Wire<typeof schemas.LastDrain>;

export interface DrainStrategy extends Omit<Wire<typeof schemas.DrainStrategy>, "Deadline"> {
  /** Beyond 2^53 a number that keeps its text. */
  readonly Deadline: number | object;
}

export type NodeVolume = NonNullable<Node["HostVolumes"]>[string];

/** A change of a node's host volumes: new or changed volumes, and ids of removed ones. */
export interface NodeVolumesChange {
  readonly put: readonly NodeVolume[];
  readonly gone: readonly string[];
}

/** The fields of a node as its agent or a scheduler reports it; the registry completes them. */
export type NodeFields = Readonly<Record<string, unknown>>;

export interface NodeQuery {
  /** The first node id. */
  readonly from: string;
  readonly limit: number;
  readonly reverse?: boolean;
  /** Half-open id range. */
  readonly range?: readonly [string, string];
  readonly pool?: string;
}

export type NodePage = Page<NodeText>;

/** A node as reads return it: `body` is its JSON text, indexes included. */
export interface NodeText {
  readonly id: string;
  readonly body: string;
  readonly modifyIndex: number;
}

/** An event reported by the node itself. */
export interface NodeEventGiven {
  readonly message: string;
  readonly subsystem: string;
  readonly details: Readonly<Record<string, string>> | null;
  /** Time (ms since 1970); absent = now. */
  readonly at?: number;
}

export interface DrainSpec {
  /** Nanoseconds as decimal text: negative = at once, 0 = no deadline. */
  readonly deadline: string;
  readonly ignoreSystemJobs: boolean;
}

/** The caller of a drain and its metadata. */
export interface DrainNote {
  readonly accessor: string;
  /** null keeps the previous metadata. */
  readonly meta: Readonly<Record<string, string>> | null;
}

export interface NodePoolQuery {
  /** The first pool name. */
  readonly from: string;
  readonly limit: number;
  /** Name prefix. */
  readonly prefix?: string;
}

/** JSON texts of pools, by name. */
export type NodePoolPage = Page<string>;

/** The fields of a pool that callers set. */
export interface NodePoolFields {
  readonly Name: string;
  readonly Description: string;
  readonly Meta: Readonly<Record<string, string>> | null;
  /** Nanoseconds. */
  readonly NodeIdentityTTL: number;
  readonly SchedulerConfiguration: object | null;
}

/** The methods of `ClusterRegistry` about nodes, their drains and pools. */
export interface NodesApi {
  /** One page of nodes, and the index of their table. */
  nodes(query: NodeQuery): Indexed<NodePage>;
  readNode(id: string): Indexed<NodeText> | null;
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
  nodePools(query: NodePoolQuery): Indexed<NodePoolPage>;
  /** A pool as JSON text, or null. */
  readNodePool(name: string): string | null;
  /** Creates or changes a pool; see `NodePools`. */
  putNodePool(pool: NodePoolFields): Promise<Result<Written>>;
  deleteNodePool(name: string): Promise<Result<Written>>;
  purgeNode(id: string, force: boolean): Promise<Result<Written>>;
}
