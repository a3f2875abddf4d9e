import type { Mode } from "../../contracts/csi-volumes.ts";
import type { Capability } from "../../contracts/host-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";

/**
 * Decides whether a CSI volume accepts a claim; pure functions over rows that the caller has read.
 *
 * A claim request.
 */
interface Claimant {
  readonly allocId: string;
  readonly nodeId: string;
  readonly mode: Mode;
  readonly attachmentMode: string;
}

/** The access held by existing claims, including those of terminal allocations. */
export interface Holders {
  readonly reads: boolean;
  readonly writes: boolean;
  /** The node of the first claim; null without claims. */
  readonly nodeId: string | null;
  /** Modes of the first claim; null without claims. */
  readonly modes: Capability | null;
}

export interface Claimed {
  readonly id: string;
  readonly schedulable: boolean;
  readonly capabilities: readonly Capability[];
  readonly holders: Holders;
  /** The node has reached the plugin's volume limit. */
  readonly nodeIsFull: boolean;
}

const WRITING: ReadonlySet<string> = new Set([
  "single-node-writer",
  "single-node-single-writer",
  "single-node-multi-writer",
  "multi-node-single-writer",
  "multi-node-multi-writer",
]);

/** Why a claim is not admitted now; null when it is. */
export function admissionRefusal({ allocId, nodeId, mode, attachmentMode }: Claimant, volume: Claimed): Refusal | null {
  const { modes } = volume.holders;
  const why = (text: string) =>
    refuse("conflict", `alloc ${JSON.stringify(allocId)} failed to claim volume ${JSON.stringify(volume.id)}: ${text}`);
  if (!volume.schedulable) return why("volume is currently unschedulable");
  if (!hasRoom(mode, nodeId, volume)) return why("volume max claims reached");
  if (modes && modes.AttachmentMode !== attachmentMode) return why("cannot change attachment mode of claimed volume");
  if (volume.nodeIsFull) return why("its node has as many volumes of the plugin as that takes there");
  return null;
}

function hasRoom(mode: Mode, node: string, { capabilities, holders }: Claimed): boolean {
  const { reads, writes, modes } = holders;
  if (!modes) return mode === "read" || capabilities.some(({ AccessMode }) => WRITING.has(AccessMode));
  switch (modes.AccessMode) {
    case "single-node-single-writer":
      return !reads && !writes;
    case "single-node-multi-writer":
      return holders.nodeId === node;
    case "single-node-reader-only":
      return mode === "read" && !reads && !writes;
    case "single-node-writer":
      return !writes && (mode === "write" || !reads);
    case "multi-node-reader-only":
      return mode === "read";
    case "multi-node-single-writer":
      return mode === "read" || !writes;
    case "multi-node-multi-writer":
      return true;
    default:
      return false;
  }
}
