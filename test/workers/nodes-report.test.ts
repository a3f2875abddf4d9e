import { afterEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { get, put } from "./client.ts";
import { allLines, fingerprint, follow, ID, id, read, ready, register, registry, report } from "./nodes-helpers.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

describe("a reported node", () => {
  it("is published and returned with every field, including unknown ones and numbers beyond 2^53", async () => {
    const { next } = await follow();
    const body = `[{"Topic":"Node","Type":"NodeRegistration","Payload":{"Node":{"ID":"${ID}","Name":"n1",
      "Status":"ready","Custom":{"Deep":[1736191993011000123]},"NodeResources":{"Cpu":{"CpuShares":7,"Own":1}},
      "SecretID":"4b2b8f2e-secret","CreateIndex":77,"ModifyIndex":99}}}]`;
    expect((await put("/v1/cluster/objects", body)).status).toBe(200);
    const told = await next();
    const text = (await get(`/v1/node/${ID}`)).text;
    expect(text).toContain('"Custom":{"Deep":[1736191993011000123]}');
    expect(text).not.toContain("4b2b8f2e-secret");
    const node = await read();
    expect(node).toEqual(told.Payload.Node);
    expect(node).toMatchObject({
      Name: "n1",
      Status: "ready",
      SecretID: "",
      Datacenter: "",
      NodePool: "default",
      CreateIndex: told.Index,
      ModifyIndex: told.Index,
      NodeResources: { Cpu: { CpuShares: 7, Own: 1, TotalCpuCores: 0 } },
      Resources: { CPU: 7 },
      Events: [{ Message: "Node registered", CreateIndex: told.Index }],
    });
    await register(id(2));
    expect(Object.keys(node)).toEqual(expect.arrayContaining(Object.keys(await read(id(2)))));
  });

  it.each([
    ["NodeRegistration", {}, "Node", "NodeRegistration"],
    ["NodeEvent", {}, "Node", "NodeEvent"],
    ["NodeStreamEvent", {}, "Node", "NodeEvent"],
    ["NodeEligibility", { SchedulingEligibility: "ineligible" }, "Node", "NodeEligibility"],
    ["NodeDrain", { DrainStrategy: { Deadline: 1 } }, "NodeDrain", "NodeDrain"],
    ["NodeDeregistration", {}, "Node", "NodeDeregistration"],
  ])("with the event type %s has that type in its event", async (Type, more, topic, told) => {
    expect((await report(Type, { ID, Name: "n1", ...more })).status).toBe(200);
    expect((await allLines()).at(-1)?.[0]).toMatchObject({ Topic: topic, Type: told, Key: ID, Namespace: "" });
  });

  it("is accepted under the topic of drains, too", async () => {
    const taken = await put("/v1/cluster/objects", [
      { Topic: "NodeDrain", Type: "NodeDrain", Payload: { Node: { ID, DrainStrategy: { Deadline: 5 } } } },
    ]);
    expect(taken.status, taken.text).toBe(200);
    expect(await read()).toMatchObject({ Drain: true, DrainStrategy: { Deadline: 5, IgnoreSystemJobs: false } });
  });

  it("keeps status, eligibility and drain if a report omits them, and no other fields", async () => {
    await report("NodeRegistration", {
      ID,
      Name: "n1",
      Meta: { a: "b" },
      Status: "ready",
      SchedulingEligibility: "ineligible",
      Events: [{ Message: "own", Subsystem: "Theirs", Timestamp: "2026-01-02T03:04:05+02:00", CreateIndex: 3 }],
    });
    const before = await read();
    expect(before.Events).toEqual([
      { Message: "own", Subsystem: "Theirs", Details: null, Timestamp: "2026-01-02T03:04:05+02:00", CreateIndex: 3 },
    ]);
    await report("NodeEvent", { ID, Name: "n2" });
    const after = await read();
    expect(after).toMatchObject({
      Name: "n2",
      Meta: {},
      Status: "ready",
      SchedulingEligibility: "ineligible",
      StatusUpdatedAt: before.StatusUpdatedAt,
      Events: before.Events,
      CreateIndex: before.CreateIndex,
    });
  });

  it("is deleted by a report of its end, whose event has its last state", async () => {
    await report("NodeRegistration", { ID, Name: "n1" });
    for (const gone of [
      () => report("NodeDeregistration", { ID, Name: "n1" }),
      () => report("NodeEvent", { ID, Name: "n1" }, { Deleted: true }),
    ]) {
      await report("NodeRegistration", { ID, Name: "n1" });
      await gone();
      expect((await get(`/v1/node/${ID}`)).status).toBe(404);
      expect((await allLines()).at(-1)?.[0]?.Payload.Node.Name).toBe("n1");
    }
  });

  it("several times in one request has several events in order, under one index", async () => {
    const event = (Name: string) => ({ Topic: "Node", Type: "NodeRegistration", Payload: { Node: { ID, Name } } });
    const { body } = await put("/v1/cluster/objects", [event("one"), event("two")]);
    const [line] = await allLines();
    expect(line?.map(({ Payload: { Node } }) => [Node.Name, Node.CreateIndex, Node.ModifyIndex])).toEqual([
      ["one", body.Index, body.Index],
      ["two", body.Index, body.Index],
    ]);
    const node = await read();
    expect(node).toEqual(line?.[1]?.Payload.Node);
    expect(node.Events.map(({ Message, CreateIndex }) => [Message, CreateIndex])).toEqual([
      ["Node registered", body.Index],
      ["Node re-registered", body.Index],
    ]);
  });

  it("may have another node's name", async () => {
    await report("NodeRegistration", { ID, Name: "same" });
    await report("NodeRegistration", { ID: id(2), Name: "same" });
    await register(id(3), { Name: "same" });
    expect((await get("/v1/nodes")).body.map(({ Name }: { Name: string }) => Name)).toEqual(["same", "same", "same"]);
  });

  it("creates a pool that is named for the first time, in the same event line", async () => {
    await report("NodeRegistration", { ID, NodePool: "edge" });
    expect((await allLines()).at(-1)?.map(({ Topic, Key }) => [Topic, Key])).toEqual([
      ["Node", ID],
      ["NodePool", "edge"],
    ]);
  });
});

describe("the owner of a node", () => {
  it("is its agent, and reports about it are refused with all of their request", async () => {
    await ready();
    const before = await read();
    const lines = (await allLines()).length;
    const refused = await put("/v1/cluster/objects", [
      { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "web" } } },
      { Topic: "Node", Type: "NodeRegistration", Payload: { Node: { ID, Name: "stolen" } } },
    ]);
    expect([refused.status, refused.text]).toEqual([
      409,
      `event 2: node ${ID} is managed by its own agent: it cannot be reported`,
    ]);
    expect(await read()).toEqual(before);
    expect(await allLines()).toHaveLength(lines);
    expect((await get("/v1/job/web")).status).toBe(404);
  });

  it("is its scheduler, and agents with its id are refused", async () => {
    await report("NodeRegistration", { ID, Name: "theirs" });
    const before = await read();
    expect(await registry().registerNode(ID, fingerprint())).toEqual({
      ok: false,
      reason: "conflict",
      message: `node ${ID} is reported by a scheduler: no agent can take it over`,
    });
    expect(await read()).toEqual(before);
    expect(await allLines()).toHaveLength(1);
  });
});

describe("an invalid node report", () => {
  itRows([
    ["no ID", { Name: "n" }, "Payload.Node.ID"],
    ["an invalid ID", { ID: "node-1" }, "Payload.Node.ID: must be a UUID in lower case"],
    ["a capital ID", { ID: ID.toUpperCase() }, "Payload.Node.ID"],
    ["a number for a name", { ID, Name: 7 }, "Payload.Node.Name"],
    ["a long name", { ID, Name: "n".repeat(257) }, "Payload.Node.Name"],
    ["an unknown status", { ID, Status: "tired" }, "Payload.Node.Status"],
    ["an unknown eligibility", { ID, SchedulingEligibility: "maybe" }, "Payload.Node.SchedulingEligibility"],
    ["a text for a flag", { ID, Drain: "yes" }, "Payload.Node.Drain"],
    ["a number in a map of texts", { ID, Attributes: { a: 1 } }, "Payload.Node.Attributes.a"],
    ["a list for a map", { ID, Meta: [] }, "Payload.Node.Meta"],
    [
      "a text for CpuShares",
      { ID, NodeResources: { Cpu: { CpuShares: "1" } } },
      "Payload.Node.NodeResources.Cpu.CpuShares",
    ],
    ["a fraction of a MB", { ID, NodeResources: { Memory: { MemoryMB: 0.5 } } }, "NodeResources.Memory.MemoryMB"],
    ["invalid networks", { ID, NodeResources: { Networks: {} } }, "Payload.Node.NodeResources.Networks"],
    ["a network without shape", { ID, NodeResources: { Networks: [7] } }, "NodeResources.Networks.0"],
    ["invalid addresses", { ID, NodeResources: { NodeNetworks: [{ Addresses: "x" }] } }, "NodeNetworks.0.Addresses"],
    [
      "a number for reserved ports",
      { ID, ReservedResources: { Networks: { ReservedHostPorts: 1 } } },
      "ReservedHostPorts",
    ],
    ["a text for IOPS", { ID, Resources: { IOPS: "1" } }, "Payload.Node.Resources.IOPS"],
    ["an invalid time", { ID, Drivers: { d: { UpdateTime: "now" } } }, "Payload.Node.Drivers.d.UpdateTime"],
    ["a text for a driver", { ID, Drivers: { d: "x" } }, "Payload.Node.Drivers.d"],
    ["a text for StatusUpdatedAt", { ID, StatusUpdatedAt: "2026" }, "Payload.Node.StatusUpdatedAt"],
    ["a negative StatusUpdatedAt", { ID, StatusUpdatedAt: -1 }, "Payload.Node.StatusUpdatedAt"],
    ["invalid events", { ID, Events: {} }, "Payload.Node.Events"],
    ["an event of no time", { ID, Events: [{ Timestamp: "x" }] }, "Payload.Node.Events.0.Timestamp"],
    ["an event of a negative index", { ID, Events: [{ CreateIndex: -1 }] }, "Payload.Node.Events.0.CreateIndex"],
    ["a drain without shape", { ID, DrainStrategy: true }, "Payload.Node.DrainStrategy"],
    ["a deadline in words", { ID, DrainStrategy: { Deadline: "1h" } }, "Payload.Node.DrainStrategy.Deadline"],
    ["the pool all", { ID, NodePool: "all" }, 'node is not allowed to register in node pool "all"'],
    ["no name of a pool", { ID, NodePool: "a b" }, "Payload.Node.NodePool"],
    ["a host volume without shape", { ID, HostVolumes: { a: 1 } }, "Payload.Node.HostVolumes.a"],
  ])("with %s is refused by field without a change", async (_what, node, text) => {
    const refused = await report("NodeRegistration", node);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain("event 1: ");
    expect(refused.text).toContain(text);
    expect(await allLines()).toEqual([]);
    expect((await get("/v1/nodes")).body).toEqual([]);
  });

  itRows([
    ["a namespace", { Namespace: "default" }, "Namespace: must be empty"],
    ["an invalid type", { Type: "NodeParty" }, "Type"],
    ["another payload", { Payload: { Job: { ID: "j" } } }, "Payload"],
    ["no payload", { Payload: undefined }, "Payload"],
  ])("in an event with %s is refused by field", async (_what, more, text) => {
    const refused = await put("/v1/cluster/objects", [
      { Topic: "Node", Type: "NodeRegistration", Payload: { Node: { ID } }, ...more },
    ]);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(text);
    expect(await allLines()).toEqual([]);
  });
});
