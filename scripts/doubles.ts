/**
 * When the tests of the doubles run (the test files below `test/doubles`): they compare the providers' doubles with official
 * clients, and can only change their outcome when the files below change. `npm run test:all` skips them while these are as in
 * the last run that passed.
 */

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const TESTS = "test/doubles";
/** The installed packages, and how the tests are run. */
const OTHERS = ["package-lock.json", "vitest.config.ts", "test/support/patience.ts"];
const RECORD = "node_modules/.cache/sallyport/doubles";
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]+)"/g;

/** Identifies the tests of the doubles with all files of the repository at `root` that they import, directly or not. */
export function doublesVersion(root = "."): string {
  const tests = readdirSync(join(root, TESTS), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".test.ts"),
  );
  const found = new Set([...OTHERS, ...tests.map((name) => join(TESTS, name))]);
  const hash = createHash("sha256").update(process.version);
  // A set yields what is added to it meanwhile.
  for (const file of found) {
    const source = readFileSync(join(root, file), "utf8");
    hash.update(`${file}\0${source}\0`);
    if (!/\.m?ts$/.test(file)) continue;
    for (const [, to = ""] of source.matchAll(IMPORT)) found.add(normalize(join(dirname(file), to)));
  }
  return hash.digest("hex");
}

/** The version that passed last; null if none did. */
export const passedVersion = (): string | null => (existsSync(RECORD) ? readFileSync(RECORD, "utf8") : null);

export function recordPassed(version: string): void {
  mkdirSync(dirname(RECORD), { recursive: true });
  writeFileSync(RECORD, version);
}
