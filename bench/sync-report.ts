/** The sync tables. */
import type { Plot } from "./plot.ts";
import { count, heading, level, micro, percent, type RunInfo, ratio, table } from "./report.ts";
import type { Figure } from "./statistics.ts";
import { type Rates, SLOW_MS, type SyncResults, type SyncScale } from "./sync.ts";
import { DESTINATIONS } from "./sync-sides.ts";

export interface SyncReport extends RunInfo {
  readonly scale: SyncScale;
  readonly sync: SyncResults;
}

const AIM = { ratio: 0.5, slowRatio: 0.9, latencyMs: 150, spread: 1.3 } as const;

export function syncMarkdown(report: SyncReport): string {
  const { scale, sync } = report;
  const { latency, pause } = sync;
  const slow = `${scale.slowSecrets} secrets, answers after ${SLOW_MS} ms`;
  return [
    heading(report, [
      `${scale.rounds} rounds of ${scale.secrets} secrets to ${DESTINATIONS} destinations`,
      `stand-in at most ${percent(sync.doubleBusy)} of a core`,
    ]),
    "",
    ...table(
      ["", "ours /s", "bare /s", "ours CPU µs", "bare CPU µs", "ratio (spread)", "CPU ratio", "aim", ""],
      [
        rates(`pushes to ${DESTINATIONS} destinations`, sync, AIM.ratio),
        rates(`${slow}, while they are written`, sync.slow.written, AIM.slowRatio),
        rates(`${slow}, a backlog`, sync.slow.backlog, AIM.slowRatio),
      ],
    ),
    "",
    ...table(
      ["", "pushes /s", "CPU µs", "CPU, times a tenth", "aim", ""],
      sync.spreads.map((spread, index) => {
        const tenth = index % 2 === 1 ? sync.spreads[index - 1] : undefined;
        const times = (spread.rate.cpu?.median ?? Number.NaN) / (tenth?.rate.cpu?.median ?? Number.NaN);
        const against = Number.isFinite(times)
          ? [times.toFixed(2), `≤ ${AIM.spread}`, met(times <= AIM.spread)]
          : ["", "", ""];
        const { secrets, destinations, rate } = spread;
        return [
          `secrets: ${secrets}, destinations: ${destinations}`,
          count(rate.perSecond.median),
          micro(rate.cpu),
          ...against,
        ];
      }),
    ),
    "",
    ...table(
      ["", "ms (spread)", "aim", ""],
      [
        [
          "from a write's answer to its arrival, p50",
          ms(latency.p50),
          `< ${AIM.latencyMs}`,
          met(latency.p50.median < AIM.latencyMs),
        ],
        ["from a write's answer to its arrival, p99", ms(latency.p99), "", ""],
        ["pausing under load: until it is answered", ms(pause.answered), "", ""],
        ["pausing under load: until the last call arrives", ms(pause.lastCall), "", ""],
        ["pausing under load: calls after the answer", String(pause.callsAfter), "0", met(pause.callsAfter === 0)],
      ],
    ),
    "",
    ...table(
      ["pending", "until the first, ms", "pushes /s", "CPU µs", "memory before, MiB", "at most, MiB"],
      sync.drains.map(({ pending, firstMs, perSecond, cpu, memory }) => [
        count(pending),
        count(firstMs),
        count(perSecond),
        cpu === null ? "" : count(cpu),
        memory ? mebi(memory.before) : "",
        memory ? mebi(memory.most) : "",
      ]),
    ),
  ].join("\n");
}

export const syncPlots = ({ sync }: SyncReport): Plot[] => {
  const sizes = sync.drains.map(({ pending }) => pending);
  return [
    {
      file: "sync",
      title: "Syncing: a push by how many operations are pending",
      sizes: "operations pending",
      costs: "CPU µs a push",
      lines: [
        {
          name: "ours, draining the queue",
          side: "ours",
          points: sync.drains.flatMap(({ pending, cpu }) => (cpu === null ? [] : [[pending, cpu] as const])),
        },
        { name: "bare: signs and sends", side: "bare", points: level(sizes, sync.bare.cpu) },
      ],
    },
  ];
};

const met = (is: boolean): string => (is ? "met" : "missed");

const rates = (name: string, { ours, bare, ratio: times, cpuRatio }: Rates, aim: number): string[] => [
  name,
  count(ours.perSecond.median),
  count(bare.perSecond.median),
  micro(ours.cpu),
  micro(bare.cpu),
  ratio(times),
  cpuRatio ? cpuRatio.median.toFixed(2) : "",
  `≥ ${aim}`,
  met(times.median >= aim),
];

const ms = ({ median, low, high }: Figure): string => `${median.toFixed(1)} (${low.toFixed(1)}–${high.toFixed(1)})`;
const mebi = (bytes: number): string => count(bytes / 2 ** 20);
