import { BUCKETS, definitionOf, isMetric, type MetricName } from "./catalogue.ts";

/** How often something took how long: observations by bucket (not added up; the last has all beyond), and their sum. */
export interface Distribution {
  readonly buckets: readonly number[];
  readonly sum: number;
}

/** A metric with values for its labels, in the order in which the catalogue names these. */
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

/** A series with a label more in front, which its maker did not know. */
export const withLabel = (label: string, { name, labels, value }: Series): Series => ({
  name,
  labels: [label, ...labels],
  value,
});

/** Whether a series is one of the catalogue: an object may yet be of another version. */
export const isWhole = ({ name, labels }: Series): boolean =>
  isMetric(name) && labels.length === definitionOf(name).labels.length;

/** The bucket that an observation falls into. */
export function bucketOf(seconds: number): number {
  const found = BUCKETS.findIndex((bound) => seconds <= bound);
  return found < 0 ? BUCKETS.length : found;
}
