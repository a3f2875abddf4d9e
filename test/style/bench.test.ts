import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

it("the service in simulated regions exports every object class of wrangler.toml", () => {
  const classes = [...readFileSync("wrangler.toml", "utf8").matchAll(/^class_name = "(\w+)"$/gm)].map(
    ([, name]) => name,
  );
  const exported = [...readFileSync("bench/ours/edge.mts", "utf8").matchAll(/^export class (\w+) /gm)].map(
    ([, name]) => name,
  );
  expect(classes.length).toBeGreaterThan(10);
  expect(exported.sort()).toEqual(classes.sort());
});
