import type { CsiExternalVolume, CsiParamsOf, CsiSnapshot } from "@sallyport/agent-protocol";
import { ACCESS_MODE, type Draft, type Message } from "@sallyport/csi-wire";

type Capability = CsiParamsOf<"csi.controller.create">["capabilities"][number];
type Mount = CsiParamsOf<"csi.controller.create">["mount"];

const MODES: Readonly<Record<string, number>> = {
  "single-node-writer": ACCESS_MODE.singleNodeWriter,
  "single-node-reader-only": ACCESS_MODE.singleNodeReaderOnly,
  "multi-node-reader-only": ACCESS_MODE.multiNodeReaderOnly,
  "multi-node-single-writer": ACCESS_MODE.multiNodeSingleWriter,
  "multi-node-multi-writer": ACCESS_MODE.multiNodeMultiWriter,
  "single-node-single-writer": ACCESS_MODE.singleNodeSingleWriter,
  "single-node-multi-writer": ACCESS_MODE.singleNodeMultiWriter,
};
/** Access modes that a plugin understands only with the capability SINGLE_NODE_MULTI_WRITER. */
export const NEWER_MODES: ReadonlySet<string> = new Set(["single-node-single-writer", "single-node-multi-writer"]);

/** Invalid operation parameters. */
export class Unusable extends Error {}

/** @throws Unusable */
export function capabilityOf({ accessMode, attachmentMode }: Capability, mount: Mount): Draft<"VolumeCapability"> {
  const mode = MODES[accessMode];
  if (mode === undefined) throw new Unusable(`there is no access mode ${JSON.stringify(accessMode)}`);
  if (attachmentMode === "block-device") return { block: {}, accessMode: { mode } };
  if (attachmentMode !== "file-system")
    throw new Unusable(`there is no attachment mode ${JSON.stringify(attachmentMode)}`);
  return { mount: { fsType: mount?.fsType, mountFlags: mount?.mountFlags }, accessMode: { mode } };
}

/** Undefined when neither bound is set. */
export function rangeOf(capacityMin: number, capacityMax: number): Draft<"CapacityRange"> | undefined {
  if (capacityMax > 0 && capacityMin > capacityMax) throw new Unusable("capacityMin is more than capacityMax");
  if (capacityMin === 0 && capacityMax === 0) return undefined;
  return { requiredBytes: String(capacityMin), limitBytes: String(capacityMax) };
}

/** As a number; values beyond the largest safe integer are clamped. */
export function countOf(int64: string): number {
  const count = BigInt(int64);
  const largest = BigInt(Number.MAX_SAFE_INTEGER);
  return Number(count < 0n ? 0n : count > largest ? largest : count);
}

export const externalVolumeOf = ({ volume, status }: Message<"VolumeEntry">): CsiExternalVolume => ({
  externalId: volume?.volumeId ?? "",
  capacityBytes: countOf(volume?.capacityBytes ?? "0"),
  context: { ...volume?.volumeContext },
  snapshotId: volume?.contentSource?.snapshot?.snapshotId ?? "",
  cloneId: volume?.contentSource?.volume?.volumeId ?? "",
  // Drivers without LIST_VOLUMES_PUBLISHED_NODES may return an empty name.
  publishedNodeIds: (status?.publishedNodeIds ?? []).filter((id) => id !== ""),
  isAbnormal: status?.volumeCondition?.abnormal ?? false,
  status: (status?.volumeCondition?.message ?? "").slice(0, 1024),
});

export const snapshotOf = (snapshot: Message<"Snapshot"> | null): CsiSnapshot => ({
  snapshotId: snapshot?.snapshotId ?? "",
  sourceExternalId: snapshot?.sourceVolumeId ?? "",
  sizeBytes: countOf(snapshot?.sizeBytes ?? "0"),
  createTime: countOf(snapshot?.creationTime?.seconds ?? "0"),
  isReady: snapshot?.readyToUse ?? false,
});
