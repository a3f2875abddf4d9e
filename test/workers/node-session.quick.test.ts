import { env } from "cloudflare:workers";
import { CLOSE, MAX_FRAME_BYTES, PING, PONG, retryAfterOf } from "@sallyport/agent-protocol";
import { describe, expect, it, vi } from "vitest";
import { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { itRows } from "../support/rows.ts";
import { get, put, send } from "./client.ts";
import { eventually, hello, nodeReport, readNode, ScriptedAgent, statusOf } from "./scripted-agent.ts";

/** The sockets at the service's end: how many are open, and which connection is in use. */
const sockets = async (agent: ScriptedAgent) => (await agent.rows("SELECT live, opened FROM session"))[0];

describe("hello", () => {
  it("returns the settings that the agent needs", async () => {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    const before = Date.now();
    const welcome = await socket.welcome();
    expect(welcome).toEqual({
      t: "welcome",
      proto: 1,
      session: expect.any(String),
      serverTime: expect.any(Number),
      cfg: { pingMs: 10_000, deadMs: 30_000, fingerprintMs: 30_000, maxInflight: 32 },
      resume: [],
      forget: [],
      unknownVolumes: [],
      features: ["volume-changes", "no-accepted"],
    });
    expect(welcome.serverTime).toBeGreaterThanOrEqual(before);
  });

  it("sets the node's fields from the agent's report", async () => {
    const node = nodeReport({ Name: "db-7", Datacenter: "dc9", NodeClass: "large", Meta: { rack: "7" } });
    const [agent] = await ScriptedAgent.connected({ node });
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    expect(await readNode(agent.node)).toMatchObject({
      ID: agent.node,
      Name: "db-7",
      Datacenter: "dc9",
      NodeClass: "large",
      Meta: { rack: "7" },
      SecretID: "",
      Status: "ready",
    });
    expect((await get("/v1/agents")).body).toMatchObject([{ NodeID: agent.node, Name: "db-7" }]);
  });

  it("with an unsupported protocol version closes the connection with a specific code", async () => {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    socket.send(hello({ proto: [2, 7] }));
    expect(await socket.closed).toMatchObject({ code: CLOSE.version });
    expect(await statusOf(agent.node)).toBeUndefined();
  });

  it("of a newer agent that supports this version is accepted", async () => {
    const [, socket] = await ScriptedAgent.connected({ proto: [1, 7] });
    expect((await socket.seen("welcome"))[0]?.proto).toBe(1);
  });

  it("lists unknown volumes, which stay in place", async () => {
    const [held, broken] = [crypto.randomUUID(), crypto.randomUUID()];
    const asked = vi.spyOn(ClusterRegistry.prototype, "unknownVolumes");
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    const welcome = await socket.welcome({
      node: nodeReport({ HostVolumes: { data: { ID: held, Name: "data", Path: "/v", ReadOnly: false } } }),
      unavailableVolumes: [{ id: broken, name: "b", reason: "gone" }],
    });
    expect(asked).toHaveBeenCalledWith(agent.node, [held, broken]);
    expect(welcome.unknownVolumes).toEqual([held, broken]);
    await socket.settled();
    expect(socket.frames.filter(({ t }) => t === "req")).toEqual([]);
  });

  it("is answered while the known volumes cannot be read", async () => {
    vi.spyOn(ClusterRegistry.prototype, "unknownVolumes").mockRejectedValue(new Error("the registry is down"));
    const agent = await ScriptedAgent.joined();
    const welcome = await (await agent.connect()).welcome({
      unavailableVolumes: [{ id: crypto.randomUUID(), name: "b", reason: "gone" }],
    });
    expect(welcome.unknownVolumes).toEqual([]);
  });

  it("with an invalid node is refused with the reason", async () => {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    socket.send(hello({ node: nodeReport({ Attributes: {} }) }));
    expect(await socket.closed).toMatchObject({
      code: CLOSE.protocol,
      reason: expect.stringContaining("missing attributes"),
    });
    // An agent of the test before may report its end here.
    const agents: { NodeID: string }[] = (await get("/v1/agents")).body;
    expect(agents.find(({ NodeID }) => NodeID === agent.node)).toMatchObject({ Connected: false });
  });
});

describe("a change of node fields", () => {
  it("replaces the given fields only", async () => {
    const [agent, socket] = await ScriptedAgent.connected({ node: nodeReport({ Meta: { a: "1" } }) });
    socket.send({ t: "fp", seq: 1, node: { Attributes: { "kernel.name": "linux", extra: "1" } } });
    await eventually(async () => expect((await readNode(agent.node)).Attributes).toMatchObject({ extra: "1" }));
    socket.send({ t: "fp", seq: 2, node: { Attributes: { "kernel.name": "linux" } } });
    await eventually(async () => expect((await readNode(agent.node)).Attributes).toEqual({ "kernel.name": "linux" }));
    expect((await readNode(agent.node)).Meta).toEqual({ a: "1" });
  });

  it("cannot move it to another pool", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    socket.send({ t: "fp", seq: 1, node: { NodePool: "gpu" } });
    expect(await socket.closed).toMatchObject({ code: CLOSE.protocol, reason: expect.stringContaining("NodePool") });
    expect((await readNode(agent.node)).NodePool).toBe("default");
  });

  it("reaches the registry after its return, together with the connection's state, and once", async () => {
    const down = vi.spyOn(ClusterRegistry.prototype, "agentNews").mockRejectedValue(new Error("down"));
    const [agent, socket] = await ScriptedAgent.connected();
    socket.send({ t: "fp", seq: 1, node: { Meta: { last: "word" } } });
    await socket.settled();
    expect(await statusOf(agent.node)).toBeUndefined();
    down.mockRestore();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    const node = await readNode(agent.node);
    expect(node.Meta).toEqual({ last: "word" });
    expect(node.Events.map(({ Message }: { Message: string }) => Message)).toEqual([
      "Node registered",
      "Node is ready",
    ]);
  });

  it("registers a node again that was purged while its agent is connected", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    await clusterRegistry(env).purgeNode(agent.node, true);
    expect(await statusOf(agent.node)).toBeUndefined();
    socket.send({ t: "fp", seq: 1, node: { Meta: { a: "1" } } });
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    expect(await readNode(agent.node)).toMatchObject({ Name: "node-1", Meta: { a: "1" } });
  });
});

it("a node purged while its agent is connected returns automatically as a new one", async () => {
  const [agent] = await ScriptedAgent.connected();
  await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
  const { CreateIndex } = await readNode(agent.node);
  await put(`/v1/node/${agent.node}/eligibility`, { Eligibility: "ineligible" });
  expect((await put(`/v1/node/${agent.node}/purge?force=true`, {})).status).toBe(200);
  await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
  const back = await readNode(agent.node);
  expect(back).toMatchObject({ Name: "node-1", SchedulingEligibility: "eligible" });
  expect(back.CreateIndex).toBeGreaterThan(CreateIndex);
});

it("an agent that leaves is disconnected at once", async () => {
  const [agent, socket] = await ScriptedAgent.connected();
  socket.close();
  await socket.closed;
  await eventually(async () => expect((await sockets(agent))?.["live"]).toBeNull());
});

describe("two connections of one node", () => {
  it("are never both active: the newer replaces the other, which is closed as superseded", async () => {
    const [agent, first] = await ScriptedAgent.connected();
    const second = await agent.connect();
    const { session } = await second.welcome();
    expect(await first.closed).toMatchObject({ code: CLOSE.superseded });
    expect((await sockets(agent))?.["live"]).toBe(session);
    // The end of the old one is not the end of the node's connection.
    await second.settled();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    expect((await get("/v1/agents")).body).toMatchObject([{ Connected: true }]);
  });

  it("are independent until the second has sent hello", async () => {
    const [agent, first] = await ScriptedAgent.connected();
    await agent.connect();
    await first.settled();
    expect((await sockets(agent))?.["live"]).toBe((await first.seen("welcome"))[0]?.session);
  });

  it("refuse an older copy of the agent's state in either order", async () => {
    const [agent, live] = await ScriptedAgent.connected({ epoch: 5 });
    const copy = await agent.connect();
    copy.send(hello({ epoch: 4, boot: "boot-0" }));
    expect(await copy.closed).toMatchObject({ code: CLOSE.superseded, reason: expect.stringContaining("old copy") });
    await live.settled();
    expect((await sockets(agent))?.["live"]).toBe((await live.seen("welcome"))[0]?.session);
    live.close();
    const again = await agent.connect();
    again.send(hello({ epoch: 4 }));
    expect(await again.closed).toMatchObject({ code: CLOSE.superseded });
    await (await agent.connect()).welcome({ epoch: 6 });
  });

  it("that send hello in reverse order leave the newer one active", async () => {
    const agent = await ScriptedAgent.joined();
    const [older, newer] = [await agent.connect(), await agent.connect()];
    const { session } = await newer.welcome();
    older.send(hello());
    expect(await older.closed).toMatchObject({ code: CLOSE.superseded });
    expect((await sockets(agent))?.["live"]).toBe(session);
  });
});

describe("a frame", () => {
  it("with a ping is answered without waking the object", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await agent.hibernate();
    socket.send(PING);
    await eventually(() => expect(socket.texts.at(-1)).toBe(PONG));
  });

  itRows([
    ["that is not JSON", "{", CLOSE.protocol, "a frame is not JSON"],
    ["that is malformed", '{"t":"ack","op":"1","state":"accepted"}', CLOSE.protocol, "ack: op: "],
    ["that is binary", new Uint8Array([1]), CLOSE.protocol, "a frame is not text"],
    ["of more than 1 MiB", `{"t":"fp","pad":"${"x".repeat(MAX_FRAME_BYTES)}"}`, CLOSE.protocol, "more than"],
    ["that is a second hello", JSON.stringify(hello()), CLOSE.protocol, "hello was said before"],
  ])("%s ends the connection", async (_, frame, code, text) => {
    const [agent, socket] = await ScriptedAgent.connected();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    socket.send(frame);
    expect(await socket.closed).toMatchObject({ code, reason: expect.stringContaining(text) });
    await eventually(async () => expect(await statusOf(agent.node)).toBe("disconnected"));
  });

  it("before hello ends the connection", async () => {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    socket.send({ t: "fp", seq: 1, node: {} });
    expect(await socket.closed).toMatchObject({ code: CLOSE.protocol, reason: "fp before welcome" });
    expect(await statusOf(agent.node)).toBeUndefined();
  });

  it("of an unknown type is ignored", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    socket.send('{"t":"novelty"}');
    await socket.settled();
    expect((await sockets(agent))?.["live"]).not.toBeNull();
  });

  it("above the rate limit closes the connection, with a delay for the next", async () => {
    const [, socket] = await ScriptedAgent.connected();
    const large = `{"t":"novelty","pad":"${"x".repeat(1_000_000)}"}`;
    for (let count = 0; count < 40; count++) socket.send(large);
    const { code, reason } = await socket.closed;
    expect([code, retryAfterOf(reason)]).toEqual([CLOSE.slowDown, 30_000]);
  });

  it("cannot exceed the size of a report by several changes", async () => {
    const mapOf = (name: string, entries: number) =>
      Object.fromEntries(Array.from({ length: entries }, (_, n) => [`${name}${n}`, "x".repeat(1_000)]));
    const driver = { Detected: true, Healthy: true, HealthDescription: "", UpdateTime: "2026-01-01T00:00:00Z" };
    const Drivers = Object.fromEntries(
      ["a", "b", "c"].map((name) => [name, { ...driver, Attributes: mapOf(name, 128) }]),
    );
    const [agent, socket] = await ScriptedAgent.connected({ node: nodeReport({ Meta: mapOf("m", 100) }) });
    socket.send({ t: "fp", seq: 1, node: { Attributes: mapOf("a", 500) } });
    await eventually(async () => {
      const [row] = await agent.rows("SELECT length(body) AS n FROM report");
      expect(row?.["n"]).toBeGreaterThan(600_000);
    });
    socket.send({ t: "fp", seq: 2, node: { Drivers: { ...Drivers, d: { ...driver, Attributes: mapOf("d", 100) } } } });
    expect(await socket.closed).toMatchObject({ code: CLOSE.protocol, reason: "fp: the whole report is too large" });
  });
});

describe("an evicted object", () => {
  it("with open sockets continues without a loss", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    await agent.hibernate();
    socket.send({ t: "fp", seq: 1, node: { Meta: { after: "sleep" } } });
    await eventually(async () => expect((await readNode(agent.node)).Meta).toEqual({ after: "sleep" }));
    expect((await send("GET", `/v1/agent/${agent.node}`)).body).toMatchObject({ Connected: true });
  });

  it("without sockets detects that the agent is gone, and accepts its return", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    await agent.kill();
    await socket.closed;
    // The first request or its alarm wakes it.
    await agent.session.state();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("disconnected"));
    await (await agent.connect()).welcome();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
  });

  it("identifies the older connection after hibernation", async () => {
    const [agent, first] = await ScriptedAgent.connected();
    await agent.hibernate();
    const second = await agent.connect();
    await agent.hibernate();
    await second.welcome();
    expect(await first.closed).toMatchObject({ code: CLOSE.superseded });
  });
});
