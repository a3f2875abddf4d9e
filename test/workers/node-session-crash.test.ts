import { describe, expect, it } from "vitest";
import { both, type Cut, cut } from "../crash/crash-point.ts";
import { part } from "../support/long.ts";
import { insist, settled, steady } from "./node-crashes.ts";
import { eventually, operation, outcomes, statusOf } from "./scripted-agent.ts";

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
