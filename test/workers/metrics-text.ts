import { definitionOf, isMetric } from "../../src/metrics/catalogue.ts";

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?[0-9.e+-]+|NaN|\+Inf)$/;
const PAIR = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/** Reads the text format strictly: throws on a line that is none, and on a sample whose family was not announced. */
export function parseText(text: string): Sample[] {
  if (!text.endsWith("\n")) throw new Error("no line feed at the end");
  const samples: Sample[] = [];
  const families = new Map<string, string>();
  for (const line of text.slice(0, -1).split("\n")) {
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (type?.[1]) {
      if (families.has(type[1])) throw new Error(`${type[1]} is announced twice`);
      families.set(type[1], type[2] ?? "");
    }
    if (line.startsWith("# ")) continue;
    const [, name, pairs = "", value] = LINE.exec(line) ?? [];
    if (name === undefined) throw new Error(`not a sample: ${line}`);
    const family = [name, name.replace(/_(bucket|sum|count)$/, ""), name.replace(/_total$/, "")].find((each) =>
      families.has(each),
    );
    if (family === undefined) throw new Error(`not announced: ${line}`);
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
  return samples;
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
