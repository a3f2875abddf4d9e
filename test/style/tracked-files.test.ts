import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("tracks no archives, packages or compiled programs", () => {
  const files = execFileSync("git", ["ls-files"], { encoding: "utf8" }).split("\n");
  expect(files.filter((path) => /\.(tar|t?gz|t?bz2|t?xz|zip|whl|deb|rpm|exe|so|a|o|wasm|jar)$/.test(path))).toEqual([]);
});
