/** Alternating rounds of two sides, so that other load on the machine affects both. */
import { type Figure, figure } from "./statistics.ts";

/** One side's rounds of one operation. */
export interface Measure {
  readonly perSecond: Figure;
  /** Milliseconds; only of requests. */
  readonly p50?: Figure;
  readonly p99?: Figure;
  /** Microseconds of the server's CPU per request or line, hardly affected by other load. */
  readonly cpu: Figure | null;
}

export interface Row {
  readonly name: string;
  readonly aim?: number;
  /** Ours, or the large set of keys. */
  readonly measured: Measure;
  /** The baseline: the bare Worker, or the small set. */
  readonly against: Measure;
  /** Measured / against, each of a pair measured one after the other. */
  readonly ratio: Figure;
  readonly cpuRatio: Figure | null;
  /** Of the medians of single requests; of requests only. */
  readonly latencyRatio: Figure | null;
}

/** A request that may cost so many times the CPU of the baseline's. */
export interface BudgetRow extends Row {
  /** Absent for a row that only explains another. */
  readonly budget?: number;
}

/** The service with replicas against the service without. */
export interface ReplicaRow extends Row {
  /** Calls of the owners of grants and secrets, for each request. */
  readonly ownerCalls: { readonly with: number; readonly without: number };
}

/** A large set of data against the smallest. */
export interface GrowthRow extends Row {
  /** The operation, without the size. */
  readonly thing: string;
  readonly size: number;
  readonly least: number;
}

export interface Slice {
  readonly count: number;
  readonly seconds: number;
  readonly own: number;
  readonly p50?: number;
  readonly p99?: number;
  readonly cpu: number | null;
}

/** Maximum CPU share of the load generator's own core: near 1, it was the limit instead of the server. */
export const loaderBusy = { most: 0 };

/** Runs rounds of both in turns. @returns the first against the second, with a ratio per round */
export async function inTurns(
  name: string,
  rounds: number,
  ours: () => Promise<Slice>,
  bare: () => Promise<Slice>,
  aim?: number,
): Promise<Row> {
  const [first = [], second = []] = await turns(rounds, [ours, bare]);
  return compared(name, first, second, aim);
}

/** Runs rounds of all sides in turns. @returns the slices of each side */
export async function turns(rounds: number, sides: readonly (() => Promise<Slice>)[]): Promise<Slice[][]> {
  const slices: Slice[][] = sides.map(() => []);
  for (let round = 0; round < rounds; round++) {
    // The first one alternates, so that no side always runs on the warmer machine.
    for (let turn = 0; turn < sides.length; turn++) {
      const side = (turn + round) % sides.length;
      const slice = await sides[side]?.();
      if (slice) slices[side]?.push(slice);
    }
  }
  return slices;
}

/** Compares the rounds of two sides, which ran in turns. */
export function compared(name: string, first: readonly Slice[], second: readonly Slice[], aim?: number): Row {
  const pairs = first.flatMap((slice, round) => (second[round] ? [[slice, second[round]] as const] : []));
  const some = (values: readonly number[]) => {
    const finite = values.filter(Number.isFinite);
    return finite.length > 0 ? figure(finite) : null;
  };
  return {
    name,
    ...(aim !== undefined && { aim }),
    measured: measure(pairs.map(([slice]) => slice)),
    against: measure(pairs.map(([, slice]) => slice)),
    ratio: figure(pairs.map(([a, b]) => perSecond(a) / perSecond(b))),
    cpuRatio: some(pairs.map(([a, b]) => cpuEach(b) / cpuEach(a))),
    latencyRatio: some(pairs.map(([a, b]) => (a.p50 ?? Number.NaN) / (b.p50 ?? Number.NaN))),
  };
}

export function sliceOf(slice: Omit<Slice, "cpu">, before: number | null, after: number | null): Slice {
  loaderBusy.most = Math.max(loaderBusy.most, slice.own / slice.seconds);
  return { ...slice, cpu: before === null || after === null ? null : after - before };
}

const perSecond = ({ count, seconds }: Slice): number => count / seconds;
const cpuEach = ({ count, cpu }: Slice): number => (cpu === null ? Number.NaN : (cpu / count) * 1e6);

export function measure(slices: readonly Slice[]): Measure {
  const cpu = slices.map(cpuEach).filter(Number.isFinite);
  const p50 = slices.flatMap((slice) => slice.p50 ?? []);
  const p99 = slices.flatMap((slice) => slice.p99 ?? []);
  return {
    perSecond: figure(slices.map(perSecond)),
    ...(p50.length > 0 && { p50: figure(p50), p99: figure(p99) }),
    cpu: cpu.length > 0 ? figure(cpu) : null,
  };
}
