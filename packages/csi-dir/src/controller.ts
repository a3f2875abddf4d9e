import { statfs } from "node:fs/promises";
import { CONTROLLER_RPC } from "@sallyport/csi-wire";
import type { Calls } from "./calls.ts";
import * as checks from "./checks.ts";
import type { Driver } from "./driver.ts";
import { pageOf } from "./pages.ts";
import { publishVolume, unpublishVolume } from "./publication.ts";
import { invalid } from "./refusal.ts";
import * as snapshots from "./snapshots.ts";
import * as volumes from "./volumes.ts";

const OFFERED = [
  CONTROLLER_RPC.createDeleteVolume,
  CONTROLLER_RPC.publishUnpublishVolume,
  CONTROLLER_RPC.listVolumes,
  CONTROLLER_RPC.getCapacity,
  CONTROLLER_RPC.createDeleteSnapshot,
  CONTROLLER_RPC.listSnapshots,
  CONTROLLER_RPC.cloneVolume,
  CONTROLLER_RPC.publishReadonly,
  CONTROLLER_RPC.expandVolume,
  CONTROLLER_RPC.listVolumesPublishedNodes,
  CONTROLLER_RPC.singleNodeMultiWriter,
  CONTROLLER_RPC.modifyVolume,
] as const;

export const controllerCalls = (driver: Driver): Calls<"Controller"> => ({
  ControllerGetCapabilities: async () => {
    const { withoutControllerRpcs } = driver.faults.now;
    const offered = OFFERED.filter((type) => !withoutControllerRpcs.includes(type));
    return { capabilities: offered.map((type) => ({ rpc: { type } })) };
  },

  CreateVolume: async (request) => {
    const volume = volumes.messageOf(await volumes.createVolume(driver, request), driver.settings);
    const { contextBytes } = driver.faults.now;
    const padding = contextBytes > 0 ? { padding: "x".repeat(contextBytes) } : {};
    return { volume: { ...volume, volumeContext: { ...volume.volumeContext, ...padding } } };
  },

  DeleteVolume: async ({ volumeId }) => {
    await volumes.deleteVolume(driver, volumeId);
    return {};
  },

  ControllerPublishVolume: async (request) => {
    if (request.readonly && driver.faults.now.withoutControllerRpcs.includes(CONTROLLER_RPC.publishReadonly))
      throw invalid("readonly is set without the capability PUBLISH_READONLY");
    return { publishContext: await publishVolume(driver, request) };
  },

  ControllerUnpublishVolume: async (request) => {
    await unpublishVolume(driver, request);
    return {};
  },

  ValidateVolumeCapabilities: (request) => volumes.validateVolume(driver, request),

  ListVolumes: async (request) => {
    const { entries, nextToken } = await pageOf(driver.volumes, request, driver.faults.now.surplusEntries);
    return {
      entries: entries.map((volume) => ({
        volume: volumes.messageOf(volume, driver.settings),
        status: { publishedNodeIds: Object.keys(volume.published) },
      })),
      nextToken,
    };
  },

  GetCapacity: async ({ volumeCapabilities, accessibleTopology }) => {
    const { root, topology } = driver.settings;
    const elsewhere = accessibleTopology && !volumes.covers(topology, accessibleTopology.segments);
    if (elsewhere || volumeCapabilities.some((capability) => checks.unsupported(capability) !== undefined))
      return { availableCapacity: "0" };
    const { bavail, bsize } = await statfs(root);
    return { availableCapacity: String((await volumes.roomOf(driver)) ?? BigInt(bavail) * BigInt(bsize)) };
  },

  CreateSnapshot: async (request) => ({
    snapshot: snapshots.messageOf(await snapshots.createSnapshot(driver, request)),
  }),

  DeleteSnapshot: async ({ snapshotId }) => {
    await snapshots.deleteSnapshot(driver, snapshotId);
    return {};
  },

  ListSnapshots: async (request) => {
    const { entries, nextToken } = await snapshots.listSnapshots(driver, request);
    return { entries: entries.map((snapshot) => ({ snapshot: snapshots.messageOf(snapshot) })), nextToken };
  },

  ControllerExpandVolume: async (request) => {
    const { bytes, published } = await volumes.expandVolume(driver, request);
    return { capacityBytes: bytes, nodeExpansionRequired: Object.keys(published).length > 0 };
  },

  ControllerModifyVolume: async (request) => {
    await volumes.modifyVolume(driver, request);
    return {};
  },
});
