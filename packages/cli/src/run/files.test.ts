import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { SecretFiles } from "./files.ts";

it("leaves no part of a value that cannot be stored", () => {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-files-"));
  try {
    mkdirSync(join(dir, "taken", "by-another"), { recursive: true });
    const files = new SecretFiles(dir);
    expect(() => files.write(new Map([["taken", "hunter2"]]))).toThrow();
    expect(readdirSync(dir)).toEqual(["taken"]);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
