import { BUCKETS, definitionOf } from "../metrics/catalogue.ts";
import type { Series } from "../metrics/series.ts";
import { exportNow, isExporting } from "./export.ts";
import { attributesOf, nanosOf, resource, scope } from "./shapes.ts";

/** Exports all series, with the names and labels of docs/operate/metrics.md. Costs nothing without a collector. */
export async function exportMetrics(env: object, read: () => Promise<readonly Series[]>): Promise<void> {
  if (isExporting(env)) await exportNow(env, "metrics", async () => otlpMetrics(await read(), Date.now()));
}

/** Series in the shape of an OTLP request. Counters and histograms are cumulative. */
function otlpMetrics(all: readonly Series[], now: number): object {
  const timeUnixNano = nanosOf(now);
  const metrics = [...Map.groupBy(all, ({ name }) => name)].map(([name, some]) => {
    const { type, labels, help } = definitionOf(name);
    const dataPoints = some.map(({ labels: values, value }) => ({
      timeUnixNano,
      attributes: attributesOf(Object.fromEntries(labels.map((label, at) => [label, values[at] ?? ""]))),
      ...(typeof value === "number"
        ? { asDouble: value }
        : {
            count: String(value.buckets.reduce((sum, each) => sum + each, 0)),
            sum: value.sum,
            bucketCounts: value.buckets.map(String),
            explicitBounds: BUCKETS,
          }),
    }));
    const cumulative = { aggregationTemporality: 2, dataPoints };
    const kind = { counter: { sum: { ...cumulative, isMonotonic: true } }, histogram: { histogram: cumulative } };
    return { name, description: help, ...(type === "gauge" ? { gauge: { dataPoints } } : kind[type]) };
  });
  return { resourceMetrics: [{ resource, scopeMetrics: [{ scope, metrics }] }] };
}
