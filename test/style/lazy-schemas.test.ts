import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

it("schemas of destinations and providers are built when they are first used", () => {
  const files = globSync("src/{sync/destinations,providers}/**/*.ts").filter((path) => !path.endsWith(".test.ts"));
  expect(files.length).toBeGreaterThan(20);
  const eager = files.filter((path) => /^(export )?const \w+(: [^=\n]+)? = z\b/m.test(readFileSync(path, "utf8")));
  expect(eager).toEqual([]);
});
