import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Step, stepsOf } from "./steps.ts";

const INSTALL_MS = 240_000;
const FLOW_MS = 120_000;

/** A separate Python environment with the clients of `requirements.txt`. */
export class PythonClients {
  readonly #dir = mkdtempSync(join(tmpdir(), "sallyport-python-"));

  /** Installs the clients. @returns why they cannot be installed on this machine; null when they are */
  install(): string | null {
    const made = spawnSync("python3", ["-m", "venv", this.#dir], { encoding: "utf8" });
    if (made.error || made.status !== 0) return "there is no python3 with venv";
    const args = [
      "install",
      "--quiet",
      "--retries",
      "0",
      "--timeout",
      "20",
      "-r",
      resolve("test/clients/requirements.txt"),
    ];
    const installed = spawnSync(join(this.#dir, "bin/pip"), args, { encoding: "utf8", timeout: INSTALL_MS });
    return installed.status === 0 ? null : "pip cannot install the clients";
  }

  /** Runs a flow against a service. @throws Error when the flow itself fails */
  run(flow: string, address: string, token: string): Promise<Step[]> {
    return stepsOf(join(this.#dir, "bin/python"), [resolve("test/clients", flow), address, token], FLOW_MS);
  }

  remove(): void {
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
