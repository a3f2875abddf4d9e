import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { checkCoverage, citedFiles } from "../../scripts/coverage.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const read = (name: string): string => readFileSync(ROOT + name, "utf8");
const page = read("docs/operate/security.md");

const HEADER = "| Threat | What they can do | What they cannot | Shown by |";

/** Rows of the tables of threats. */
function threats(): { line: number; cells: string[] }[] {
  const rows: { line: number; cells: string[] }[] = [];
  let inside = false;
  for (const [index, text] of page.split("\n").entries()) {
    if (text === HEADER) inside = true;
    else if (!text.startsWith("|")) inside = false;
    else if (inside && !/^\|[-|]+\|$/.test(text)) {
      const cells = text.slice(1, -1).split("|");
      rows.push({ line: index + 1, cells: cells.map((cell) => cell.trim()) });
    }
  }
  return rows;
}

describe("docs/operate/security.md", () => {
  it("names for each threat what can be done, what cannot, and tests that exist and are not skipped", () => {
    const rows = threats();
    expect(rows.length).toBeGreaterThan(40);
    for (const { line, cells } of rows) {
      expect(cells, `line ${line}`).toHaveLength(4);
      for (const cell of cells) expect(cell, `line ${line}`).not.toBe("");
    }
    // The parser of references is that of the page of coverage.
    const table = rows.map(({ line, cells }) => `| E.line-${line} | ${cells[0]} | ${cells[3]} |`);
    const asCoverage = ["| id | What the interface document says | Proof |", "|---|---|---|", ...table].join("\n");
    const sources = new Map<string, string>();
    for (const file of citedFiles(asCoverage)) if (existsSync(ROOT + file)) sources.set(file, read(file));
    expect(checkCoverage(asCoverage, sources)).toEqual([]);
    expect(asCoverage).not.toMatch(/\| open \|$/m);
  });

  it("cites no test outside of these tables, where nobody would look whether it exists", () => {
    const cited = page.split("\n").filter((text) => text.includes(" › "));
    expect(cited.length).toBe(threats().length);
  });

  it("asks only for operations that there are", () => {
    const { paths } = JSON.parse(read("docs/openapi.json")) as { paths: Record<string, Record<string, unknown>> };
    const patterns = Object.entries(paths).map(([path, operations]): [RegExp, string[]] => [
      new RegExp(`^${path.replace(/[.+]/g, "\\$&").replace(/\{[^}]+\}/g, "[^/]+(?:/[^/]+)*")}$`),
      Object.keys(operations),
    ]);
    const asked = [...page.matchAll(/^curl (.*)\$SALLYPORT_ADDR(\/v1\/[^\s"?]+)(\?list=true)?/gm)];
    expect(asked.length).toBeGreaterThan(15);
    for (const [command, options = "", path = "", list] of asked) {
      const where = list === undefined ? path : `${path}/`;
      const named = /-X (\w+)/.exec(options)?.[1];
      const verb = named ?? (/ -d /.test(options) ? "POST" : "GET");
      const verbs = patterns.filter(([pattern]) => pattern.test(where)).flatMap(([, known]) => known);
      expect(verbs, command).toContain(verb.toLowerCase());
    }
  });
});
