import { beforeEach, describe, expect, it, vi } from "vitest";
import { attempt, both, type Cut, cut, type Method, prototypeOf } from "../crash/crash-point.ts";
import { part } from "../support/long.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { addNode, ask, finish, listed, make, nodeId, run, ScriptedNodes, volume } from "./host-volumes.ts";
import { byItself, expectSettled, killRegistry } from "./host-volumes-world.ts";

clock.moves = true;

let nodes: ScriptedNodes;

beforeEach(async () => {
  nodes = new ScriptedNodes();
  await addNode(1);
  await addNode(2);
});

/** Also crashes during its own call: before the callee has it, or before the response arrives. */
type Death = Cut | readonly ["ClusterRegistry, in its call of", string, string, "there" | "back"];

function die(death: Death): () => boolean {
  if (death.length === 3) return cut(death);
  const [, name, method, when] = death;
  const original = prototypeOf(name as "EventLog")[method] as Method;
  let happened = false;
  vi.spyOn(prototypeOf(name as "EventLog"), method).mockImplementationOnce(async function (
    this: ThisParameterType<Method>,
    ...parameters
  ) {
    happened = true;
    if (when === "there") {
      await killRegistry();
      throw new Error("killed");
    }
    const answer = await original.apply(this, parameters);
    await this.ctx.storage.sync();
    await killRegistry();
    return answer;
  });
  return () => happened;
}

const during = (name: string, method: string): Death[] => [
  ["ClusterRegistry, in its call of", name, method, "there"],
  ["ClusterRegistry, in its call of", name, method, "back"],
];

const everywhere = (method: string): Death[] => [
  ...both("ClusterRegistry", method, "volumeOperation", "operationDone"),
  ...both("NodeSession", "start"),
  ...both("EventLog", "append"),
  ...during("NodeSession", "start"),
  ...during("EventLog", "append"),
];

const create = (token = "t") => put("/v1/volume/host/create", { Volume: volume(), IdempotencyToken: token });

/** As a client does that gets no answer. */
async function insist(request: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 0; tries < 20; tries++) {
    const answer = await attempt(request());
    if (answer) return answer;
    await scheduler.wait(50);
  }
  throw new Error("never answered");
}

describe("a created volume", () => {
  it.each(part(everywhere("createHostVolume")))("exists once after a crash in %s.%s (%s %s)", async (...death) => {
    const happened = die(death as unknown as Death);
    const made = await insist(() => create());
    expect(happened()).toBe(true);
    expect(made.status, made.text).toBe(200);
    await byItself(async () => {
      await expectSettled(nodes);
      expect(await listed()).toMatchObject([{ ID: made.body.Volume.ID, NodeID: nodeId(1) }]);
    });
  });

  it.each(part(everywhere("createHostVolume")))(
    "exists or not after a crash in %s.%s (%s %s) without a repeated request",
    async (...death) => {
      die(death as unknown as Death);
      const made = await attempt(ask());
      await byItself(() => expectSettled(nodes));
      if (made?.status === 200) expect(await listed()).toMatchObject([{ ID: made.body.Volume.ID }]);
    },
  );

  it.each(part([...both("ClusterRegistry", "operationDone"), ...during("NodeSession", "start")]))(
    "that fails on its node leaves nothing after a crash in %s.%s (%s %s)",
    async (...death) => {
      nodes.behave = () => ({ state: "failed", error: { kind: "plugin", message: "no" } });
      die(death as unknown as Death);
      await attempt(ask());
      await byItself(async () => {
        await expectSettled(nodes);
        expect(await listed()).toEqual([]);
      });
    },
  );
});

describe("an updated volume", () => {
  it.each(part(everywhere("updateHostVolume")))("has changed once after a crash in %s.%s (%s %s)", async (...death) => {
    const { ID } = await make();
    const happened = die(death as unknown as Death);
    const updated = await insist(() => ask({ ID, Name: "renamed" }));
    expect(happened()).toBe(true);
    expect(updated.status, updated.text).toBe(200);
    await byItself(async () => {
      await expectSettled(nodes);
      expect((await get(`/v1/volume/host/${ID}`)).body).toMatchObject({ Name: "renamed" });
    });
    expect((await make()).NodeID).toBe(nodeId(1));
  });
});

describe("a deleted volume", () => {
  it.each(part(everywhere("deleteHostVolume")))("is absent after a crash in %s.%s (%s %s)", async (...death) => {
    const { ID } = await make();
    const happened = die(death as unknown as Death);
    const deleted = await insist(() => del(`/v1/volume/host/${ID}`));
    expect(happened()).toBe(true);
    expect([200, 404]).toContain(deleted.status);
    await byItself(async () => {
      await expectSettled(nodes);
      expect(await listed()).toEqual([]);
    });
  });

  it.each(both("ClusterRegistry", "deleteHostVolume"))(
    "that is in use stays after a crash in %s.%s (%s %s)",
    async (...death) => {
      const { ID } = await make();
      await run(nodeId(1), ["db"]);
      die(death as unknown as Death);
      await attempt(del(`/v1/volume/host/${ID}`));
      await byItself(async () => {
        await expectSettled(nodes);
        expect(await listed()).toMatchObject([{ ID }]);
      });
      expect(nodes.disks.get(nodeId(1))?.has(ID)).toBe(true);
      vi.restoreAllMocks();
      nodes = new ScriptedNodes();
      await finish(nodeId(1));
      expect((await del(`/v1/volume/host/${ID}`)).status).toBe(200);
    },
  );
});

it("has every effect once when every delivery is repeated", async () => {
  for (const [name, method] of [
    ["NodeSession", "start"],
    ["ClusterRegistry", "operationDone"],
    ["EventLog", "append"],
  ] as const) {
    const original = prototypeOf(name)[method] as Method;
    const twice: Method = async function (...parameters) {
      await original.apply(this, parameters);
      return original.apply(this, parameters);
    };
    prototypeOf(name)[method] = twice;
    try {
      const { ID } = await make({ Name: method });
      await ask({ ID, Name: `${method}2` });
      await del(`/v1/volume/host/${ID}`);
    } finally {
      prototypeOf(name)[method] = original;
    }
  }
  await byItself(() => expectSettled(nodes));
  expect(nodes.sent).toHaveLength(9);
});
