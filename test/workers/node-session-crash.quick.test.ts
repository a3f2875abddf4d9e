import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Operation } from "../../src/contracts/node-operation.ts";
import { nodeSession } from "../../src/rpc/stubs.ts";
import { both, type Cut, cut } from "../crash/crash-point.ts";
import { part } from "../support/long.ts";
import { del, get } from "./client.ts";
import { eventually, operation, outcomes, ScriptedAgent, statusOf } from "./scripted-agent.ts";
import { SteadyAgent } from "./steady-agent.ts";

const agents: SteadyAgent[] = [];
afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.stop();
});

async function steady(): Promise<[ScriptedAgent, SteadyAgent]> {
  const agent = await ScriptedAgent.joined();
  const live = new SteadyAgent(agent);
  agents.push(live);
  return [agent, live];
}

/** As an owner does that is not sure: it asks again until the operation is taken on. */
async function insist(agent: ScriptedAgent, wanted: Operation): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const started = await nodeSession(env, agent.node)
      .start(wanted)
      .catch(() => null);
    if (started?.ok) return;
    await scheduler.wait(30);
  }
  throw new Error("never taken on");
}

/** Everything has come to rest as if nothing had been cut. */
async function settled(
  agent: ScriptedAgent,
  live: SteadyAgent,
  wanted: readonly Operation[],
  owner: ReturnType<typeof outcomes>,
) {
  await vi.waitFor(
    async () => {
      await runDurableObjectAlarm(env.CLUSTER_REGISTRY.getByName("main")).catch(() => false);
      const ends = new Map(owner.told.map(([, id, { state }]) => [id, state]));
      expect(wanted.map(({ id }) => ends.get(id))).toEqual(wanted.map(() => "done"));
      expect(await statusOf(agent.node)).toBe("ready");
      expect(await agent.rows("SELECT id FROM operations WHERE state <> 'done'")).toEqual([]);
      expect(await agent.rows("SELECT seq FROM outbox")).toEqual([]);
    },
    { timeout: 45_000, interval: 100 },
  );
  // Not one of them twice.
  expect([...live.effects].sort()).toEqual(wanted.map(({ id }) => id).sort());
}

const CUTS: Cut[] = [
  ...both("NodeSession", "fetch", "webSocketMessage", "start"),
  ...both("ClusterRegistry", "agentIdentity", "agentNews", "operationDone"),
  ...both("AccessControl", "holdsKeys"),
  ...both("EventLog", "append"),
];

describe("a node's registration and an operation", () => {
  it.each(part(CUTS))(
    "complete after a crash in %s.%s (%s) at the beginning",
    { timeout: 60_000 },
    async (...where) => {
      const owner = outcomes();
      const happened = cut(where);
      const [agent, live] = await steady();
      const wanted = operation({ secrets: { token: "secret" } });
      await insist(agent, wanted);
      await settled(agent, live, [wanted], owner);
      expect(happened()).toBe(true);
    },
  );

  it.each([
    ...both("NodeSession", "start", "webSocketMessage", "webSocketClose"),
    ...both("ClusterRegistry", "operationDone", "agentNews"),
  ])("complete after a crash in %s.%s (%s) when it is connected", { timeout: 60_000 }, async (...where) => {
    const owner = outcomes();
    const [agent, live] = await steady();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    const happened = cut(where);
    const wanted = [operation(), operation()];
    for (const each of wanted) await insist(agent, each);
    live.cut();
    await settled(agent, live, wanted, owner);
    expect(happened()).toBe(true);
  });
});

it.each(both("NodeSession", "revoke"))("removing an agent completes after a crash in %s.%s (%s)", async (...where) => {
  outcomes();
  const [agent, socket] = await ScriptedAgent.connected();
  await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
  const happened = cut(where);
  expect((await del(`/v1/agent/${agent.node}`)).status).toBe(200);
  expect(happened()).toBe(true);
  await socket.closed;
  await eventually(async () => expect(await agent.rows("SELECT id FROM session WHERE revoked = 1")).toHaveLength(1));
  expect((await (await agent.connect()).closed).code).toBe(4003);
  expect(await statusOf(agent.node)).toBe("disconnected");
  expect((await get("/v1/agents")).body).toEqual([]);
});

/** The same numbers each time, so that a failure can be looked at again. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

it.each([1, 2, 3])(
  "each operation has one effect and is reported done after random crashes (seed %i)",
  { timeout: 60_000 },
  async (seed) => {
    const random = randomOf(seed);
    const owner = outcomes();
    const [agent, live] = await steady();
    const wanted = Array.from({ length: 25 }, (_, n) => operation({ key: `k${n % 5}`, gen: n + 1 }));
    for (const each of wanted) {
      const asked = insist(agent, each);
      const luck = random();
      if (luck < 0.2) await agent.kill();
      else if (luck < 0.4) live.cut();
      else if (luck < 0.5) await agent.hibernate().catch(() => undefined);
      await asked;
    }
    await settled(agent, live, wanted, owner);
  },
);
