import type { Node } from "../../contracts/node.ts";
import * as kind from "../../lib/bexpr/kinds.ts";

/** The node fields that a filter expression can name: all except the secret. */

const texts = kind.map(kind.string);
const network = kind.struct({
  Mode: kind.string,
  Device: kind.string,
  CIDR: kind.string,
  IP: kind.string,
  MBits: kind.integer,
  DNS: kind.any,
  ReservedPorts: kind.any,
  DynamicPorts: kind.any,
});
const nodeNetwork = kind.struct({
  Mode: kind.string,
  Device: kind.string,
  MacAddress: kind.string,
  Speed: kind.integer,
  Addresses: kind.list(
    kind.struct({
      Family: kind.string,
      Alias: kind.string,
      Address: kind.string,
      ReservedPorts: kind.string,
      Gateway: kind.string,
    }),
  ),
});
const memory = kind.struct({ MemoryMB: kind.integer });
const disk = kind.struct({ DiskMB: kind.integer });
const legacy = kind.struct({
  CPU: kind.integer,
  MemoryMB: kind.integer,
  DiskMB: kind.integer,
  IOPS: kind.integer,
  Networks: kind.list(network),
  Devices: kind.any,
});

export const nodeFields = kind.record<Node & { CreateIndex: number; ModifyIndex: number }>({
  ID: kind.string,
  Name: kind.string,
  Datacenter: kind.string,
  NodeClass: kind.string,
  NodePool: kind.string,
  ComputedClass: kind.string,
  HTTPAddr: kind.string,
  TLSEnabled: kind.boolean,
  CgroupParent: kind.string,
  IdentitySigningKeyID: kind.string,
  GCVolumesOnNodeGC: kind.boolean,
  NodeMaxAllocs: kind.integer,
  Attributes: texts,
  Meta: texts,
  Links: texts,
  NodeResources: kind.struct({
    Cpu: kind.struct({
      CpuShares: kind.integer,
      TotalCpuCores: kind.integer,
      ReservableCpuCores: kind.list(kind.integer),
    }),
    Memory: memory,
    Disk: disk,
    Networks: kind.list(network),
    NodeNetworks: kind.list(nodeNetwork),
    Devices: kind.any,
    MinDynamicPort: kind.integer,
    MaxDynamicPort: kind.integer,
    Processors: kind.any,
  }),
  ReservedResources: kind.struct({
    Cpu: kind.struct({ CpuShares: kind.integer, ReservedCpuCores: kind.list(kind.integer) }),
    Memory: memory,
    Disk: disk,
    Networks: kind.struct({ ReservedHostPorts: kind.string }),
  }),
  Resources: legacy,
  Reserved: legacy,
  CSIControllerPlugins: kind.map(kind.any),
  CSINodePlugins: kind.map(kind.any),
  HostNetworks: kind.map(kind.any),
  HostVolumes: kind.map(kind.struct({ ID: kind.string, Name: kind.string, Path: kind.string, ReadOnly: kind.boolean })),
  Drivers: kind.map(
    kind.struct({
      Attributes: texts,
      Detected: kind.boolean,
      Healthy: kind.boolean,
      HealthDescription: kind.string,
      UpdateTime: kind.string,
    }),
  ),
  Drain: kind.boolean,
  DrainStrategy: kind.struct({
    Deadline: kind.integer,
    IgnoreSystemJobs: kind.boolean,
    ForceDeadline: kind.string,
    StartedAt: kind.string,
  }),
  LastDrain: kind.struct({
    AccessorID: kind.string,
    Meta: texts,
    StartedAt: kind.string,
    Status: kind.string,
    UpdatedAt: kind.string,
  }),
  SchedulingEligibility: kind.string,
  Status: kind.string,
  StatusDescription: kind.string,
  StatusUpdatedAt: kind.integer,
  LastAllocUpdateIndex: kind.integer,
  LastMissedHeartbeatIndex: kind.integer,
  Events: kind.list(
    kind.struct({
      Message: kind.string,
      Subsystem: kind.string,
      Details: texts,
      Timestamp: kind.string,
      CreateIndex: kind.integer,
    }),
  ),
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});
