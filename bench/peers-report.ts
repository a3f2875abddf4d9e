/** The table of the service against other programs. */
import type { PeersFigures, PeersScale } from "./peers.ts";
import { count, latency, micro, type RunInfo, ratio, roundsHeading, table } from "./report.ts";

export interface PeersReport extends RunInfo {
  readonly scale: PeersScale;
  readonly loaderBusy: number;
  readonly peers: PeersFigures;
}

export function peersMarkdown(report: PeersReport): string {
  const { programs, rows, memory } = report.peers;
  const sizes = Object.entries(memory).map(
    ([name, bytes]) => `${name} ${bytes ? Math.round(bytes / 2 ** 20) : "?"} MiB`,
  );
  return [
    roundsHeading(report),
    "",
    `Against ${programs.join(" and ")}. Memory at the end: ${sizes.join(", ")}.`,
    "",
    ...table(
      [
        "",
        "ours /s",
        "theirs /s",
        "ours p50 / p99 ms",
        "theirs p50 / p99 ms",
        "ours CPU µs",
        "theirs CPU µs",
        "ratio (spread)",
        "CPU ratio",
      ],
      rows.map(({ name, measured, against, ratio: rates, cpuRatio }) => [
        name,
        count(measured.perSecond.median),
        count(against.perSecond.median),
        latency(measured),
        latency(against),
        micro(measured.cpu),
        micro(against.cpu),
        ratio(rates),
        cpuRatio ? cpuRatio.median.toFixed(2) : "",
      ]),
    ),
  ].join("\n");
}
