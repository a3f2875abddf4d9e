import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

it("never replaces a row by conflict: the triggers of a cut do not hear of a row that goes that way", () => {
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
