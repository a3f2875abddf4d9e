/** Figures of the whole deployment, from its metrics (docs/operate/metrics.md). */
import type { Schemas } from "../../api/client.ts";

type Labels = Readonly<Record<string, string>>;

export class Figures {
  readonly #gauges: Schemas["Metrics"]["Gauges"];
  readonly #counters: Schemas["Metrics"]["Counters"];

  constructor({ Gauges, Counters }: Schemas["Metrics"]) {
    this.#gauges = Gauges;
    this.#counters = Counters;
  }

  /** Sum of a metric over all series with these labels. */
  sum(name: string, labels: Labels = {}): number {
    return this.series(name, labels).reduce((total, { value }) => total + value, 0);
  }

  max(name: string): number {
    return Math.max(0, ...this.series(name).map(({ value }) => value));
  }

  series(name: string, labels: Labels = {}): { readonly labels: Labels; readonly value: number }[] {
    const metric = `sallyport_${name}`;
    const fits = (entry: { readonly Name: string; readonly Labels: Labels }): boolean =>
      entry.Name === metric && Object.entries(labels).every(([label, value]) => entry.Labels[label] === value);
    return [
      ...this.#gauges.filter(fits).map(({ Labels: found, Value }) => ({ labels: found, value: Value })),
      ...this.#counters.filter(fits).map(({ Labels: found, Sum }) => ({ labels: found, value: Sum })),
    ];
  }

  /** Sums by the values of one label. */
  by(name: string, label: string): ReadonlyMap<string, number> {
    const sums = new Map<string, number>();
    for (const { labels, value } of this.series(name)) {
      const key = labels[label] ?? "";
      sums.set(key, (sums.get(key) ?? 0) + value);
    }
    return sums;
  }
}
