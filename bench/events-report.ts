/** The tables of the event stream. */
import type { EventsResults, EventsScale } from "./events.ts";
import type { Plot } from "./plot.ts";
import { count, latency, micro, type RunInfo, ratio, roundsHeading, table } from "./report.ts";
import type { Row } from "./rounds.ts";

export interface EventsReport extends RunInfo {
  readonly scale: EventsScale;
  readonly loaderBusy: number;
  readonly events: EventsResults;
}

export function eventsMarkdown(report: EventsReport): string {
  const { events } = report;
  const head = (what: string, timed: boolean) => [
    what,
    "ours /s",
    "bare /s",
    ...(timed ? ["ours p50 / p99 ms", "bare p50 / p99 ms"] : []),
    "ours CPU µs",
    "bare CPU µs",
    "ratio (spread)",
    "CPU ratio",
    "aim",
    "",
  ];
  const lines = (rows: readonly Row[], timed: boolean) =>
    rows.map((row) => [
      row.name,
      count(row.measured.perSecond.median),
      count(row.against.perSecond.median),
      ...(timed ? [latency(row.measured), latency(row.against)] : []),
      micro(row.measured.cpu),
      micro(row.against.cpu),
      ratio(row.ratio),
      row.cpuRatio ? row.cpuRatio.median.toFixed(2) : "",
      `≥ ${row.aim}`,
      row.aim === undefined || row.ratio.median >= row.aim ? "met" : "missed",
    ]);
  return [
    roundsHeading(report),
    "",
    ...table(head("lines delivered", true), lines(events.delivery, true)),
    "",
    ...table(head("lines appended", true), lines(events.appending, true)),
    "",
    ...table(head("lines read from disk", false), lines(events.replay, false)),
    "",
    ...table(
      ["idle streams", "", "KiB each"],
      events.idle.map(({ side, streams, each }) => [
        side,
        count(streams),
        each === null ? "" : (each / 1024).toFixed(1),
      ]),
    ),
  ].join("\n");
}

export const eventsPlots = ({ scale, events }: EventsReport): Plot[] => {
  // Two rows for each number of streams: a line at a time, then bursts.
  const lines = ["one line at a time", "bursts"].flatMap((how, at) =>
    (["measured", "against"] as const).map((which) => ({
      name: `${which === "measured" ? "ours" : "bare"}, ${how}`,
      side: which === "measured" ? ("ours" as const) : ("bare" as const),
      points: scale.streams.flatMap((streams, number) => {
        const cpu = events.delivery[2 * number + at]?.[which].cpu;
        return cpu ? [[streams, cpu.median] as const] : [];
      }),
    })),
  );
  return [
    {
      file: "events",
      title: "The event stream: a delivered line by how many streams are open",
      sizes: "streams",
      costs: "CPU µs a line that was delivered",
      lines,
    },
  ];
};
