import { describe, METHODS, type Method, type OperationError, type ResultOf } from "@sallyport/agent-protocol";
import type { Outcome } from "../ops/handler.ts";
import { Unusable } from "./convert.ts";
import { CallFailure, errorOf } from "./failure.ts";

export type CsiOperation = Extract<Method, `csi.${string}`>;

export const failed = (kind: OperationError["kind"], message: string): { ok: false } & OperationError => ({
  ok: false,
  kind,
  message,
  outcome: "failed",
});

/** Runs an operation and converts failures to an outcome. @param again an earlier run may have reached the plugin */
export async function outcomeOf<M extends CsiOperation>(
  method: M,
  pluginId: string,
  again: boolean,
  work: () => Promise<ResultOf<M>>,
): Promise<Outcome<ResultOf<M>>> {
  const changes = !METHODS[method].reads;
  try {
    const result = await work();
    // The plugin's response is bounded like all external input.
    const fault = METHODS[method].result.safeParse(result).error;
    if (!fault) return { ok: true, ...result };
    const message = `CSI plugin "${pluginId}": ${method}: its answer is not one: ${describe(fault)}`;
    return { ok: false, kind: "plugin", message, outcome: changes ? "unknown" : "failed" };
  } catch (failure) {
    if (failure instanceof CallFailure) return { ok: false, ...errorOf(failure, changes, again) };
    if (failure instanceof Unusable) return failed("invalid", failure.message);
    throw failure;
  }
}
