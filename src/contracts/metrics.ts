import type { Key } from "../platform/observability/metrics/isolate-counters.ts";
import type { Series } from "../platform/observability/metrics/series.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** The methods of `Metrics` that other objects and Workers call. */
export interface MetricsApi extends StoredObjectApi {
  /**
   * Adds the counts of an isolate since its last batch. Idempotent by reporter and batch.
   * @param now whether they are written at once, which does not keep the object in memory
   */
  add(reporter: string, batch: number, increments: readonly (readonly [Key, number])[], now?: boolean): void;
  /** Returns all series; gauges are up to a second old. */
  read(): Promise<Series[]>;
}
