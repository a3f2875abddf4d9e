import type { NodeReport, Req } from "@sallyport/agent-protocol";
import { expect } from "vitest";
import { done, eventually, nodeReport, ScriptedAgent, statusOf } from "./scripted-agent.ts";

/** The answer of a healthy agent. */
function resultOf({ method, params }: Req): Record<string, unknown> {
  switch (method) {
    case "dhv.create":
      return { path: "/v/1", bytes: 0 };
    case "csi.controller.create":
      return { externalId: params["name"], capacityBytes: 0, context: {}, topologies: [] };
    default:
      return {};
  }
}

/** A node that performs every operation. */
export async function connect(node: object = {}): Promise<{ agent: ScriptedAgent; stop(): Promise<void> }> {
  const [agent, socket] = await ScriptedAgent.connected({ node: nodeReport(node as Partial<NodeReport>) });
  await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
  let over = false;
  const serve = async () => {
    for (let read = 0; !over; await scheduler.wait(2)) {
      for (const frame of socket.frames.slice(read)) {
        read += 1;
        if (frame.t !== "req") continue;
        socket.send({ t: "ack", op: frame.op, state: "accepted" });
        socket.send(done(frame.op, resultOf(frame)));
      }
    }
  };
  const served = serve();
  return {
    agent,
    stop: () => {
      over = true;
      return served;
    },
  };
}
