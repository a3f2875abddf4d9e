import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NodeStore } from "../../src/cluster/nodes/node-store.ts";
import { get, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import {
  allLines,
  allocations,
  follow,
  ID,
  id,
  read,
  ready,
  registry,
  registryObject,
  report,
} from "./nodes-helpers.ts";
import { closeAll } from "./streams.ts";

clock.moves = true;

const SECOND = 1_000_000_000;

let time: ShiftedClock;
beforeEach(async () => {
  time = new ShiftedClock();
  await ready();
});
afterEach(closeAll);

async function pass(ms: number): Promise<void> {
  time.advance(ms);
  await runDurableObjectAlarm(registryObject());
}

const drain = (DrainSpec: object | null, more: object = {}) => put(`/v1/node/${ID}/drain`, { DrainSpec, ...more });

const systemJob = (Type: string) =>
  put("/v1/cluster/objects", [
    { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "logs", Namespace: "default", Type } } },
  ]);

describe("a drain", () => {
  // Proves: C.payload.NodeDrain, C.type.NodeDrain
  it("that waits for allocations shows that in its event and in reads", async () => {
    await allocations({ a1: "running" });
    const { next } = await follow("?topic=NodeDrain&index=-1");
    const answer = await drain({ Deadline: 3600 * SECOND, IgnoreSystemJobs: true }, { Meta: { why: "disks" } });
    expect(answer.status).toBe(200);
    const told = await next();
    const { Index } = told;
    expect(answer.body).toEqual({ EvalCreateIndex: 0, EvalIDs: [], Index, NodeModifyIndex: Index });
    expect(answer.headers.get("X-Orch-Index")).toBe(String(Index));
    expect(told).toMatchObject({ Topic: "NodeDrain", Type: "NodeDrain", Key: ID, Namespace: "", FilterKeys: null });
    const node = await read();
    expect(node).toEqual(told.Payload.Node);
    const started = node.DrainStrategy?.StartedAt ?? "";
    expect(node).toMatchObject({
      Drain: true,
      SchedulingEligibility: "ineligible",
      Status: "ready",
      DrainStrategy: {
        Deadline: 3600 * SECOND,
        IgnoreSystemJobs: true,
        ForceDeadline: new Date(Date.parse(started) + 3_600_000).toISOString(),
      },
      LastDrain: { Status: "draining", StartedAt: started, UpdatedAt: started, Meta: { why: "disks" } },
    });
    expect(node.LastDrain?.AccessorID).toMatch(/./);
    expect(node.Events.at(-1)).toMatchObject({
      Message: "Node drain strategy set",
      Subsystem: "Drain",
      Details: null,
      CreateIndex: Index,
    });
  });

  it("reaches subscribers of Node, too", async () => {
    const { next } = await follow("?topic=Node&index=-1");
    await allocations({ a1: "running" });
    await drain({ Deadline: 0 });
    expect(await next()).toMatchObject({ Topic: "NodeDrain", Type: "NodeDrain" });
  });

  it("of a node without allocations completes at once, with its own event line", async () => {
    await allocations({ old: "complete", gone: "lost" });
    const { next } = await follow("?topic=NodeDrain&index=-1");
    const answer = await drain({ Deadline: 0 });
    const [set, done] = [await next(), await next()];
    expect(set.Payload.Node).toMatchObject({ Drain: true, LastDrain: { Status: "draining" } });
    expect(done.Payload.Node).toMatchObject({
      Drain: false,
      DrainStrategy: null,
      SchedulingEligibility: "ineligible",
      LastDrain: { Status: "complete" },
    });
    expect(done.Payload.Node.Events.slice(-2)).toMatchObject([
      { Message: "Node drain strategy set", CreateIndex: set.Index },
      { Message: "Node drain complete", Details: null, CreateIndex: done.Index },
    ]);
    expect(await read()).toEqual(done.Payload.Node);
    // A client waits for a change of the node beyond the index of its write, so that index is the beginning's.
    expect([answer.body.NodeModifyIndex, answer.headers.get("X-Orch-Index")]).toEqual([set.Index, String(set.Index)]);
    const waited = await get(`/v1/node/${ID}?index=${answer.body.NodeModifyIndex}&wait=300s`);
    expect(waited.body).toMatchObject({ DrainStrategy: null, ModifyIndex: done.Index });
  });

  it("completes with the event line of its last allocation's end", async () => {
    await allocations({ a1: "running", a2: "pending" });
    await drain({ Deadline: 0 });
    await allocations({ a1: "complete" });
    expect((await read()).Drain).toBe(true);
    const { nextLine } = await follow("?topic=*&index=-1");
    await allocations({ a2: "failed" });
    const line = await nextLine();
    expect(line.map(({ Topic, Type }) => [Topic, Type])).toEqual([
      ["Allocation", "AllocationUpdated"],
      ["NodeDrain", "NodeDrain"],
    ]);
    expect(await read()).toMatchObject({
      Drain: false,
      LastDrain: { Status: "complete" },
      ModifyIndex: line[0]?.Index,
    });
  });

  it("completes when several allocations end in one report", async () => {
    await allocations({ a1: "running", a2: "running" });
    await drain({ Deadline: 0 });
    const before = (await allLines()).length;
    await allocations({ a1: "complete", a2: "complete" });
    expect((await allLines()).slice(before)).toHaveLength(1);
    expect((await read()).LastDrain?.Status).toBe("complete");
  });

  it("completes when its last allocation has moved to another node", async () => {
    await ready(id(2));
    await allocations({ a1: "running" });
    await drain({ Deadline: 0 });
    await allocations({ a1: "running" }, { node: id(2) });
    expect((await read()).LastDrain?.Status).toBe("complete");
  });

  it("with a deadline completes then, and reports that allocations still ran", async () => {
    await allocations({ a1: "running" });
    await drain({ Deadline: 60 * SECOND });
    await pass(59_000);
    expect((await read()).Drain).toBe(true);
    const { next } = await follow("?topic=NodeDrain&index=-1");
    await pass(2_000);
    const done = await next();
    expect(done.Payload.Node).toMatchObject({ Drain: false, LastDrain: { Status: "complete" } });
    expect(done.Payload.Node.Events.at(-1)).toMatchObject({
      Message: "Node drain complete",
      Details: { deadline_reached: "true" },
    });
  });

  it("with a deadline completes although the change of another node fails, which is tried again", async () => {
    await ready(id(2));
    await allocations({ a1: "running" });
    await allocations({ a2: "running" }, { node: id(2) });
    await drain({ Deadline: 60 * SECOND });
    await put(`/v1/node/${id(2)}/drain`, { DrainSpec: { Deadline: 60 * SECOND } });
    const isDraining = () => Promise.all([ID, id(2)].map(async (node) => (await read(node)).Drain));
    expect(await isDraining()).toEqual([true, true]);
    const write = NodeStore.prototype.write;
    const failing = vi.spyOn(NodeStore.prototype, "write").mockImplementation(function (this: NodeStore, ...given) {
      if (given[2].ID === ID) throw new Error("too large");
      return write.apply(this, given);
    });
    await pass(61_000);
    expect(await isDraining()).toEqual([true, false]);
    failing.mockRestore();
    await pass(61_000);
    expect(await isDraining()).toEqual([false, false]);
  });

  it("without a deadline continues while an allocation runs", async () => {
    await allocations({ a1: "running" });
    await drain({ Deadline: 0 });
    await pass(365 * 86_400_000);
    expect(await read()).toMatchObject({ Drain: true, DrainStrategy: { Deadline: 0, ForceDeadline: null } });
  });

  it.each([-1, -1_000_000_000])("with force (%i) completes at once, with running allocations", async (Deadline) => {
    await allocations({ a1: "running" });
    const answer = await drain({ Deadline });
    const lines = await allLines();
    expect(lines.at(-2)?.[0]?.Payload.Node.DrainStrategy).toMatchObject({ Deadline, ForceDeadline: null });
    expect(answer.body.NodeModifyIndex).toBe(lines.at(-2)?.[0]?.Index);
    const node = await read();
    expect(node).toMatchObject({
      Drain: false,
      SchedulingEligibility: "ineligible",
      LastDrain: { Status: "complete" },
    });
    expect(node.Events.at(-1)?.Details).toEqual({ deadline_reached: "true" });
  });

  it("keeps a deadline beyond 2^53 nanoseconds exactly", async () => {
    await allocations({ a1: "running" });
    expect((await put(`/v1/node/${ID}/drain`, '{"DrainSpec":{"Deadline":31536000000000001}}')).status).toBe(200);
    expect((await get(`/v1/node/${ID}`)).text).toContain('"Deadline":31536000000000001,');
    const { StartedAt, ForceDeadline } = (await read()).DrainStrategy ?? {};
    expect(Date.parse(ForceDeadline ?? "") - Date.parse(StartedAt ?? "")).toBe(31_536_000_000);
  });

  it.each(["system", "sysbatch"])("that ignores system jobs does not wait for those of type %s", async (type) => {
    await systemJob(type);
    await allocations({ s1: "running" }, { job: "logs" });
    await allocations({ a1: "running" });
    await drain({ Deadline: 0, IgnoreSystemJobs: true });
    expect((await read()).Drain).toBe(true);
    await allocations({ a1: "complete" });
    expect((await read()).LastDrain?.Status).toBe("complete");
  });

  it("that ignores system jobs recognises them by their allocations, too", async () => {
    const Allocation = { ID: "s1", NodeID: ID, JobID: "logs", ClientStatus: "running", Job: { Type: "system" } };
    await put("/v1/cluster/objects", [{ Topic: "Allocation", Type: "AllocationUpdated", Payload: { Allocation } }]);
    await drain({ Deadline: 0, IgnoreSystemJobs: true });
    expect((await read()).LastDrain?.Status).toBe("complete");
  });

  it("waits for system jobs unless it ignores them, and for unreported jobs", async () => {
    await systemJob("system");
    await allocations({ s1: "running" }, { job: "logs" });
    await drain({ Deadline: 0 });
    expect((await read()).Drain).toBe(true);
    await allocations({ a1: "running" });
    await drain({ Deadline: 0, IgnoreSystemJobs: true });
    expect((await read()).Drain).toBe(true);
  });

  it("in progress accepts new settings, and keeps its start", async () => {
    await allocations({ a1: "running" });
    await drain({ Deadline: 0 }, { Meta: { why: "first" } });
    const before = await read();
    time.advance(10_000);
    await drain({ Deadline: 60 * SECOND });
    const node = await read();
    expect(node).toMatchObject({
      DrainStrategy: { Deadline: 60 * SECOND, StartedAt: before.DrainStrategy?.StartedAt },
      LastDrain: { Status: "draining", StartedAt: before.LastDrain?.StartedAt, Meta: { why: "first" } },
    });
    expect(Date.parse(node.LastDrain?.UpdatedAt ?? "")).toBeGreaterThan(Date.parse(before.LastDrain?.UpdatedAt ?? ""));
    expect(node.Events.at(-1)?.Message).toBe("Node drain strategy updated");
    // The deadline that counts is the new one.
    await pass(61_000);
    expect((await read()).LastDrain?.Status).toBe("complete");
  });

  it.each([
    ["null", { DrainSpec: null }, "ineligible"],
    ["absent", {}, "ineligible"],
    ["null, with MarkEligible", { DrainSpec: null, MarkEligible: true }, "eligible"],
  ])("ends when its settings are %s", async (_what, body, eligibility) => {
    await allocations({ a1: "running" });
    await drain({ Deadline: 60 * SECOND });
    const { next } = await follow("?topic=NodeDrain&index=-1");
    expect((await put(`/v1/node/${ID}/drain`, { ...body, Meta: { by: "me" } })).status).toBe(200);
    const told = await next();
    const node = await read();
    expect(node).toEqual(told.Payload.Node);
    expect(node).toMatchObject({
      Drain: false,
      DrainStrategy: null,
      SchedulingEligibility: eligibility,
      LastDrain: { Status: "canceled", Meta: { by: "me" } },
    });
    expect(node.Events.at(-1)?.Message).toBe("Node drain disabled");
    // Its deadline has no effect any more.
    await pass(61_000);
    expect((await read()).ModifyIndex).toBe(node.ModifyIndex);
  });

  it("leaves the completed node ineligible although MarkEligible was set at its start", async () => {
    await drain({ Deadline: 0 }, { MarkEligible: true });
    expect(await read()).toMatchObject({ Drain: false, SchedulingEligibility: "ineligible" });
  });

  it("that is absent can be cleared, without an effect except MarkEligible", async () => {
    const before = await read();
    expect((await drain(null)).body.NodeModifyIndex).toBe(before.ModifyIndex);
    expect(await read()).toEqual(before);
    await put(`/v1/node/${ID}/eligibility`, { Eligibility: "ineligible" });
    await drain(null, { MarkEligible: true });
    expect((await read()).SchedulingEligibility).toBe("eligible");
  });

  it("continues while the node is away and after its return", async () => {
    await allocations({ a1: "running" });
    await drain({ Deadline: 3600 * SECOND });
    await registry().nodeLost(ID);
    await pass(61_000);
    expect(await read()).toMatchObject({ Status: "down", Drain: true });
    await registry().nodeConnected(ID);
    await pass(3600_000);
    expect(await read()).toMatchObject({ Status: "ready", Drain: false, LastDrain: { Status: "complete" } });
  });

  it("that a scheduler reports can be ended by that scheduler only", async () => {
    const node = { ID: id(3), Name: "theirs" };
    await report("NodeDrain", { ...node, DrainStrategy: { Deadline: SECOND, ForceDeadline: "2020-01-01T00:00:00Z" } });
    await pass(60_000);
    await allocations({ a1: "complete" }, { node: id(3) });
    expect(await read(id(3))).toMatchObject({ Drain: true, DrainStrategy: { ForceDeadline: "2020-01-01T00:00:00Z" } });
    await report("NodeDrain", { ...node, DrainStrategy: null });
    expect(await read(id(3))).toMatchObject({ Drain: false, DrainStrategy: null });
  });

  it("of a reported node that starts here ends here, also when the node is reported meanwhile", async () => {
    const node = { ID: id(3), Name: "theirs" };
    await report("NodeRegistration", node);
    await allocations({ a1: "running" }, { node: id(3) });
    await put(`/v1/node/${id(3)}/drain`, { DrainSpec: { Deadline: 0 } });
    await report("NodeRegistration", { ...node, Meta: { a: "b" } });
    expect(await read(id(3))).toMatchObject({ Drain: true, SchedulingEligibility: "ineligible", Meta: { a: "b" } });
    await allocations({ a1: "complete" }, { node: id(3) });
    expect((await read(id(3))).LastDrain?.Status).toBe("complete");
  });
});
