import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { VolumeUsage } from "../../src/volumes/host/usage.ts";
import { eventsOf } from "./access.ts";
import { del, get, put } from "./client.ts";
import { addNode, ask, finish, listed, lose, make, nodeId, nodes, openNodes, run } from "./host-volumes.ts";
import { allocation, gone, job, report } from "./reports.ts";

beforeEach(() => openNodes(1));

const stateOf = async (id: string) => (await get(`/v1/volume/host/${id}`)).body.State;
const told = async () =>
  (await eventsOf("HostVolume")).map(({ Type, Payload }) => [Type, Payload.Volume.Name, Payload.Volume.State]);

describe("the state of a volume", () => {
  it("is ready while its node reports it, and unavailable otherwise or while the node is away", async () => {
    const { ID } = await make();
    expect(await stateOf(ID)).toBe("pending");
    await nodes.report(nodeId(1));
    expect(await stateOf(ID)).toBe("ready");
    await clusterRegistry(env).registerNode(nodeId(1), { HostVolumes: {} });
    expect(await stateOf(ID)).toBe("unavailable");
    await nodes.report(nodeId(1));
    expect(await stateOf(ID)).toBe("ready");
    await lose(nodeId(1));
    expect(await stateOf(ID)).toBe("unavailable");
    await clusterRegistry(env).nodeConnected(nodeId(1));
    expect(await stateOf(ID)).toBe("ready");
    expect(await told()).toEqual([
      ["HostVolumeRegistered", "db", "pending"],
      ["NodeRegistration", "db", "ready"],
      ["NodeRegistration", "db", "unavailable"],
      ["NodeRegistration", "db", "ready"],
      ["NodeEvent", "db", "unavailable"],
      ["NodeEvent", "db", "ready"],
    ]);
  });

  it("changes in the event line of its node, under one index", async () => {
    const { ID } = await make();
    await nodes.report(nodeId(1));
    const events = await eventsOf("*");
    const ready = events.find(({ Topic, Type }) => Topic === "HostVolume" && Type === "NodeRegistration");
    const node = events.findLast(({ Topic }) => Topic === "Node");
    expect(ready.Index).toBe(node.Index);
    expect((await get(`/v1/volume/host/${ID}`)).body.ModifyIndex).toBe(ready.Index);
  });

  it("follows the volume's id, not its name", async () => {
    const { ID } = await make();
    const ghost = { db: { ID: "0199d1f0-0000-7000-8000-000000000000", Name: "db", Path: "/x", ReadOnly: false } };
    await clusterRegistry(env).registerNode(nodeId(1), { HostVolumes: ghost });
    expect(await stateOf(ID)).toBe("pending");
  });

  it("is ready at once when the node reports the volume before the result", async () => {
    nodes.behave = () => "hold";
    const asked = ask();
    while (nodes.holding === 0) await scheduler.wait(10);
    const { operation } = nodes.sent[0] as (typeof nodes.sent)[0];
    nodes.work(nodeId(1), operation);
    await nodes.report(nodeId(1));
    await nodes.release();
    expect((await asked).body.Volume.State).toBe("ready");
  });

  it("stays ready without an event when the node's other volumes change", async () => {
    const { ID } = await make();
    await nodes.report(nodeId(1));
    const before = (await get(`/v1/volume/host/${ID}`)).body.ModifyIndex;
    await clusterRegistry(env).registerNode(nodeId(1), { Meta: { rack: "r2" } });
    expect((await get(`/v1/volume/host/${ID}`)).body.ModifyIndex).toBe(before);
  });

  it("follows its node into another pool", async () => {
    const { ID } = await make();
    await clusterRegistry(env).registerNode(nodeId(1), { NodePool: "gpu" });
    expect((await get(`/v1/volume/host/${ID}`)).body.NodePool).toBe("gpu");
  });
});

describe("a purged node", () => {
  it("removes its volumes, each with an event, and fails their operations", async () => {
    const { ID } = await make();
    nodes.behave = () => "hold";
    const asked = ask({ Name: "two" });
    while (nodes.holding === 0) await scheduler.wait(10);
    expect((await put(`/v1/node/${nodeId(1)}/purge?force=true`, {})).status).toBe(200);
    expect([(await asked).status, (await asked).text]).toEqual([503, `node ${nodeId(1)} was removed`]);
    expect(await listed()).toEqual([]);
    expect((await eventsOf("HostVolume")).map(({ Type, Key }) => [Type, Key])).toEqual([
      ["HostVolumeRegistered", ID],
      ["HostVolumeDeleted", ID],
    ]);
    await nodes.release();
    expect(await listed()).toEqual([]);
  });
});

it("reports a node's unknown volumes to it, and leaves them unchanged", async () => {
  const { ID } = await make();
  await addNode(2);
  const ghost = "0199d1f0-0000-7000-8000-000000000000";
  const registry = clusterRegistry(env);
  expect(await registry.unknownVolumes(nodeId(1), [ID, ghost])).toEqual([ghost]);
  expect(await registry.unknownVolumes(nodeId(2), [ID])).toEqual([ID]);
  expect(nodes.sent).toHaveLength(1);
});

describe("events", () => {
  it("have one line per change, with filter keys and without allocations", async () => {
    const made = await make({ Parameters: { mode: "0700" } });
    await run(nodeId(1), []);
    const updated = (await ask({ ID: made.ID, Name: "renamed" })).body;
    const deleted = (await del(`/v1/volume/host/${made.ID}`)).body;
    const events = await eventsOf("HostVolume");
    const keys = (name: string) => [made.ID, name, "mkdir"];
    expect(events).toEqual([
      {
        Topic: "HostVolume",
        Type: "HostVolumeRegistered",
        Key: made.ID,
        Namespace: "default",
        FilterKeys: keys("db"),
        Index: made.ModifyIndex,
        Payload: { Volume: made },
      },
      {
        Topic: "HostVolume",
        Type: "HostVolumeRegistered",
        Key: made.ID,
        Namespace: "default",
        FilterKeys: keys("renamed"),
        Index: updated.Index,
        Payload: { Volume: updated.Volume },
      },
      {
        Topic: "HostVolume",
        Type: "HostVolumeDeleted",
        Key: made.ID,
        Namespace: "default",
        FilterKeys: keys("renamed"),
        Index: deleted.Index,
        Payload: { Volume: { ...updated.Volume, ModifyIndex: deleted.Index } },
      },
    ]);
    expect((await eventsOf(`HostVolume:${made.ID}`)).length).toBe(3);
    expect((await eventsOf("HostVolume:db")).length).toBe(1);
    expect((await eventsOf("HostVolume:mkdir")).length).toBe(3);
  });
});

describe("a volume in use", () => {
  const inUse = [409, expect.stringContaining("a1")];
  const deletion = async (id: string) => {
    const { status, text } = await del(`/v1/volume/host/${id}`);
    return [status, text];
  };
  const update = async (ID: string) => {
    const { status, text } = await ask({ ID });
    return [status, text];
  };

  // Proves: E.errors.4.host-delete
  it("cannot be deleted or updated, and the error names its users", async () => {
    const { ID } = await make();
    await run(nodeId(1), ["db"]);
    expect(await deletion(ID)).toEqual([409, `volume ${ID} in use by allocations: [a1]`]);
    expect(await update(ID)).toEqual([
      409,
      `validating volume "${ID}" update failed: 1 error occurred:\n\t* cannot update a volume in use: claimed by allocs (a1)\n\n`,
    ]);
    expect(nodes.sent).toHaveLength(1);
    await finish(nodeId(1));
    expect((await deletion(ID))[0]).toBe(200);
  });

  // Proves: E.errors.4.host-delete
  it("cannot be deleted by force either, also without its node", async () => {
    const { ID } = await make();
    await run(nodeId(1), ["db"]);
    expect((await del(`/v1/volume/host/${ID}?force=true`)).status).toBe(409);
    await lose(nodeId(1));
    expect((await del(`/v1/volume/host/${ID}?force=true`)).status).toBe(409);
    await finish(nodeId(1));
    expect((await del(`/v1/volume/host/${ID}?force=true`)).status).toBe(200);
  });

  it.each<[what: string, ...run: Parameters<typeof run>, used: boolean]>([
    ["its name", nodeId(1), ["db"], {}, true],
    ["it and another volume", nodeId(1), ["cache", "db"], {}, true],
    ["another", nodeId(1), ["cache"], {}, false],
    ["nothing", nodeId(1), [], {}, false],
    ["its name on another node", nodeId(2), ["db"], {}, false],
    ["its name in another namespace", nodeId(1), ["db"], { namespace: "prod" }, false],
    ["its name and has ended", nodeId(1), ["db"], { status: "complete" }, false],
    ["its name and has failed", nodeId(1), ["db"], { status: "failed" }, false],
    ["its name and is lost", nodeId(1), ["db"], { status: "lost" }, false],
    ["its name and is pending", nodeId(1), ["db"], { status: "pending" }, true],
    ["its name and is out of sight", nodeId(1), ["db"], { status: "unknown" }, true],
    ["its name for each allocation", nodeId(1), [{ Source: "db", PerAlloc: true }], {}, false],
    ["a volume under an unknown job version", nodeId(1), [], { version: 0 }, true],
  ])("by a group that requests %s: %j", async (_what, node, sources, options, used) => {
    await put("/v1/namespace/prod", {});
    const { ID } = await make();
    await run(node, sources, options);
    if (used) {
      expect(await deletion(ID)).toEqual(inUse);
      expect(await update(ID)).toEqual(inUse);
    } else {
      expect((await update(ID))[0]).toBe(200);
      expect((await deletion(ID))[0]).toBe(200);
    }
  });

  it("by an allocation that outlives its deleted job", async () => {
    const { ID } = await make();
    await run(nodeId(1), ["db"]);
    await report(gone({ Topic: "Job", Type: "JobDeregistered", Payload: { Job: { ID: "web" } } }));
    for (const query of ["", "?force=true"]) {
      expect((await del(`/v1/volume/host/${ID}${query}`)).text).toBe(`volume ${ID} in use by allocations: [a1]`);
    }
    expect(await update(ID)).toEqual(inUse);
    await report({
      Topic: "Allocation",
      Type: "AllocationUpdated",
      Payload: { Allocation: { ID: "a1", JobID: "web", TaskGroup: "g", NodeID: nodeId(1), ClientStatus: "complete" } },
    });
    expect((await deletion(ID))[0]).toBe(200);
  });

  it("by an allocation in its version of the job, although its report names none", async () => {
    const { ID } = await make();
    const db = { v: { Type: "host", Source: "db" } };
    const version = (Version: number, Volumes: object) => job({ Version, TaskGroups: [{ Name: "g", Volumes }] });
    const on = (alloc: string, ClientStatus = "running") =>
      allocation({ ID: alloc, TaskGroup: "g", NodeID: nodeId(1), ClientStatus });
    await report(version(0, db), on("a1"), version(1, {}), on("a2"));
    expect(await deletion(ID)).toEqual([409, `volume ${ID} in use by allocations: [a1]`]);
    expect(await update(ID)).toEqual(inUse);
    await report(version(2, db), on("a1", "complete"));
    expect((await deletion(ID))[0]).toBe(200);
  });

  it("by an allocation of an unknown version of its job if any version requests it", async () => {
    const { ID } = await make();
    const version = (Version: number, Source: string) =>
      job({ Version, TaskGroups: [{ Name: "cache", Volumes: { v: { Type: "host", Source } } }] });
    await report(allocation({ ID: "a1", NodeID: nodeId(1) }), version(0, "db"), version(1, "other"));
    expect(await deletion(ID)).toEqual(inUse);
  });

  it("is none of an allocation whose job is not reported yet", async () => {
    const { ID } = await make();
    await report({
      Topic: "Allocation",
      Type: "AllocationUpdated",
      Payload: { Allocation: { ID: "a1", JobID: "web", TaskGroup: "g", NodeID: nodeId(1), ClientStatus: "running" } },
    });
    expect((await deletion(ID))[0]).toBe(200);
  });

  it("by one allocation of a group with one volume each", async () => {
    const { ID } = await make({ Name: "db[2]" });
    await run(nodeId(1), [{ Source: "db", PerAlloc: true }], { name: "web.g[1]", alloc: "a0" });
    await run(nodeId(1), [{ Source: "db", PerAlloc: true }], { name: "web.g[2]" });
    expect(await deletion(ID)).toEqual([409, `volume ${ID} in use by allocations: [a1]`]);
  });

  it("names only some of many users", async () => {
    const { ID } = await make();
    for (let at = 0; at < 25; at++) await run(nodeId(1), ["db"], { alloc: `b${String(at).padStart(2, "0")}` });
    expect((await del(`/v1/volume/host/${ID}`)).text).toMatch(/\[b00 b01 .* b19 and 5 more\]$/);
  });

  it("since its deletion was sent is kept as unavailable until it is unused", async () => {
    const { ID } = await make();
    await nodes.report(nodeId(1));
    nodes.behave = () => "hold";
    const deleting = del(`/v1/volume/host/${ID}`);
    while (nodes.holding === 0) await scheduler.wait(10);
    await run(nodeId(1), ["db"]);
    await nodes.release();
    const answer = await deleting;
    expect([answer.status, answer.text]).toEqual([409, `could not delete volume ${ID} in use by alloc a1`]);
    expect(await stateOf(ID)).toBe("unavailable");
    nodes.behave = () => "work";
    await finish(nodeId(1));
    expect((await deletion(ID))[0]).toBe(200);
  });

  it("since its deletion was requested is not sent", async () => {
    const { ID } = await make();
    const { usersOf } = VolumeUsage.prototype;
    let calls = 0;
    vi.spyOn(VolumeUsage.prototype, "usersOf").mockImplementation(function (this: never, volume) {
      calls += 1;
      return calls === 2 ? ["late"] : usersOf.call(this, volume);
    });
    expect(await deletion(ID)).toEqual([409, `could not delete volume ${ID} in use by alloc late`]);
    expect(nodes.sent).toHaveLength(1);
    expect((await get(`/v1/volume/host/${ID}`)).status).toBe(200);
  });
});
