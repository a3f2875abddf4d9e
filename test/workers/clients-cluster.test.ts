import { expect, it } from "vitest";
import { del, get, put } from "./client.ts";
import { addCsiNode, PLUGIN, ScriptedCsi } from "./csi-world.ts";
import { addNode, nodeId, ScriptedNodes } from "./host-volumes.ts";

/*
 * Bodies as upstream's Go client writes them (its command line and Terraform are built on it): every field of its types, with the
 * zero of its type where nothing was said, and around them the fields of the request itself.
 */

const UPSTREAM = { headers: { "X-Nomad-Token": "root" } };
const ZERO_TIME = "0001-01-01T00:00:00Z";
const REQUEST = { Region: "", Namespace: "", SecretID: "" };

const csiVolume = (more: object = {}) => ({
  ID: "v1",
  Name: "vol-one",
  ExternalID: "",
  Namespace: "",
  RequestedTopologies: null,
  Topologies: null,
  AccessMode: "",
  AttachmentMode: "",
  MountOptions: null,
  Secrets: null,
  Parameters: null,
  Context: null,
  Capacity: 0,
  RequestedCapacityMin: 1000,
  RequestedCapacityMax: 0,
  CloneID: "",
  SnapshotID: "",
  RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
  ReadAllocs: null,
  WriteAllocs: null,
  Allocations: null,
  Schedulable: false,
  PluginID: PLUGIN,
  Provider: "",
  ProviderVersion: "",
  ControllerRequired: false,
  ControllersHealthy: 0,
  ControllersExpected: 0,
  NodesHealthy: 0,
  NodesExpected: 0,
  ResourceExhausted: ZERO_TIME,
  CreateIndex: 0,
  ModifyIndex: 0,
  CreateTime: 0,
  ModifyTime: 0,
  ...more,
});

it("a CSI volume is created, changed, registered and snapshotted by the Go client's requests", async () => {
  new ScriptedCsi();
  await addCsiNode(1);
  const created = await put("/v1/volume/csi/v1/create", { Volumes: [csiVolume()], ...REQUEST }, UPSTREAM);
  expect(created.status, created.text).toBe(200);
  expect(created.body.Warnings).toBe("");
  expect(created.body.Volumes).toMatchObject([{ ID: "v1", Namespace: "default", Capacity: 1000 }]);
  const grown = csiVolume({ RequestedCapacityMin: 2000 });
  const changed = await put("/v1/volume/csi/v1", { Volumes: [grown], PolicyOverride: false, ...REQUEST }, UPSTREAM);
  expect(changed.status, changed.text).toBe(200);
  expect((await get("/v1/volume/csi/v1", UPSTREAM)).body.Capacity).toBe(2000);
  const Snapshots = [
    {
      ID: "",
      ExternalSourceVolumeID: "",
      SizeBytes: 0,
      CreateTime: 0,
      IsReady: false,
      SourceVolumeID: "v1",
      PluginID: "",
      Name: "monday",
      Secrets: null,
      Parameters: null,
    },
  ];
  const taken = await put("/v1/volumes/snapshot", { Snapshots, ...REQUEST }, UPSTREAM);
  expect(taken.status, taken.text).toBe(200);
  expect(taken.body.Snapshots).toMatchObject([{ SourceVolumeID: "v1", PluginID: PLUGIN, IsReady: true }]);
  expect((await put("/v1/volumes/snapshot", { Snapshots: [], ...REQUEST }, UPSTREAM)).body.Snapshots).toBeNull();
});

it("the Go client's form of a returned CSI volume is accepted as a request", async () => {
  new ScriptedCsi();
  await addCsiNode(1);
  const MountOptions = { FSType: "ext4", MountFlags: ["noatime"] };
  await put("/v1/volume/csi/v1/create", { Volumes: [csiVolume({ MountOptions })], ...REQUEST }, UPSTREAM);
  const { body: shown } = await get("/v1/volume/csi/v1", UPSTREAM);
  const again = { ...csiVolume(), ...shown, ResourceExhausted: ZERO_TIME };
  const put2 = await put("/v1/volume/csi/v1", { Volumes: [again], ...REQUEST }, UPSTREAM);
  expect(put2.status, put2.text).toBe(200);
  const { ModifyIndex: _index, ModifyTime: _time, ...kept } = put2.body.Volumes[0];
  expect(shown).toMatchObject(kept);
});

it("a host volume and a drain are created by the Go client's requests", async () => {
  new ScriptedNodes();
  const node = await addNode(1);
  const Volume = {
    Namespace: "",
    ID: "",
    Name: "db",
    PluginID: "mkdir",
    NodePool: "",
    NodeID: "",
    CapacityBytes: 0,
    RequestedCapacityMinBytes: 0,
    RequestedCapacityMaxBytes: 0,
    RequestedCapabilities: null,
    HostPath: "",
    State: "",
    CreateIndex: 0,
    CreateTime: 0,
    ModifyIndex: 0,
    ModifyTime: 0,
  };
  const made = await put("/v1/volume/host/create", { Volume, PolicyOverride: false, ...REQUEST }, UPSTREAM);
  expect(made.status, made.text).toBe(200);
  expect(made.body.Volume).toMatchObject({ Name: "db", Namespace: "default", NodeID: nodeId(1) });
  const again = await put("/v1/volume/host/create", { Volume: made.body.Volume, PolicyOverride: false }, UPSTREAM);
  expect(again.status, again.text).toBe(200);
  const DrainSpec = { Deadline: 3_600_000_000_000, IgnoreSystemJobs: false };
  const drained = await put(
    `/v1/node/${node}/drain`,
    { NodeID: node, DrainSpec, MarkEligible: false, Meta: null },
    UPSTREAM,
  );
  expect(drained.status, drained.text).toBe(200);
  expect(drained.body.EvalIDs).toEqual([]);
  const stopped = { NodeID: node, DrainSpec: null, MarkEligible: true, Meta: null };
  expect((await put(`/v1/node/${node}/drain`, stopped, UPSTREAM)).status).toBe(200);
  expect((await get(`/v1/node/${node}`, UPSTREAM)).body.SchedulingEligibility).toBe("eligible");
  expect((await del(`/v1/volume/host/${made.body.Volume.ID}`, UPSTREAM)).status).toBe(200);
});

it("leader, peers and regions are returned without a token", async () => {
  const ask = async (path: string) => (await get(path, { token: null })).body;
  expect(await ask("/v1/status/leader")).toBe("x:443");
  expect(await ask("/v1/status/peers")).toEqual(["x:443"]);
  expect(await ask("/v1/regions")).toEqual(["global"]);
});

it("returns the agent's fields that the Go client reads", async () => {
  const self = (await get("/v1/agent/self", UPSTREAM)).body;
  expect(self.config).toMatchObject({ Region: "global", Datacenter: "dc1", Version: { Version: "2.0.5" } });
  for (const group of Object.values<object>(self.stats))
    for (const value of Object.values(group)) expect(value).toBeTypeOf("string");
  const { Members } = (await get("/v1/agent/members", UPSTREAM)).body;
  expect(Members).toEqual([self.member]);
  expect(Members[0]).toMatchObject({ Status: "alive", Tags: { build: "2.0.5", region: "global" } });
  // The command line identifies the leading member by this.
  expect(`${Members[0].Addr}:${Members[0].Tags.port}`).toBe((await get("/v1/status/leader", UPSTREAM)).body);
  expect((await get("/v1/agent/servers", UPSTREAM)).body).toEqual(["x:443"]);
  expect((await get("/v1/agent/schedulers/config", UPSTREAM)).body.num_schedulers).toBe(0);
});

it("returns errors for upstream's agent endpoints, and does not treat their names as agents", async () => {
  for (const [answer, status, text] of [
    [await get("/v1/agent/monitor", UPSTREAM), 400, "monitor: "],
    [await put("/v1/agent/force-leave?node=a", "", UPSTREAM), 400, "force-leave: "],
    [await put("/v1/agent/reload", "", UPSTREAM), 400, "reload: "],
    [await get("/v1/agent/reload", UPSTREAM), 405, "Invalid method"],
    [await get("/v1/agent/host", UPSTREAM), 404, "not found: "],
    [await get("/v1/agent/join", UPSTREAM), 405, "Invalid method"],
    [await del("/v1/agent/self", UPSTREAM), 405, "Invalid method"],
    [await get("/v1/agent/absent", UPSTREAM), 404, "agent not found"],
  ] as const) {
    expect([answer.status, answer.text.slice(0, text.length)]).toEqual([status, text]);
  }
});

it("returns errors in upstream's format for unsupported upstream paths", async () => {
  for (const path of [
    "/v1/vars",
    "/v1/quotas",
    "/v1/scaling/policies",
    "/v1/operator/snapshot",
    "/v1/recommendations",
    "/v1/client/allocation/11111111-1111-4111-8111-111111111111/stats",
    "/v1/client/fs/ls/11111111-1111-4111-8111-111111111111",
  ]) {
    const theirs = await get(path, { headers: { "X-Nomad-Token": "root" }, token: null });
    expect([path, theirs.status, theirs.text]).toEqual([path, 404, "not found: no such path"]);
    expect(theirs.headers.get("Content-Type")).toContain("text/plain");
  }
  // A mount may be called so.
  expect((await get("/v1/vars")).body).toHaveProperty("errors");
});

it("reports a node version that clients accept as current", async () => {
  await addNode(1);
  const version = async (options = {}) => (await get("/v1/nodes", options)).body[0].Version;
  expect(await version(UPSTREAM)).toBe("2.0.5");
  expect(await version()).not.toBe("2.0.5");
});
