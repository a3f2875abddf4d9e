import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

/** A made-up type, its folder, the words that name it, and the files outside the folder that do. */
const types = [
  {
    what: "a destination type",
    folder: "test/made-up/json-files/",
    names: /json-files|jsonFiles/,
    outside: ["docs/internals/add-a-destination.md", "test/made-up/destinations.ts", "test/made-up/stand-ins.ts"],
  },
  {
    what: "an engine type",
    folder: "test/made-up/engine/",
    names: /made-up\/engine/,
    outside: [
      "docs/internals/add-an-engine.md",
      "test/doubles/setup.ts",
      "test/workers/engine-contract.test.ts",
      "test/workers/engine-kept.test.ts",
    ],
  },
];

describe.each(types)("$what", ({ folder, names, outside }) => {
  it("is its folder, and at most four other files that name it", () => {
    const files = globSync("{src,test,scripts,console/src,docs}/**/*.{ts,tsx,md,json}");
    const others = files.filter((path) => !path.startsWith(folder) && path !== "test/style/made-up.test.ts");
    const naming = others.filter((path) => names.test(readFileSync(path, "utf8")));
    expect(naming.toSorted()).toEqual(outside);
  });
});
