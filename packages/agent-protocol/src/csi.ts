import * as z from "zod";
import { amount, mapOf, text } from "./bounds.ts";
import { csiSegments } from "./report.ts";

/** Operations on a node's CSI plugins (CSI 1.13). Secrets are transferred beside `params`. */

const plugin = { pluginId: text(128, 1) };
const externalId = text(1024, 1);
/** For example `single-node-writer`; `file-system` or `block-device`. */
const capability = z.object({ accessMode: text(64, 1), attachmentMode: text(64, 1) });
const capabilities = z.array(capability).max(128);
/** Mount options of a `file-system`. Flags are as sensitive as secrets and appear in no error and no log. */
const mount = z.object({ fsType: text(128), mountFlags: z.array(text(4096)).max(128) }).nullable();
const texts = mapOf(text(4096), 256);
const topologies = z.array(csiSegments).max(128);
/** Sizes in bytes; 0 means unset, in results unknown. */
const capacity = { capacityMin: amount, capacityMax: amount };
const page = { maxEntries: amount, startingToken: text(4096) };
const onNode = { externalNodeId: text(256, 1) };
const use = { ...plugin, externalId, allocId: text(128, 1) };
const nothing: z.ZodType<object> = z.object({});

export const csiSnapshot = z.object({
  snapshotId: externalId,
  sourceExternalId: text(1024),
  sizeBytes: amount,
  /** Seconds since 1970; 0 when unknown. */
  createTime: amount,
  isReady: z.boolean(),
});
export type CsiSnapshot = z.infer<typeof csiSnapshot>;

export const csiExternalVolume = z.object({
  externalId,
  capacityBytes: amount,
  context: texts,
  snapshotId: text(1024),
  cloneId: text(1024),
  /** Node ids of the provider. */
  publishedNodeIds: z.array(text(256)).max(1_000),
  isAbnormal: z.boolean(),
  status: text(1024),
});
export type CsiExternalVolume = z.infer<typeof csiExternalVolume>;

const CONTROLLER_MS = 120_000;

/** As `METHODS`. The deadline covers the whole operation, including the agent's retries. */
export const CSI_METHODS = {
  "csi.controller.create": {
    params: z.object({
      ...plugin,
      ...capacity,
      name: text(256, 1),
      capabilities,
      mount,
      parameters: texts,
      snapshotId: text(1024),
      cloneId: text(1024),
      /** For plugins with MODIFY_VOLUME. */
      mutableParameters: texts.optional(),
      topology: z.object({ required: topologies, preferred: topologies }).nullable(),
    }),
    result: z.object({ externalId, capacityBytes: amount, context: texts, topologies }),
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  /** Succeeds for a missing volume. */
  "csi.controller.delete": {
    params: z.object({ ...plugin, externalId }),
    result: nothing,
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  /** Fails with `invalid` for unconfirmed capabilities, and with `missing` for a missing volume. */
  "csi.controller.validate": {
    params: z.object({ ...plugin, externalId, capabilities, mount, parameters: texts, context: texts }),
    result: nothing,
    deadlineMs: 60_000,
    reads: true,
  },
  "csi.controller.expand": {
    params: z.object({ ...plugin, ...capacity, externalId, capability: capability.nullable(), mount }),
    result: z.object({ capacityBytes: amount, nodeExpansionRequired: z.boolean() }),
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  "csi.controller.modify": {
    params: z.object({ ...plugin, externalId, mutableParameters: texts }),
    result: nothing,
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  /** A plugin may return more than `maxEntries`; 0 leaves the number to the plugin. */
  "csi.controller.list": {
    params: z.object({ ...plugin, ...page }),
    result: z.object({ volumes: z.array(csiExternalVolume), nextToken: text(4096) }),
    deadlineMs: CONTROLLER_MS,
    reads: true,
  },
  "csi.controller.snapshotCreate": {
    params: z.object({ ...plugin, externalId, name: text(256, 1), parameters: texts }),
    result: csiSnapshot,
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  /** Succeeds for a missing snapshot. */
  "csi.controller.snapshotDelete": {
    params: z.object({ ...plugin, snapshotId: externalId }),
    result: nothing,
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  "csi.controller.snapshotList": {
    params: z.object({ ...plugin, ...page }),
    result: z.object({ snapshots: z.array(csiSnapshot), nextToken: text(4096) }),
    deadlineMs: CONTROLLER_MS,
    reads: true,
  },
  /** Attaches a volume to a node; `externalNodeId` is the plugin's id of that node (`NodeInfo.ID`). */
  "csi.controller.publish": {
    params: z.object({ ...plugin, externalId, ...onNode, capability, mount, readOnly: z.boolean(), context: texts }),
    result: z.object({ publishContext: texts }),
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  /** Detaches a volume from one node; succeeds for a missing volume or node. */
  "csi.controller.unpublish": {
    params: z.object({ ...plugin, externalId, ...onNode }),
    result: nothing,
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  /** Mounts a volume for an allocation, at `path`. */
  "csi.node.publish": {
    params: z.object({
      ...use,
      capability,
      mount,
      readOnly: z.boolean(),
      context: texts,
      publishContext: texts,
    }),
    result: z.object({ path: text(4096, 1) }),
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
  /** Unmounts a volume for an allocation; succeeds when it is not mounted. The last one also unstages the volume. */
  "csi.node.detach": { params: z.object(use), result: nothing, deadlineMs: CONTROLLER_MS, reads: false },
  "csi.node.expand": {
    params: z.object({ ...use, ...capacity, capability: capability.nullable(), mount }),
    result: z.object({ capacityBytes: amount }),
    deadlineMs: CONTROLLER_MS,
    reads: false,
  },
} as const;

export type CsiMethod = keyof typeof CSI_METHODS;
/** The methods of claims. */
export type CsiClaimMethod = Extract<
  CsiMethod,
  "csi.controller.publish" | "csi.controller.unpublish" | `csi.node.${string}`
>;
export type CsiParamsOf<M extends CsiMethod> = z.infer<(typeof CSI_METHODS)[M]["params"]>;
export type CsiResultOf<M extends CsiMethod> = z.infer<(typeof CSI_METHODS)[M]["result"]>;

/** Serialization key of a CSI volume's operations: by name, since a volume has no external id before its creation. */
export const csiVolumeKey = (pluginId: string, namespace: string, id: string) => `csi:${pluginId}:${namespace}/${id}`;
