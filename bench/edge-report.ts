/** The tables of the simulated regions. */
import type { EdgeResults, EdgeScale, Latency } from "./edge.ts";
import { count, heading, type RunInfo, table } from "./report.ts";

export interface EdgeReport extends RunInfo {
  readonly scale: EdgeScale;
  readonly edge: EdgeResults;
}

/** Milliseconds of a warm read at the median. */
const WARM_AIM_MS = 10;
/** Milliseconds that a write may take beside its ways: the commit, and the work of this machine. */
const COMMIT_MS = 10;

export function edgeMarkdown(report: EdgeReport): string {
  const { regions, localWrite, questions, shards } = report.edge;
  const { rounds, requests, secrets, countedMs } = report.scale;
  return [
    heading(report, [`${rounds} rounds of ${requests} requests, ${secrets} secrets`]),
    "",
    ...table(
      [
        "a caller in",
        "round trip to the owners ms",
        "warm read p50 / p99 ms",
        "aim",
        "",
        "without replicas",
        "first read",
      ],
      regions.map(({ region, home, warm, withoutReplicas, cold }) => [
        nameOf(region),
        home.toFixed(0),
        ms(warm),
        `≤ ${WARM_AIM_MS}`,
        met(warm.p50.median <= WARM_AIM_MS),
        ms(withoutReplicas),
        ms(cold),
      ]),
    ),
    "",
    ...table(
      ["a write by a caller in", "p50 / p99 ms", "its ways ms: to the owner, then to the farthest replica", "aim", ""],
      [
        ...regions.map(({ region, write, writeWays }) => [
          nameOf(region),
          ms(write),
          writeWays.toFixed(0),
          `≤ ways + ${COMMIT_MS}`,
          met(write.p50.median <= writeWays + COMMIT_MS),
        ]),
        [
          "Frankfurt, readers there alone",
          ms(localWrite),
          "4",
          `≤ ways + ${COMMIT_MS}`,
          met(localWrite.p50.median <= 4 + COMMIT_MS),
        ],
      ],
    ),
    "",
    ...table(
      ["questions to owners", "reads", "calls of owners", "at most: one each second, region and owner", ""],
      [
        [
          `${secrets} secrets read in 4 regions for ${(countedMs / 1000).toFixed(0)} s`,
          count(questions.reads),
          count(questions.calls),
          count(questions.mostExpected),
          met(questions.calls <= questions.mostExpected),
        ],
      ],
    ),
    "",
    ...table(
      ["replicas of a place (model)", "share of the busiest", "reads/s, times that of one"],
      shards.map(({ replicas, share, times }) => [String(replicas), `${(share * 100).toFixed(1)} %`, times.toFixed(2)]),
    ),
  ].join("\n");
}

const NAMES = { frankfurt: "Frankfurt", virginia: "Virginia", singapore: "Singapore", "sao-paulo": "São Paulo" };
const nameOf = (region: keyof typeof NAMES): string => NAMES[region];
const ms = ({ p50, p99 }: Latency): string => `${p50.median.toFixed(1)} / ${p99.median.toFixed(1)}`;
const met = (isMet: boolean): string => (isMet ? "met" : "missed");
