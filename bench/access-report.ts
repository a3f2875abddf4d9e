/** The table of changes of rights. */
import type { AccessRow, AccessScale } from "./access.ts";
import { count, latency, micro, type RunInfo, ratio, roundsHeading, table } from "./report.ts";

export interface AccessReport extends RunInfo {
  readonly scale: AccessScale;
  readonly loaderBusy: number;
  readonly access: readonly AccessRow[];
}

export function accessMarkdown(report: AccessReport): string {
  const { access } = report;
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
        "aim of CPU µs",
        "",
      ],
      access.map(({ name, measured, against, ratio: rates, cpuRatio, aimMs }) => [
        name,
        count(measured.perSecond.median),
        count(against.perSecond.median),
        latency(measured),
        latency(against),
        micro(measured.cpu),
        micro(against.cpu),
        ratio(rates),
        cpuRatio ? cpuRatio.median.toFixed(2) : "",
        `≤ ${aimMs * 1_000}`,
        measured.cpu && measured.cpu.median <= aimMs * 1_000 ? "met" : "missed",
      ]),
    ),
  ].join("\n");
}
