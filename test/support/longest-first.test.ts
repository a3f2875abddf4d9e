import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import type { TestSpecification, Vitest } from "vitest/node";
import { LONGEST, LongestFirst } from "../../scripts/longest-first.ts";

const specification = (file: string, name: string) =>
  ({
    moduleId: resolve(file),
    project: { name, config: { isolate: true, sequence: { groupOrder: 0 } } },
  }) as unknown as TestSpecification;

it("begins the longest files of all projects first, and names only files that exist", async () => {
  expect(LONGEST.filter((file) => !existsSync(file))).toEqual([]);
  const cache = { getFileTestResults: () => undefined, getFileStats: () => ({ size: 1 }) };
  const sequencer = new LongestFirst({ cache, config: { root: resolve(".") } } as unknown as Vitest);
  const given = [["unit", "src/a.test.ts"] as const, ["http", "test/http/b.test.ts"] as const];
  const longest = [["smoke", LONGEST[0] ?? ""] as const, ["http", LONGEST[1] ?? ""] as const];
  const files = [...given, ...longest.toReversed()].map(([name, file]) => specification(file, name));
  const sorted = (await sequencer.sort(files)).map(({ moduleId }) => moduleId);
  expect(sorted).toEqual([...longest, ...given.toReversed()].map(([, file]) => resolve(file)));
});
