import { definitionOf, isMetric } from "../../src/platform/observability/metrics/catalogue.ts";

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?[0-9.e+-]+|NaN|\+Inf)$/;
const PAIR = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/**
 * Reads the text format by its rules, and throws where one is broken: each family once and in one piece, with one HELP and one TYPE
 * before its samples; labels escaped; counters that end in `_total`; histograms whose buckets add up to their count.
 */
export function parseText(text: string): Sample[] {
  if (!text.endsWith("\n")) throw new Error("no line feed at the end");
  const isOpen = text.endsWith("\n# EOF\n");
  const samples: Sample[] = [];
  const families = new Map<string, string>();
  const helped = new Set<string>();
  let current = "";
  for (const line of text.slice(0, isOpen ? -"# EOF\n".length - 1 : -1).split("\n")) {
    const [, help] = /^# HELP (\S+) (?:[^\\]|\\[\\n"])+$/.exec(line) ?? [];
    if (help !== undefined) {
      if (helped.has(help)) throw new Error(`${help} is explained twice`);
      helped.add(help);
      continue;
    }
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (type?.[1]) {
      if (families.has(type[1])) throw new Error(`${type[1]} is announced twice`);
      if (!helped.has(type[1])) throw new Error(`${type[1]} is not explained`);
      const suffixed = type[1].endsWith("_total");
      if (suffixed !== (type[2] === "counter" && !isOpen)) throw new Error(`${type[1]} is no name of a ${type[2]}`);
      families.set(type[1], type[2] ?? "");
      current = type[1];
      continue;
    }
    const [, name, pairs = "", value] = LINE.exec(line) ?? [];
    if (name === undefined) throw new Error(`not a sample: ${line}`);
    if (nameIn(current, families.get(current) ?? "", isOpen).exec(name) === null)
      throw new Error(`not a sample of ${current}, which was announced last: ${line}`);
    const labels = Object.fromEntries(
      [...pairs.matchAll(PAIR)].map(([, label = "", text = ""]) => [
        label,
        text.replace(/\\(.)/g, (_all, c) => (c === "n" ? "\n" : c)),
      ]),
    );
    samples.push({ name, labels, value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value) });
  }
  const seen = new Set<string>();
  for (const { name, labels } of samples) {
    const id = JSON.stringify([name, Object.entries(labels).sort()]);
    if (seen.has(id)) throw new Error(`twice: ${id}`);
    seen.add(id);
  }
  for (const [family, type] of families) if (type === "histogram") checkHistogram(family, samples);
  return samples;
}

/** The sample names that a family may have. */
const nameIn = (family: string, type: string, isOpen: boolean): RegExp =>
  new RegExp(
    `^${family}${type === "histogram" ? "_(bucket|sum|count)" : type === "counter" && isOpen ? "_total" : ""}$`,
  );

/** Buckets grow with their bounds and end with all there is; each series has a sum and a count. */
function checkHistogram(family: string, samples: readonly Sample[]): void {
  const of = (suffix: string) =>
    Map.groupBy(
      samples.filter(({ name }) => name === family + suffix),
      ({ labels: { le: _, ...labels } }) => JSON.stringify(labels),
    );
  const [buckets, sums, counts] = [of("_bucket"), of("_sum"), of("_count")];
  if (buckets.size === 0) throw new Error(`${family}: no buckets`);
  for (const [labels, found] of buckets) {
    const bounds = found.map(({ labels: { le = "" } }) => (le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le)));
    const values = found.map(({ value }) => value);
    const grows = (numbers: number[]) => numbers.every((each, at) => at === 0 || each >= (numbers[at - 1] ?? 0));
    const where = `${family} ${labels}`;
    if (!grows(bounds) || bounds.at(-1) !== Number.POSITIVE_INFINITY) throw new Error(`${where}: bounds ${bounds}`);
    if (!grows(values)) throw new Error(`${where}: buckets are not added up: ${values}`);
    if (counts.get(labels)?.[0]?.value !== values.at(-1)) throw new Error(`${where}: its count is not its last bucket`);
    if (sums.get(labels)?.length !== 1) throw new Error(`${where}: no sum`);
  }
}

/** The value of the one series of a metric with these labels; undefined when there is none. */
export function valueIn(
  samples: readonly Sample[],
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  const family = name.replace(/_(bucket|sum|count)$/, "");
  if (!isMetric(name) && !(isMetric(family) && definitionOf(family).type === "histogram"))
    throw new Error(`no metric ${name}`);
  const found = samples.filter(
    (each) => each.name === name && Object.entries(labels).every(([label, value]) => each.labels[label] === value),
  );
  if (found.length > 1) throw new Error(`${found.length} series of ${name} ${JSON.stringify(labels)}`);
  return found[0]?.value;
}
