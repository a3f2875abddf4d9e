import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { engineDescriptions } from "../../src/credentials/engines/descriptions.ts";

/** The table of promises in docs/internals/engine-promises.md: every type of engine, without a blank. */

const cellsOf = (line: string): string[] =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());

const [head = [], , ...rows] = readFileSync("docs/internals/engine-promises.md", "utf8")
  .split("\n")
  .filter((line) => line.startsWith("|"))
  .map(cellsOf);

/** The texts of a suite, which may have a quick part. */
const textOf = (file: string): string =>
  ["workers", "console", "clients", "doubles", "http"]
    .flatMap((folder) => [".quick", ""].map((kind) => `test/${folder}/${file}${kind}.test.ts`))
    .filter((path) => existsSync(path))
    .map((path) => readFileSync(path, "utf8"))
    .join("\n");

/** Whether a test runs that has the title, or whose title begins with it or has it after a placeholder. */
function isProved(cell: string): boolean {
  const [, file = "", title = ""] = /^`([\w/-]+) › (.+)`$/.exec(cell) ?? [];
  const line = textOf(file)
    .split("\n")
    .find((each) => title !== "" && each.includes(title) && /["`]/.test(each));
  return line !== undefined && !/\b(skip|todo)\b/.test(line);
}

it("has a column for every type of engine", () => {
  expect(head.slice(1).toSorted()).toEqual(engineDescriptions.map(({ label }) => label).toSorted());
});

it("has a proof or a reason in every cell, and no row twice", () => {
  expect(rows.length).toBeGreaterThan(15);
  expect(new Set(rows.map(([promise]) => promise)).size).toBe(rows.length);
  const faults = rows.flatMap(([promise = "", ...cells]) =>
    head.slice(1).flatMap((type, at) => {
      const cell = cells[at] ?? "";
      return /^none: \S.{10,}$/.test(cell) || isProved(cell) ? [] : [`${promise} › ${type}: ${cell}`];
    }),
  );
  expect(faults).toEqual([]);
});
