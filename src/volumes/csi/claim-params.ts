import { createHash } from "node:crypto";
import type { CsiClaimMethod, CsiParamsOf } from "@sallyport/agent-protocol";
import type { CsiClaim, CsiVolume, Texts } from "../../contracts/csi-volumes.ts";
import type { MountOptions } from "../../contracts/volume-requests.ts";
import { mountParam } from "./params.ts";
import { remoteId } from "./volume-views.ts";

/** The claim's key in an operation's `change`. */
export interface ForClaim {
  readonly allocId: string;
  readonly nodeId: string;
}

export const forClaim = ({ allocId, nodeId }: ForClaim): ForClaim => ({ allocId, nodeId });

/** The decrypted parameters of a claim. */
interface Opened {
  readonly mount: MountOptions | null;
  readonly publishContext: Texts;
}

/** The parameters of a plugin call for a claim. @param volume including its mount flags */
export function claimParams(
  method: CsiClaimMethod,
  claim: CsiClaim,
  volume: CsiVolume,
  { mount, publishContext }: Opened,
): CsiParamsOf<CsiClaimMethod> {
  const { pluginId, context, capacityMin, capacityMax, capacityBytes } = volume;
  const use = { pluginId, externalId: remoteId(volume), allocId: claim.allocId };
  const onNode = { pluginId, externalId: remoteId(volume), externalNodeId: claim.externalNodeId };
  const capability = { accessMode: claim.accessMode, attachmentMode: claim.attachmentMode };
  const access = { capability, mount: mountParam(overlaid(volume.mount, mount)) };
  const readOnly = claim.mode === "read";
  switch (method) {
    case "csi.controller.publish":
      return { ...onNode, ...access, readOnly, context };
    case "csi.controller.unpublish":
      return onNode;
    case "csi.node.publish":
      return { ...use, ...access, readOnly, context, publishContext };
    case "csi.node.detach":
      return use;
    case "csi.node.expand":
      return { ...use, ...access, capacityMin: Math.max(capacityMin, capacityBytes), capacityMax };
  }
}

const overlaid = (volume: MountOptions | null, asked: MountOptions | null): MountOptions | null =>
  volume && asked
    ? {
        FSType: asked.FSType || volume.FSType,
        MountFlags: asked.MountFlags.length > 0 ? asked.MountFlags : volume.MountFlags,
      }
    : (asked ?? volume);

/**
 * Serialization key of claim operations. Controller operations serialize by volume and node, node operations by
 * volume and allocation. The key is a digest because names can exceed the key length.
 */
export function claimKey(
  method: CsiClaimMethod,
  { pluginId, namespace, volumeId }: Pick<CsiVolume, "pluginId" | "namespace"> & { readonly volumeId: string },
  { allocId, nodeId }: ForClaim,
): string {
  const whose = method.startsWith("csi.controller.") ? ["node", nodeId] : ["allocation", allocId];
  const digest = createHash("sha256").update(JSON.stringify([pluginId, namespace, volumeId, ...whose]));
  return `csi-claim:${digest.digest("base64url")}`;
}
