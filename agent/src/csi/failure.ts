import { status } from "@grpc/grpc-js";
import type { ErrorKind, OperationError } from "@sallyport/agent-protocol";
import type { Rpc } from "@sallyport/csi-wire";

/** A failed plugin call. */
export class CallFailure extends Error {
  readonly pluginId: string;
  readonly rpc: Rpc;
  /** The gRPC status code; 0 for an invalid response, and UNKNOWN for a number that is no code. */
  readonly code: number;
  /** Whether the plugin may have received the request, in this or an earlier attempt. */
  readonly reached: boolean;

  constructor(pluginId: string, rpc: Rpc, code: number, details: string, reached: boolean) {
    super(details);
    this.pluginId = pluginId;
    this.rpc = rpc;
    // The library passes on any number, also NaN, with which the result would be malformed.
    this.code = status[code] === undefined ? status.UNKNOWN : code;
    this.reached = reached;
  }
}

const KINDS: Readonly<Record<number, ErrorKind>> = {
  [status.CANCELLED]: "timeout",
  [status.INVALID_ARGUMENT]: "invalid",
  [status.DEADLINE_EXCEEDED]: "timeout",
  [status.NOT_FOUND]: "missing",
  [status.ALREADY_EXISTS]: "conflict",
  [status.RESOURCE_EXHAUSTED]: "exhausted",
  [status.FAILED_PRECONDITION]: "conflict",
  [status.ABORTED]: "conflict",
  [status.OUT_OF_RANGE]: "invalid",
  [status.UNIMPLEMENTED]: "unsupported",
  [status.UNAVAILABLE]: "unavailable",
};

/** After these codes the call may still run or may have succeeded. */
const UNCERTAIN: readonly number[] = [
  0,
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.ABORTED,
  status.UNAVAILABLE,
];

const LISTS: readonly Rpc[] = ["ListVolumes", "ListSnapshots"];
/** Calls before the one that changes something: their failure says nothing about an earlier run. */
const QUERIES: readonly Rpc[] = ["ControllerGetCapabilities", "NodeGetCapabilities"];

/**
 * The operation error for a failed call.
 * @param changes whether the operation changes state, so that its outcome can be unknown
 * @param again whether an earlier run may have reached the plugin
 */
export function errorOf(failure: CallFailure, changes: boolean, again: boolean): OperationError {
  const { pluginId, rpc, code, reached, message } = failure;
  // An aborted list call means an invalid token.
  const kind = code === status.ABORTED && LISTS.includes(rpc) ? "invalid" : (KINDS[code] ?? "plugin");
  const uncertain = changes && (UNCERTAIN.includes(code) ? reached || again : again && QUERIES.includes(rpc));
  const name = code === 0 ? "no answer" : (status[code] ?? `code ${code}`);
  return {
    kind,
    message: `CSI plugin "${pluginId}": ${rpc}: ${name}: ${message}`,
    outcome: uncertain ? "unknown" : "failed",
    call: { pluginId, rpc, code },
  };
}
