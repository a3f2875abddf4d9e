import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, vi } from "vitest";
import type { Operation } from "../../src/contracts/node-operation.ts";
import { nodeSession } from "../../src/rpc/stubs.ts";
import type { outcomes } from "./scripted-agent.ts";
import { ScriptedAgent, statusOf } from "./scripted-agent.ts";
import { SteadyAgent } from "./steady-agent.ts";

/** Nodes whose connections and objects are cut while they have operations. */

const agents: SteadyAgent[] = [];
afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.stop();
});

/** A connected agent that performs what it is sent, until the end of the test. */
export async function steady(): Promise<[ScriptedAgent, SteadyAgent]> {
  const agent = await ScriptedAgent.joined();
  const live = new SteadyAgent(agent);
  agents.push(live);
  return [agent, live];
}

/** As an owner does that is not sure: it asks again until the operation is taken on. */
export async function insist(agent: ScriptedAgent, wanted: Operation): Promise<void> {
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
export async function settled(
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
