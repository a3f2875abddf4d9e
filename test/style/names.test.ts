import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** An interface whose name says nothing of its content. */
const NAMELESS = /^(?:export )?interface (Dependencies|Row)\b/m;

it("interfaces are not named only Dependencies or Row", () => {
  const files = globSync("src/**/*.ts").filter((path) => !path.endsWith(".test.ts"));
  expect(files.length).toBeGreaterThan(900);
  expect(files.filter((path) => NAMELESS.test(readFileSync(path, "utf8")))).toEqual([]);
});

it.each([
  ["interface Row extends Record<string, SqlStorageValue> {", true],
  ["export interface Dependencies<Backfill> {", true],
  ["interface NodeRow {", false],
  ["const a = 1; // interface Row", false],
])("classifies %j", (line, isNameless) => {
  expect(NAMELESS.test(`import "a";\n${line}`)).toBe(isNameless);
});
