import { once } from "node:events";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { CLOSE, MAX_FRAME_BYTES, PING, slowDown } from "@sallyport/agent-protocol";
import { expect, it, vi } from "vitest";
import type { WebSocket } from "ws";
import { readConfig } from "../../agent/src/config.ts";
import { start } from "../../agent/src/start.ts";
import {
  AgentProcess,
  afterTest,
  eventually,
  fakeService,
  JOIN_TOKEN,
  NODE_ID,
  nodeDirectory,
  startAgent,
} from "./agent-service.ts";

const QUICK = { firstMs: 5, longestMs: 40, healthyMs: 60_000, spreadMs: 5 };

/** An agent in this process, with short pauses; ends with the test. */
function quickAgent(path: string, pauses = QUICK) {
  const stop = new AbortController();
  const exit = start({ config: readConfig(path), joinToken: JOIN_TOKEN, stop: stop.signal, pauses });
  exit.catch(() => {});
  afterTest(async () => {
    stop.abort();
    await exit.catch(() => {});
  });
  return { exit, stop: () => stop.abort() };
}

it("joins once with its join token, connects with its own key, and sends its fingerprint", async () => {
  const service = await fakeService();
  const { path, at } = nodeDirectory(service.url, { meta: { rack: "r1" }, pool: "storage" });
  const agent = startAgent(path);
  const session = await service.session();
  const hello = await session.welcome();
  expect(hello).toMatchObject({
    proto: [1, 1],
    epoch: 1,
    node: { Name: "node-1", NodePool: "storage", Meta: { rack: "r1" }, HostVolumes: {} },
    journal: [],
    unavailableVolumes: [],
  });
  expect(hello.node.Attributes).toHaveProperty(["plugins.host_volume.mkdir.version"], "0.0.1");
  expect(hello.features).toContain("dhv.create");
  expect(service.joins).toEqual([{ Token: JOIN_TOKEN, Name: "node-1", PublicKey: expect.any(String) }]);
  expect(service.refusals).toEqual([]);
  expect(statSync(at("state/identity.key")).mode & 0o777).toBe(0o600);

  agent.child.kill("SIGTERM");
  expect(await agent.exit).toBe(0);
  expect(await session.closed).toMatchObject({ code: 1000 });

  // A known agent needs no token.
  const again = startAgent(path, {});
  const second = await (await service.session()).welcome();
  expect(second.epoch).toBe(2);
  expect(second.boot).toBe(hello.boot);
  expect(service.joins).toHaveLength(1);
  expect(new Set(service.jtis).size).toBe(2);
  await again.kill();
});

it("sends the join token to the service only, and keeps it out of files, logs and arguments", async () => {
  const service = await fakeService();
  const { path, root } = nodeDirectory(service.url);
  const agent = startAgent(path);
  await (await service.session()).welcome();
  const environment = readFileSync(`/proc/${agent.child.pid}/cmdline`, "utf8");
  agent.child.kill("SIGTERM");
  await agent.exit;
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const contents = files.map((file) => readFileSync(join(file.parentPath, file.name), "utf8"));
  expect(files.length).toBeGreaterThan(3);
  expect(JSON.stringify([contents, agent.log, agent.out, environment, service.sessions[0]?.texts])).not.toContain(
    "CANARY",
  );
});

it("retries a join while the service is unreachable, and exits when the token is refused", async () => {
  const service = await fakeService();
  service.onJoin = () => ({ status: 503, body: "" });
  const { path, at } = nodeDirectory(service.url);
  const agent = quickAgent(path);
  await eventually("three attempts", () => service.joins.length >= 3 || undefined);
  service.onJoin = () => ({ status: 403, body: `no such token: ${JOIN_TOKEN}` });
  await expect(agent.exit).rejects.toThrow("The service refused the join token (403): no such token: [REDACTED]");
  // One key for all attempts, so the service recognizes them as one node.
  expect(new Set(service.joins.map(({ PublicKey }) => PublicKey)).size).toBe(1);
  expect(readdirSync(at("state"))).toEqual(["identity.key"]);
});

it("exits without an identity and a join token, with a code that prevents a restart", async () => {
  const service = await fakeService();
  const agent = startAgent(nodeDirectory(service.url).path, {});
  expect(await agent.exit).toBe(2);
  expect(agent.log).toContain("has not joined yet, and there is no join token");
});

it("refuses a key file that other users can read", async () => {
  const service = await fakeService();
  const { path, at } = nodeDirectory(service.url);
  const first = quickAgent(path);
  await (await service.session()).welcome();
  first.stop();
  await first.exit;
  chmodSync(at("state/identity.key"), 0o640);
  const agent = startAgent(path);
  expect(await agent.exit).toBe(2);
  expect(agent.log).toContain("is open to other users");
  expect(service.sessions).toHaveLength(1);
});

it("refuses a state directory that another agent uses", async () => {
  const service = await fakeService();
  const { path } = nodeDirectory(service.url);
  startAgent(path);
  await (await service.session()).welcome();
  const second = startAgent(path);
  expect(await second.exit).toBe(2);
  expect(second.log).toContain("Another agent is running on");
});

it.each([
  ["superseded", CLOSE.superseded, 3],
  ["revoked", CLOSE.revoked, 4],
  ["refused for lack of a common version", CLOSE.version, 5],
])("exits when it is %s", async (_, code, exit) => {
  const service = await fakeService();
  const agent = startAgent(nodeDirectory(service.url).path);
  const session = await service.session();
  await session.hello();
  session.socket.close(code, "");
  expect(await agent.exit).toBe(exit);
  expect(service.sessions).toHaveLength(1);
});

it("reconnects with a new connect token after any other close", async () => {
  const service = await fakeService();
  quickAgent(nodeDirectory(service.url).path);
  const ends = [
    (socket: WebSocketLike) => socket.terminate(),
    (socket: WebSocketLike) => socket.close(1012, ""),
    (socket: WebSocketLike) => socket.close(4008, ""),
    (socket: WebSocketLike) => socket.close(4029, slowDown(20)),
    (socket: WebSocketLike) => socket.close(1000, ""),
  ];
  for (const end of ends) {
    const session = await service.session();
    await session.welcome();
    end(session.socket);
  }
  await (await service.session()).welcome();
  expect(new Set(service.jtis).size).toBe(ends.length + 1);
  expect(service.refusals).toEqual([]);
});

type WebSocketLike = { terminate(): void; close(code: number, reason: string): void };

it("waits as long as Retry-After requests", async () => {
  const service = await fakeService();
  let refusals = 0;
  service.onUpgrade = () => {
    refusals++;
    return { status: 429, headers: { "retry-after": "3600" } };
  };
  quickAgent(nodeDirectory(service.url).path);
  await eventually("a refusal", () => refusals || undefined);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(refusals).toBe(1);
});

it("logs a wrong clock, and connects by the service's clock", async () => {
  const service = await fakeService();
  service.clockAhead = 3_600;
  const { path } = nodeDirectory(service.url);
  const agent = startAgent(path);
  await eventually("a refusal", () => service.refusals[0]);
  await eventually(
    "the words",
    () => /clock is 3\d{3} s behind the service's: set it right/.test(agent.log) || undefined,
  );
  await agent.kill();
  const second = quickAgent(path);
  await (await service.session()).hello();
  second.stop();
  expect(await second.exit).toBe(0);
});

/** Resolves when the agent has received all that was sent before. */
async function received(socket: WebSocket): Promise<void> {
  const pong = once(socket, "pong");
  socket.ping();
  await pong;
}

it("keeps a session alive by pings, and reconnects when the service is silent", async () => {
  const service = await fakeService();
  quickAgent(nodeDirectory(service.url).path);
  const first = await service.session();
  await first.hello();
  // The clock stands still unless moved: a busy machine must not seem silent.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    await first.welcome({ cfg: { pingMs: 1_000, deadMs: 4_000 } });
    const sent = () => first.texts.filter((text) => text === PING).length;
    for (let round = 0; round < 6; round++) {
      await received(first.socket);
      const before = sent();
      // The longest pause between two pings.
      vi.advanceTimersByTime(1_200);
      for (const until = Date.now() + 45_000; sent() === before && Date.now() < until; ) await setImmediate();
      expect(sent()).toBeGreaterThan(before);
      expect(service.sessions).toHaveLength(1);
    }
    await received(first.socket);
    // Frozen: the socket stays open without data.
    first.socket.pause();
    vi.advanceTimersByTime(3_900);
    await setImmediate();
    expect(first.socket.readyState).toBe(first.socket.OPEN);
    vi.advanceTimersByTime(200);
  } finally {
    vi.useRealTimers();
  }
  const second = await service.session();
  await second.welcome();
});

it("sends only hello before welcome", async () => {
  const service = await fakeService();
  quickAgent(nodeDirectory(service.url).path);
  const session = await service.session();
  await session.hello();
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(session.texts).toHaveLength(1);
});

it.each([
  [
    "a frame of more than 1 MiB",
    (send: Send) => send(JSON.stringify({ t: "novelty", pad: "x".repeat(MAX_FRAME_BYTES) })),
  ],
  ["a frame that is not JSON", (send: Send) => send("{")],
  ["a frame with a wrong field", (send: Send) => send(JSON.stringify({ t: "done", op: "1" }))],
  ["a binary frame", (send: Send) => send(Buffer.from(PING))],
  ["a second welcome", (_: Send, session: { welcome(): unknown }) => session.welcome()],
])("disconnects from a service that sends %s, and retries later", async (_, send) => {
  const service = await fakeService();
  quickAgent(nodeDirectory(service.url).path);
  const session = await service.session();
  await session.welcome();
  await send((data) => session.socket.send(data), session);
  // 1009: message too big, RFC 6455.
  expect([CLOSE.protocol, 1009]).toContain((await session.closed).code);
  await (await service.session()).welcome();
});

type Send = (data: string | Buffer) => void;

it("ignores unknown frame types and rejects malformed requests, on the same connection", async () => {
  const service = await fakeService();
  quickAgent(nodeDirectory(service.url).path);
  const session = await service.session();
  await session.welcome();
  session.socket.send(JSON.stringify({ t: "novelty" }));
  const malformed = "01939b5e-7a10-7cc1-8b5e-000000000002";
  session.request({ op: malformed, method: "agent.fingerprint", secrets: { ["k".repeat(300)]: "v" } });
  expect(await session.result(malformed)).toMatchObject({ ok: false, error: { kind: "invalid", outcome: "failed" } });
  expect(session.acks(malformed)).toEqual(["rejected"]);
  session.request({ op: "01939b5e-7a10-7cc1-8b5e-000000000001", method: "agent.fingerprint" });
  expect(await session.result("01939b5e-7a10-7cc1-8b5e-000000000001")).toMatchObject({
    ok: true,
    result: { node: { Name: "node-1" } },
  });
});

it("logs volumes that the service does not know, and keeps them", async () => {
  const service = await fakeService();
  const agent = startAgent(nodeDirectory(service.url).path);
  await (await service.session()).welcome({ unknownVolumes: [NODE_ID] });
  await eventually("a line in the log", () => agent.log.includes("volume_unknown_to_service") || undefined);
});

it("--check prints the report, opens no connection and writes no files", async () => {
  const { path, root } = nodeDirectory("http://127.0.0.1:1");
  const before = readdirSync(root, { recursive: true });
  const agent = new AgentProcess(["--config", path, "--check"]);
  expect(await agent.exit).toBe(0);
  const { node, plugins } = JSON.parse(agent.out);
  expect(node).toMatchObject({ Name: "node-1" });
  expect(plugins).toEqual([{ name: "mkdir", ok: true, version: "0.0.1" }]);
  expect(readdirSync(root, { recursive: true })).toEqual(before);
  writeFileSync(path, JSON.stringify({ service: "x" }));
  const wrong = new AgentProcess(["--config", path, "--check"]);
  expect(await wrong.exit).toBe(2);
  expect(wrong.log).toContain("service: must be a URL");
});
