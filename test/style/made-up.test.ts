import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

it("a destination type is its folder, and at most three other files that name it", () => {
  const files = globSync("{src,test,scripts,console/src,docs}/**/*.{ts,tsx,md,json}");
  const outside = files.filter(
    (path) => !path.startsWith("test/made-up/json-files/") && path !== "test/style/made-up.test.ts",
  );
  const naming = outside.filter((path) => /json-files|jsonFiles/.test(readFileSync(path, "utf8")));
  expect(naming.toSorted()).toEqual([
    "docs/internals/add-a-destination.md",
    "test/made-up/destinations.ts",
    "test/made-up/stand-ins.ts",
  ]);
});
