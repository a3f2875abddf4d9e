import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** The table of docs/internals/platform-limits.md: every row has a test that runs, or a reason. */

const [table = ""] = readFileSync("docs/internals/platform-limits.md", "utf8").split("## Compatibility date");
const rows = table
  .split("\n")
  .filter((line) => line.startsWith("|"))
  .slice(2)
  .map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );

/** Whether a test runs that has the title. */
function isProved(cell: string): boolean {
  const [, stage] = /^`npm run test:long -- (\w+)`$/.exec(cell) ?? [];
  if (stage !== undefined) return readFileSync("scripts/test-long.ts", "utf8").includes(`name: "${stage}"`);
  const [, path = "", title = ""] = /^`([\w./-]+\.test\.ts) › (.+)`$/.exec(cell) ?? [];
  if (!existsSync(path)) return false;
  const line = readFileSync(path, "utf8")
    .split("\n")
    .find((each) => each.includes(`"${title}"`) || each.includes(`\`${title}\``));
  return line !== undefined && !/\b(skip|todo)\b/.test(line);
}

it("docs/internals/platform-limits.md has a test or a reason in every row, and no row twice", () => {
  expect(rows.length).toBeGreaterThan(30);
  expect(new Set(rows.map(([limit, where]) => `${limit} › ${where}`)).size).toBe(rows.length);
  const unproved = rows.filter(
    ([limit = "", where = "", behaviour = "", test = "", ...more]) =>
      more.length > 0 ||
      [limit, where, behaviour].some((cell) => cell === "") ||
      (!isProved(test) && !/^not tested: \S.{20,}$/.test(test)),
  );
  expect(unproved).toEqual([]);
});

it("docs/internals/platform-limits.md has every limit that a deployment can meet", () => {
  const limits = rows.map(([limit]) => limit).join("\n");
  const parts =
    "128 MiB,6 connections,subrequests,30 s of CPU,2 MB,10 GB,32 MiB,alarm is dropped,late,hibernation,eviction," +
    "update of the code,two versions,delivers twice,D1 is down,is moved";
  for (const part of parts.split(",")) expect(limits, part).toContain(part);
});
