/** Other programs that do the same work, where the caller names their binaries. Each runs on one node with its data on disk. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cpuOf, memoryOf } from "./server.ts";

/** A program, and how it is asked. */
export interface Peer {
  /** As it reports itself. */
  readonly version: string;
  readonly port: number;
  readonly token: string;
  /** The header of the token. */
  readonly header: string;
  cpu(): number | null;
  memory(): number | null;
  stop(): void;
}

const START_MS = 60_000;
const POLICY = 'path "+/data/app/*" { capabilities = ["create", "update", "read"] }';

/** Ports of this machine that nothing listens at. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  for (const server of servers) server.close();
  return ports;
}

class Program {
  readonly version: string;
  readonly port: number;
  readonly #process: ChildProcess;

  constructor(binary: string, args: readonly string[], port: number) {
    const text = execFileSync(binary, ["version"], { encoding: "utf8" });
    this.version = /^\S+ v\S+/.exec(text)?.[0] ?? text.trim();
    this.port = port;
    this.#process = spawn(binary, args, { stdio: "ignore" });
  }

  cpu(): number | null {
    return cpuOf(this.#process);
  }

  memory(): number | null {
    return memoryOf(this.#process);
  }

  stop(): void {
    this.#process.kill("SIGKILL");
  }

  /** @returns the answer, parsed */
  async ask(method: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<unknown> {
    const url = `http://127.0.0.1:${this.port}${path}`;
    const response = await fetch(url, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  /** Asks again while the program starts. */
  async started(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<unknown> {
    for (const until = Date.now() + START_MS; ; await sleep(200)) {
      try {
        const answer = await this.ask(method, path, body, headers);
        if (answer !== "") return answer;
      } catch (failure) {
        if (Date.now() > until) throw failure;
      }
    }
  }
}

const asPeer = (program: Program, token: string, header: string): Peer => ({
  version: program.version,
  port: program.port,
  token,
  header,
  cpu: () => program.cpu(),
  memory: () => program.memory(),
  stop: () => program.stop(),
});

/** A secrets service with one mount `small`, its data in a raft log on disk, without an audit device. */
export async function startSecretsPeer(binary: string, dir: string): Promise<Peer> {
  const [port = 0, peers = 0] = await freePorts(2);
  const data = join(dir, "secrets-peer");
  mkdirSync(data, { recursive: true });
  const config = join(dir, "secrets-peer.json");
  writeFileSync(
    config,
    JSON.stringify({
      storage: { raft: { path: data, node_id: "one" } },
      listener: { tcp: { address: `127.0.0.1:${port}`, tls_disable: true } },
      api_addr: `http://127.0.0.1:${port}`,
      cluster_addr: `http://127.0.0.1:${peers}`,
      disable_mlock: true,
      log_level: "error",
    }),
  );
  const program = new Program(binary, ["server", `-config=${config}`], port);
  try {
    const made = { secret_shares: 1, secret_threshold: 1 };
    const { root_token: root, keys } = (await program.started("PUT", "/v1/sys/init", made)) as {
      root_token: string;
      keys: string[];
    };
    await program.ask("PUT", "/v1/sys/unseal", { key: keys[0] });
    const header = "X-Vault-Token";
    const headers = { [header]: root };
    const mount = { type: "kv", options: { version: "2" } };
    await program.started("POST", "/v1/sys/mounts/small", mount, headers);
    await program.ask("PUT", "/v1/sys/policies/acl/app", { policy: POLICY }, headers);
    const created = (await program.ask("POST", "/v1/auth/token/create", { policies: ["app"] }, headers)) as {
      auth: { client_token: string };
    };
    const { client_token: token } = created.auth;
    // The mount prepares itself for versions.
    await program.started("POST", "/v1/small/data/app/first", { data: {} }, { [header]: token });
    return asPeer(program, token, header);
  } catch (failure) {
    program.stop();
    throw failure;
  }
}

/** A cluster of one server with access control. */
export async function startClusterPeer(binary: string, dir: string): Promise<Peer> {
  const [http = 0, rpc = 0, serf = 0] = await freePorts(3);
  const data = join(dir, "cluster-peer");
  mkdirSync(data, { recursive: true });
  const config = join(dir, "cluster-peer.json");
  writeFileSync(
    config,
    JSON.stringify({
      data_dir: data,
      bind_addr: "127.0.0.1",
      ports: { http, rpc, serf },
      advertise: { http: "127.0.0.1", rpc: "127.0.0.1", serf: "127.0.0.1" },
      server: { enabled: true, bootstrap_expect: 1 },
      acl: { enabled: true },
      limits: { http_max_conns_per_client: 0 },
      disable_update_check: true,
      log_level: "ERROR",
    }),
  );
  const program = new Program(binary, ["agent", `-config=${config}`], http);
  try {
    const { SecretID: token } = (await program.started("POST", "/v1/acl/bootstrap")) as { SecretID: string };
    return asPeer(program, token, "X-Nomad-Token");
  } catch (failure) {
    program.stop();
    throw failure;
  }
}
