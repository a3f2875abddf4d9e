import * as z from "zod";
import { amount, MAX_VOLUMES, mapOf, text, uuid } from "./bounds.ts";

/**
 * An agent's report of its node, in the field names of the public Node object, so that the service can forward it.
 * Fields that the service decides (ID, Status, eligibility, events, indexes) are absent.
 */

const network = z.object({
  Mode: text(64),
  Device: text(64),
  CIDR: text(64),
  IP: text(64),
  MBits: amount,
});

const nodeNetwork = z.object({
  Mode: text(64),
  Device: text(64),
  MacAddress: text(64),
  Speed: amount,
  Addresses: z
    .array(
      z.object({
        Family: z.enum(["ipv4", "ipv6"]),
        Alias: text(64),
        Address: text(64),
        ReservedPorts: text(256),
        Gateway: text(64),
      }),
    )
    .max(128),
});

const driver = z.object({
  Attributes: mapOf(text(1024), 128).nullable(),
  Detected: z.boolean(),
  Healthy: z.boolean(),
  HealthDescription: text(1024),
  UpdateTime: z.iso.datetime({ offset: true }),
});

/** An instance of a CSI plugin; its capabilities are in the info of its role. */
const csiPlugin = z.object({
  PluginID: text(128, 1),
  Provider: text(256),
  ProviderVersion: text(256),
  Healthy: z.boolean(),
  HealthDescription: text(1024),
  RequiresControllerPlugin: z.boolean(),
  RequiresTopologies: z.boolean(),
  UpdateTime: z.iso.datetime({ offset: true }),
});
const csiController = csiPlugin.extend({
  ControllerInfo: mapOf(z.boolean(), 64),
  /** Bytes for new volumes at the controller's node, rounded down to two digits; absent when unknown. */
  AvailableCapacity: amount.optional(),
});
/** A published volume that cannot be used as it should. */
const csiVolumeProblem = z.object({ ExternalID: text(1024, 1), AllocID: text(128, 1), Reason: text(1024) });
export type CsiVolumeProblem = z.infer<typeof csiVolumeProblem>;
/** Upper bound of reported problems per plugin. */
export const MAX_CSI_PROBLEMS = 100;
/** Topology segments of a node. */
export const csiSegments = mapOf(text(256), 64);
export const csiNodeInfo = z.object({
  /** The node's id at the provider. */
  ID: text(256),
  /** 0 = no limit. */
  MaxVolumes: amount,
  AccessibleTopology: z.object({ Segments: csiSegments }).nullable(),
  RequiresNodeStageVolume: z.boolean(),
  SupportsStats: z.boolean(),
  SupportsExpand: z.boolean(),
  SupportsCondition: z.boolean(),
});
const csiNode = csiPlugin.extend({
  NodeInfo: csiNodeInfo,
  VolumeProblems: z.array(csiVolumeProblem).max(MAX_CSI_PROBLEMS).optional(),
});
export type ReportedCsiController = z.infer<typeof csiController>;
export type ReportedCsiNode = z.infer<typeof csiNode>;

const hostVolume = z.object({ ID: uuid, Name: text(256, 1), Path: text(4096, 1), ReadOnly: z.boolean() });
export type ReportedHostVolume = z.infer<typeof hostVolume>;

export const nodeReport = z.object({
  Name: text(128, 1),
  Datacenter: text(128, 1),
  NodeClass: text(128),
  NodePool: text(128, 1),
  /** `plugins.host_volume.<plugin>.version`: the node can create volumes with that plugin. */
  Attributes: mapOf(text(1024), 512),
  Meta: mapOf(text(1024), 128),
  NodeResources: z.object({
    Cpu: z.object({ CpuShares: amount, TotalCpuCores: amount }),
    Memory: z.object({ MemoryMB: amount }),
    Disk: z.object({ DiskMB: amount }),
    Networks: z.array(network).max(128),
    NodeNetworks: z.array(nodeNetwork).max(128),
  }),
  ReservedResources: z.object({
    Cpu: z.object({ CpuShares: amount }),
    Memory: z.object({ MemoryMB: amount }),
    Disk: z.object({ DiskMB: amount }),
    Networks: z.object({ ReservedHostPorts: text(1024) }),
  }),
  Drivers: mapOf(driver, 64),
  /** The usable volumes by name; names are unique per node. */
  HostVolumes: mapOf(hostVolume, MAX_VOLUMES),
  /** By plugin id. Earlier releases omit them when they have no plugins; in a whole report that means none. */
  CSIControllerPlugins: mapOf(csiController, 64).optional(),
  CSINodePlugins: mapOf(csiNode, 64).optional(),
});
export type NodeReport = z.infer<typeof nodeReport>;

/** An unusable volume of this node and the reason. */
export const unavailableVolume = z.object({ id: uuid, name: text(256, 1), reason: text(1024) });

export const report = z.object({ node: nodeReport, unavailableVolumes: z.array(unavailableVolume).max(MAX_VOLUMES) });
export type Report = z.infer<typeof report>;

/** The changes since the last report: each present field replaces the whole field. */
export const reportChange = z.object({
  node: nodeReport.partial(),
  unavailableVolumes: report.shape.unavailableVolumes.optional(),
});
export type ReportChange = z.infer<typeof reportChange>;

/** Upper bounds of volume changes per frame, in entries and bytes, independent of the node's number of volumes. */
export const MAX_VOLUME_CHANGES = 500;
export const VOLUME_FRAME_BYTES = 64 * 1024;

/** The volume changes since the last report, each volume named once. */
export const volumesChange = z.object({
  usable: z.array(hostVolume).max(MAX_VOLUME_CHANGES),
  unavailable: z.array(unavailableVolume).max(MAX_VOLUME_CHANGES),
  gone: z.array(uuid).max(MAX_VOLUME_CHANGES),
});
export type VolumesChange = z.infer<typeof volumesChange>;
