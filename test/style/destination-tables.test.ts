import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { withTables } from "../../scripts/destination-tables.ts";

it("docs/guides/sync.md has the tables of the descriptions (node scripts/destination-tables.ts writes them)", () => {
  const page = readFileSync("docs/guides/sync.md", "utf8");
  expect(withTables(page)).toBe(page);
});
