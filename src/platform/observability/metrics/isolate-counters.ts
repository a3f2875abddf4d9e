import { definitionOf, type MetricName, OTHER } from "./catalogue.ts";
import { bucketOf } from "./series.ts";

/**
 * What an isolate has counted and not handed in yet. Counting is one step in a map, so it may stand anywhere; `hand-in.ts` sees
 * to the rest.
 *
 * A key is the metric, its labels, and for histograms the part (a bucket's number, or `sum`), joined by a character that no
 * label has.
 */
export type Key = string;

const SEPARATOR = "\u0000";

/** Series of one metric that an isolate hands in at a time; what goes beyond is counted as "other". */
const MOST_SERIES = 500;

let counts = new Map<Key, number>();
let series = new Map<MetricName, number>();

/** Counts something that has happened in a Worker. @param labels in the order of the catalogue */
export function count(name: MetricName, ...labels: string[]): void {
  countMany(name, 1, ...labels);
}

/** Counts what has happened so many times. */
export function countMany(name: MetricName, times: number, ...labels: string[]): void {
  add(name, labels, "", times);
}

/** Notes how long something took, in seconds. */
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
  if (known >= MOST_SERIES && !isOther) {
    add(name, new Array<string>(labels.length).fill(OTHER), part, by);
    return;
  }
  series.set(name, known + 1);
  counts.set(key, by);
}

/** Whether there is anything to hand in. */
export const hasCounts = (): boolean => counts.size > 0;

/** Takes what was counted; what comes from now on is counted anew. */
export function takeCounts(): Map<Key, number> {
  const taken = counts;
  counts = new Map();
  series = new Map();
  return taken;
}

export const keyOf = (name: MetricName, labels: readonly string[], part = ""): Key =>
  [name, ...labels.map((label) => label.replaceAll(SEPARATOR, "")), part].join(SEPARATOR);

/** What a key says. Its name may be of a metric that this version does not know. */
export function partsOf(key: Key): { name: string; labels: string[]; part: string } {
  const [name = "", ...labels] = key.split(SEPARATOR);
  const part = labels.pop() ?? "";
  return { name, labels, part };
}

/** The series that stands for those that a metric has no room for. */
export const otherOf = (name: MetricName, part: string): Key =>
  keyOf(
    name,
    definitionOf(name).labels.map(() => OTHER),
    part,
  );
