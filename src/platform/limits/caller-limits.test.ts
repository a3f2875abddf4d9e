import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { PERIOD_S } from "./caller-limits.ts";

const bound = [
  ...readFileSync("wrangler.toml", "utf8").matchAll(
    /\[\[ratelimits\]\]\nname = "(\w+)"\nnamespace_id = "\d+"\nsimple = \{ limit = ([\d_]+), period = (\d+) \}/g,
  ),
].map(([, name = "", limit = "", period]) => ({ name, limit: limit.replaceAll("_", ""), period: Number(period) }));

it("uses the period of the exceeded limit as Retry-After", () => {
  expect(Object.fromEntries(bound.map(({ name, period }) => [name, period]))).toEqual(PERIOD_S);
});

it("docs/reference/limits.md lists the limits of wrangler.toml", () => {
  const page = readFileSync("docs/reference/limits.md", "utf8");
  for (const { name, limit, period } of bound) expect(page).toContain(`| \`${name}\` | ${limit} in ${period} s |`);
});
