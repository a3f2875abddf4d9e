import { flushCountsSoon } from "./flush.ts";
import { countMany } from "./isolate-counters.ts";

/** Counts audit lines lost for a sink. */
export function measureLost(lines: number, reason: "failed" | "full"): void {
  countMany("sallyport_audit_lines_lost_total", lines, reason);
  flushCountsSoon();
}
