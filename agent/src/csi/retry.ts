import { status } from "@grpc/grpc-js";
import type { Rpc } from "@sallyport/csi-wire";

/** Beside UNAVAILABLE, which every call is repeated after. */
interface Retries {
  /** ABORTED: another call about the same thing is pending. */
  readonly aborted: boolean;
  /** FAILED_PRECONDITION: it may be in use elsewhere, and soon not be. */
  readonly precondition: boolean;
}

const CHANGES: readonly Rpc[] = [
  ...(["CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume"] as const),
  ...(["ControllerExpandVolume", "CreateSnapshot", "DeleteSnapshot"] as const),
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
/** Whoever waits for a plugin waits for this, and claims are tried again anyway. */
const PRECONDITION_TRIES = 5;
const FIRST_MS = 100;
const LONGEST_MS = 5_000;

/**
 * How long to wait before a call is made again, in milliseconds; undefined: it is not.
 * @param times how often it has failed with this code
 */
export function pauseAfter(code: number, times: number, { aborted, precondition }: Retries): number | undefined {
  const again =
    (code === status.UNAVAILABLE && times < UNAVAILABLE_TRIES) ||
    (code === status.ABORTED && aborted) ||
    (code === status.FAILED_PRECONDITION && precondition && times < PRECONDITION_TRIES);
  if (!again) return undefined;
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(times - 1, 10));
  return longest * (0.75 + 0.5 * Math.random());
}
