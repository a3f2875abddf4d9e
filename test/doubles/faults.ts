/** The `Refusal` of a double, as its service words it. */
type Errors<Refusal> = { fault: "error"; message?: string; headers?: Record<string, string> } & Refusal;

/**
 * The fault of the next `count` (default 1) requests that match:
 * - `error`: refused with the members of `Refusal`, not performed
 * - `raw`: answered with this `status` and `body`, not performed
 * - `delay`: performed after `ms` milliseconds, whether or not the client still waits
 * - `drop`: the connection ends, nothing is performed
 * - `apply-then-drop`: performed, then the connection ends without an answer
 */
export type CallFault<Refusal, Operation extends string = string> = {
  count?: number;
  /** Any operation without it. */
  operation?: Operation | readonly Operation[];
} & (
  | Errors<Refusal>
  | { fault: "raw"; status: number; body: string; headers?: Record<string, string> }
  | { fault: "delay"; ms: number }
  | { fault: "drop" | "apply-then-drop" }
);

interface Counted {
  count?: number;
  readonly operation?: string | readonly string[];
}

/** Takes the first fault of an operation that `matches`. */
export function takeFault<Fault extends Counted>(
  faults: Fault[],
  operation: string | null,
  matches: (fault: Fault) => boolean = () => true,
): Fault | undefined {
  const isOf = (of: Counted["operation"]) => of === undefined || [of].flat().some((name) => name === operation);
  const fault = faults.find((each) => isOf(each.operation) && matches(each));
  if (fault === undefined) return undefined;
  fault.count = (fault.count ?? 1) - 1;
  if (fault.count <= 0) faults.splice(faults.indexOf(fault), 1);
  return fault;
}
