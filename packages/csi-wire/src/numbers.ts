/** The numbers of CSI's enumerations. */

export const PLUGIN_SERVICE = {
  controllerService: 1,
  volumeAccessibilityConstraints: 2,
  groupControllerService: 3,
  snapshotMetadataService: 4,
} as const;

export const VOLUME_EXPANSION = { online: 1, offline: 2 } as const;

export const CONTROLLER_RPC = {
  createDeleteVolume: 1,
  publishUnpublishVolume: 2,
  listVolumes: 3,
  getCapacity: 4,
  createDeleteSnapshot: 5,
  listSnapshots: 6,
  cloneVolume: 7,
  publishReadonly: 8,
  expandVolume: 9,
  listVolumesPublishedNodes: 10,
  volumeCondition: 11,
  getVolume: 12,
  singleNodeMultiWriter: 13,
  modifyVolume: 14,
} as const;

export const NODE_RPC = {
  stageUnstageVolume: 1,
  getVolumeStats: 2,
  expandVolume: 3,
  volumeCondition: 4,
  singleNodeMultiWriter: 5,
  volumeMountGroup: 6,
} as const;

export const ACCESS_MODE = {
  unknown: 0,
  singleNodeWriter: 1,
  singleNodeReaderOnly: 2,
  multiNodeReaderOnly: 3,
  multiNodeSingleWriter: 4,
  multiNodeMultiWriter: 5,
  singleNodeSingleWriter: 6,
  singleNodeMultiWriter: 7,
} as const;

export const USAGE_UNIT = { bytes: 1, inodes: 2 } as const;
