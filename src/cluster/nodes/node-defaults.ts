import { createHash } from "node:crypto";
import { KEPT_EVENTS, type LegacyResources, type Network, type Node, type NodeNetwork } from "../../contracts/node.ts";
import type { GivenLegacy, GivenNetwork, GivenNode, GivenNodeNetwork } from "./fields.ts";

/** The default range of dynamic ports. */
const DYNAMIC_PORTS = { MinDynamicPort: 20_000, MaxDynamicPort: 32_000 };

/** Completes a partial node record with defaults; unknown fields are kept. */
export function completeNode(id: string, given: GivenNode, now: number): Node {
  const time = new Date(now).toISOString();
  const shown = { ...given, ID: id, SecretID: "" as const, NodePool: given.NodePool || "default" };
  const resources = nodeResources(given);
  const reserved = reservedResources(given);
  const drainStrategy = given.DrainStrategy ?? null;
  return {
    ...shown,
    Name: given.Name ?? "",
    Datacenter: given.Datacenter ?? "",
    NodeClass: given.NodeClass ?? "",
    ComputedClass: given.ComputedClass || computedClass(given),
    HTTPAddr: given.HTTPAddr ?? "",
    TLSEnabled: given.TLSEnabled ?? false,
    CgroupParent: given.CgroupParent ?? "",
    IdentitySigningKeyID: given.IdentitySigningKeyID ?? "",
    GCVolumesOnNodeGC: given.GCVolumesOnNodeGC ?? false,
    NodeMaxAllocs: given.NodeMaxAllocs ?? 0,
    Attributes: given.Attributes ?? {},
    Meta: given.Meta ?? {},
    Links: given.Links ?? null,
    NodeResources: resources,
    ReservedResources: reserved,
    Resources: legacy(given.Resources, {
      CPU: resources.Cpu.CpuShares,
      MemoryMB: resources.Memory.MemoryMB,
      DiskMB: resources.Disk.DiskMB,
      Networks: resources.Networks,
    }),
    Reserved: legacy(given.Reserved, {
      CPU: reserved.Cpu.CpuShares,
      MemoryMB: reserved.Memory.MemoryMB,
      DiskMB: reserved.Disk.DiskMB,
      Networks: null,
    }),
    CSIControllerPlugins: given.CSIControllerPlugins ?? null,
    CSINodePlugins: given.CSINodePlugins ?? null,
    HostNetworks: given.HostNetworks ?? null,
    HostVolumes: given.HostVolumes
      ? mapped(given.HostVolumes, (volume, name) => ({
          ...volume,
          ID: volume.ID ?? "",
          Name: volume.Name ?? name,
          Path: volume.Path ?? "",
          ReadOnly: volume.ReadOnly ?? false,
        }))
      : null,
    Drivers: mapped(given.Drivers ?? {}, (driver) => ({
      ...driver,
      Attributes: driver.Attributes ?? null,
      Detected: driver.Detected ?? false,
      Healthy: driver.Healthy ?? false,
      HealthDescription: driver.HealthDescription ?? "",
      UpdateTime: driver.UpdateTime ?? time,
    })),
    Drain: drainStrategy !== null || (given.Drain ?? false),
    DrainStrategy: drainStrategy && {
      ...drainStrategy,
      Deadline: drainStrategy.Deadline ?? 0,
      IgnoreSystemJobs: drainStrategy.IgnoreSystemJobs ?? false,
      ForceDeadline: drainStrategy.ForceDeadline ?? null,
      StartedAt: drainStrategy.StartedAt ?? null,
    },
    LastDrain: given.LastDrain
      ? {
          ...given.LastDrain,
          AccessorID: given.LastDrain.AccessorID ?? "",
          Meta: given.LastDrain.Meta ?? null,
          StartedAt: given.LastDrain.StartedAt ?? null,
          Status: given.LastDrain.Status ?? "",
          UpdatedAt: given.LastDrain.UpdatedAt ?? null,
        }
      : null,
    SchedulingEligibility: given.SchedulingEligibility ?? "eligible",
    Status: given.Status ?? "initializing",
    StatusDescription: given.StatusDescription ?? "",
    StatusUpdatedAt: given.StatusUpdatedAt ?? Math.floor(now / 1000),
    LastAllocUpdateIndex: given.LastAllocUpdateIndex ?? 0,
    LastMissedHeartbeatIndex: given.LastMissedHeartbeatIndex ?? 0,
    Events: (given.Events ?? []).slice(-KEPT_EVENTS).map((event) => ({
      ...event,
      Message: event.Message ?? "",
      Subsystem: event.Subsystem ?? "",
      Details: event.Details ?? null,
      Timestamp: event.Timestamp ?? time,
      CreateIndex: event.CreateIndex ?? 0,
    })),
  };
}

function nodeResources({ NodeResources: given }: GivenNode): Node["NodeResources"] {
  return {
    ...DYNAMIC_PORTS,
    ...given,
    Cpu: {
      ...given?.Cpu,
      CpuShares: given?.Cpu?.CpuShares ?? 0,
      TotalCpuCores: given?.Cpu?.TotalCpuCores ?? 0,
      ReservableCpuCores: given?.Cpu?.ReservableCpuCores ?? null,
    },
    Memory: { ...given?.Memory, MemoryMB: given?.Memory?.MemoryMB ?? 0 },
    Disk: { ...given?.Disk, DiskMB: given?.Disk?.DiskMB ?? 0 },
    Networks: (given?.Networks ?? []).map(network),
    NodeNetworks: (given?.NodeNetworks ?? []).map(nodeNetwork),
    Devices: given?.Devices ?? null,
    MinDynamicPort: given?.MinDynamicPort ?? DYNAMIC_PORTS.MinDynamicPort,
    MaxDynamicPort: given?.MaxDynamicPort ?? DYNAMIC_PORTS.MaxDynamicPort,
    Processors: { ...given?.Processors, Topology: given?.Processors?.Topology ?? null },
  };
}

function reservedResources({ ReservedResources: given }: GivenNode): Node["ReservedResources"] {
  return {
    ...given,
    Cpu: {
      ...given?.Cpu,
      CpuShares: given?.Cpu?.CpuShares ?? 0,
      ReservedCpuCores: given?.Cpu?.ReservedCpuCores ?? null,
    },
    Memory: { ...given?.Memory, MemoryMB: given?.Memory?.MemoryMB ?? 0 },
    Disk: { ...given?.Disk, DiskMB: given?.Disk?.DiskMB ?? 0 },
    Networks: { ...given?.Networks, ReservedHostPorts: given?.Networks?.ReservedHostPorts ?? "" },
  };
}

/** The deprecated resource fields of old clients: as reported, or derived from the current fields. */
function legacy(
  given: GivenLegacy | null | undefined,
  drawn: Pick<LegacyResources, "CPU" | "MemoryMB" | "DiskMB" | "Networks">,
): LegacyResources {
  return {
    ...given,
    CPU: given?.CPU ?? drawn.CPU,
    MemoryMB: given?.MemoryMB ?? drawn.MemoryMB,
    DiskMB: given?.DiskMB ?? drawn.DiskMB,
    IOPS: given?.IOPS ?? 0,
    Networks: given?.Networks?.map(network) ?? drawn.Networks,
    Devices: given?.Devices ?? null,
  };
}

const network = (given: GivenNetwork): Network => ({
  ...given,
  Mode: given.Mode ?? "",
  Device: given.Device ?? "",
  CIDR: given.CIDR ?? "",
  IP: given.IP ?? "",
  MBits: given.MBits ?? 0,
  DNS: given.DNS ?? null,
  ReservedPorts: given.ReservedPorts ?? null,
  DynamicPorts: given.DynamicPorts ?? null,
});

const nodeNetwork = (given: GivenNodeNetwork): NodeNetwork => ({
  ...given,
  Mode: given.Mode ?? "",
  Device: given.Device ?? "",
  MacAddress: given.MacAddress ?? "",
  Speed: given.Speed ?? 0,
  Addresses:
    given.Addresses?.map((address) => ({
      ...address,
      Family: address.Family ?? "",
      Alias: address.Alias ?? "",
      Address: address.Address ?? "",
      ReservedPorts: address.ReservedPorts ?? "",
      Gateway: address.Gateway ?? "",
    })) ?? null,
});

/** A digest of the scheduling-relevant fields; attributes under `unique.` are excluded. */
function computedClass({ Datacenter, NodeClass, Attributes, Meta }: GivenNode): string {
  const common = (map: Readonly<Record<string, string>>) =>
    Object.entries(map)
      .filter(([key]) => !key.startsWith("unique."))
      .sort(([a], [b]) => (a < b ? -1 : 1));
  const properties = [Datacenter ?? "", NodeClass ?? "", common(Attributes ?? {}), common(Meta ?? {})];
  return `v1:${createHash("sha256").update(JSON.stringify(properties)).digest("base64url").slice(0, 22)}`;
}

const mapped = <From, To>(map: Readonly<Record<string, From>>, change: (value: From, key: string) => To) =>
  Object.fromEntries(Object.entries(map).map(([key, value]) => [key, change(value, key)])) as Record<string, To>;
