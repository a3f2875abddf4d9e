import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { GatewayProcess } from "../../scripts/gateway-process.ts";
import type { Rhythm } from "../../scripts/heartbeat.ts";
import { isAlive } from "../../scripts/processes.ts";
import { endLeftover, Runtime } from "../../scripts/runtime.ts";
import { Supervisor } from "../../scripts/supervisor.ts";
import { freePort } from "../smoke/local-service.ts";

/** The health check of `npm start` with shorter intervals. On a busy machine it repeats, which no test counts. */
const RHYTHM: Rhythm = { everyMs: 50, answerMs: 1_000, misses: 3 };
const PATIENCE = { timeout: 120_000, interval: 50 };

const WORKER = `export default { async fetch(request, env) {
  const to = new URL(request.url).searchParams.get("to");
  return to === null ? new Response("served") : env.PUBLIC_NETWORK.fetch(to).catch((failure) => new Response(String(failure)));
} };`;

let dir: string;
let over: AbortController;
const lives: { stop(): Promise<void> }[] = [];

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "sallyport-supervisor-"));
  writeFileSync(join(dir, "worker.js"), WORKER);
  const options = { name: "served", compatibilityDate: "2026-11-01", rootPath: dir, bindings: {} };
  writeFileSync(join(dir, "worker.json"), JSON.stringify(options));
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
});
afterEach(async () => {
  over.abort();
  await Promise.all(lives.splice(0).map((life) => life.stop()));
});
afterAll(() => {
  vi.restoreAllMocks();
  rmSync(dir, { recursive: true, force: true });
});

const message = () => ({ bindings: {}, dataDir: join(dir, "data"), builtDir: dir, log: false });

/** Linux only, like the tested signals. */
const childOf = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ")[0]);

async function supervised() {
  over = new AbortController();
  const supervisor = new Supervisor(message(), RHYTHM);
  lives.push(supervisor);
  await supervisor.begin(over.signal);
  const ports: (number | null)[] = [];
  void supervisor.keep(over.signal, (port) => ports.push(port));
  return { supervisor, ports };
}

describe("the supervisor", () => {
  const DEATHS = [
    ["the front of the runtime", "SIGKILL", (pid: number) => pid],
    ["the front of the runtime", "SIGSTOP", (pid: number) => pid],
    // The gateway may restart it.
    ["workerd", "SIGKILL", childOf],
    ["workerd", "SIGSTOP", childOf],
  ] as const;
  it.each(DEATHS)("keeps serving after %s gets %s, repeatedly", { timeout: 300_000 }, async (_what, signal, partOf) => {
    const { supervisor, ports } = await supervised();
    for (let time = 1; time <= 2; time++) {
      const dead = partOf(supervisor.runtime.pid);
      process.kill(dead, signal);
      await expect.poll(() => isAlive(dead), PATIENCE).toBe(false);
      // The runtime may still answer for a moment without its gateway.
      const isReplaced = partOf !== childOf || signal !== "SIGKILL";
      if (isReplaced) await expect.poll(() => ports.length, PATIENCE).toBe(1 + 2 * time);
      const served = async () => (await fetch(`http://127.0.0.1:${ports.at(-1)}/`)).text();
      await expect.poll(() => served().catch(() => ""), PATIENCE).toBe("served");
      if (isReplaced) expect(ports.at(-2)).toBeNull();
    }
  });

  it("replaces a runtime that has no descriptors left and accepts no connections", {
    timeout: 300_000,
  }, async () => {
    const { supervisor, ports } = await supervised();
    const back = childOf(supervisor.runtime.pid);
    const limited = spawnSync("prlimit", ["--pid", String(back), "--nofile=8:8"]);
    if (limited.error) return;
    await expect.poll(() => ports.length, PATIENCE).toBe(3);
    expect(isAlive(back)).toBe(false);
    expect(await (await fetch(`http://127.0.0.1:${ports.at(-1)}/`)).text()).toBe("served");
  });

  it("retries until the runtime can be started", { timeout: 300_000 }, async () => {
    const { supervisor, ports } = await supervised();
    const worker = readFileSync(join(dir, "worker.js"), "utf8");
    writeFileSync(join(dir, "worker.js"), "no Worker");
    const before = supervisor.runtime;
    process.kill(before.pid, "SIGKILL");
    await expect.poll(() => supervisor.runtime, PATIENCE).not.toBe(before);
    const second = supervisor.runtime;
    await expect.poll(() => supervisor.runtime, PATIENCE).not.toBe(second);
    expect(ports.slice(1)).toEqual([null]);
    writeFileSync(join(dir, "worker.js"), worker);
    await expect.poll(() => ports.length, PATIENCE).toBe(3);
  });

  it("leaves no process when it stops, including frozen ones", { timeout: 300_000 }, async () => {
    const { supervisor } = await supervised();
    const { pid } = supervisor.runtime;
    const back = childOf(pid);
    over.abort();
    process.kill(back, "SIGSTOP");
    await supervisor.stop();
    await expect.poll(() => [pid, back].filter(isAlive), PATIENCE).toEqual([]);
  });
});

describe("an orphaned runtime", () => {
  it("is ended by the next start, which spares other processes with a reused id", { timeout: 120_000 }, async () => {
    over = new AbortController();
    const runtime = new Runtime(dir, "ignore");
    lives.push(runtime);
    await runtime.serve(message(), over.signal);
    const noted = readFileSync(join(dir, "pid"), "utf8");
    writeFileSync(join(dir, "pid"), `${runtime.pid} 1\n`);
    await endLeftover(dir);
    expect(isAlive(runtime.pid)).toBe(true);
    writeFileSync(join(dir, "pid"), noted);
    await endLeftover(dir);
    await runtime.exited;
    expect(isAlive(runtime.pid)).toBe(false);
  });
});

describe("the network for hosts that tenants name", () => {
  it("connects to no private address, and tells open ports from closed ones by nothing", {
    timeout: 120_000,
  }, async () => {
    over = new AbortController();
    let calls = 0;
    const open = createServer((_request, answer) => answer.end(`reached ${++calls}`)).listen(0, "127.0.0.1");
    await once(open, "listening");
    const { port } = open.address() as AddressInfo;
    const runtime = new Runtime(dir, "ignore");
    lives.push(runtime);
    const url = await runtime.serve(message(), over.signal);
    const closed = await freePort();
    const to = async (target: string) => (await fetch(`${url}/?to=${encodeURIComponent(target)}`)).text();
    const answers = [port, closed].flatMap((each) => [`127.0.0.1:${each}`, `localhost:${each}`, `[::1]:${each}`]);
    const texts = await Promise.all(answers.map((host) => to(`http://${host}/`)));
    open.close();
    expect(calls).toBe(0);
    expect(new Set(texts.map((text) => text.replace(/reference = \w+/, ""))).size).toBe(1);
  });
});

describe("the gateway process", () => {
  let service: Server;
  beforeAll(async () => {
    service = createServer((_request, answer) => answer.end("through")).listen(0, "127.0.0.1");
    await once(service, "listening");
  });
  afterAll(() => service.close());

  it.each(["SIGKILL", "SIGSTOP"] as const)(
    "returns at its port after %s, with the current runtime",
    { timeout: 300_000 },
    async (signal) => {
      over = new AbortController();
      const port = await freePort();
      const gateway = new GatewayProcess("127.0.0.1", port, RHYTHM);
      lives.push(gateway);
      await gateway.listen();
      const asked = async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/`, {
          headers: { Connection: "close" },
          signal: AbortSignal.timeout(2_000),
        });
        return `${answer.status} ${(await answer.text()).trim()}`;
      };
      expect(await asked()).toBe("503 the service is starting; try again");
      for (let time = 0; time < 2; time++) {
        const dead = gateway.pid;
        process.kill(dead, signal);
        gateway.upstreamPort = (service.address() as AddressInfo).port;
        await expect.poll(() => asked().catch(() => ""), PATIENCE).toBe("200 through");
        expect([gateway.pid === dead, isAlive(dead)]).toEqual([false, false]);
      }
      gateway.upstreamPort = null;
      await expect.poll(() => asked().catch(() => ""), PATIENCE).toMatch(/^503 /);
    },
  );
});
