import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { buildAssets, CONSOLE_BUDGET_KIB } from "../../scripts/build-assets.ts";

const sources = readdirSync("console/src", { recursive: true, encoding: "utf8" }).filter((path) =>
  /\.tsx?$/.test(path),
);
const read = (path: string): string => readFileSync(join("console/src", path), "utf8");

describe("the console's files", () => {
  it("are within their size budget and reproducible", async () => {
    const files = await buildAssets();
    const kib = files.reduce((sum, { gzipBytes }) => sum + gzipBytes, 0) / 1024;
    expect(kib, files.map(({ path, gzipBytes }) => `${path} ${gzipBytes}`).join("\n")).toBeLessThanOrEqual(
      CONSOLE_BUDGET_KIB,
    );
    expect((await buildAssets()).map(({ path }) => path)).toEqual(files.map(({ path }) => path));
  });

  it("load nothing from another host", () => {
    const loads = /(?:\bfrom|\bimport|\burl|\bfetch|\bsrc=|\bhref=)\s*\(?\s*["'`]?https?:/g;
    for (const folder of ["ui", "ui/assets"])
      for (const file of readdirSync(join("build/assets", folder), { withFileTypes: true }).filter((it) => it.isFile()))
        expect(readFileSync(join("build/assets", folder, file.name), "utf8").match(loads) ?? [], file.name).toEqual([]);
  });
});

describe("the console's sources", () => {
  it("create no HTML from strings, and use no cookies", () => {
    const sinks =
      /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|document\.cookie|\beval\(|new Function/;
    expect(sources.filter((path) => sinks.test(read(path)))).toEqual([]);
  });

  it("send requests from two modules only, besides the event stream", () => {
    const allowed = ["api/client.ts", "api/transfer.ts"];
    expect(
      sources.filter(
        (path) => /\bfetch\(/.test(read(path)) && !allowed.includes(path) && !path.startsWith("screens/events/"),
      ),
    ).toEqual([]);
  });

  it("have at most 350 lines per file", () => {
    expect(sources.filter((path) => read(path).split("\n").length > 350)).toEqual([]);
  });
});
