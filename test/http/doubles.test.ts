import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { doublesVersion } from "../../scripts/doubles.ts";

const FILES = {
  "test/doubles/one.test.ts": 'import { a } from "./a.ts";',
  "test/doubles/a.ts": 'import type { B } from "../../src/b.ts";\nexport { c } from "../../src/c.ts";',
  "src/b.ts": "",
  "src/c.ts": "",
  "src/other.ts": "",
  "test/support/patience.ts": "",
  "package-lock.json": "{}",
  "vitest.config.ts": "",
};

it("the version of the doubles changes with each file that their tests import, and with no other", () => {
  const root = mkdtempSync(join(tmpdir(), "doubles-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  };
  for (const [file, text] of Object.entries(FILES)) write(file, text);
  const before = doublesVersion(root);
  for (const [file, text] of Object.entries(FILES)) {
    write(file, `${text}\n`);
    expect(doublesVersion(root) !== before, file).toBe(file !== "src/other.ts");
    write(file, text);
    expect(doublesVersion(root)).toBe(before);
  }
  write("test/doubles/two.test.ts", "");
  expect(doublesVersion(root)).not.toBe(before);
});
