/** The tables that a run prints, in Markdown so that they can be kept as they are. */

import type { Line, Plot } from "./plot.ts";
import type { BudgetRow, GrowthRow, Measure, ReplicaRow, Row } from "./rounds.ts";
import type { TailRow } from "./scenarios.ts";
import type { Figure } from "./statistics.ts";

/** When, where and on what a part of the bench ran. */
export interface RunInfo {
  readonly date: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly machine: {
    readonly processor: string;
    readonly cores: number;
    readonly memoryGiB: number;
    readonly load: number;
  };
  readonly seconds: number;
}

export interface Report extends RunInfo {
  readonly scale: {
    readonly rounds: number;
    readonly sliceMs: number;
    readonly smallKeys: number;
  };
  /** Maximum CPU share of the load generator's core. */
  readonly loaderBusy: number;
  readonly comparison: readonly Row[];
  readonly layer: readonly BudgetRow[];
  readonly replicas: readonly ReplicaRow[];
  readonly growth: readonly GrowthRow[];
  readonly tails: readonly TailRow[];
}

/** One line above the tables. @param more what concerns these tables alone */
export function heading({ date, versions, machine, seconds }: RunInfo, more: readonly string[]): string {
  return [
    date,
    ...Object.entries(versions).map(([name, version]) => `${name} ${version}`),
    `${machine.processor ? `${machine.processor}, ` : ""}${machine.cores} cores, ${machine.memoryGiB} GiB, load ${machine.load.toFixed(1)} at the start`,
    ...more,
    `${seconds.toFixed(0)} s`,
  ].join("; ");
}

/** The line above tables that compare rounds of requests. */
export const roundsHeading = (
  report: RunInfo & { readonly scale: Pick<Report["scale"], "rounds" | "sliceMs">; readonly loaderBusy: number },
): string =>
  heading(report, [
    `${report.scale.rounds} rounds of ${report.scale.sliceMs} ms`,
    `load generator at most ${percent(report.loaderBusy)} of a core`,
  ]);

export function markdown(report: Report): string {
  const { scale } = report;
  return [
    roundsHeading(report),
    "",
    ...table(
      [
        "",
        "ours /s",
        "bare /s",
        "ours p50 / p99 ms",
        "bare p50 / p99 ms",
        "ours CPU µs",
        "bare CPU µs",
        "ratio (spread)",
        "CPU ratio",
        "aim",
        "",
      ],
      report.comparison.map((row) => [
        row.name,
        count(row.measured.perSecond.median),
        count(row.against.perSecond.median),
        latency(row.measured),
        latency(row.against),
        micro(row.measured.cpu),
        micro(row.against.cpu),
        ratio(row.ratio),
        row.cpuRatio ? row.cpuRatio.median.toFixed(2) : "",
        row.aim === undefined ? "" : `≥ ${row.aim}`,
        row.aim === undefined ? "" : row.ratio.median >= row.aim ? "met" : "missed",
      ]),
    ),
    "",
    ...table(
      ["the layer around a route", "ours CPU µs", "bare CPU µs", "cost, times (spread)", "budget", ""],
      report.layer.map((row) => {
        // Rows say how cheap ours is against bare; the budget is about the inverse.
        const { median, low, high } = row.cpuRatio ?? { median: Number.NaN, low: Number.NaN, high: Number.NaN };
        const cost = { median: 1 / median, low: 1 / high, high: 1 / low };
        const { budget } = row;
        const [aim, isMet] =
          budget === undefined ? ["", ""] : [`≤ ${budget}`, cost.median <= budget ? "met" : "missed"];
        return [row.name, micro(row.measured.cpu), micro(row.against.cpu), ratio(cost), aim, isMet];
      }),
    ),
    "",
    ...table(
      [
        "read replicas",
        "with /s",
        "without /s",
        "with p50 / p99 ms",
        "without p50 / p99 ms",
        "ratio (spread)",
        "CPU ratio",
        "owner calls a request, with / without",
      ],
      report.replicas.map((row) => [
        row.name,
        count(row.measured.perSecond.median),
        count(row.against.perSecond.median),
        latency(row.measured),
        latency(row.against),
        ratio(row.ratio),
        row.cpuRatio ? row.cpuRatio.median.toFixed(2) : "",
        `${row.ownerCalls.with.toFixed(3)} / ${row.ownerCalls.without.toFixed(3)}`,
      ]),
    ),
    "",
    ...table(
      ["one connection, ms", "requests", "p50", "p90", "p99", "p99.9", "max", "pauses: over 10 times p50"],
      report.tails.map(({ name, requests, p50, p90, p99, p999, max, pauses }) => [
        name,
        count(requests),
        ...[p50, p90, p99, p999, max].map((ms) => ms.toFixed(2)),
        count(pauses),
      ]),
    ),
    "",
    ...table(
      [
        `against ${count(scale.smallKeys)} keys`,
        "many /s",
        "few /s",
        "many CPU µs",
        "few CPU µs",
        "cost, times (spread)",
      ],
      report.growth.map((row) => [
        row.name,
        count(row.measured.perSecond.median),
        count(row.against.perSecond.median),
        micro(row.measured.cpu),
        micro(row.against.cpu),
        // Rows say how fast large is against small; what grows is the inverse.
        ratio({ median: 1 / row.ratio.median, low: 1 / row.ratio.high, high: 1 / row.ratio.low }),
      ]),
    ),
  ].join("\n");
}

/** Cost of each operation by data size, in microseconds of CPU. @param bare operations of the bare Worker */
export function curves(rows: readonly GrowthRow[], bare: (thing: string) => boolean = () => false): Line[] {
  return [...Map.groupBy(rows, ({ thing }) => thing)].map(([thing, sizes]) => {
    const [first] = sizes;
    const all = [
      ...(first ? [[first.least, first.against] as const] : []),
      ...sizes.map((row) => [row.size, row.measured] as const),
    ];
    const points = all.flatMap(([size, { cpu }]) => (cpu ? [[size, cpu.median] as const] : []));
    return { name: thing, side: bare(thing) ? "bare" : "ours", points };
  });
}

/** A constant, drawn over all data sizes. */
export const level = (sizes: readonly number[], cost: Figure | null): Line["points"] =>
  cost ? sizes.map((size) => [size, cost.median] as const) : [];

export const keyValuePlots = ({ growth }: Report): Plot[] => [
  {
    file: "kv",
    title: "Secrets: a request by how many there are",
    sizes: "secrets of the mount",
    costs: "CPU µs a request",
    lines: curves(growth, (thing) => thing.startsWith("bare")),
  },
];

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, column) => (column === 0 ? "---" : "--:"))), ...rows.map(line)];
}

export const count = (value: number): string => Math.round(value).toLocaleString("en").replaceAll(",", " ");
export const micro = (value: Figure | null): string => (value ? value.median.toFixed(value.median < 100 ? 1 : 0) : "");
export const ratio = ({ median, low, high }: Figure): string =>
  `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
export const latency = ({ p50, p99 }: Measure): string =>
  p50 && p99 ? `${p50.median.toFixed(2)} / ${p99.median.toFixed(2)}` : "";
export const percent = (share: number): string => `${(share * 100).toFixed(0)} %`;
