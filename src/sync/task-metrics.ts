import { handInSoon } from "../platform/observability/metrics/flush.ts";
import { count } from "../platform/observability/metrics/isolate-counters.ts";
import type { SyncResult } from "./association.ts";

/** Counts a task of a destination, as the Worker that has performed it saw it end. */
export function measureTask(destination: string, { trouble, copies, unfinished }: SyncResult): void {
  const failed = trouble ?? copies.find((copy) => copy.trouble)?.trouble;
  const outcome = failed ? (failed.code === "paused" ? "paused" : failed.outcome) : unfinished ? "unfinished" : "ok";
  count("sallyport_sync_tasks_total", destination, outcome);
  for (const { state } of copies) count("sallyport_sync_objects_total", destination, state);
  handInSoon();
}
