/** Summary of several rounds of one figure, with their spread. */
export interface Figure {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function figure(values: readonly number[]): Figure {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  const median = sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
  return { median, low: sorted[0] ?? Number.NaN, high: sorted.at(-1) ?? Number.NaN };
}

/** @returns the quantile of the values; sorts them */
export function quantiles(values: number[]): (share: number) => number {
  values.sort((a, b) => a - b);
  return (share) => values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;
}

/** CPU seconds that this process has used since. */
export function ownCpu(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
}
