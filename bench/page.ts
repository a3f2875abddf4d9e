/** Writes results into docs/internals/benchmarks.md, between the marks of their part, and the plots beside it. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Plot, svg } from "./plot.ts";

const PAGE = join("docs", "internals", "benchmarks.md");
const PLOTS = "benchmarks";

/** @param part a part with marks in the page; text outside of them is written by hand */
export function writeSection(part: string, markdown: string, plots: readonly Plot[]): void {
  const page = readFileSync(PAGE, "utf8");
  const [begin, end] = [`<!-- ${part}: measured -->`, `<!-- ${part}: end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${PAGE} has no place for what was measured of ${part}`);
  mkdirSync(join(dirname(PAGE), PLOTS), { recursive: true });
  for (const plot of plots) writeFileSync(join(dirname(PAGE), PLOTS, `${plot.file}.svg`), svg(plot));
  const images = plots.map(({ title, file }) => `![${title}](${PLOTS}/${file}.svg)`);
  const section = [begin, "", markdown, "", ...images.flatMap((image) => [image, ""])].join("\n");
  writeFileSync(PAGE, page.slice(0, from) + section + page.slice(to));
}
