import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { destinationTypes } from "../../src/sync/destinations/index.ts";

/** The table of imports in the guide against the types: each once, with values where the type reads them. */
it("names each destination type once, with values where they can be read and names elsewhere", () => {
  const guide = readFileSync("docs/guides/sync.md", "utf8");
  const [, table = ""] = /\| Type \| Import \| Also required \|\n\|[-|]+\|\n([\s\S]*?)\n\n/.exec(guide) ?? [];
  const told = table.split("\n").flatMap((line) => {
    const [, types = "", what = "", required = ""] = line.split("|").map((cell) => cell.trim());
    expect(required, line).not.toBe("");
    return [...types.matchAll(/`([\w-]+)`/g)].map(([, type]) => [type, what.split(/[\s,]/)[0]?.replace(":", "")]);
  });
  const real = [...destinationTypes.values()].map((type) => [
    type.type,
    type.kind === "stored" || type.reading?.read ? "values" : type.reading ? "names" : "none",
  ]);
  expect(told.map(String).sort()).toEqual(real.map(String).sort());
});
