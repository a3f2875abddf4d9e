/**
 * The messages of CSI 1.x that this project uses: field numbers and types. Unknown fields are skipped. Enumerations
 * are numbers, so that values of newer peers survive.
 */
export const MESSAGES = {
  BoolValue: { value: [1, "bool"] },
  Timestamp: { seconds: [1, "int64"], nanos: [2, "int32"] },
  Topology: { segments: [1, "map"] },

  GetPluginInfoRequest: {},
  GetPluginInfoResponse: { name: [1, "string"], vendorVersion: [2, "string"], manifest: [3, "map"] },
  GetPluginCapabilitiesRequest: {},
  GetPluginCapabilitiesResponse: { capabilities: [1, "PluginCapability[]"] },
  PluginCapability: { service: [1, "CapabilityType"], volumeExpansion: [2, "CapabilityType"] },
  /** A service, expansion or call type; each has its own numbers. */
  CapabilityType: { type: [1, "int32"] },
  ProbeRequest: {},
  ProbeResponse: { ready: [1, "BoolValue"] },

  CapacityRange: { requiredBytes: [1, "int64"], limitBytes: [2, "int64"] },
  BlockVolume: {},
  MountVolume: { fsType: [1, "string"], mountFlags: [2, "string[]"], volumeMountGroup: [3, "string"] },
  AccessMode: { mode: [1, "int32"] },
  VolumeCapability: { block: [1, "BlockVolume"], mount: [2, "MountVolume"], accessMode: [3, "AccessMode"] },
  SnapshotSource: { snapshotId: [1, "string"] },
  VolumeSource: { volumeId: [1, "string"] },
  VolumeContentSource: { snapshot: [1, "SnapshotSource"], volume: [2, "VolumeSource"] },
  TopologyRequirement: { requisite: [1, "Topology[]"], preferred: [2, "Topology[]"] },
  Volume: {
    capacityBytes: [1, "int64"],
    volumeId: [2, "string"],
    volumeContext: [3, "map"],
    contentSource: [4, "VolumeContentSource"],
    accessibleTopology: [5, "Topology[]"],
  },
  VolumeCondition: { abnormal: [1, "bool"], message: [2, "string"] },

  RpcCapability: { rpc: [1, "CapabilityType"] },
  ControllerGetCapabilitiesRequest: {},
  ControllerGetCapabilitiesResponse: { capabilities: [1, "RpcCapability[]"] },
  CreateVolumeRequest: {
    name: [1, "string"],
    capacityRange: [2, "CapacityRange"],
    volumeCapabilities: [3, "VolumeCapability[]"],
    parameters: [4, "map"],
    secrets: [5, "map"],
    volumeContentSource: [6, "VolumeContentSource"],
    accessibilityRequirements: [7, "TopologyRequirement"],
    mutableParameters: [8, "map"],
  },
  CreateVolumeResponse: { volume: [1, "Volume"] },
  DeleteVolumeRequest: { volumeId: [1, "string"], secrets: [2, "map"] },
  DeleteVolumeResponse: {},
  ControllerPublishVolumeRequest: {
    volumeId: [1, "string"],
    nodeId: [2, "string"],
    volumeCapability: [3, "VolumeCapability"],
    readonly: [4, "bool"],
    secrets: [5, "map"],
    volumeContext: [6, "map"],
  },
  ControllerPublishVolumeResponse: { publishContext: [1, "map"] },
  /** Without a node it means all nodes. */
  ControllerUnpublishVolumeRequest: { volumeId: [1, "string"], nodeId: [2, "string"], secrets: [3, "map"] },
  ControllerUnpublishVolumeResponse: {},
  ValidateVolumeCapabilitiesRequest: {
    volumeId: [1, "string"],
    volumeContext: [2, "map"],
    volumeCapabilities: [3, "VolumeCapability[]"],
    parameters: [4, "map"],
    secrets: [5, "map"],
  },
  Confirmed: { volumeContext: [1, "map"], volumeCapabilities: [2, "VolumeCapability[]"], parameters: [3, "map"] },
  ValidateVolumeCapabilitiesResponse: { confirmed: [1, "Confirmed"], message: [2, "string"] },
  ListVolumesRequest: { maxEntries: [1, "int32"], startingToken: [2, "string"] },
  VolumeStatus: { publishedNodeIds: [1, "string[]"], volumeCondition: [2, "VolumeCondition"] },
  VolumeEntry: { volume: [1, "Volume"], status: [2, "VolumeStatus"] },
  ListVolumesResponse: { entries: [1, "VolumeEntry[]"], nextToken: [2, "string"] },
  GetCapacityRequest: {
    volumeCapabilities: [1, "VolumeCapability[]"],
    parameters: [2, "map"],
    accessibleTopology: [3, "Topology"],
  },
  GetCapacityResponse: { availableCapacity: [1, "int64"] },
  CreateSnapshotRequest: {
    sourceVolumeId: [1, "string"],
    name: [2, "string"],
    secrets: [3, "map"],
    parameters: [4, "map"],
  },
  CreateSnapshotResponse: { snapshot: [1, "Snapshot"] },
  Snapshot: {
    sizeBytes: [1, "int64"],
    snapshotId: [2, "string"],
    sourceVolumeId: [3, "string"],
    creationTime: [4, "Timestamp"],
    readyToUse: [5, "bool"],
    groupSnapshotId: [6, "string"],
  },
  DeleteSnapshotRequest: { snapshotId: [1, "string"], secrets: [2, "map"] },
  DeleteSnapshotResponse: {},
  ListSnapshotsRequest: {
    maxEntries: [1, "int32"],
    startingToken: [2, "string"],
    sourceVolumeId: [3, "string"],
    snapshotId: [4, "string"],
    secrets: [5, "map"],
  },
  SnapshotEntry: { snapshot: [1, "Snapshot"] },
  ListSnapshotsResponse: { entries: [1, "SnapshotEntry[]"], nextToken: [2, "string"] },
  ControllerExpandVolumeRequest: {
    volumeId: [1, "string"],
    capacityRange: [2, "CapacityRange"],
    secrets: [3, "map"],
    volumeCapability: [4, "VolumeCapability"],
  },
  ControllerExpandVolumeResponse: { capacityBytes: [1, "int64"], nodeExpansionRequired: [2, "bool"] },
  ControllerModifyVolumeRequest: { volumeId: [1, "string"], secrets: [2, "map"], mutableParameters: [3, "map"] },
  ControllerModifyVolumeResponse: {},

  NodeStageVolumeRequest: {
    volumeId: [1, "string"],
    publishContext: [2, "map"],
    stagingTargetPath: [3, "string"],
    volumeCapability: [4, "VolumeCapability"],
    secrets: [5, "map"],
    volumeContext: [6, "map"],
  },
  NodeStageVolumeResponse: {},
  NodeUnstageVolumeRequest: { volumeId: [1, "string"], stagingTargetPath: [2, "string"] },
  NodeUnstageVolumeResponse: {},
  NodePublishVolumeRequest: {
    volumeId: [1, "string"],
    publishContext: [2, "map"],
    stagingTargetPath: [3, "string"],
    targetPath: [4, "string"],
    volumeCapability: [5, "VolumeCapability"],
    readonly: [6, "bool"],
    secrets: [7, "map"],
    volumeContext: [8, "map"],
  },
  NodePublishVolumeResponse: {},
  NodeUnpublishVolumeRequest: { volumeId: [1, "string"], targetPath: [2, "string"] },
  NodeUnpublishVolumeResponse: {},
  NodeGetVolumeStatsRequest: { volumeId: [1, "string"], volumePath: [2, "string"], stagingTargetPath: [3, "string"] },
  VolumeUsage: { available: [1, "int64"], total: [2, "int64"], used: [3, "int64"], unit: [4, "int32"] },
  NodeGetVolumeStatsResponse: { usage: [1, "VolumeUsage[]"], volumeCondition: [2, "VolumeCondition"] },
  NodeExpandVolumeRequest: {
    volumeId: [1, "string"],
    volumePath: [2, "string"],
    capacityRange: [3, "CapacityRange"],
    stagingTargetPath: [4, "string"],
    volumeCapability: [5, "VolumeCapability"],
    secrets: [6, "map"],
  },
  NodeExpandVolumeResponse: { capacityBytes: [1, "int64"] },
  NodeGetCapabilitiesRequest: {},
  NodeGetCapabilitiesResponse: { capabilities: [1, "RpcCapability[]"] },
  NodeGetInfoRequest: {},
  NodeGetInfoResponse: {
    nodeId: [1, "string"],
    maxVolumesPerNode: [2, "int64"],
    accessibleTopology: [3, "Topology"],
  },
} as const;

type Table = typeof MESSAGES;
export type MessageName = keyof Table;

/** int64 is decimal text, since a number would lose digits. */
interface Scalars {
  readonly string: string;
  readonly bool: boolean;
  readonly int32: number;
  readonly int64: string;
  readonly map: Readonly<Record<string, string>>;
}

type Read<K> = K extends keyof Scalars
  ? Scalars[K]
  : K extends `${infer One}[]`
    ? readonly NonNullable<Read<One>>[]
    : K extends MessageName
      ? Message<K> | null
      : never;

type Written<K> = K extends keyof Scalars
  ? Scalars[K]
  : K extends `${infer One}[]`
    ? readonly Written<One>[]
    : K extends MessageName
      ? Draft<K>
      : never;

type KindOf<N extends MessageName, F extends keyof Table[N]> = Table[N][F] extends readonly [number, infer K]
  ? K
  : never;

/** A decoded message: every field is present; absent ones have the type's default, or null for a message. */
export type Message<N extends MessageName> = { readonly [F in keyof Table[N]]: Read<KindOf<N, F>> };

/** A message to encode: every field is optional. */
export type Draft<N extends MessageName> = {
  readonly [F in keyof Table[N]]?: Written<KindOf<N, F>> | null | undefined;
};
