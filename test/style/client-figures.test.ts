import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { figuresAsMarkdown } from "../clients/suites/figures.ts";

it("the page of client suites has the figures that the suites are held to", () => {
  expect(readFileSync("docs/reference/client-suites.md", "utf8")).toContain(figuresAsMarkdown());
});
