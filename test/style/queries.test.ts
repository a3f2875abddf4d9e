import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** Files that read the query as text: the parse itself, and parameters that many routes share. */
const SHARED = {
  "cluster-reads.ts": "namespace and prefix, on which rights and tables depend",
  "handle.ts": "the limit of a list, which a policy may lower",
  "key-page.ts": "after and limit of a LIST",
  "listing.ts": "per_page, where it is required",
  "query.ts": "the parse by a route's schema",
  "respond.ts": "pretty",
};

it("routes read their query by a schema", () => {
  const files = globSync("src/routes/**/*.ts").filter((path) => !path.endsWith(".test.ts"));
  expect(files.length).toBeGreaterThan(80);
  const raw = files.filter((path) =>
    /\bquery\??\.(get|getAll|has|entries|keys|values)\(|\bsearchParams\b/.test(readFileSync(path, "utf8")),
  );
  expect(raw.sort()).toEqual(Object.keys(SHARED).map((name) => `src/routes/server/${name}`));
});
