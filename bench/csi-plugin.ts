/** A CSI plugin for the bench: the directory driver, a client that calls it directly, and the agent of its node. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { ACCESS_MODE, methodOf, type RequestDraft, type Response, type Rpc } from "@sallyport/csi-wire";
import type { ClusterService } from "./volumes-sides.ts";

export const PLUGIN = "dir";

const READY_MS = 20_000;
const CALL_MS = 120_000;

export class CsiPlugin {
  /** Short, as a socket's path has to be. */
  readonly #home = mkdtempSync(join(tmpdir(), "csi-bench-"));
  readonly #socket = join(this.#home, "csi.sock");
  readonly #children: ChildProcess[] = [];
  readonly #client: Client;

  private constructor() {
    this.#client = new Client(`unix:${this.#socket}`, credentials.createInsecure(), {
      "grpc.max_receive_message_length": 64 * 1024 * 1024,
    });
  }

  static async start(): Promise<CsiPlugin> {
    const plugin = new CsiPlugin();
    const driver = plugin.#spawn(["packages/csi-dir/src/main.ts"], {
      CSI_ENDPOINT: `unix://${plugin.#socket}`,
      CSI_DIR_ROOT: plugin.#root,
      CSI_DIR_NODE_ID: "bench",
    });
    if (driver.stdout) await once(createInterface({ input: driver.stdout }), "line");
    return plugin;
  }

  get #root(): string {
    return join(this.#home, "root");
  }

  /** Calls the driver, as its agent does. */
  call<R extends Rpc>(rpc: R, request: RequestDraft<R>): Promise<Response<R>> {
    const { path, requestSerialize, responseDeserialize } = methodOf(rpc);
    const { promise, resolve, reject } = Promise.withResolvers<Response<R>>();
    const options = { deadline: Date.now() + CALL_MS };
    const done = (failure: ServiceError | null, response?: Response<R>) =>
      response ? resolve(response) : reject(failure);
    this.#client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, options, done);
    return promise;
  }

  /** @returns its id there */
  async create(name: string): Promise<string> {
    const capability = { mount: {}, accessMode: { mode: ACCESS_MODE.singleNodeWriter } };
    const { volume } = await this.call("CreateVolume", { name, volumeCapabilities: [capability] });
    return volume?.volumeId ?? "";
  }

  /** Adds volumes at the provider in the driver's format, unknown to the service. */
  fill(volumes: number): void {
    for (let number = 0; number < volumes; number++) {
      const id = `vol-${number.toString(36).padStart(11, "0")}-00000000`;
      const directory = join(this.#root, "volumes", id);
      mkdirSync(join(directory, "data"), { recursive: true });
      const record = { id, name: id, bytes: "1073741824", parameters: {}, source: null, published: {} };
      writeFileSync(join(directory, "record.json"), JSON.stringify(record));
    }
  }

  /** Runs the agent of the plugin's node; resolves when the service reports the plugin as healthy. */
  async serve({ server, ask }: ClusterService): Promise<void> {
    const { Token } = JSON.parse(await ask("POST", "/v1/agent/tokens", {})) as { Token: string };
    const config = join(this.#home, "agent.json");
    const at = (name: string) => join(this.#home, name);
    const csi = { mountsDir: at("mounts"), plugins: [{ id: PLUGIN, socket: this.#socket }] };
    const hostVolumes = { volumesDir: at("volumes"), pluginDir: at("plugins"), registerRoots: [] };
    const service = `http://127.0.0.1:${server.port}`;
    writeFileSync(config, JSON.stringify({ service, name: "bench", stateDir: at("state"), hostVolumes, csi }), {
      mode: 0o600,
    });
    this.#spawn(["agent/src/main.ts", "--config", config], { SALLYPORT_JOIN_TOKEN: Token });
    for (const until = performance.now() + READY_MS; performance.now() < until; await sleep(100)) {
      const plugins = JSON.parse(await ask("GET", "/v1/plugins?type=csi", undefined)) as {
        ControllersHealthy: number;
      }[];
      if (plugins[0]?.ControllersHealthy === 1) return;
    }
    throw new Error("the agent's plugin did not become well");
  }

  stop(): void {
    this.#client.close();
    for (const child of this.#children) child.kill("SIGKILL");
    rmSync(this.#home, { recursive: true, force: true });
  }

  #spawn(args: readonly string[], env: Record<string, string>): ChildProcess {
    const stdio = ["ignore", "pipe", "ignore"] as const;
    const child = spawn(process.execPath, args, {
      env: { PATH: process.env["PATH"] ?? "", ...env },
      stdio: [...stdio],
    });
    this.#children.push(child);
    return child;
  }
}
