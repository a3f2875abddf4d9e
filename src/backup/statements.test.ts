import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

it("no statement replaces a row by conflict, because the triggers of a snapshot do not see that row", () => {
  const root = join(import.meta.dirname, "..");
  const sources = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) =>
    /(?<!\.test)\.ts$/.test(path),
  );
  const replacing = sources.filter((path) =>
    /INSERT OR REPLACE|REPLACE INTO|ON CONFLICT REPLACE|UPDATE OR REPLACE/i.test(
      readFileSync(join(root, path), "utf8"),
    ),
  );
  expect(sources.length).toBeGreaterThan(200);
  expect(replacing).toEqual([]);
});
