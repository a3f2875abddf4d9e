/** The tables of CSI volumes. */
import { CSI_AIM, type CsiResults, type CsiScale } from "./csi.ts";
import type { Plot } from "./plot.ts";
import { count, curves, type RunInfo, roundsHeading, table } from "./report.ts";
import { costs, speeds } from "./volumes-report.ts";

export interface CsiReport extends RunInfo {
  readonly scale: CsiScale;
  readonly loaderBusy: number;
  readonly csi: CsiResults;
}

export function csiMarkdown(report: CsiReport): string {
  const { scale, csi } = report;
  return [
    roundsHeading(report),
    "",
    ...table(
      [
        "",
        "service /s",
        "plugin /s",
        "service p50 / p99 ms",
        "plugin p50 / p99 ms",
        "service CPU µs",
        "",
        "p50, times (spread)",
        "",
      ],
      csi.overhead.map((row) => [row.name, ...speeds(row), ...costs(row)]),
    ),
    "",
    ...table(
      [
        `against ${count(scale.sizes[0])} volumes`,
        "many /s",
        "few /s",
        "many p50 / p99 ms",
        "few p50 / p99 ms",
        "many CPU µs",
        "few CPU µs",
        "p50, times (spread)",
        "CPU, times",
        "aim",
        "",
      ],
      csi.growth.map((row) => [
        row.name,
        ...speeds(row),
        ...costs(row),
        `≤ ${CSI_AIM.growth}`,
        row.latencyRatio && row.latencyRatio.median <= CSI_AIM.growth ? "met" : "missed",
      ]),
    ),
  ].join("\n");
}

export const csiPlots = ({ csi }: CsiReport): Plot[] => [
  {
    file: "csi",
    title: "CSI volumes: a request by how many there are",
    sizes: "volumes and allocations",
    costs: "CPU µs a request",
    lines: curves(csi.growth),
  },
];
