import { definitionOf, type MetricName, OTHER } from "./catalogue.ts";
import { bucketOf } from "./series.ts";

/**
 * Counts of an isolate since its last flush. Counting is one map update, so it is allowed anywhere; `flush.ts` sends
 * the counts. A key is the metric, its labels, and for histograms the part (a bucket's number, or `sum`), joined by a
 * character that no label contains.
 */
export type Key = string;

const SEPARATOR = "\u0000";

/** Series of one metric per flush; further ones are counted as "other". */
const MAX_SERIES = 500;

let counts = new Map<Key, number>();
let series = new Map<MetricName, number>();

/** Increments a counter. @param labels in the order of the catalogue */
export function count(name: MetricName, ...labels: string[]): void {
  countMany(name, 1, ...labels);
}

/** Adds `times` to a counter. */
export function countMany(name: MetricName, times: number, ...labels: string[]): void {
  add(name, labels, "", times);
}

/** Records a duration, in seconds. */
export function observe(name: MetricName, seconds: number, ...labels: string[]): void {
  add(name, labels, String(bucketOf(seconds)), 1);
  add(name, labels, "sum", seconds);
}

function add(name: MetricName, labels: readonly string[], part: string, by: number): void {
  const key = keyOf(name, labels, part);
  const before = counts.get(key);
  if (before !== undefined) {
    counts.set(key, before + by);
    return;
  }
  const known = series.get(name) ?? 0;
  const isOther = labels.every((label) => label === OTHER);
  if (known >= MAX_SERIES && !isOther) {
    add(name, new Array<string>(labels.length).fill(OTHER), part, by);
    return;
  }
  series.set(name, known + 1);
  counts.set(key, by);
}

/** Whether there are counts to flush. */
export const hasCounts = (): boolean => counts.size > 0;

/** Removes and returns the counts; counting starts from zero again. */
export function takeCounts(): Map<Key, number> {
  const taken = counts;
  counts = new Map();
  series = new Map();
  return taken;
}

export function keyOf(name: MetricName, labels: readonly string[], part = ""): Key {
  let key: string = name;
  for (const label of labels) key += SEPARATOR + (label.includes(SEPARATOR) ? label.replaceAll(SEPARATOR, "") : label);
  return key + SEPARATOR + part;
}

/** Splits a key. Its name may be a metric unknown to this version. */
export function partsOf(key: Key): { name: string; labels: string[]; part: string } {
  const [name = "", ...labels] = key.split(SEPARATOR);
  const part = labels.pop() ?? "";
  return { name, labels, part };
}

/** The series for labels without room of their own. */
export const otherOf = (name: MetricName, part: string): Key =>
  keyOf(
    name,
    definitionOf(name).labels.map(() => OTHER),
    part,
  );
