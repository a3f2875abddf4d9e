import { BUCKETS, definitionOf, isMetric, type MetricName } from "./catalogue.ts";

/** Distribution of durations: observations by bucket (not cumulative; the last bucket is unbounded), and their sum. */
export interface Distribution {
  readonly buckets: readonly number[];
  readonly sum: number;
}

/** A metric with values for its labels, in the order of the catalogue. */
export interface Series {
  readonly name: MetricName;
  readonly labels: readonly string[];
  readonly value: number | Distribution;
}

export const series = (name: MetricName, value: Series["value"], ...labels: string[]): Series => ({
  name,
  labels,
  value,
});

/** A series with one more leading label. */
export const withLabel = (label: string, { name, labels, value }: Series): Series => ({
  name,
  labels: [label, ...labels],
  value,
});

/** Whether a series matches the catalogue: an object may run another version. */
export const isWhole = ({ name, labels }: Series): boolean =>
  isMetric(name) && labels.length === definitionOf(name).labels.length;

/** The bucket of an observation. */
export function bucketOf(seconds: number): number {
  const found = BUCKETS.findIndex((bound) => seconds <= bound);
  return found < 0 ? BUCKETS.length : found;
}
