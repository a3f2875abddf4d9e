/** The table of event notifications. */
import type { NotifyRow, NotifyScale } from "./notify.ts";
import type { IdleSockets } from "./notify-idle.ts";
import { count, latency, micro, type RunInfo, ratio, roundsHeading, table } from "./report.ts";

export interface NotifyReport extends RunInfo {
  readonly scale: NotifyScale;
  readonly loaderBusy: number;
  readonly notify: readonly NotifyRow[];
  readonly idle: readonly IdleSockets[];
}

export function notifyMarkdown(report: NotifyReport): string {
  return [
    roundsHeading(report),
    "",
    ...table(
      [
        "from the answer to the last frame",
        "ours p50 / p99 ms",
        "bare p50 / p99 ms",
        "ours CPU µs",
        "bare CPU µs",
        "ratio of p50 (spread)",
        "aim of p50 ms",
        "",
      ],
      report.notify.map(({ name, measured, against, latencyRatio, aimMs }) => [
        name,
        latency(measured),
        latency(against),
        micro(measured.cpu),
        micro(against.cpu),
        latencyRatio ? ratio(latencyRatio) : "",
        `≤ ${aimMs}`,
        measured.p50 && measured.p50.median <= aimMs ? "met" : "missed",
      ]),
    ),
    "",
    ...table(
      ["idle subscribers by WebSocket", "runtimes", "open at the end", "KiB each", "dollars a month on the platform"],
      report.idle.map(({ sockets, runtimes, open, each, monthly }) => [
        count(sockets),
        count(runtimes),
        count(open),
        each === null ? "" : (each / 1024).toFixed(1),
        monthly.toFixed(2),
      ]),
    ),
  ].join("\n");
}
