import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startDriver } from "./csi-process.ts";

/*
 * The conformance tests of the CSI project against csi-dir. They are a Go program, which is not built here:
 * `go install github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.4.0`, and then CSI_SANITY=<its path>, or in PATH.
 */

const PROGRAM = process.env["CSI_SANITY"] || "csi-sanity";
const isThere = spawnSync(PROGRAM, ["--csi.version"], { stdio: "ignore" }).error === undefined;
if (!isThere) console.log("csi-sanity is not installed: the conformance tests of csi-dir are skipped");

it.runIf(isThere)("csi-dir passes csi-sanity", { timeout: 300_000 }, async () => {
  const driver = await startDriver({ CSI_DIR_TOPOLOGY: "zone=a" });
  const args = {
    "csi.endpoint": `unix://${driver.socket}`,
    "csi.mountdir": join(driver.home, "mount"),
    "csi.stagingdir": join(driver.home, "stage"),
  };
  const flags = Object.entries(args).map(([name, value]) => `--${name}=${value}`);
  const { status, stdout } = spawnSync(PROGRAM, [...flags, "--ginkgo.no-color"], {
    encoding: "utf8",
    timeout: 240_000,
  });
  expect(status, stdout).toBe(0);
  const [, passed = "0"] = /(\d+) Passed \| 0 Failed/.exec(stdout) ?? [];
  expect(Number(passed), stdout).toBeGreaterThanOrEqual(80);
});
