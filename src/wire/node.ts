import * as z from "zod";
import { ELIGIBILITIES, STATUSES } from "./node-words.ts";
import { createdAndModified, index, texts, time, timeOrNull } from "./shapes.ts";

/** A node as it is stored, read and sent in events (docs/internals/wire/nomad.md). */

const open = z.record(z.string(), z.unknown());
const objects = z.record(z.string(), open);

export const Drivers = z.record(
  z.string(),
  z.object({
    Attributes: texts.nullable(),
    Detected: z.boolean(),
    Healthy: z.boolean(),
    HealthDescription: z.string(),
    UpdateTime: time,
  }),
);
export const HostVolumes = z.record(
  z.string(),
  z.object({ ID: z.string(), Name: z.string(), Path: z.string(), ReadOnly: z.boolean() }),
);
export const LastDrain = z.object({
  AccessorID: z.string(),
  Meta: texts.nullable(),
  StartedAt: timeOrNull,
  Status: z.string(),
  UpdatedAt: timeOrNull,
});
export const DrainStrategy = z.object({
  Deadline: z.int().describe("Nanoseconds; 0 is none, negative is immediate."),
  IgnoreSystemJobs: z.boolean(),
  ForceDeadline: timeOrNull,
  StartedAt: timeOrNull,
});
export const Network = z.looseObject({
  Mode: z.string(),
  Device: z.string(),
  CIDR: z.string(),
  IP: z.string(),
  MBits: z.number(),
  DNS: z.unknown(),
  ReservedPorts: z.unknown(),
  DynamicPorts: z.unknown(),
});
export const NodeNetwork = z.looseObject({
  Mode: z.string(),
  Device: z.string(),
  MacAddress: z.string(),
  Speed: z.number(),
  Addresses: z
    .array(
      z.looseObject({
        Family: z.string(),
        Alias: z.string(),
        Address: z.string(),
        ReservedPorts: z.string(),
        Gateway: z.string(),
      }),
    )
    .nullable(),
});
const cores = z.array(z.int()).nullable();
const devices = z.array(z.unknown()).nullable();
export const NodeResources = z
  .looseObject({
    Cpu: z.looseObject({ CpuShares: z.number(), TotalCpuCores: z.number(), ReservableCpuCores: cores }),
    Memory: z.looseObject({ MemoryMB: z.number() }),
    Disk: z.looseObject({ DiskMB: z.number() }),
    Networks: z.array(Network),
    NodeNetworks: z.array(NodeNetwork),
    Devices: devices,
    MinDynamicPort: z.int(),
    MaxDynamicPort: z.int(),
    Processors: z.looseObject({ Topology: open.nullable() }),
  })
  .meta({ id: "NodeResources" });
export const ReservedResources = z
  .looseObject({
    Cpu: z.looseObject({ CpuShares: z.number(), ReservedCpuCores: cores }),
    Memory: z.looseObject({ MemoryMB: z.number() }),
    Disk: z.looseObject({ DiskMB: z.number() }),
    Networks: z.looseObject({ ReservedHostPorts: z.string() }),
  })
  .meta({ id: "ReservedResources" });
export const LegacyResources = z
  .looseObject({
    CPU: z.number(),
    MemoryMB: z.number(),
    DiskMB: z.number(),
    IOPS: z.number(),
    Networks: z.array(Network).nullable(),
    Devices: devices,
  })
  .meta({ id: "LegacyResources" });

/** Reported nodes may have further fields. */
export const Node = z
  .looseObject({
    ID: z.string(),
    Name: z.string(),
    Datacenter: z.string(),
    NodeClass: z.string(),
    NodePool: z.string(),
    ComputedClass: z.string(),
    HTTPAddr: z.string(),
    TLSEnabled: z.boolean(),
    CgroupParent: z.string(),
    IdentitySigningKeyID: z.string(),
    GCVolumesOnNodeGC: z.boolean(),
    NodeMaxAllocs: z.int(),
    SecretID: z.literal(""),
    Attributes: texts,
    Meta: texts,
    Links: texts.nullable(),
    NodeResources,
    ReservedResources,
    Resources: LegacyResources,
    Reserved: LegacyResources,
    CSIControllerPlugins: objects.nullable(),
    CSINodePlugins: objects.nullable(),
    HostNetworks: objects.nullable(),
    HostVolumes: HostVolumes.nullable(),
    Drivers,
    Drain: z.boolean(),
    DrainStrategy: DrainStrategy.nullable(),
    LastDrain: LastDrain.nullable(),
    SchedulingEligibility: z.enum(ELIGIBILITIES),
    Status: z.enum(STATUSES),
    StatusDescription: z.string(),
    StatusUpdatedAt: z.int().describe("Seconds since 1970."),
    LastAllocUpdateIndex: index,
    LastMissedHeartbeatIndex: index,
    Events: z.array(
      z.object({
        Message: z.string(),
        Subsystem: z.string(),
        Details: texts.nullable(),
        Timestamp: time,
        CreateIndex: index,
      }),
    ),
    ...createdAndModified,
  })
  .meta({ id: "Node" });
