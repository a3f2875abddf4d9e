import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../smoke/local-service.ts";

/** The service as `npm start` runs it, with gateway, agent and providers, on a separate state. */

/** As long as the other suites of `npm start` wait: a start takes longest beside other suites. */
const READY_MS = 300_000;
const STOP_MS = 20_000;

/** Secrets of the deployment: no answer and no line of the log may hold one. */
export const deploymentSecrets = {
  MASTER_KEY: Buffer.from("abuse-suite-uses-this-master-key").toString("base64"),
  DEV_ROOT_TOKEN: "abuse-root-token-2f61d0c94b",
  BOOTSTRAP_SECRET: "abuse-bootstrap-secret-77b1",
} as const;

export class Service {
  readonly port: number;
  readonly #dir: string;
  readonly #child: ChildProcess;
  #output = "";

  private constructor(port: number, dir: string, settings: Readonly<Record<string, string>>) {
    this.port = port;
    this.#dir = dir;
    this.#child = spawn(process.execPath, ["scripts/start.ts"], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        ...deploymentSecrets,
        PORT: String(port),
        STATE_DIR: join(dir, "state"),
        SEED: "1",
        AGENT: "1",
        PLAYGROUND: "1",
        LOG: "1",
        ...settings,
      },
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (bytes) => (this.#output += bytes));
  }

  static async start(settings: Readonly<Record<string, string>>): Promise<Service> {
    const service = new Service(await freePort(), mkdtempSync(join(tmpdir(), "sallyport-abuse-")), settings);
    const deadline = Date.now() + READY_MS;
    while (!/^Root token: /m.test(service.#output)) {
      if (!service.lives || Date.now() > deadline) {
        await service.stop();
        throw new Error(`the service did not start:\n${service.#output}`);
      }
      await sleep(50);
    }
    return service;
  }

  /** Of the process that starts the others. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Everything that its processes have printed. */
  get output(): string {
    return this.#output;
  }

  get lives(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The body that the stand-in of a provider takes. */
  providerBody(name: string): Record<string, unknown> {
    return JSON.parse(readFileSync(join(this.#dir, "state", "providers", `${name}.json`), "utf8"));
  }

  async stop(): Promise<void> {
    if (this.lives) {
      this.#child.kill("SIGTERM");
      const exited = once(this.#child, "exit");
      await Promise.race([exited, sleep(STOP_MS, undefined, { ref: false })]);
      this.#child.kill("SIGKILL");
      await exited;
    }
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
