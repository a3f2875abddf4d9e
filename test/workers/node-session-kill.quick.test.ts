import { expect, it } from "vitest";
import { both, cut } from "../crash/crash-point.ts";
import { del, get } from "./client.ts";
import { insist, settled, steady } from "./node-crashes.ts";
import { eventually, operation, outcomes, ScriptedAgent, statusOf } from "./scripted-agent.ts";

/** One kill of each side; node-session-crash.test.ts has those at every step. */

it("an operation completes once after a crash before its result is stored", async () => {
  const owner = outcomes();
  const [agent, live] = await steady();
  const happened = cut(["ClusterRegistry", "operationDone", "before"]);
  const wanted = operation({ secrets: { token: "secret" } });
  await insist(agent, wanted);
  await settled(agent, live, [wanted], owner);
  expect(happened()).toBe(true);
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
