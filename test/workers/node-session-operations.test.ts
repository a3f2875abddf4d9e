import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { CLOSE, type OperationError } from "@sallyport/agent-protocol";
import { describe, expect, it, vi } from "vitest";
import { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { accessControl } from "../../src/rpc/stubs.ts";
import { del, get, put } from "./client.ts";
import {
  type AgentSocket,
  agentWithOperation,
  done,
  eventually,
  operation,
  outcomes,
  ScriptedAgent,
} from "./scripted-agent.ts";

const stateOf = async (agent: ScriptedAgent, id: string): Promise<unknown> =>
  (await agent.rows("SELECT state FROM operations WHERE id = ?", id))[0]?.["state"];

const failed = (op: string, outcome: OperationError["outcome"], kind: OperationError["kind"] = "plugin") =>
  ({ t: "res", op, ms: 5, ok: false, error: { kind, message: "it broke", outcome } }) as const;

const told = (count: number, { told: list }: ReturnType<typeof outcomes>) =>
  eventually(() => expect(list).toHaveLength(count));

/** Ends the connection, and begins the next. */
async function reconnect(agent: ScriptedAgent, socket: AgentSocket, journal: string[] = []) {
  socket.close();
  const next = await agent.connect();
  const entries = journal.map((op) => ({ op, gen: 1, state: "running" as const }));
  return { next, welcome: await next.welcome({ journal: entries }) };
}

describe("an operation", () => {
  it("is sent and completed, and its owner has the result before the agent may forget it", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = operation({ method: "dhv.create", gen: 3, deadlineMs: 1_234, params: { a: [1, { b: "ü" }] } });
    expect(await agent.session.start(wanted)).toEqual({ ok: true, value: null });
    const [req] = await socket.seen("req");
    const { id: op, ...rest } = wanted;
    expect(req).toEqual({ t: "req", op, ...rest });
    expect(await stateOf(agent, wanted.id)).toBe("sent");
    socket.send({ t: "ack", op: wanted.id, state: "accepted" });
    socket.send(done(wanted.id, { path: "/v/1", bytes: 7 }));
    await socket.seen("done");
    // On disk by then, even if other objects are down.
    expect(await stateOf(agent, wanted.id)).toBe("done");
    await told(1, owner);
    expect(owner.told).toEqual([[agent.node, wanted.id, { state: "done", result: { path: "/v/1", bytes: 7 } }]]);
  });

  it("that is requested again is not sent again while it runs or after it has ended", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = operation();
    expect(await Promise.all([1, 2, 3].map(() => agent.session.start(wanted)))).toEqual(
      Array.from({ length: 3 }, () => ({ ok: true, value: null })),
    );
    await socket.seen("req");
    socket.send(done(wanted.id));
    await socket.seen("done");
    await agent.session.start(wanted);
    await socket.settled();
    expect(await socket.seen("req")).toHaveLength(1);
    expect(owner.told).toHaveLength(1);
  });

  it("that failed returns the reason", async () => {
    const { owner, socket, wanted } = await agentWithOperation();
    socket.send({ t: "ack", op: wanted.id, state: "rejected" });
    socket.send(failed(wanted.id, "failed", "stale"));
    await told(1, owner);
    expect(owner.told[0]?.[2]).toEqual({ state: "failed", error: { kind: "stale", message: "it broke" } });
  });

  it("with a repeated result is delivered once, and acknowledged each time", async () => {
    const { owner, agent, socket, wanted } = await agentWithOperation();
    for (const count of [1, 2, 3]) {
      socket.send(done(wanted.id));
      await socket.seen("done", count);
    }
    socket.send(failed(wanted.id, "failed"));
    await socket.seen("done", 4);
    expect(owner.told).toEqual([[agent.node, wanted.id, { state: "done", result: {} }]]);
  });

  it("whose result does not match its method has an unknown outcome", async () => {
    const { owner, socket, wanted } = await agentWithOperation({ method: "dhv.create" });
    socket.send(done(wanted.id, { path: 7 }));
    await told(1, owner);
    expect(owner.told[0]?.[2]).toMatchObject({ state: "unknown", error: { message: expect.stringContaining("path") } });
  });

  it("of a node with an absent agent is refused and not stored", async () => {
    const owner = outcomes();
    const agent = await ScriptedAgent.joined();
    const refused = await agent.session.start(operation());
    expect(refused).toMatchObject({ ok: false, reason: "unavailable", message: expect.stringContaining(agent.node) });
    expect(await agent.rows("SELECT * FROM operations")).toEqual([]);
    expect(owner.told).toEqual([]);
  });

  it("of a node whose agent has just disconnected waits for its return", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    socket.close();
    await eventually(async () => expect((await get("/v1/agents")).body[0].Connected).toBe(false));
    const wanted = operation();
    const started = agent.session.start(wanted);
    const back = await agent.connect();
    await back.welcome();
    expect((await started).ok).toBe(true);
    expect((await back.seen("req"))[0]?.op).toBe(wanted.id);
  });

  it("whose agent does not return in time is refused, and nothing is stored", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    socket.close();
    await eventually(async () => expect((await get("/v1/agents")).body[0].Connected).toBe(false));
    expect(await agent.session.start(operation())).toMatchObject({ ok: false, reason: "unavailable" });
    expect(await agent.rows("SELECT * FROM operations")).toEqual([]);
  });

  it("older than another of its key is refused", async () => {
    const [agent] = await ScriptedAgent.connected();
    await agent.session.start(operation({ key: "k", gen: 5 }));
    expect(await agent.session.start(operation({ key: "k", gen: 4 }))).toMatchObject({ ok: false, reason: "conflict" });
    expect((await agent.session.start(operation({ key: "k", gen: 6 }))).ok).toBe(true);
    expect((await agent.session.start(operation({ key: "other", gen: 1 }))).ok).toBe(true);
  });

  it("that exceeds the size of a frame is refused", async () => {
    const [agent] = await ScriptedAgent.connected();
    const huge = operation({ params: { pad: "x".repeat(1024 * 1024) } });
    expect(await agent.session.start(huge)).toMatchObject({ ok: false, reason: "too-large" });
  });

  it("that agents would not accept is refused and not stored", async () => {
    const [agent] = await ScriptedAgent.connected();
    const many = Object.fromEntries(Array.from({ length: 129 }, (_, at) => [`k${at}`, "v"]));
    for (const secrets of [{ ["k".repeat(300)]: "v" }, many])
      expect(await agent.session.start(operation({ secrets }))).toMatchObject({ ok: false, reason: "invalid" });
    expect(await agent.rows("SELECT * FROM operations")).toEqual([]);
  });

  it("above 32 waits for a free slot", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = Array.from({ length: 40 }, () => operation());
    for (const each of wanted) await agent.session.start(each);
    await socket.settled();
    const first = await socket.seen("req", 32);
    expect(first).toHaveLength(32);
    expect((await get(`/v1/agent/${agent.node}`)).body.Operations).toEqual({ InFlight: 32, Queued: 8 });
    for (const { op } of first.slice(0, 3)) socket.send(done(op));
    const sent = await socket.seen("req", 35);
    await socket.settled();
    expect(sent.map(({ op }) => op)).toEqual(wanted.slice(0, 35).map(({ id }) => id));
    for (const { id } of wanted.slice(3)) {
      await eventually(() => expect(socket.frames).toContainEqual(expect.objectContaining({ t: "req", op: id })));
      socket.send(done(id));
    }
    await told(40, owner);
  });
});

describe("a result", () => {
  it("of an unknown operation is dropped", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const [other, elsewhere] = await ScriptedAgent.connected();
    const wanted = operation();
    await other.session.start(wanted);
    await elsewhere.seen("req");
    // Another node's operation, reported by this one.
    socket.send(done(wanted.id));
    await socket.seen("done");
    await socket.settled();
    expect(await agent.rows("SELECT body FROM outbox WHERE topic = 'result'")).toEqual([]);
    expect(owner.told).toEqual([]);
    expect(await stateOf(other, wanted.id)).toBe("sent");
    expect(await stateOf(agent, wanted.id)).toBeUndefined();
  });

  it("of an operation that was not sent yet ends the connection", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = Array.from({ length: 33 }, () => operation());
    for (const each of wanted) await agent.session.start(each);
    socket.send(done(wanted[32]?.id ?? ""));
    expect(await socket.closed).toMatchObject({ code: CLOSE.protocol });
    expect(owner.told).toEqual([]);
  });

  it("that arrives while its owner is down is delivered after its return, in order for each key", async () => {
    const owner = outcomes();
    const down = owner.spy.getMockImplementation();
    owner.spy.mockRejectedValue(new Error("the registry is down"));
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = [1, 2].map((gen) => operation({ key: "k", gen }));
    for (const each of wanted) {
      await agent.session.start(each);
      socket.send(done(each.id, { gen: each.gen }));
    }
    await socket.seen("done", 2);
    await agent.hibernate();
    owner.spy.mockImplementation(down ?? (async () => undefined));
    await eventually(() => expect(owner.told.map(([, id]) => id)).toEqual(wanted.map(({ id }) => id)));
  });
});

describe("a new connection", () => {
  it("requests results that the agent has, drops unknown operations, and sends the rest again", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const [kept, lost, ended, foreign] = [operation(), operation(), operation(), operation()];
    for (const each of [kept, lost, ended]) await agent.session.start(each);
    await socket.seen("req", 3);
    socket.send(done(ended.id));
    await socket.seen("done");
    const { next, welcome } = await reconnect(agent, socket, [kept.id, ended.id, foreign.id]);
    expect(welcome.resume).toEqual([kept.id]);
    expect(welcome.forget).toEqual([ended.id, foreign.id]);
    await next.settled();
    expect((await next.seen("req")).map(({ op }) => op)).toEqual([lost.id]);
    next.send(done(kept.id));
    next.send(done(lost.id));
    await told(3, owner);
    expect(owner.told.map(([, id, { state }]) => [id, state])).toEqual(
      [ended, kept, lost].map(({ id }) => [id, "done"]),
    );
  });

  it("frees the slots of operations on the old connection", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = Array.from({ length: 33 }, () => operation());
    for (const each of wanted) await agent.session.start(each);
    await socket.seen("req", 32);
    const { next } = await reconnect(agent, socket);
    await next.settled();
    expect((await next.seen("req", 32)).map(({ op }) => op)).toEqual(wanted.slice(0, 32).map(({ id }) => id));
  });
});

describe("an unknown outcome", () => {
  it("is delivered, retried on the next connection, and delivered again once it is known", async () => {
    const { owner, agent, socket, wanted } = await agentWithOperation();
    socket.send(failed(wanted.id, "unknown", "timeout"));
    await told(1, owner);
    await socket.settled();
    expect(await socket.seen("req")).toHaveLength(1);
    // Both an agent that has forgotten it and one that has not.
    const { next } = await reconnect(agent, socket);
    await next.seen("req");
    next.send(failed(wanted.id, "unknown", "timeout"));
    await next.settled();
    const { next: last, welcome } = await reconnect(agent, next, [wanted.id]);
    expect(welcome.resume).toEqual([wanted.id]);
    await last.seen("req");
    last.send(done(wanted.id));
    await told(2, owner);
    expect(owner.told.map(([, , { state }]) => state)).toEqual(["unknown", "done"]);
  });

  it("of an operation that still runs leaves its later result deliverable", async () => {
    const { owner, socket, wanted } = await agentWithOperation();
    socket.send(failed(wanted.id, "unknown", "timeout"));
    await told(1, owner);
    await socket.settled();
    // That would make the agent forget it.
    expect(socket.frames.filter(({ t }) => t === "done")).toEqual([]);
    socket.send(done(wanted.id));
    await socket.seen("done");
    await told(2, owner);
    expect(owner.told.map(([, , { state }]) => state)).toEqual(["unknown", "done"]);
  });

  it("is tried again at once by its owner", async () => {
    const { owner, agent, socket, wanted } = await agentWithOperation();
    socket.send(failed(wanted.id, "unknown", "timeout"));
    await told(1, owner);
    expect(await agent.session.start(wanted)).toEqual({ ok: true, value: null });
    await socket.seen("req", 2);
    // The agent is at it: asking once more does not send it once more.
    await agent.session.start(wanted);
    await socket.settled();
    expect(await socket.seen("req")).toHaveLength(2);
  });
});

describe("secrets", () => {
  const CANARY = "canary-7f3a9c";
  const secrets = { token: CANARY };
  const everything = async (agent: ScriptedAgent): Promise<string> => {
    const tables = await agent.rows(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    );
    const rows = await Promise.all(tables.map(({ name }) => agent.rows(`SELECT * FROM "${name}"`)));
    return rows
      .flat()
      .flatMap((row) => Object.values(row))
      .map((value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString("latin1") : String(value)))
      .join("\n");
  };

  it("reach the agent only: they are in no row, log or error, and are erased at the end", async () => {
    outcomes();
    const logged = (["log", "info", "warn", "error"] as const).map((name) => vi.spyOn(console, name));
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = operation({ secrets });
    await agent.session.start(wanted);
    expect((await socket.seen("req"))[0]?.secrets).toEqual(secrets);
    expect(await everything(agent)).not.toContain(CANARY);
    expect((await agent.rows("SELECT sealed FROM operations"))[0]?.["sealed"]).not.toBeNull();
    // The agent holds none on its disk: they are sent again, although it still knows the operation.
    await agent.hibernate();
    const { next, welcome } = await reconnect(agent, socket, [wanted.id]);
    expect(welcome.resume).toEqual([wanted.id]);
    expect((await next.seen("req"))[0]?.secrets).toEqual(secrets);
    next.send(done(wanted.id));
    await next.seen("done");
    expect((await agent.rows("SELECT sealed FROM operations"))[0]?.["sealed"]).toBeNull();
    expect(await everything(agent)).not.toContain(CANARY);
    for (const spy of logged) expect(JSON.stringify(spy.mock.calls)).not.toContain(CANARY);
    const stored = await runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) =>
      JSON.stringify(storage.sql.exec("SELECT * FROM outbox").toArray()),
    );
    expect(stored).not.toContain(CANARY);
  });

  it("are equally protected as mount flags and as the controller's publish context, and sent unchanged", async () => {
    outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const params = {
      pluginId: "p",
      mount: { fsType: "ext4", mountFlags: [CANARY] },
      publishContext: { token: CANARY },
    };
    const wanted = operation({ params });
    await agent.session.start(wanted);
    expect((await socket.seen("req"))[0]).toMatchObject({ params });
    expect(await everything(agent)).not.toContain(CANARY);
    await agent.hibernate();
    const { next } = await reconnect(agent, socket, [wanted.id]);
    expect((await next.seen("req"))[0]).toMatchObject({ params });
    next.send(done(wanted.id));
    await next.seen("done");
    expect(await everything(agent)).not.toContain(CANARY);
  });

  it("are equally protected in a result with a publish context, which its owner receives unchanged", async () => {
    const owner = Promise.withResolvers<unknown>();
    const down = Promise.withResolvers<void>();
    vi.spyOn(ClusterRegistry.prototype, "operationDone").mockImplementation(async (_node, _id, result) => {
      await down.promise;
      owner.resolve(result);
    });
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = operation({ method: "csi.controller.publish" });
    await agent.session.start(wanted);
    await socket.seen("req");
    const result = { publishContext: { token: CANARY } };
    socket.send(done(wanted.id, result));
    await socket.seen("done");
    expect(await agent.rows("SELECT body FROM outbox WHERE topic = 'result'")).toHaveLength(1);
    expect(await everything(agent)).not.toContain(CANARY);
    down.resolve();
    expect(await owner.promise).toEqual({ state: "done", result });
  });

  it("are sealed under a key that is rotated with all others", async () => {
    outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    expect(await agent.rows("SELECT * FROM data_keys")).toEqual([]);
    await agent.session.start(operation({ secrets }));
    await eventually(async () =>
      expect(await agent.rows("SELECT * FROM session WHERE holds_keys = 1")).toHaveLength(1),
    );
    expect((await put("/v1/sys/rotate", {})).status).toBe(204);
    await eventually(async () => expect((await agent.rows("SELECT term FROM data_keys")).length).toBeGreaterThan(1));
    // Secrets sealed before the restart are still opened.
    const { next } = await reconnect(agent, socket);
    expect((await next.seen("req"))[0]?.secrets).toEqual(secrets);
    await del(`/v1/agent/${agent.node}`);
    await eventually(async () => {
      const held = await runInDurableObject(env.ACCESS_CONTROL.getByName("main"), (_object, { storage }) =>
        storage.sql.exec("SELECT name FROM key_holders WHERE kind = 'node-session'").toArray(),
      );
      expect(held).toEqual([]);
    });
    expect((await accessControl(env).keyStatus()).pending).toBe(0);
  });
});

it("removing an agent ends its operations: unsent ones as failed, others as unknown", async () => {
  const owner = outcomes();
  const [agent, socket] = await ScriptedAgent.connected();
  const wanted = Array.from({ length: 34 }, () => operation());
  for (const each of wanted) await agent.session.start(each);
  await socket.seen("req", 32);
  await del(`/v1/agent/${agent.node}`);
  await told(34, owner);
  const states = new Map(owner.told.map(([, id, { state }]) => [id, state]));
  expect(wanted.map(({ id }) => states.get(id))).toEqual([
    ...Array.from({ length: 32 }, () => "given-up"),
    ...Array.from({ length: 2 }, () => "failed"),
  ]);
  expect(await agent.session.start(operation())).toMatchObject({ ok: false, reason: "unavailable" });
  expect(ClusterRegistry.prototype.operationDone).toHaveBeenCalled();
});
