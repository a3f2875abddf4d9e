import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { eventsOf, holderOf } from "./access.ts";
import { del, get, put } from "./client.ts";
import {
  addCsiNode,
  claimsOf,
  create,
  csi,
  ends,
  nodePlugins,
  openCsi,
  PLUGIN,
  putOff,
  runs,
  statesOf,
} from "./csi-world.ts";
import { lose, nodeId } from "./host-volumes.ts";

const capability = (AccessMode: string) => ({ AccessMode, AttachmentMode: "file-system" });

beforeEach(openCsi);

describe("a claim", () => {
  it("goes from its allocation's report to a published path, and is released completely", async () => {
    await create();
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(await claimsOf()).toEqual([
      {
        AccessMode: "single-node-writer",
        AllocID: "a1",
        AttachmentMode: "file-system",
        Attempts: 0,
        CreateTime: expect.any(Number),
        ExpansionOwed: false,
        ExternalNodeID: "far-node",
        LastError: "",
        Mode: "write",
        ModifyTime: expect.any(Number),
        NextRetry: null,
        NodeID: nodeId(1),
        OperationID: "",
        Problem: "",
        Path: "/mounts/a1",
        State: "published",
      },
    ]);
    const held = (await get("/v1/volume/csi/v1")).body;
    expect([held.AccessMode, held.AttachmentMode, held.WriteAllocs]).toEqual([
      "single-node-writer",
      "file-system",
      { a1: null },
    ]);
    await ends(nodeId(1));
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.asked).toEqual(["create", "publish", "node.publish", "node.detach", "unpublish"]);
    expect([csi.attached.size, csi.published.size, csi.wrongs]).toEqual([0, 0, []]);
    const free = (await get("/v1/volume/csi/v1")).body;
    expect([free.AccessMode, free.AttachmentMode, free.WriteAllocs]).toEqual(["", "", {}]);
    const told = await eventsOf("CSIVolume");
    expect(told.map(({ Type }) => Type).slice(1)).toEqual(told.slice(1).map(() => "CSIVolumeClaim"));
    expect(told.at(-1).Payload.Volume).toMatchObject({ AccessMode: "", WriteAllocs: {} });
    expect(told.at(-1).Index).toBe(free.ModifyIndex);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ["that may read only", { ReadOnly: true }, "read"],
    ["that may write", {}, "write"],
  ])("of a group %s has its mode and the group's requested modes", async (_what, more, mode) => {
    await create({ RequestedCapabilities: [capability("multi-node-multi-writer")], MountOptions: { FSType: "xfs" } });
    await runs(nodeId(1), { ...more, AccessMode: "multi-node-single-writer", MountOptions: { MountFlags: ["ro"] } });
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(await claimsOf()).toMatchObject([{ Mode: mode, AccessMode: "multi-node-single-writer" }]);
    const access = {
      capability: { accessMode: "multi-node-single-writer", attachmentMode: "file-system" },
      mount: { fsType: "xfs", mountFlags: ["ro"] },
      readOnly: mode === "read",
      context: { made: "here" },
    };
    expect(csi.sent.slice(1).map(({ operation }) => operation.params)).toEqual([
      { pluginId: PLUGIN, externalId: "ext-vol-one", externalNodeId: "far-node", ...access },
      {
        pluginId: PLUGIN,
        externalId: "ext-vol-one",
        allocId: "a1",
        ...access,
        publishContext: { device: "/dev/ext-vol-one" },
      },
    ]);
  });

  it("passes the volume's secrets in every call to its plugin", async () => {
    await create({ Secrets: { key: "value" } });
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    await ends(nodeId(1));
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.sent.map(({ operation }) => operation.secrets)).toEqual(csi.sent.map(() => ({ key: "value" })));
  });

  it("is in use from the report on, for any state of its plugin", async () => {
    await create();
    csi.behave = () => "hold";
    await runs(nodeId(1));
    expect((await del("/v1/volume/csi/v1/delete")).text).toMatch(/^volume in use: v1: held by allocation a1 on node /);
    expect((await get("/v1/volume/csi/v1")).body.WriteAllocs).toEqual({ a1: null });
  });

  // Proves: D.csi.read.blocking
  it("wakes blocking queries of the volume", async () => {
    await create();
    const before = await get("/v1/volume/csi/v1");
    const waiting = get(`/v1/volume/csi/v1?index=${before.headers.get("X-Orch-Index")}&wait=10s`);
    await scheduler.wait(50);
    await runs(nodeId(1));
    expect((await waiting).body.WriteAllocs).toEqual({ a1: null });
  });

  it("is visible in the volume to readers of it, in pages", async () => {
    await create({ RequestedCapabilities: [capability("multi-node-multi-writer")] });
    for (const alloc of ["a1", "a2", "a3"]) await runs(nodeId(1), { alloc });
    const idsOf = (rows: { AllocID: string }[]) => rows.map(({ AllocID }) => AllocID);
    const page = await get("/v1/volume/csi/v1/claims?per_page=2");
    const rest = await get(`/v1/volume/csi/v1/claims?next_token=${page.headers.get("X-Orch-NextToken")}`);
    expect([idsOf(page.body), idsOf(rest.body)]).toEqual([["a1", "a2"], ["a3"]]);
    const { client_token: reader } = await holderOf('namespace "default" { capabilities = ["csi-read-volume"] }');
    const { client_token: lister } = await holderOf('namespace "default" { capabilities = ["csi-list-volume"] }');
    expect((await get("/v1/volume/csi/v1/claims", { token: reader })).status).toBe(200);
    expect((await get("/v1/volume/csi/v1/claims", { token: lister })).status).toBe(403);
    expect((await get("/v1/volume/csi/no/claims")).status).toBe(404);
  });
});

describe("a claim is created", () => {
  const report = (...objects: unknown[]) => put("/v1/cluster/objects", objects);
  const groups = (volumes: object) => [{ Name: "g", Volumes: { v: { Type: "csi", Source: "v1", ...volumes } } }];
  const allocation = (more: object = {}) => ({
    Topic: "Allocation",
    Type: "AllocationUpdated",
    Payload: {
      Allocation: {
        ID: "a1",
        Namespace: "default",
        JobID: "web",
        JobVersion: 1,
        TaskGroup: "g",
        Name: "web.g[3]",
        NodeID: nodeId(1),
        ClientStatus: "running",
        DesiredStatus: "run",
        ...more,
      },
    },
  });
  const job = (volumes: object, Version = 1) => ({
    Topic: "Job",
    Type: "JobRegistered",
    Payload: { Job: { ID: "web", Namespace: "default", Version, TaskGroups: groups(volumes) } },
  });

  it("for an allocation that was reported before its job", async () => {
    await create();
    await report(allocation());
    expect(await statesOf()).toEqual([]);
    await report(job({}));
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("for an allocation whose volume is created later", async () => {
    await report(job({}), allocation());
    await create();
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("for an allocation that includes its job", async () => {
    await create();
    await report(allocation({ Job: { Version: 7, TaskGroups: groups({ ReadOnly: true }) } }));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(await claimsOf()).toMatchObject([{ Mode: "read" }]);
  });

  it("for each allocation of a group with one volume each", async () => {
    await create({ ID: "v1[3]", Name: "three" });
    await report(job({ PerAlloc: true }), allocation());
    await expect.poll(() => statesOf("v1%5B3%5D")).toEqual(["published"]);
  });

  it("for no allocation of another job version or group, without a node, or that has ended", async () => {
    await create();
    await report(
      job({}),
      ...[{ JobVersion: 2 }, { TaskGroup: "other" }, { NodeID: "" }, { ClientStatus: "failed" }].map((more, at) =>
        allocation({ ID: `a${at}`, ...more }),
      ),
    );
    expect([await statesOf(), csi.asked]).toEqual([[], ["create"]]);
  });

  it("for the job version at the allocation's placement when its report names none", async () => {
    await create();
    await create({ ID: "v2", Name: "two" });
    const placed = (ID: string) => allocation({ ID, JobVersion: undefined });
    await report(job({}, 1), placed("a1"));
    await report(job({ Source: "v2" }, 2), placed("a2"));
    await report(placed("a1"));
    await expect.poll(() => Promise.all([statesOf(), statesOf("v2")])).toEqual([["published"], ["published"]]);
    expect([await claimsOf(), await claimsOf("v2")]).toMatchObject([[{ AllocID: "a1" }], [{ AllocID: "a2" }]]);
  });

  it("for a job version as it was reported last", async () => {
    await create();
    const other = job({ Source: "other" });
    await report(job({}), other, allocation());
    expect(await statesOf()).toEqual([]);
    await report(job({}));
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("for no allocation of a job version without the volume between two that have it, in any order", async () => {
    await create();
    const without = { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "web", Namespace: "default" } } };
    const versions = [1, 2, 3, 4, 5, 6].map((Version) =>
      Version % 3 === 1
        ? job({}, Version)
        : { ...without, Payload: { Job: { ...without.Payload.Job, Version, TaskGroups: [{ Name: "g" }] } } },
    );
    await report(...versions.slice(0, 2), ...versions.slice(3), ...versions.slice(2, 3));
    await report(...[2, 3, 5].map((JobVersion) => allocation({ ID: `a${JobVersion}`, JobVersion })));
    expect(await statesOf()).toEqual([]);
    await report(allocation({ JobVersion: 4 }));
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("until the allocation ends or is deleted", async () => {
    await create();
    await report(job({}), allocation());
    await expect.poll(() => statesOf()).toEqual(["published"]);
    const gone = allocation();
    await report({ ...gone, Payload: { ...gone.Payload, Deleted: true } });
    await expect.poll(() => statesOf()).toEqual([]);
  });

  it("and outlives its job", async () => {
    await create();
    await report(job({}), allocation());
    await report({ Topic: "Job", Type: "JobDeregistered", Payload: { Job: { ID: "web" }, Deleted: true } });
    await expect.poll(() => statesOf()).toEqual(["published"]);
    await report(allocation({ ClientStatus: "complete" }));
    await expect.poll(() => statesOf()).toEqual([]);
  });
});

describe("a claim on a node without an agent", () => {
  it("is recorded without any operation", async () => {
    await create();
    const Node = { ID: nodeId(7), Name: "far", Datacenter: "dc1", Status: "ready", ...nodePlugins() };
    expect(
      (await put("/v1/cluster/objects", [{ Topic: "Node", Type: "NodeRegistration", Payload: { Node } }])).status,
    ).toBe(200);
    await runs(nodeId(7));
    await expect.poll(() => statesOf()).toEqual(["taken"]);
    expect(await claimsOf()).toMatchObject([{ ExternalNodeID: "far-node", Path: "" }]);
    await ends(nodeId(7));
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.asked).toEqual(["create"]);
  });
});

describe("a claim that cannot be taken", () => {
  it("waits, shows the reason, and is taken when there is capacity", async () => {
    await create();
    await addCsiNode(2);
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    await runs(nodeId(2), { alloc: "a2" });
    await expect.poll(() => statesOf()).toEqual(["published", "pending"]);
    expect((await claimsOf())[1]).toMatchObject({
      LastError: 'alloc "a2" failed to claim volume "v1": volume max claims reached',
      NextRetry: expect.stringMatching(/^20/),
    });
    await putOff();
    await ends(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(await claimsOf()).toMatchObject([{ AllocID: "a2", ExternalNodeID: "far-node-2", LastError: "" }]);
    expect(csi.wrongs).toEqual([]);
  });

  it("is taken when its plugin is healthy again", async () => {
    await create();
    await lose(nodeId(1));
    await runs(nodeId(1));
    await expect.poll(async () => (await claimsOf())[0].LastError).toContain("volume is currently unschedulable");
    await putOff();
    await clusterRegistry(env).nodeConnected(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("leaves nothing when its allocation ends", async () => {
    await create();
    await runs(nodeId(1));
    await runs(nodeId(1), { alloc: "a2" });
    await expect.poll(() => statesOf()).toEqual(["published", "pending"]);
    await ends(nodeId(1), "a2");
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("waits for capacity on its node, too", async () => {
    for (let at = 1; at <= 6; at++) await create({ ID: `v${at}`, Name: `n${at}` });
    for (let at = 1; at <= 6; at++) await runs(nodeId(1), { alloc: `a${at}`, source: `v${at}` });
    await expect.poll(() => statesOf("v5")).toEqual(["published"]);
    expect((await claimsOf("v6"))[0].LastError).toContain("as many volumes of the plugin");
    await putOff();
    await ends(nodeId(1), "a1");
    await expect.poll(() => statesOf("v6")).toEqual(["published"]);
  });
});

describe("two claims on one node", () => {
  it("share the controller's attachment, and the last one detaches it", async () => {
    await create({ RequestedCapabilities: [capability("multi-node-multi-writer")] });
    await runs(nodeId(1));
    await runs(nodeId(1), { alloc: "a2" });
    await expect.poll(() => statesOf()).toEqual(["published", "published"]);
    await ends(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(csi.asked).not.toContain("unpublish");
    await ends(nodeId(1), "a2");
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.asked.filter((each) => each === "unpublish")).toHaveLength(1);
    expect([csi.attached.size, csi.published.size, csi.wrongs]).toEqual([0, 0, []]);
  });

  it("that end together are detached once, after both", async () => {
    await create({ RequestedCapabilities: [capability("multi-node-multi-writer")] });
    for (const alloc of ["a1", "a2"]) await runs(nodeId(1), { alloc });
    await expect.poll(() => statesOf()).toEqual(["published", "published"]);
    csi.behave = () => "hold";
    for (const alloc of ["a1", "a2"]) await ends(nodeId(1), alloc);
    await expect.poll(() => csi.holding).toBe(2);
    csi.behave = () => "work";
    await csi.release();
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.asked.slice(-3)).toEqual(["node.detach", "node.detach", "unpublish"]);
    expect(csi.wrongs).toEqual([]);
  });

  it("are never attached and detached concurrently", async () => {
    await create({ RequestedCapabilities: [capability("multi-node-multi-writer")] });
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    csi.behave = ({ method }) => (method.endsWith("unpublish") ? "hold" : "work");
    await ends(nodeId(1));
    await expect.poll(() => csi.holding).toBe(1);
    await runs(nodeId(1), { alloc: "a2" });
    await scheduler.wait(50);
    expect([csi.asked.at(-1), await statesOf()]).toEqual(["unpublish", ["node-detached", "taken"]]);
    expect((await claimsOf())[1].OperationID).toBe("");
    await csi.release();
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect([csi.attached.size, csi.wrongs]).toEqual([1, []]);
  });
});

describe("a volume that grows while it is published", () => {
  const growing = () => {
    csi.behave = ({ method, params }) =>
      method === "csi.controller.expand"
        ? { state: "done", result: { capacityBytes: params["capacityMin"], nodeExpansionRequired: true } }
        : "work";
  };

  it("grows on its nodes, too", async () => {
    await create({ RequestedCapacityMin: 1000 });
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    growing();
    expect((await create({ RequestedCapacityMin: 2000 })).status).toBe(200);
    expect(csi.asked.slice(-2)).toEqual(["expand", "node.expand"]);
    expect(csi.sent.at(-1)?.operation.params).toMatchObject({ allocId: "a1", capacityMin: 2000 });
    expect(await claimsOf()).toMatchObject([{ ExpansionOwed: false, State: "published" }]);
  });

  it("shows pending expansions of unavailable nodes, and performs them later", async () => {
    await create({ RequestedCapacityMin: 1000 });
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    const node = { ok: false };
    csi.behave = ({ method, params }) => {
      if (method === "csi.node.expand" && !node.ok)
        return { state: "failed", error: { kind: "plugin", message: "busy" } };
      if (method !== "csi.controller.expand") return "work";
      return { state: "done", result: { capacityBytes: params["capacityMin"], nodeExpansionRequired: true } };
    };
    const answer = await create({ RequestedCapacityMin: 2000 });
    expect(answer.status).toBe(502);
    expect(answer.text).toMatch(
      /^volume v1 has grown, but not yet its file system everywhere: owed to allocation a1 on node .*node expand volume: busy/,
    );
    expect((await get("/v1/volume/csi/v1")).body).toMatchObject({ Capacity: 2000, RequestedCapacityMin: 2000 });
    expect(await claimsOf()).toMatchObject([{ ExpansionOwed: true, State: "published" }]);
    node.ok = true;
    await expect.poll(claimsOf).toMatchObject([{ ExpansionOwed: false }]);
  });

  it("has no pending expansion without a publication", async () => {
    await create({ RequestedCapacityMin: 1000 });
    growing();
    expect((await create({ RequestedCapacityMin: 2000 })).status).toBe(200);
    expect(csi.asked).toEqual(["create", "expand"]);
  });
});

describe("one plugin", () => {
  it("is shared fairly between user requests and claims", async () => {
    const ids = ["v1", "v2", "v3", "v4"];
    for (const id of [...ids, "x", "y"]) await create({ ID: id, Name: id });
    csi.behave = ({ method }) => (method.startsWith("csi.controller.") ? "hold" : "work");
    for (const id of ids) await runs(nodeId(1), { alloc: `a-${id}`, source: id });
    await expect.poll(() => csi.holding).toBe(1);
    const deletions = ["x", "y"].map((id) => del(`/v1/volume/csi/${id}/delete`));
    await scheduler.wait(100);
    while (csi.asked.filter((each) => each === "publish" || each === "delete").length < 6) {
      await csi.release();
      await expect.poll(() => csi.holding).toBe(1);
    }
    csi.behave = () => "work";
    await csi.release();
    expect((await Promise.all(deletions)).map(({ status }) => status)).toEqual([200, 200]);
    const order = csi.asked.filter((each) => each === "publish" || each === "delete");
    expect(order.slice(0, 5).toSorted()).toEqual(["delete", "delete", "publish", "publish", "publish"]);
    for (const id of ids) await expect.poll(() => statesOf(id)).toEqual(["published"]);
  });
});
