/**
 * `node bench/memory.ts`: memory that open streams, silent readers and strangers' requests take, process by process. The service
 * and the bare Worker run on workerd itself, and the service once more as `npm start` runs it, with gateway and supervisor.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { GatewayProcess } from "../scripts/gateway-process.ts";
import { buildWorker, Runtime } from "../scripts/runtime.ts";
import { freePort } from "../test/smoke/local-service.ts";
import { startBare, startOurs } from "./sides.ts";

const IDLE = 500;
const SILENT = 100;
const STRANGERS = 20_000;
const AT_ONCE = 20;
/** Lines of 300 bytes: more than every buffer between a log and a reader holds. */
const BACKLOG = 40_000;
const SETTLE_MS = 4_000;

interface Target {
  readonly name: string;
  readonly port: number;
  readonly token: string;
  readonly idle: string;
  readonly silent: string;
  readonly stranger: (number: number) => string;
  /** Resident memory in KiB, by process. */
  memory(): Record<string, number>;
}

let asked = 0;

process.chdir(join(import.meta.dirname, ".."));
const dir = mkdtempSync(join(tmpdir(), "sallyport-memory-"));
const rows: string[] = [];
try {
  const bare = await startBare(dir);
  process.on("exit", () => bare.server.stop());
  await bare.backlog(BACKLOG, 0, BACKLOG);
  await measure({
    name: "bare Worker",
    port: bare.server.port,
    token: "none",
    idle: bare.stream,
    silent: "/replay",
    stranger: (number) => `/rows/none/${number}`,
    memory: () => ({ workerd: (bare.server.memory() ?? 0) / 1024 }),
  });
  bare.server.stop();
  const ours = await startOurs(dir);
  process.on("exit", () => ours.server.stop());
  await ours.backlog(BACKLOG, 0, 1_000);
  await measure({
    name: "service on workerd",
    port: ours.server.port,
    token: ours.token,
    idle: ours.stream,
    silent: "/v1/event/stream?topic=Job&index=0",
    stranger,
    memory: () => ({ workerd: (ours.server.memory() ?? 0) / 1024 }),
  });
  ours.server.stop();
  await measureBare();
  await measureStart();
  console.log(
    "| | process | KiB an idle stream | KiB a silent reader | KiB a stranger's request, first half | second half |",
  );
  console.log(`| --- | --- | --: | --: | --: | --: |\n${rows.join("\n")}`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
process.exit();

function stranger(number: number): string {
  return `/v1/secret/data/${number}/${"x".repeat(number % 200)}`;
}

/** The bare Worker behind the runtime and the gateway of `npm start`. */
async function measureBare(): Promise<void> {
  const [builtDir, port, signal] = [join(dir, "bare-local"), await freePort(), AbortSignal.timeout(600_000)];
  await buildWorker({ dir: builtDir, dataDir: builtDir, config: "bench/bare/wrangler.toml" }, signal);
  const runtime = new Runtime(builtDir, "ignore");
  const gateway = new GatewayProcess("127.0.0.1", port);
  try {
    const url = await runtime.serve({ bindings: {}, dataDir: builtDir, builtDir, log: false }, signal);
    gateway.upstreamPort = Number(new URL(url).port);
    await gateway.listen();
    await fetch(`${url}/fill/backlog?keys=${BACKLOG}`, { method: "POST", body: "x".repeat(300) });
    const [workerd = "0"] = readFileSync(`/proc/${runtime.pid}/task/${runtime.pid}/children`, "utf8").split(" ");
    await measure({
      name: "bare Worker, locally",
      port,
      token: "none",
      idle: "/stream",
      silent: "/replay",
      stranger: (number) => `/rows/none/${number}`,
      memory: () => ({ "workerd serve": residentKib(workerd), "gateway-child": residentKib(gateway.pid) }),
    });
  } finally {
    await gateway.stop();
    await runtime.stop();
  }
}

/** `npm start` without agents, with its processes identified by their command lines. */
async function measureStart(): Promise<void> {
  const mark = randomUUID();
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), STATE_DIR: join(dir, "state"), AGENT: "0", BENCH_MARK: mark };
  const child = spawn(process.execPath, ["scripts/start.ts"], { env, stdio: ["ignore", "pipe", "inherit"] });
  const token = await tokenOf(child);
  const ask = (path: string, body: unknown) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: "PUT",
      headers: { "X-Orch-Token": token },
      body: JSON.stringify(body),
    }).then((answer) => answer.text());
  const Payload = { Job: { ID: "web", Padding: "x".repeat(200) } };
  const event = { Topic: "Job", Type: "JobRegistered", Payload };
  const report = Array.from({ length: 200 }, () => event);
  for (let line = 0; line < 200; line++) await ask("/v1/cluster/objects", report);
  await measure({
    name: "`npm start`",
    port,
    token,
    idle: "/v1/event/stream?topic=Node&index=-1",
    silent: "/v1/event/stream?topic=Job&index=0",
    stranger,
    memory: () => memoryOf(mark),
  });
  child.kill("SIGTERM");
  await once(child, "exit");
}

async function tokenOf(child: ChildProcess): Promise<string> {
  let output = "";
  for await (const bytes of child.stdout ?? []) {
    output += bytes;
    const token = /^Root token: (\S+)$/m.exec(output)?.[1];
    if (token) return token;
  }
  throw new Error(`npm start ended: ${output}`);
}

async function measure(target: Target): Promise<void> {
  await request(target, 500);
  const steps = [target.memory()];
  const step = async (work: () => Promise<readonly Socket[]>) => {
    const sockets = await work();
    await sleep(SETTLE_MS);
    steps.push(target.memory());
    for (const socket of sockets) socket.destroy();
    await sleep(SETTLE_MS);
  };
  await step(() => open(target, target.idle, IDLE, true));
  steps.push(target.memory());
  await step(() => open(target, target.silent, SILENT, false));
  for (let half = 0; half < 2; half++) {
    steps.push(target.memory());
    await step(() => request(target, STRANGERS / 2));
  }
  const [start = {}, idle = {}, before = {}, silent = {}, first = {}, middle = {}, second = {}, end = {}] = steps;
  for (const name of Object.keys(start)) {
    const grown = (from: Record<string, number>, to: Record<string, number>, by: number) =>
      (((to[name] ?? 0) - (from[name] ?? 0)) / by).toFixed(1);
    const figures = [
      grown(start, idle, IDLE),
      grown(before, silent, SILENT),
      grown(first, middle, STRANGERS / 2),
      grown(second, end, STRANGERS / 2),
    ];
    rows.push(`| ${target.name} | ${name} | ${figures.join(" | ")} |`);
  }
}

/** @param reads whether the client reads */
async function open({ port, token }: Target, path: string, count: number, reads: boolean): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let opened = 0; opened < count; opened++) {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    await once(socket, "connect");
    socket.write(`GET ${path} HTTP/1.1\r\nHost: bench\r\nX-Orch-Token: ${token}\r\n\r\n`);
    if (reads) {
      await once(socket, "data");
      socket.resume();
    }
    sockets.push(socket);
  }
  return sockets;
}

/** Requests of unknown callers, each with its own token and path. */
async function request(target: Target, count: number): Promise<Socket[]> {
  const end = asked + count;
  const lane = async () => {
    while (asked < end) {
      asked += 1;
      const url = `http://127.0.0.1:${target.port}${target.stranger(asked)}`;
      await (await fetch(url, { headers: { "X-Orch-Token": `stranger-${asked}` } })).arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return [];
}

function memoryOf(mark: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, "utf8").includes(mark)) continue;
      const line = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      const name = ["workerd serve", "runtime-child", "gateway-child", "start.ts"].find((part) => line.includes(part));
      if (name) found[name] = (found[name] ?? 0) + residentKib(pid);
    } catch {
      // It has ended meanwhile.
    }
  }
  return found;
}

function residentKib(pid: number | string): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}
