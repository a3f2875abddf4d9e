export const STATUSES = ["initializing", "ready", "down", "disconnected"] as const;
export const ELIGIBILITIES = ["eligible", "ineligible"] as const;
export type NodeStatus = (typeof STATUSES)[number];
export type Eligibility = (typeof ELIGIBILITIES)[number];

export const NODE_EVENT_TYPES = [
  "NodeRegistration",
  "NodeDeregistration",
  "NodeEligibility",
  "NodeDrain",
  "NodeEvent",
] as const;
/** Why a line tells of a node. What schedulers do beyond nodes may change one, too. */
export type NodeEventType = (typeof NODE_EVENT_TYPES)[number] | "PlanResult" | "AllocationUpdated" | "NodePoolUpserted";

/** The latest events of a node that its record carries. */
export const KEPT_EVENTS = 10;

export interface NodeEvent {
  readonly Message: string;
  readonly Subsystem: string;
  readonly Details: Readonly<Record<string, string>> | null;
  /** RFC 3339. */
  readonly Timestamp: string;
  /** Negative while the index is not known: the number of the line that tells of the event. */
  readonly CreateIndex: number;
}

export interface Network {
  readonly Mode: string;
  readonly Device: string;
  readonly CIDR: string;
  readonly IP: string;
  readonly MBits: number;
  readonly DNS: object | null;
  readonly ReservedPorts: readonly unknown[] | null;
  readonly DynamicPorts: readonly unknown[] | null;
}

export interface NodeNetwork {
  readonly Mode: string;
  readonly Device: string;
  readonly MacAddress: string;
  readonly Speed: number;
  readonly Addresses:
    | readonly { Family: string; Alias: string; Address: string; ReservedPorts: string; Gateway: string }[]
    | null;
}

export interface LegacyResources {
  readonly CPU: number;
  readonly MemoryMB: number;
  readonly DiskMB: number;
  readonly IOPS: number;
  readonly Networks: readonly Network[] | null;
  readonly Devices: readonly unknown[] | null;
}

export interface DrainStrategy {
  /** Nanoseconds; negative = at once, 0 = none. Beyond 2^53 a number that keeps its text. */
  readonly Deadline: number | object;
  readonly IgnoreSystemJobs: boolean;
  readonly ForceDeadline: string | null;
  readonly StartedAt: string | null;
}

export interface LastDrain {
  readonly AccessorID: string;
  readonly Meta: Readonly<Record<string, string>> | null;
  readonly StartedAt: string | null;
  readonly Status: string;
  readonly UpdatedAt: string | null;
}

/**
 * A node as it is stored, read and told: every field of the interface document's Node object and of the contract's, apart
 * from the indexes. A reported one may have further fields.
 */
export interface Node {
  readonly ID: string;
  readonly Name: string;
  readonly Datacenter: string;
  readonly NodeClass: string;
  readonly NodePool: string;
  readonly ComputedClass: string;
  readonly HTTPAddr: string;
  readonly TLSEnabled: boolean;
  readonly CgroupParent: string;
  readonly IdentitySigningKeyID: string;
  readonly GCVolumesOnNodeGC: boolean;
  readonly NodeMaxAllocs: number;
  /** Never more than this. */
  readonly SecretID: "";
  readonly Attributes: Readonly<Record<string, string>>;
  readonly Meta: Readonly<Record<string, string>>;
  readonly Links: Readonly<Record<string, string>> | null;
  readonly NodeResources: {
    readonly Cpu: { CpuShares: number; TotalCpuCores: number; ReservableCpuCores: number[] | null };
    readonly Memory: { MemoryMB: number };
    readonly Disk: { DiskMB: number };
    readonly Networks: readonly Network[];
    readonly NodeNetworks: readonly NodeNetwork[];
    readonly Devices: readonly unknown[] | null;
    readonly MinDynamicPort: number;
    readonly MaxDynamicPort: number;
    readonly Processors: { Topology: object | null };
  };
  readonly ReservedResources: {
    readonly Cpu: { CpuShares: number; ReservedCpuCores: number[] | null };
    readonly Memory: { MemoryMB: number };
    readonly Disk: { DiskMB: number };
    readonly Networks: { ReservedHostPorts: string };
  };
  readonly Resources: LegacyResources;
  readonly Reserved: LegacyResources;
  readonly CSIControllerPlugins: Readonly<Record<string, object>> | null;
  readonly CSINodePlugins: Readonly<Record<string, object>> | null;
  readonly HostNetworks: Readonly<Record<string, object>> | null;
  readonly HostVolumes: Readonly<Record<string, { ID: string; Name: string; Path: string; ReadOnly: boolean }>> | null;
  readonly Drivers: Readonly<
    Record<
      string,
      {
        Attributes: Record<string, string> | null;
        Detected: boolean;
        Healthy: boolean;
        HealthDescription: string;
        UpdateTime: string;
      }
    >
  >;
  readonly Drain: boolean;
  readonly DrainStrategy: DrainStrategy | null;
  readonly LastDrain: LastDrain | null;
  readonly SchedulingEligibility: Eligibility;
  readonly Status: NodeStatus;
  readonly StatusDescription: string;
  /** Unix time in seconds. */
  readonly StatusUpdatedAt: number;
  readonly LastAllocUpdateIndex: number;
  readonly LastMissedHeartbeatIndex: number;
  readonly Events: readonly NodeEvent[];
}

export type NodeVolume = NonNullable<Node["HostVolumes"]>[string];

/** What changed of a node's host volumes: those that are new or differ, and the ids of those that are gone. */
export interface NodeVolumesChange {
  readonly put: readonly NodeVolume[];
  readonly gone: readonly string[];
}

/** The answer to a change of a node. */
export interface Written {
  /** Index of the line that tells of the change, or of the last change if this one changed nothing; null when the stream could not take it yet. */
  readonly index: number | null;
}

/** The fields of a node as its agent or a scheduler reports it; the registry completes them. */
export type NodeFields = Readonly<Record<string, unknown>>;

export interface NodeQuery {
  /** The id of the first node wanted. */
  readonly from: string;
  readonly limit: number;
  readonly reverse?: boolean;
  /** Ids from the first text on, before the second. */
  readonly range?: readonly [string, string];
  readonly pool?: string;
}

export interface NodePage {
  readonly rows: readonly NodeText[];
  /** The id of the node that follows. */
  readonly next: string | null;
}

/** A node as reads show it: `body` is its JSON text, indexes included. */
export interface NodeText {
  readonly id: string;
  readonly body: string;
  readonly modifyIndex: number;
}

/** An event that a node tells of itself. */
export interface NodeEventGiven {
  readonly message: string;
  readonly subsystem: string;
  readonly details: Readonly<Record<string, string>> | null;
  /** When it happened (ms); now if missing. */
  readonly at?: number;
}

export interface DrainSpec {
  /** Nanoseconds, as decimal text: negative = at once, 0 = when the last allocation has ended, however long that takes. */
  readonly deadline: string;
  readonly ignoreSystemJobs: boolean;
}

/** Who drains, and what they note about it. */
export interface DrainNote {
  readonly accessor: string;
  /** null leaves what was noted before. */
  readonly meta: Readonly<Record<string, string>> | null;
}

export interface NodePoolQuery {
  /** The name of the first pool wanted. */
  readonly from: string;
  readonly limit: number;
  /** Names that begin with this. */
  readonly prefix?: string;
}

export interface NodePoolPage {
  /** JSON texts of pools, by name. */
  readonly rows: readonly string[];
  /** The name of the pool that follows. */
  readonly next: string | null;
}
