import { status } from "@grpc/grpc-js";
import type { Rpc } from "@sallyport/csi-wire";

/** Retry rules besides UNAVAILABLE, which is always retried. */
interface Retries {
  /** ABORTED: another call for the same volume is pending. */
  readonly aborted: boolean;
  /** FAILED_PRECONDITION: the volume may be in use elsewhere temporarily. */
  readonly precondition: boolean;
}

const CHANGES: readonly Rpc[] = [
  ...(["CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume"] as const),
  ...(["ControllerExpandVolume", "ControllerModifyVolume", "CreateSnapshot", "DeleteSnapshot"] as const),
  ...([
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeExpandVolume",
  ] as const),
];

export const retriesOf = (rpc: Rpc): Retries => ({
  aborted: CHANGES.includes(rpc),
  precondition: rpc === "ControllerPublishVolume",
});

const UNAVAILABLE_TRIES = 3;
/** Bounded, since callers of the plugin wait meanwhile and claims retry anyway. */
const PRECONDITION_TRIES = 5;
const FIRST_MS = 100;
const MAX_MS = 5_000;

/**
 * The delay before the next attempt in milliseconds; undefined without another attempt.
 * @param times failures with this code so far
 */
export function pauseAfter(code: number, times: number, { aborted, precondition }: Retries): number | undefined {
  const again =
    (code === status.UNAVAILABLE && times < UNAVAILABLE_TRIES) ||
    (code === status.ABORTED && aborted) ||
    (code === status.FAILED_PRECONDITION && precondition && times < PRECONDITION_TRIES);
  if (!again) return undefined;
  const longest = Math.min(MAX_MS, FIRST_MS * 2 ** Math.min(times - 1, 10));
  return longest * (0.75 + 0.5 * Math.random());
}
