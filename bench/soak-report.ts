/** The tables of memory and of starts. */
import type { Plot } from "./plot.ts";
import { count, heading, type RunInfo, table } from "./report.ts";
import { SOAK_AIM, type SoakResults, type SoakScale } from "./soak.ts";

export interface SoakReport extends RunInfo {
  readonly scale: SoakScale;
  readonly soak: SoakResults;
}

export function soakMarkdown(report: SoakReport): string {
  const { scale, soak } = report;
  const { each, spans, start } = soak;
  const [first] = spans;
  const spanMinutes = scale.minutes / spans.length;
  return [
    heading(report, [`${scale.minutes} minutes of mixed load`]),
    "",
    ...table(
      ["memory of", "counted with", "KiB each"],
      each.map(({ what, count: number, bytes }) => [what, count(number), (bytes / 1024).toFixed(1)]),
    ),
    "",
    ...table(
      [
        "minutes of the soak",
        "rounds /s",
        "streams lag, s",
        "MiB, median",
        "MiB, most",
        "times the first part",
        "aim",
        "",
      ],
      spans.map(({ operations, seconds, lag, median, most }, at) => [
        `${(at * spanMinutes).toFixed(1)} to ${((at + 1) * spanMinutes).toFixed(1)}`,
        (operations / seconds).toFixed(1),
        lag.toFixed(1),
        mib(median),
        mib(most),
        (median / (first?.median ?? Number.NaN)).toFixed(2),
        ...(at === 0 ? ["", ""] : [`≤ ${SOAK_AIM.growth}`, met(median <= SOAK_AIM.growth * (first?.median ?? 0))]),
      ]),
    ),
    "",
    ...table(
      ["a start on", "listens after, ms", "first read of a secret, ms", "first page of volumes, ms", "aim", ""],
      [
        [
          `${(start.stateBytes / 1e9).toFixed(1)} GB`,
          ...[start.listens, start.firstRead, start.firstList].map((ms) => ms.toFixed(0)),
          `≤ ${count(SOAK_AIM.startMs)}`,
          met(start.firstList <= SOAK_AIM.startMs),
        ],
      ],
    ),
  ].join("\n");
}

/** Three tables, no curve. */
export const soakPlots = (): Plot[] => [];

const mib = (bytes: number): string => (bytes / 1024 / 1024).toFixed(0);
const met = (isMet: boolean): string => (isMet ? "met" : "missed");
