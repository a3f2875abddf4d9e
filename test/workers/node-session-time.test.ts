import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { CLOSE } from "@sallyport/agent-protocol";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { NodeSession } from "../../src/objects/node-session.ts";
import { get } from "./client.ts";
import { clock } from "./clock.ts";
import {
  agentWithOperation,
  done,
  eventually,
  operation,
  outcomes,
  ScriptedAgent,
  statusOf,
} from "./scripted-agent.ts";

clock.moves = true;

const realNow = Date.now.bind(Date);
let offset = 0;
beforeEach(() => {
  offset = 0;
  vi.spyOn(Date, "now").mockImplementation(() => realNow() + offset);
});
afterEach(() => {
  offset = 0;
});

/** Lets time pass, and the session's alarm ring. */
async function pass(agent: ScriptedAgent, ms: number): Promise<void> {
  offset += ms;
  await runDurableObjectAlarm(agent.stub);
}

/** The platform notes pings by its own clock, which tests cannot move. */
const heardNow = (agent: ScriptedAgent): Promise<void> =>
  runInDurableObject(agent.stub, (_session: NodeSession, state) => {
    const at = new Date(Date.now());
    Object.defineProperty(state, "getWebSocketAutoResponseTimestamp", { value: () => at, configurable: true });
  });

const nextDue = (agent: ScriptedAgent) => runInDurableObject(agent.stub, (session: NodeSession) => session.nextDue());

const stateOf = async (agent: ScriptedAgent, id: string): Promise<unknown> =>
  (await agent.rows("SELECT state FROM operations WHERE id = ?", id))[0]?.["state"];

const ready = (agent: ScriptedAgent) => eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));

describe("a socket", () => {
  it("without pings is closed, and its node becomes lost", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await ready(agent);
    await pass(agent, 61_000);
    expect(await socket.closed).toMatchObject({ code: 1001 });
    await eventually(async () => expect(await statusOf(agent.node)).toBe("disconnected"));
    const [{ LastSeen }] = (await get("/v1/agents")).body;
    // The time of its last message, not of the detection.
    expect(Date.now() - Date.parse(LastSeen)).toBeGreaterThan(55_000);
    // The report of the loss leaves with its acknowledgement.
    await eventually(async () => expect(await nextDue(agent)).toBeNull());
  });

  it("that sends again after that is ignored", async () => {
    const { owner, agent, socket, wanted } = await agentWithOperation();
    await pass(agent, 61_000);
    try {
      socket.send(done(wanted.id));
    } catch {
      // The platform may have cut it by then.
    }
    await agent.session.state();
    expect(owner.told).toEqual([]);
    expect(await stateOf(agent, wanted.id)).toBe("sent");
  });

  it("whose agent pings stays open without a limit", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await ready(agent);
    for (let round = 0; round < 3; round++) {
      offset += 60_500;
      await heardNow(agent);
      await runDurableObjectAlarm(agent.stub);
    }
    await socket.settled();
    expect(await statusOf(agent.node)).toBe("ready");
  });

  it("that is silent is checked at the same time after a restart of its session", async () => {
    const [agent] = await ScriptedAgent.connected();
    await ready(agent);
    offset += 61_000;
    await heardNow(agent);
    await runDurableObjectAlarm(agent.stub);
    const due = await nextDue(agent);
    offset += 60_000;
    await agent.hibernate();
    expect((await nextDue(agent)) ?? 0).toBeLessThanOrEqual(due ?? 0);
  });

  it("uses the deployment's ping interval, which its agent receives", async () => {
    const agent = await ScriptedAgent.joined();
    await runInDurableObject(agent.stub, (session: NodeSession) => {
      const held = session as unknown as { env: object };
      held.env = { ...held.env, AGENT_PING_MS: "2000" };
    });
    const socket = await agent.connect();
    expect((await socket.welcome()).cfg).toMatchObject({ pingMs: 2_000, deadMs: 6_000 });
    await pass(agent, 12_500);
    expect(await Promise.race([socket.closed, scheduler.wait(30_000)])).toMatchObject({ code: 1001 });
  });

  it("without a hello is closed", async () => {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    await pass(agent, 61_000);
    expect(await socket.closed).toMatchObject({ code: 1001 });
    expect(await statusOf(agent.node)).toBeUndefined();
  });

  it("with pings but without a hello is closed", async () => {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    offset += 61_000;
    await heardNow(agent);
    await runDurableObjectAlarm(agent.stub);
    expect(await Promise.race([socket.closed, scheduler.wait(30_000)])).toMatchObject({ code: 1001 });
    expect(await nextDue(agent)).toBeNull();
  });
});

describe("an operation", () => {
  it("whose deadline passes has an unknown outcome, and a late result is still delivered", async () => {
    const { owner, agent, socket, wanted } = await agentWithOperation({ deadlineMs: 5_000 });
    await pass(agent, 16_000);
    await eventually(() => expect(owner.told).toHaveLength(1));
    expect(owner.told[0]?.[2]).toMatchObject({ state: "unknown", error: { kind: "timeout" } });
    expect(await stateOf(agent, wanted.id)).toBe("unknown");
    socket.send(done(wanted.id));
    await eventually(() => expect(owner.told).toHaveLength(2));
    expect(owner.told[1]?.[2]).toEqual({ state: "done", result: {} });
  });

  it("that is not sent before its deadline has failed, and is never sent", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const busy = Array.from({ length: 32 }, () => operation({ deadlineMs: 300_000 }));
    const late = operation({ deadlineMs: 5_000 });
    for (const each of [...busy, late]) await agent.session.start(each);
    await socket.seen("req", 32);
    await pass(agent, 16_000);
    await eventually(() => expect(owner.told).toHaveLength(1));
    expect(owner.told).toEqual([[agent.node, late.id, expect.objectContaining({ state: "failed" })]]);
    socket.send(done(busy[0]?.id ?? ""));
    await eventually(() => expect(owner.told).toHaveLength(2));
    await socket.settled();
    expect(await socket.seen("req")).toHaveLength(32);
  });

  it("of unknown outcome is retried automatically while its agent is connected", async () => {
    const { owner, agent, socket, wanted } = await agentWithOperation();
    const error = { kind: "timeout", message: "slow", outcome: "unknown" } as const;
    for (const count of [2, 3]) {
      socket.send({ t: "res", op: wanted.id, ms: 1, ok: false, error });
      // A pong comes sooner than what was sent before the ping is judged; the alarm may then be sooner than this look.
      await eventually(async () => {
        if (socket.frames.filter(({ t }) => t === "req").length < count)
          expect(await agent.rows("SELECT connection FROM operations")).toEqual([{ connection: "" }]);
      });
      offset += 200_000;
      await heardNow(agent);
      await runDurableObjectAlarm(agent.stub);
      await socket.seen("req", count);
    }
    socket.send(done(wanted.id));
    await eventually(() => expect(owner.told.map(([, , { state }]) => state)).toEqual(["unknown", "done"]));
  });

  it("of unknown outcome at its agent is retried after a second, then with growing delays", async () => {
    outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = operation();
    await agent.session.start(wanted);
    const error = { kind: "plugin", message: "nonsense", outcome: "unknown" } as const;
    for (const [at, most] of [1_000, 2_000, 4_000, 8_000].entries()) {
      await socket.seen("req", at + 1);
      const said = Date.now();
      socket.send({ t: "res", op: wanted.id, ms: 1, ok: false, error });
      const [{ due }] = await eventually(async () => {
        const rows = (await agent.rows("SELECT due, connection FROM operations")) as [{ due: number }];
        expect(rows).toMatchObject([{ connection: "" }]);
        return rows;
      });
      expect(due).toBeGreaterThanOrEqual(said + most / 2);
      expect(due).toBeLessThanOrEqual(Date.now() + most);
      await pass(agent, Math.max(1, due - Date.now() + 1));
    }
    await socket.seen("req", 5);
  });

  it("of unknown outcome delivers each report of its agent to its owner once", async () => {
    const owner = outcomes();
    const [agent, socket] = await ScriptedAgent.connected();
    const wanted = operation();
    await agent.session.start(wanted);
    for (const [at, message] of ["slow", "slow", "broken"].entries()) {
      await socket.seen("req", at + 1);
      const error = { kind: "plugin", message, outcome: "unknown" } as const;
      socket.send({ t: "res", op: wanted.id, ms: 1, ok: false, error });
      const said = [{ said: message, connection: "" }];
      await eventually(async () => expect(await agent.rows("SELECT said, connection FROM operations")).toEqual(said));
      await agent.session.start(wanted);
    }
    await eventually(() => expect(owner.told).toHaveLength(2));
    expect(owner.told.map(([, , result]) => result)).toEqual([
      { state: "unknown", error: { kind: "plugin", message: "slow" } },
      { state: "unknown", error: { kind: "plugin", message: "broken" } },
    ]);
  });

  it("is stored for a day after its end, then deleted", async () => {
    const { agent, socket, wanted } = await agentWithOperation();
    socket.send(done(wanted.id));
    await socket.seen("done");
    await pass(agent, 23 * 3_600_000);
    expect(await stateOf(agent, wanted.id)).toBe("done");
    await pass(agent, 3_700_000);
    expect(await stateOf(agent, wanted.id)).toBeUndefined();
  });

  it("of unknown outcome is abandoned after 30 days, reported to its owner, and later deleted", async () => {
    const { owner, agent, socket, wanted } = await agentWithOperation();
    socket.close();
    await pass(agent, 3_600_000);
    expect(await stateOf(agent, wanted.id)).toBe("unknown");
    await pass(agent, 31 * 24 * 3_600_000);
    await eventually(() => expect(owner.told.map(([, , { state }]) => state)).toEqual(["unknown", "given-up"]));
    expect(owner.told[1]?.[2]).toMatchObject({
      error: { kind: "timeout", message: "given up: in 30 days the node has not reported the outcome" },
    });
    await pass(agent, 25 * 3_600_000);
    expect(await agent.rows("SELECT id FROM operations")).toEqual([]);
  });

  it("of a node whose agent has been away longer than the grace period is refused at once", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    socket.close();
    await eventually(async () => expect((await agent.rows("SELECT live FROM session"))[0]).toEqual({ live: null }));
    offset += 31_000;
    const raced = await Promise.race([agent.session.start(operation()), scheduler.wait(20_000).then(() => "waited")]);
    expect(raced).toMatchObject({ ok: false, reason: "unavailable" });
  });
});

it("connect tokens are stored only while they are valid", async () => {
  const agent = await ScriptedAgent.joined();
  for (const _ of [1, 2, 3]) await agent.connect();
  offset += 61_000;
  const socket = await agent.connect();
  expect(await agent.rows("SELECT count(*) AS n FROM used_tokens")).toEqual([{ n: 1 }]);
  // One connection too many an hour ago is none now.
  await socket.welcome();
});

it("an agent whose report is too large may connect again later", async () => {
  const [agent, socket] = await ScriptedAgent.connected();
  const large = `{"t":"novelty","pad":"${"x".repeat(1_000_000)}"}`;
  for (let count = 0; count < 40; count++) socket.send(large);
  expect((await socket.closed).code).toBe(CLOSE.slowDown);
  offset += 30_000;
  await (await agent.connect()).welcome();
  await ready(agent);
});
