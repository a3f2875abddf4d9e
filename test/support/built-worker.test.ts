import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { BUILT, isBuilt, recordBuild } from "../../scripts/built-worker.ts";

const dir = mkdtempSync(join(tmpdir(), "sallyport-built-"));
const at = (name: string) => join(dir, name);
const inputs = [at("a.ts"), at("b.ts")];
const BEGUN = 2_000_000_000_000;

beforeEach(() => {
  for (const name of [...BUILT, "a.ts", "b.ts"]) writeFileSync(at(name), `content of ${name}`);
  for (const path of inputs) utimesSync(path, 0, BEGUN / 1000 - 1);
});
afterAll(() => rmSync(dir, { recursive: true }));

describe("a bundle of the Worker", () => {
  it("is used again while its sources and its files are as they were", () => {
    expect(isBuilt(dir), "no record").toBe(false);
    recordBuild(dir, inputs, BEGUN);
    expect(isBuilt(dir)).toBe(true);
  });

  it.each(["a.ts", "worker.js", "worker.js.map", "worker.json", "sources.json"])(
    "is not used after a change of %s",
    (name) => {
      recordBuild(dir, inputs, BEGUN);
      writeFileSync(at(name), "");
      expect(isBuilt(dir)).toBe(false);
    },
  );

  it.each(["b.ts", "worker.js"])("is not used without %s", (name) => {
    recordBuild(dir, inputs, BEGUN);
    rmSync(at(name));
    expect(isBuilt(dir)).toBe(false);
  });

  it("is not recorded when a source has changed since the build began", () => {
    utimesSync(at("b.ts"), 0, BEGUN / 1000);
    recordBuild(dir, inputs, BEGUN);
    expect(isBuilt(dir)).toBe(false);
  });
});
