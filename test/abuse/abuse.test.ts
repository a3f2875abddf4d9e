import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { amount } from "../support/long.ts";

/** The part of the abuse suite (docs/internals/abuse.md) that always runs: the same requests each time. */

const REQUESTS = amount(600, 1_200);

interface Report {
  readonly sent: number;
  readonly routes: number;
  readonly faults: readonly string[];
}

/** The routes are sources of the Worker, whose classes have parameters with modifiers. */
const TYPES = ["--experimental-transform-types", "--disable-warning=ExperimentalWarning"];

it("malformed requests get 4xx or correct answers, and never 500, a stack or a secret", {
  timeout: 900_000,
}, async () => {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-abuse-report-"));
  const file = join(dir, "report.json");
  try {
    const child = spawn(process.execPath, [...TYPES, "test/abuse/run.ts"], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, ABUSE_SEED: "7", ABUSE_REQUESTS: String(REQUESTS), ABUSE_REPORT: file },
    });
    await once(child, "exit");
    const report = JSON.parse(readFileSync(file, "utf8")) as Report;
    expect(report.faults).toEqual([]);
    expect(report.routes).toBeGreaterThan(220);
    expect(report.sent).toBeGreaterThanOrEqual(REQUESTS);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
