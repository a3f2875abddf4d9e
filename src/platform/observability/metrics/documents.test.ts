import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { definitionOf, isMetric, METRICS, type MetricName } from "./catalogue.ts";

const NAMES = Object.keys(METRICS) as MetricName[];

describe("the catalogue", () => {
  it.each(NAMES)("%s follows the naming conventions of Prometheus", (name) => {
    const { type, labels, help } = definitionOf(name);
    expect(name).toMatch(/^sallyport_[a-z]+(_[a-z]+)*$/);
    expect(name.endsWith("_total")).toBe(type === "counter");
    if (type === "histogram") expect(name).toMatch(/_seconds$/);
    for (const label of labels) expect(label).toMatch(/^[a-z]+$/);
    expect(labels).not.toContain("le");
    expect(help).toMatch(/^[A-Z0-9].*\.$/);
    expect(help).not.toMatch(/[\n|]/);
  });
});

describe("docs/operate/metrics.md", () => {
  it("lists exactly the metrics of the catalogue, with type, labels and meaning", () => {
    const page = readFileSync("docs/operate/metrics.md", "utf8");
    const rows = [...page.matchAll(/^\| `(sallyport_\w+)` \| (\w+) \| (.*?) \| (.*) \|$/gm)];
    const listed = rows.map(([, name, type, labels = "", help]) => ({
      name,
      type,
      help,
      labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label),
    }));
    const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }) =>
      String(a.name).localeCompare(String(b.name));
    const all = NAMES.map((name) => {
      const { type, help, labels } = definitionOf(name);
      return { name: name as string | undefined, type, help, labels: [...labels] };
    });
    expect(listed.sort(byName)).toEqual(all.sort(byName));
  });
});

const Dashboard = z.object({
  title: z.string(),
  panels: z.array(
    z.object({
      title: z.string(),
      gridPos: z.object({ x: z.number(), y: z.number(), w: z.number(), h: z.number() }),
      targets: z.array(z.object({ expr: z.string(), legendFormat: z.string() })).default([]),
    }),
  ),
});

const dashboard = Dashboard.parse(JSON.parse(readFileSync("docs/operate/grafana-dashboard.json", "utf8")));

/** The rules of the file: one block of `key: value` lines per rule, with a folded long `expr`. */
const rules = readFileSync("docs/operate/alerts.yml", "utf8")
  .split(/^ {6}- alert: /m)
  .slice(1)
  .map((block) => ({
    name: block.split("\n", 1)[0] ?? "",
    expr: (/^ {8}expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)/m.exec(block)?.slice(1).find(Boolean) ?? "")
      .replace(/\s+/g, " ")
      .trim(),
    severity: /severity: (\w+)/.exec(block)?.[1],
    summary: /summary: "?(.*?)"?\n/.exec(block)?.[1] ?? "",
  }));

/** The metrics used in a query. */
const metricsIn = (query: string): MetricName[] =>
  [...query.matchAll(/sallyport_\w+/g)].map(([text]) => {
    const base = text.replace(/_(bucket|sum|count)$/, "");
    const name = isMetric(base) && definitionOf(base).type === "histogram" ? base : text;
    if (!isMetric(name)) throw new Error(`no metric ${text} in: ${query}`);
    if (definitionOf(name).type === "histogram" && name === text) throw new Error(`a histogram is no series: ${query}`);
    return name;
  });

/** The labels used in a query and in its annotation text. */
const labelsIn = (query: string, text = ""): string[] => [
  ...[...query.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/,\s*/)),
  ...[...query.matchAll(/[{,](\w+)[=!]~?=?"/g)].map(([, label = ""]) => label),
  ...[...text.matchAll(/\{\{(?: \$labels\.)?(\w+) ?\}\}/g)].map(([, label = ""]) => label),
];

function expectSound(query: string, text: string): void {
  const metrics = metricsIn(query);
  expect(metrics, query).not.toEqual([]);
  const known = new Set(metrics.flatMap((name) => definitionOf(name).labels).concat("le"));
  for (const label of labelsIn(query, text)) expect([...known], `${label} in: ${query}`).toContain(label);
  for (const counter of metrics.filter((name) => definitionOf(name).type === "counter")) {
    expect(query, "a counter says nothing but by its rate").toMatch(new RegExp(`(rate|increase)\\(${counter}`));
  }
  expect(query.split("(").length, query).toBe(query.split(")").length);
}

describe("docs/operate/grafana-dashboard.json", () => {
  const targets = dashboard.panels.flatMap(({ title, targets }) => targets.map((target) => ({ title, ...target })));

  it.each(targets)("$title queries existing metrics: $expr", ({ expr, legendFormat }) => {
    expectSound(expr, legendFormat);
  });

  it("shows every metric", () => {
    const shown = new Set(targets.flatMap(({ expr }) => metricsIn(expr)));
    expect(NAMES.filter((name) => !shown.has(name))).toEqual(["sallyport_build_info"]);
  });

  it("has no overlapping panels", () => {
    const places = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
    );
    expect(new Set(places).size).toBe(places.length);
  });
});

describe("docs/operate/alerts.yml", () => {
  it.each(rules)("$name queries existing metrics", ({ expr, summary, severity }) => {
    expectSound(expr, summary);
    expect(severity).toMatch(/^(warning|critical)$/);
    expect(summary).toMatch(/\.$/);
  });

  it("has unique rules", () => {
    const names = rules.map(({ name }) => name);
    expect(names.length).toBeGreaterThan(15);
    expect(new Set(names).size).toBe(names.length);
  });
});
