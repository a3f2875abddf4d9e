import type { CounterStore } from "../platform/observability/metrics/flush.ts";
import type { Series } from "../platform/observability/metrics/series.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** The methods of `Metrics` that other objects and Workers call. */
export interface MetricsApi extends StoredObjectApi, CounterStore {
  /** Returns all series; gauges are up to a second old. */
  read(): Promise<Series[]>;
}
