/** The tables of the credentials engine. */
import { type CostRow, type Ended, type EngineResults, type EngineScale, THROTTLED_AIM } from "./engine.ts";
import type { Plot } from "./plot.ts";
import { count, curves, heading, level, micro, percent, type RunInfo, ratio, table } from "./report.ts";
import type { Row } from "./rounds.ts";

export interface EngineReport extends RunInfo {
  readonly scale: EngineScale;
  readonly engine: EngineResults;
}

export function engineMarkdown(report: EngineReport): string {
  const { scale, engine } = report;
  return [
    heading(report, [
      `${scale.rounds} rounds of ${scale.sliceMs} or ${scale.slowSliceMs} ms`,
      `stand-in at most ${percent(engine.doubleBusy)} of a core`,
    ]),
    "",
    ...table(
      [
        "",
        "ours p50 ms",
        "bare p50 ms",
        "ours /s",
        "bare /s",
        "ours CPU µs",
        "bare CPU µs",
        "p50, times (spread)",
        "CPU, times",
        "aim of the time",
        "",
        "aim of CPU µs",
        "",
      ],
      engine.costs.map((row) => [...sides(row), ...times(row), ...aims(row)]),
    ),
    "",
    ...table(
      [
        "leases that end",
        "within, s",
        "first call after, ms",
        "last call after, s",
        "behind the last end, s",
        "left",
        "repeated calls",
        "CPU µs a lease",
        "memory before, MiB",
        "at most, MiB",
        "times the stand-in's rate",
        "aim",
        "",
      ],
      engine.ended.map(endedRow),
    ),
    "",
    ...table(
      [
        `against ${count(scale.sizes[0])} leases`,
        "many p50 ms",
        "few p50 ms",
        "many /s",
        "few /s",
        "many CPU µs",
        "few CPU µs",
        "p50, times (spread)",
        "CPU, times",
      ],
      engine.growth.map((row) => [...sides(row), ...times(row)]),
    ),
  ].join("\n");
}

export const enginePlots = ({ engine, scale }: EngineReport): Plot[] => [
  {
    file: "engine",
    title: "Credentials: a request by how many leases there are",
    sizes: "leases of the mount",
    costs: "CPU µs a request",
    lines: [
      ...curves(engine.growth),
      {
        name: "bare: the calls of one credential",
        side: "bare",
        points: level(scale.sizes, engine.costs[0]?.against.cpu ?? null),
      },
    ],
  },
];

const sides = ({ name, measured, against }: Row): string[] => [
  name,
  measured.p50?.median.toFixed(2) ?? "",
  against.p50?.median.toFixed(2) ?? "",
  count(measured.perSecond.median),
  count(against.perSecond.median),
  micro(measured.cpu),
  micro(against.cpu),
];

const times = ({ latencyRatio, cpuRatio }: Row): string[] => [
  latencyRatio ? ratio(latencyRatio) : "",
  // Rows say how much less is used; here it is how much more.
  cpuRatio ? (1 / cpuRatio.median).toFixed(2) : "",
];

const endedRow = (ended: Ended): string[] => [
  count(ended.leases),
  (ended.spreadMs / 1000).toFixed(0),
  count(ended.firstMs),
  (ended.wholeMs / 1000).toFixed(1),
  (ended.behindMs / 1000).toFixed(1),
  count(ended.left),
  count(ended.repeated),
  ended.cpu === null ? "" : count(ended.cpu),
  ended.memory ? mebi(ended.memory.before) : "",
  ended.memory ? mebi(ended.memory.most) : "",
  ...(ended.times === null ? ["", "", ""] : [ended.times.toFixed(2), ...against(ended.times, THROTTLED_AIM)]),
];

const aims = ({ aims: { time, cpu }, latencyRatio, measured }: CostRow): string[] => [
  ...against(latencyRatio?.median, time),
  ...against(measured.cpu?.median, cpu),
];

const against = (value: number | undefined, aim: number | null): string[] =>
  aim === null || value === undefined ? ["", ""] : [`≤ ${aim}`, value <= aim ? "met" : "missed"];

const mebi = (bytes: number): string => count(bytes / 2 ** 20);
