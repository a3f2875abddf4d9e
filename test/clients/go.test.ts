import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, inject, it } from "vitest";
import { Recorder } from "./recorder.ts";
import { stepsOf } from "./steps.ts";

const BUILD_MS = 240_000;
const dir = mkdtempSync(join(tmpdir(), "sallyport-go-"));
const program = join(dir, "flows");
const missing = build();
if (missing !== null) console.warn(`The Go clients of Vault and Nomad are not tried: ${missing}.`);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Builds the flows. @returns why not; null when they are built */
function build(): string | null {
  if (process.env["CLIENTS_GO"] !== "1") return "npm run test:long tries them";
  if (spawnSync("go", ["version"]).error) return "there is no go";
  const options = { cwd: resolve("test/clients/go"), timeout: BUILD_MS } as const;
  return spawnSync("go", ["build", "-o", program, "."], options).status === 0 ? null : "their modules cannot be built";
}

it.runIf(missing === null)("every step of the flows of the Go clients succeeds", async () => {
  const { address, token } = inject("service");
  const recorder = await Recorder.before(address);
  const steps = await stepsOf(program, [recorder.address, token], BUILD_MS);
  recorder.close();
  expect(steps.filter(({ outcome }) => outcome !== "ok")).toEqual([]);
  expect(steps).toHaveLength(25);
  recorder.compare("go");
});
