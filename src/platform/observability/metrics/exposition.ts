import { BUCKETS, definitionOf, METRICS, type MetricName } from "./catalogue.ts";
import type { Distribution, Series } from "./series.ts";

/** Output formats of metrics: Prometheus text 0.0.4, OpenMetrics 1.0.0, and the JSON of upstream clients. */
export type Format = "prometheus" | "openmetrics" | "json";

export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
  json: "application/json",
};

export function written(format: Format, series: readonly Series[], now: Date): string {
  return format === "json" ? JSON.stringify(summary(series, now)) : text(series, format === "openmetrics");
}

function text(series: readonly Series[], open: boolean): string {
  const byName = Map.groupBy(series, ({ name }) => name);
  const lines: string[] = [];
  for (const name of Object.keys(METRICS) as MetricName[]) {
    const { type, help } = definitionOf(name);
    const found = byName.get(name);
    if (!found) continue;
    // OpenMetrics names the family of a counter without its suffix.
    const family = open && type === "counter" ? name.replace(/_total$/, "") : name;
    lines.push(`# HELP ${family} ${open ? escaped(help) : help.replaceAll("\\", "\\\\")}`, `# TYPE ${family} ${type}`);
    for (const each of found) lines.push(...samples(each));
  }
  if (open) lines.push("# EOF");
  return `${lines.join("\n")}\n`;
}

function samples({ name, labels, value }: Series): string[] {
  const pairs = labelNames(name).map((label, position) => `${label}="${escaped(labels[position] ?? "")}"`);
  const line = (suffix: string, more: readonly string[], number: number) => {
    const all = [...pairs, ...more];
    return `${name}${suffix}${all.length > 0 ? `{${all.join(",")}}` : ""} ${number}`;
  };
  if (typeof value === "number") return [line("", [], value)];
  const { total, upTo } = cumulative(value);
  const bounds = [...BUCKETS.map(bound), "+Inf"];
  return [
    ...bounds.map((le, position) => line("_bucket", [`le="${le}"`], upTo[position] ?? total)),
    line("_sum", [], value.sum),
    line("_count", [], total),
  ];
}

/** OpenMetrics requires floating point bounds; Prometheus accepts them. */
const bound = (seconds: number): string => (Number.isInteger(seconds) ? `${seconds}.0` : String(seconds));

const escaped = (text: string): string =>
  text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\r", " ");

const labelNames = (name: MetricName): readonly string[] => definitionOf(name).labels;

/** Cumulative observations by bucket, and their total. */
function cumulative({ buckets }: Distribution): { upTo: number[]; total: number } {
  let total = 0;
  const upTo = buckets.map((count) => {
    total += count;
    return total;
  });
  return { upTo, total };
}

/** The JSON form of upstream's telemetry, limited to the known fields. */
function summary(series: readonly Series[], now: Date): object {
  const labelled = ({ name, labels }: Series) => ({
    Name: name,
    Labels: Object.fromEntries(labelNames(name).map((label, position) => [label, labels[position] ?? ""])),
  });
  const ofType = (type: string) => series.filter(({ name }) => definitionOf(name).type === type);
  return {
    Timestamp: `${now.toISOString().slice(0, 19).replace("T", " ")} +0000 UTC`,
    Gauges: ofType("gauge").map((each) => ({ ...labelled(each), Value: each.value })),
    Points: [],
    Counters: ofType("counter").map((each) => ({ ...labelled(each), Count: each.value, Sum: each.value })),
    Samples: ofType("histogram").map((each) => {
      const { sum, buckets } = each.value as Distribution;
      const { total, upTo } = cumulative({ sum, buckets });
      const shown = [...BUCKETS, null].map((le, position) => ({ le, count: upTo[position] ?? total }));
      return { ...labelled(each), Count: total, Sum: sum, Mean: total === 0 ? 0 : sum / total, Buckets: shown };
    }),
  };
}
