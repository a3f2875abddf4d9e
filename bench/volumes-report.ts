/** The tables of nodes and volumes. */
import { type FullNodeResults, quarters } from "./full-node.ts";
import type { Plot } from "./plot.ts";
import { count, curves, latency, micro, type RunInfo, ratio, roundsHeading, table } from "./report.ts";
import type { Row } from "./rounds.ts";
import { AIM, type Sessions, type VolumesResults, type VolumesScale, type Waits } from "./volumes.ts";

export interface VolumesReport extends RunInfo {
  readonly scale: VolumesScale;
  readonly loaderBusy: number;
  readonly volumes: VolumesResults;
  readonly full: FullNodeResults;
}

export function volumesMarkdown(report: VolumesReport): string {
  const { scale, volumes } = report;
  return [
    roundsHeading(report),
    "",
    ...table(
      [
        "agents",
        "",
        "connected after, s",
        "nodes ready after, s",
        "CPU ms to connect",
        "pings /s",
        "% of a core meanwhile",
        "KiB each at first",
        `after ${scale.heldMs / 1000} s`,
      ],
      volumes.sessions.map(sessionsRow),
    ),
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
        "p50, times (spread)",
        "CPU, times",
        "aim, CPU ms of ours",
        "",
      ],
      volumes.creating.map((row) => {
        const isMet = (row.measured.cpu?.median ?? Number.NaN) <= AIM.cpuMs * 1_000;
        return [row.name, ...speeds(row), ...costs(row), `≤ ${AIM.cpuMs}`, isMet ? "met" : "missed"];
      }),
    ),
    "",
    ...fullNodeTable(report.full),
    "",
    ...table(
      [
        `against ${count(scale.sizes[0])} rows`,
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
      volumes.growth.map((row) => [
        row.name,
        ...speeds(row),
        ...costs(row),
        `≤ ${AIM.growth}`,
        row.latencyRatio && row.latencyRatio.median <= AIM.growth ? "met" : "missed",
      ]),
    ),
    "",
    ...table(
      [
        "queries that wait for one change",
        "",
        "first answered after, ms",
        "half, ms",
        "all, ms",
        "CPU µs an answer",
        "% of a core before",
        "MiB before",
        "KiB each while they wait",
        "MiB at most",
      ],
      volumes.waits.map(waitsRow),
    ),
  ].join("\n");
}

function fullNodeTable(full: FullNodeResults): string[] {
  const { scale, operations, seconds, cpu, frames, lines, dropped } = full;
  const perSecond = operations / seconds;
  const ms = (side: "service" | "agent") => (cpu === null ? "" : ((cpu[side] * 1_000) / operations).toFixed(1));
  const bytes = (sizes: FullNodeResults["frames"], what: string) =>
    quarters(full, sizes, what).map((mean) => (mean === null ? "" : count(mean)));
  const isMet = perSecond >= AIM.perSecond && dropped.length === 0;
  return table(
    [
      "volumes made and deleted by one agent, which has",
      "callers",
      "s",
      "/s",
      "CPU ms of the service",
      "of the agent",
      "bytes of a frame of volumes, first quarter",
      "last",
      "bytes of a line, first quarter",
      "last",
      "dropped",
      "aim",
      "",
    ],
    [
      [
        `${count(scale.volumes)} volumes`,
        count(scale.clients),
        seconds.toFixed(0),
        count(perSecond),
        ms("service"),
        ms("agent"),
        ...bytes(frames, "vols"),
        ...bytes(lines, "HostVolume"),
        count(dropped.length),
        `≥ ${AIM.perSecond}, none dropped`,
        isMet ? "met" : "missed",
      ],
    ],
  );
}

const CURVES: readonly string[] = [
  "volumes, a page",
  "a volume",
  "nodes, a page",
  "a node",
  "allocations, a page",
  "an allocation",
];

export const volumesPlots = ({ volumes }: VolumesReport): Plot[] => [
  {
    file: "volumes",
    title: "Nodes and volumes: a read by how many rows there are",
    sizes: "rows of each kind",
    costs: "CPU µs a request",
    lines: curves(volumes.growth.filter(({ thing }) => CURVES.includes(thing))),
  },
];

const sessionsRow = ({ side, agents, connected, ready, cpuEach, pings, share, memory }: Sessions): string[] => [
  side,
  count(agents),
  connected.toFixed(1),
  ready === null ? "" : ready.toFixed(1),
  cpuEach === null ? "" : cpuEach.toFixed(2),
  pings.toFixed(0),
  share === null ? "" : (share * 100).toFixed(1),
  memory ? kibi(memory.first) : "",
  memory ? kibi(memory.last) : "",
];

const waitsRow = ({ side, queries, first, half, last, cpu, share, memory }: Waits): string[] => [
  side,
  count(queries),
  count(first),
  count(half),
  count(last),
  cpu === null ? "" : count(cpu),
  share === null ? "" : (share * 100).toFixed(1),
  memory ? mebi(memory.before) : "",
  memory ? kibi(memory.each) : "",
  memory ? mebi(memory.most) : "",
];

export const speeds = ({ measured, against }: Row): string[] => [
  count(measured.perSecond.median),
  count(against.perSecond.median),
  latency(measured),
  latency(against),
  micro(measured.cpu),
  micro(against.cpu),
];

/** Cost ratios against the baseline. */
export const costs = ({ latencyRatio, cpuRatio }: Row): string[] => [
  latencyRatio ? ratio(latencyRatio) : "",
  // Rows say how much less is used; here it is how much more.
  cpuRatio ? (1 / cpuRatio.median).toFixed(2) : "",
];

const kibi = (bytes: number): string => (bytes / 1024).toFixed(1);
const mebi = (bytes: number): string => count(bytes / 2 ** 20);
