import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { CHECKED_OBJECTS } from "./deep.ts";

it("doctor --deep has a check for each class of objects of the deployment", () => {
  const classes = readFileSync("wrangler.toml", "utf8").matchAll(/^class_name = "(\w+)"/gm);
  expect([...CHECKED_OBJECTS].sort()).toEqual([...classes].map(([, name]) => name).sort());
});
