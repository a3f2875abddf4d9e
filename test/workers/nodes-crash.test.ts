import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { attempt, both, type Cut, cut, prototypeOf } from "../crash/crash-point.ts";
import { part } from "../support/long.ts";
import { get, put, send } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { allLines, allocations, fingerprint, ID, id, read, ready, registry, registryObject } from "./nodes-helpers.ts";
import { checkInRounds } from "./running-workers.ts";
import { closeAll } from "./streams.ts";

clock.moves = true;

let time: ShiftedClock;
beforeEach(() => {
  time = new ShiftedClock();
});
afterEach(closeAll);

/** Advances the clock and runs the registry's alarms until `check` holds, without any request. */
const byItself = (check: () => Promise<void>): Promise<void> =>
  checkInRounds(20, check, async (round) => {
    if (round > 2) time.advance(3_000);
    await runDurableObjectAlarm(registryObject()).catch(() => false);
  });

/** Types of the lines about a node, in order; that they count up from one is checked, and that a read shows the last. */
async function history(): Promise<string[]> {
  const lines = await allLines();
  expect(lines.map(([event]) => event?.Index)).toEqual(lines.map((_, position) => position + 1));
  const last = lines.flat().findLast(({ Key }) => Key === ID);
  const answer = await get(`/v1/node/${ID}`);
  if (last === undefined || last.Type === "NodeDeregistration") expect(answer.status).toBe(404);
  else expect(answer.body).toEqual(last.Payload.Node);
  return lines.flat().map(({ Type }) => Type);
}

const LIFE = ["NodeRegistration", "NodeEvent"];
const drain = (DrainSpec: object | null) => put(`/v1/node/${ID}/drain`, { DrainSpec });

interface Flow {
  readonly method: string;
  readonly prepare?: () => Promise<unknown>;
  readonly act: () => Promise<unknown>;
  /** The stream's lines before the change, and the whole lines that it adds. */
  readonly before: readonly string[];
  readonly adds: readonly string[];
}

const ANY_ANSWER = new Headers();
const called = async (call: Promise<unknown>) => {
  await call;
  return { status: 200, headers: ANY_ANSWER, text: "", body: null };
};

const flows: Readonly<Record<string, Flow>> = {
  registration: {
    method: "registerNode",
    act: () => attempt(called(registry().registerNode(id(2), fingerprint({ Name: "two" })))),
    before: LIFE,
    adds: ["NodeRegistration"],
  },
  loss: {
    method: "nodeLost",
    act: () => attempt(called(registry().nodeLost(ID))),
    before: LIFE,
    adds: ["NodeEvent"],
  },
  eligibility: {
    method: "setNodeEligibility",
    act: () => attempt(put(`/v1/node/${ID}/eligibility`, { Eligibility: "ineligible" })),
    before: LIFE,
    adds: ["NodeEligibility"],
  },
  "drain with something to wait for": {
    method: "drainNode",
    prepare: () => allocations({ a1: "running" }),
    act: () => attempt(drain({ Deadline: 0 })),
    before: [...LIFE, "AllocationUpdated"],
    adds: ["NodeDrain"],
  },
  "drain with nothing to wait for": {
    method: "drainNode",
    act: () => attempt(drain({ Deadline: 0 })),
    before: LIFE,
    adds: ["NodeDrain", "NodeDrain"],
  },
  "end of a drain with its last allocation": {
    method: "ingest",
    prepare: async () => {
      await allocations({ a1: "running" });
      await drain({ Deadline: 0 });
    },
    act: () =>
      attempt(
        put("/v1/cluster/objects", [
          {
            Topic: "Allocation",
            Type: "AllocationUpdated",
            Payload: { Allocation: { ID: "a1", NodeID: ID, JobID: "web", ClientStatus: "complete" } },
          },
        ]),
      ),
    before: [...LIFE, "AllocationUpdated", "NodeDrain"],
    adds: ["AllocationUpdated", "NodeDrain"],
  },
  "end of a drain on demand": {
    method: "stopDraining",
    prepare: async () => {
      await allocations({ a1: "running" });
      await drain({ Deadline: 0 });
    },
    act: () => attempt(drain(null)),
    before: [...LIFE, "AllocationUpdated", "NodeDrain"],
    adds: ["NodeDrain"],
  },
  purge: {
    method: "purgeNode",
    act: () => attempt(send("PUT", `/v1/node/${ID}/purge?force=true`, "")),
    before: LIFE,
    adds: ["NodeDeregistration"],
  },
};

const cuts = Object.entries(flows).flatMap(([name, { method }]) =>
  [...both("ClusterRegistry", method), ...both("EventLog", "append")].map((where): readonly [string, ...Cut] => [
    name,
    ...where,
  ]),
);

describe("a change of a node is stored completely or not at all, and published once", () => {
  it.each(part(cuts))("%s, with a crash in %s.%s (%s)", async (name, ...where) => {
    const flow = flows[name] as Flow;
    await ready();
    await flow.prepare?.();
    const happened = cut(where);
    const answered = await flow.act();
    expect(happened()).toBe(true);
    const isThere = !(where[0] === "ClusterRegistry" && where[2] === "before");
    if (!isThere) expect(answered).toBeNull();
    await byItself(async () => expect(await history()).toEqual([...flow.before, ...(isThere ? flow.adds : [])]));
  });
});

it.each([
  ["a drain without allocations", { Deadline: 0 }],
  ["a drain by force", { Deadline: -1 }],
])("%s completes although the registry crashes in the middle", async (_what, spec) => {
  await ready();
  if (spec.Deadline < 0) await allocations({ a1: "running" });
  vi.spyOn(prototypeOf("EventLog"), "append").mockImplementationOnce(async () => {
    await runInDurableObject(registryObject(), (_object, state) => state.abort("killed by a test")).catch(() => null);
    throw new Error("unreachable");
  });
  expect(await attempt(drain(spec))).toBeNull();
  await byItself(async () => expect((await history()).slice(-2)).toEqual(["NodeDrain", "NodeDrain"]));
  expect((await read()).LastDrain?.Status).toBe("complete");
});

describe("during an outage of the event log", () => {
  it("changes are answered, and published in order later", async () => {
    await ready();
    const append = vi.spyOn(prototypeOf("EventLog"), "append").mockRejectedValue(new Error("log is down"));
    expect(await registry().registerNode(id(2), fingerprint())).toEqual({ ok: true, value: { index: null } });
    const answer = await put(`/v1/node/${ID}/eligibility`, { Eligibility: "ineligible" });
    expect([answer.status, answer.body.NodeModifyIndex]).toEqual([200, 0]);
    await drain({ Deadline: 0 });
    expect(await read()).toMatchObject({ Drain: false, LastDrain: { Status: "complete" }, ModifyIndex: 2 });
    expect(await read(id(2))).toMatchObject({ CreateIndex: 0, ModifyIndex: 0, Events: [{ CreateIndex: 0 }] });
    append.mockRestore();
    await byItself(async () =>
      expect((await allLines()).flat().map(({ Type, Key }) => [Type, Key])).toEqual([
        ...[["NodeRegistration"], ["NodeEvent"]].map(([type]) => [type, ID]),
        ["NodeRegistration", id(2)],
        ...["NodeEligibility", "NodeDrain", "NodeDrain"].map((type) => [type, ID]),
      ]),
    );
    expect(await read()).toMatchObject({ CreateIndex: 1, ModifyIndex: 6 });
    expect((await read()).Events.map(({ CreateIndex }) => CreateIndex)).toEqual([1, 2, 4, 5, 6]);
    expect(await read(id(2))).toMatchObject({ CreateIndex: 3, ModifyIndex: 3, Events: [{ CreateIndex: 3 }] });
  });

  it("a node that was purged and created again has the indexes of its second life only", async () => {
    const append = vi.spyOn(prototypeOf("EventLog"), "append").mockRejectedValue(new Error("log is down"));
    await registry().registerNode(ID, fingerprint());
    await registry().purgeNode(ID, true);
    await registry().registerNode(ID, fingerprint({ Name: "again" }));
    append.mockRestore();
    await byItself(async () => expect(await allLines()).toHaveLength(3));
    const [first, gone] = (await allLines()).flat().map(({ Payload: { Node } }) => Node);
    for (const [node, index] of [
      [first, 1],
      [gone, 2],
    ] as const) {
      expect(node).toMatchObject({ CreateIndex: 1, ModifyIndex: index, Events: [{ CreateIndex: 1 }] });
    }
    expect(await read()).toMatchObject({ Name: "again", CreateIndex: 3, ModifyIndex: 3, Events: [{ CreateIndex: 3 }] });
  });
});

it("a node becomes down on time although the registry crashes during the wait", async () => {
  await ready();
  await registry().nodeLost(ID);
  const happened = cut(["ClusterRegistry", "readNode", "before"]);
  await attempt(get(`/v1/node/${ID}`));
  expect(happened()).toBe(true);
  time.advance(61_000);
  await byItself(async () => expect((await read()).Status).toBe("down"));
});
