import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { checkCoverage, citedFiles } from "../../scripts/coverage.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const read = (name: string): string => readFileSync(ROOT + name, "utf8");
const page = read("docs/operate/security.md");

const tests = read("docs/internals/threats.md");

/** The rows of a page's tables with a given header. */
function rowsOf(text: string, header: string): { line: number; cells: string[] }[] {
  const rows: { line: number; cells: string[] }[] = [];
  let inside = false;
  for (const [index, row] of text.split("\n").entries()) {
    if (row === header) inside = true;
    else if (!row.startsWith("|")) inside = false;
    else if (inside && !/^\|[-|]+\|$/.test(row)) {
      const cells = row.slice(1, -1).split("|");
      rows.push({ line: index + 1, cells: cells.map((cell) => cell.trim()) });
    }
  }
  return rows;
}

describe("docs/operate/security.md", () => {
  const threats = rowsOf(page, "| Threat | Possible | Prevented |");
  const proofs = rowsOf(tests, "| Threat | Tests |");

  it("states for each threat what is possible and what is prevented", () => {
    expect(threats.length).toBeGreaterThan(40);
    for (const { line, cells } of threats) {
      expect(cells, `line ${line}`).toHaveLength(3);
      for (const cell of cells) expect(cell, `line ${line}`).not.toBe("");
    }
  });

  it("names no tests", () => {
    expect(page.split("\n").filter((text) => text.includes(" › "))).toEqual([]);
  });

  it("has the threats of docs/internals/threats.md, which names existing tests that are not skipped", () => {
    const names = (rows: typeof threats) => rows.map(({ cells: [name] }) => name);
    expect(names(proofs)).toEqual(names(threats));
    // The coverage page uses the same parser of references.
    const table = proofs.map(({ line, cells }) => `| E.line-${line} | ${cells[0]} | ${cells[1]} |`);
    const asCoverage = ["| id | What the interface document says | Proof |", "|---|---|---|", ...table].join("\n");
    const sources = new Map<string, string>();
    for (const file of citedFiles(asCoverage)) if (existsSync(ROOT + file)) sources.set(file, read(file));
    expect(checkCoverage(asCoverage, sources)).toEqual([]);
    expect(asCoverage).not.toMatch(/\| open \|$/m);
  });

  it("requests only existing operations", () => {
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
