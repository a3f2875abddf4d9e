import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { ACCESS_MODE, methodOf, type RequestDraft, type Response, type Rpc } from "@sallyport/csi-wire";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { afterTest, eventually } from "./agent-service.ts";
import { programOf } from "./prepared-program.ts";

/** The format of the driver's file of faults. */
export interface Faults {
  calls?: Partial<
    Record<
      Rpc,
      {
        fail?: { code: number; times?: number; message?: string };
        delayMs?: number;
        hang?: number;
        crash?: "before" | "after";
      }
    >
  >;
  [knob: string]: unknown;
}

/** The `csi-dir` driver as a separate process that can be killed, frozen and restarted on the same socket. */
export class Driver {
  readonly home = mkdtempSync(join(tmpdir(), "csi-"));
  readonly root: string;
  readonly socket = join(this.home, "csi.sock");
  readonly #faults = join(this.home, "faults.json");
  readonly #env: Record<string, string>;
  #child: ChildProcess | undefined;
  log = "";

  /** @param env `CSI_DIR_ROOT`, for instance, to share the directory of another one */
  constructor(env: Record<string, string> = {}) {
    this.#env = env;
    this.root = env["CSI_DIR_ROOT"] ?? join(this.home, "root");
    afterTest(async () => {
      await this.kill();
      rmSync(this.home, { recursive: true, force: true });
    });
    chmodSync(this.home, 0o755);
  }

  async start(): Promise<this> {
    const child = spawn(process.execPath, [programOf("packages/csi-dir/src/main.ts")], {
      env: {
        ...PROGRAM_ENV,
        CSI_ENDPOINT: `unix://${this.socket}`,
        CSI_DIR_ROOT: this.root,
        CSI_DIR_NODE_ID: "node-1",
        CSI_DIR_FAULTS: this.#faults,
        ...this.#env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    let serving = false;
    child.stdout?.on("data", (text) => {
      serving ||= String(text).includes("serving");
    });
    child.stderr?.on("data", (text) => {
      this.log += text;
    });
    await eventually(
      "a driver that serves",
      () => {
        if (child.exitCode !== null) throw new Error(`the driver ended: ${this.log}`);
        return serving || undefined;
      },
      30_000,
    );
    return this;
  }

  /** Whether the process runs. */
  get isAlive(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async ended(): Promise<void> {
    await eventually("the driver's end", () => !this.isAlive || undefined);
  }

  async kill(): Promise<void> {
    if (!this.isAlive) return;
    this.#child?.kill("SIGKILL");
    await this.ended();
  }

  signal(signal: "SIGSTOP" | "SIGCONT" | "SIGTERM"): void {
    this.#child?.kill(signal);
  }

  /** Sets the faults and resets the counts of calls. */
  misbehave(faults: Faults): void {
    for (const kind of ["calls", "steps"]) rmSync(`${this.#faults}.${kind}`, { force: true });
    writeFileSync(this.#faults, JSON.stringify(faults));
  }

  /** The number of calls of a method since `misbehave`. */
  calls(rpc: Rpc): number {
    return this.allCalls().filter((line) => line === rpc).length;
  }

  /** The calls since `misbehave`, in order. */
  allCalls(): string[] {
    const path = `${this.#faults}.calls`;
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
  }

  /** Whether a call has begun a delay of `stepMs` since `misbehave`: it holds its locks. */
  get hasStepped(): boolean {
    return existsSync(`${this.#faults}.steps`);
  }

  directories(kind: "volumes" | "snapshots" | "tmp"): string[] {
    return readdirSync(join(this.root, kind)).sort();
  }

  data(volumeId: string): string {
    return join(this.root, "volumes", volumeId, "data");
  }

  /** A path for a target or a staging directory, with an existing parent. */
  place(name: string): string {
    mkdirSync(join(this.home, "places"), { recursive: true });
    return join(this.home, "places", name);
  }
}

export const startDriver = (env?: Record<string, string>) => new Driver(env).start();

/** A plain CSI client, which returns the driver's answers. */
export class RawClient {
  readonly #client: Client;

  constructor(socket: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure(), {
      "grpc.initial_reconnect_backoff_ms": 50,
    });
    afterTest(() => this.#client.close());
  }

  call<R extends Rpc>(rpc: R, request: RequestDraft<R> = {} as RequestDraft<R>, ms = 20_000): Promise<Response<R>> {
    const { path, requestSerialize, responseDeserialize } = methodOf(rpc);
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        { deadline: Date.now() + ms },
        (failure: ServiceError | null, response) => (response ? resolve(response) : reject(failure)),
      );
    });
  }

  /** The name of the status code of a call; OK for a success. */
  async code<R extends Rpc>(rpc: R, request: RequestDraft<R> = {} as RequestDraft<R>, ms?: number): Promise<string> {
    try {
      await this.call(rpc, request, ms);
      return "OK";
    } catch (failure) {
      return status[(failure as ServiceError).code] ?? String(failure);
    }
  }
}

export const MOUNT = { mount: {}, accessMode: { mode: ACCESS_MODE.singleNodeWriter } };
export const creation = (name: string, change: RequestDraft<"CreateVolume"> = {}): RequestDraft<"CreateVolume"> => ({
  name,
  volumeCapabilities: [MOUNT],
  ...change,
});
