import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { ok } from "../../src/lib/result.ts";
import { CsiVolumes } from "../../src/volumes/csi/csi-volumes.ts";
import { itRows } from "../support/rows.ts";
import { eventsOf, holderOf } from "./access.ts";
import { type Answer, del, get, put } from "./client.ts";
import { addCsiNode, create, csi, definition, openCsi, PLUGIN, register, statesOf, UPSTREAM } from "./csi-world.ts";
import { addNode, nodeId, run } from "./host-volumes.ts";

beforeEach(openCsi);

const refusal = ({ status, text }: Answer) => [status, text];
const listed = async (query = ""): Promise<string[]> =>
  (await get(`/v1/volumes?type=csi&namespace=*${query}`)).body.map(({ ID }: { ID: string }) => ID);

const make = async (more: Record<string, unknown> = {}): Promise<Answer["body"]> => {
  const made = await create({ ID: "v1", ...more });
  if (made.status !== 200) throw new Error(`not made: ${made.status} ${made.text}`);
  return made.body.Volumes[0];
};

/** Everything that the registry has on its disk, as text, but one table. */
const stored = (but = "") =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) =>
    JSON.stringify(
      sql
        .exec<{ name: string }>(
          "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\' AND name <> ?",
          but,
        )
        .toArray()
        .map(({ name }) => sql.exec(`SELECT * FROM ${name}`).toArray()),
      (_key, value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString("latin1") : value),
    ),
  );

describe("creating a CSI volume", () => {
  it("is refused when its plugin returns the external id of another volume, because plugins create one volume per name", async () => {
    const { ExternalID } = await make({ Name: "same" });
    const second = () => create({ ID: "v2", Name: "same" });
    const taken = (whose: string) =>
      `controller create volume: a volume of this Name already exists at plugin "disk": it is ${whose}`;
    expect(refusal(await second())).toEqual([409, taken('volume "v1"')]);
    expect((await get("/v1/volume/csi/v2")).status).toBe(404);
    await put("/v1/namespace", { Name: "dev" });
    expect(refusal(await create({ Name: "same", Namespace: "dev" }))).toEqual([409, taken("another volume")]);
    expect(await listed()).toEqual(["v1"]);
    // An orphaned external volume is adopted by its name.
    expect((await del("/v1/volume/csi/v1")).status).toBe(200);
    expect((await second()).body.Volumes[0].ExternalID).toBe(ExternalID);
  });

  // Proves: D.csi.create.endpoint, D.csi.read.endpoint, D.csi.read.volume_id
  it("calls its plugin, and returns all fields of the volume", async () => {
    const made = await create({
      RequestedCapacityMin: 1000,
      RequestedCapacityMax: 2000,
      Parameters: { tier: "gold" },
      RequestedTopologies: { Required: [{ Segments: { zone: "a" } }] },
      MountOptions: { FSType: "ext4", MountFlags: ["noatime"] },
    });
    expect(made.status, made.text).toBe(200);
    const { CreateIndex, CreateTime } = made.body.Volumes[0];
    expect(made.body).toEqual({
      Index: CreateIndex,
      KnownLeader: true,
      LastContact: 0,
      NextToken: "",
      Warnings: "",
      Volumes: [
        {
          AccessMode: "",
          Allocations: [],
          AttachmentMode: "",
          Capacity: 1000,
          CloneID: "",
          ControllerRequired: true,
          Context: { made: "here" },
          ControllersExpected: 1,
          ControllersHealthy: 1,
          ExternalID: "ext-vol-one",
          CreateIndex,
          CreateTime,
          ModifyIndex: CreateIndex,
          ModifyTime: CreateTime,
          ID: "v1",
          Name: "vol-one",
          MountOptions: { FSType: "ext4", MountFlags: ["[REDACTED]"] },
          Namespace: "default",
          NodesExpected: 1,
          NodesHealthy: 1,
          Parameters: { tier: "gold" },
          PluginID: PLUGIN,
          Provider: "disk.example",
          MutableParameters: {},
          ProviderVersion: "1.0",
          ReadAllocs: {},
          ResourceExhausted: null,
          Schedulable: true,
          Secrets: null,
          RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
          RequestedCapacityMax: 2000,
          RequestedCapacityMin: 1000,
          SnapshotID: "",
          WriteAllocs: {},
          RequestedTopologies: { Preferred: null, Required: [{ Segments: { zone: "a" } }] },
          Topologies: [{ Segments: { zone: "a" } }],
        },
      ],
    });
    expect(CreateIndex).toBeGreaterThan(0);
    expect((await get("/v1/volume/csi/v1")).body).toEqual(made.body.Volumes[0]);
    expect(csi.sent[0]?.operation.params).toEqual({
      pluginId: PLUGIN,
      name: "vol-one",
      capacityMin: 1000,
      capacityMax: 2000,
      parameters: { tier: "gold" },
      capabilities: [{ accessMode: "single-node-writer", attachmentMode: "file-system" }],
      mount: { fsType: "ext4", mountFlags: ["noatime"] },
      snapshotId: "",
      cloneId: "",
      topology: { required: [{ zone: "a" }], preferred: [] },
    });
    const [event] = await eventsOf("CSIVolume");
    expect(event).toMatchObject({
      Type: "CSIVolumeRegistered",
      Key: "v1",
      Namespace: "default",
      FilterKeys: ["v1", "vol-one", PLUGIN],
      Index: CreateIndex,
      Payload: { Volume: { ID: "v1", CreateIndex, ModifyIndex: CreateIndex, Secrets: null } },
    });
  });

  it("accepts the volume itself as a body, and requires the id of the path", async () => {
    expect((await put("/v1/volume/csi/v1/create", definition())).status).toBe(200);
    expect(refusal(await put("/v1/volume/csi/other/create", definition()))).toEqual([
      400,
      "ID: does not match the request path",
    ]);
  });

  it("calls the plugin once for concurrent requests, and a later one is an update", async () => {
    csi.behave = () => "hold";
    const both = [create(), create()];
    await expect.poll(() => csi.holding).toBe(1);
    await scheduler.wait(50);
    await csi.release();
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await create()).status).toBe(200);
    expect(csi.asked).toEqual(["create"]);
  });

  it("keeps a volume that a plugin creates after the request timed out or failed", async () => {
    csi.behave = () => ({ state: "failed", error: { kind: "plugin", message: "lost the way" } });
    expect(refusal(await create())).toEqual([502, "controller create volume: lost the way"]);
    expect(await listed()).toEqual([]);
    const { operation, node } = csi.sent[0] ?? expect.fail();
    await csi.tell(node, operation.id, csi.work(operation));
    expect(await listed()).toEqual(["v1"]);
    await csi.tell(node, operation.id, csi.work(operation));
    expect(await eventsOf("CSIVolume")).toHaveLength(1);
  });

  it("accepts the result only from a node that was called", async () => {
    csi.behave = () => "hold";
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    const { operation } = csi.sent[0] ?? expect.fail();
    await csi.tell(nodeId(2), operation.id, { state: "failed", error: { kind: "plugin", message: "a lie" } });
    await csi.release();
    expect((await making).status).toBe(200);
  });

  it("calls the next controller when one is absent, or when its outcome is unknown", async () => {
    await addCsiNode(2);
    await addCsiNode(3);
    csi.behave = (_operation, node) => {
      if (node === nodeId(1)) return { ok: false, reason: "unavailable", message: "away" };
      return node === nodeId(2) ? { state: "unknown", error: { kind: "timeout", message: "silent" } } : "work";
    };
    await make();
    expect(csi.sent.map(({ node }) => node)).toEqual([nodeId(2), nodeId(3)]);
    const [{ operation: first }, { operation: second }] = csi.sent as [(typeof csi.sent)[0], (typeof csi.sent)[0]];
    expect([first.id, first.params]).toEqual([second.id, second.params]);
  });

  it("calls the next controller when the plugin was removed from the node of one", async () => {
    await addCsiNode(2);
    const forbidden = { state: "failed", error: { kind: "forbidden", message: "not configured" } } as const;
    csi.behave = (_operation, node) => (node === nodeId(1) ? forbidden : "work");
    await make();
    expect(csi.sent.map(({ node }) => node)).toEqual([nodeId(1), nodeId(2)]);
  });

  it("calls no other controller after a refusal", async () => {
    await addCsiNode(2);
    csi.behave = () => ({ state: "failed", error: { kind: "conflict", message: "other size" } });
    expect(refusal(await create())).toEqual([409, "controller create volume: other size"]);
    expect(csi.sent).toHaveLength(1);
  });

  it("reports which of several volumes failed, and keeps the others", async () => {
    csi.behave = ({ params }) =>
      params["name"] === "bad" ? { state: "failed", error: { kind: "exhausted", message: "full" } } : "work";
    const volumes = [definition({ ID: "a", Name: "good" }), definition({ ID: "b", Name: "bad" })];
    const answer = await put("/v1/volume/csi/a/create", { Volumes: volumes });
    expect(answer.status).toBe(507);
    expect(answer.text).toBe(
      "1 error occurred:\n\t* controller create volume: full\n\nvolumes that were stored all the same: [a]",
    );
    expect(await listed()).toEqual(["a"]);
  });

  itRows<[string, Record<string, unknown>, number, string]>([
    ["no id", { ID: "" }, 400, "validation: missing volume id"],
    ["no plugin", { PluginID: "" }, 400, "validation: missing plugin id"],
    ["no name", { Name: "" }, 400, "validation: missing volume name"],
    ["no capability", { RequestedCapabilities: [] }, 400, "validation: must include at least one capability block"],
    [
      "a snapshot and a clone, and no plugin",
      { SnapshotID: "s", CloneID: "c", PluginID: "" },
      400,
      "validation: missing plugin id, only one of snapshot_id and clone_id is allowed",
    ],
    [
      "unknown modes",
      { RequestedCapabilities: [{ AccessMode: "x", AttachmentMode: "y" }] },
      400,
      "validation: unknown volume attachment mode: y, unknown volume access mode: x",
    ],
    [
      "topologies without segments",
      { RequestedTopologies: { Required: [{}], Preferred: [{ Segments: {} }] } },
      400,
      "validation: required topology is missing segments field, preferred topology is missing segments field",
    ],
    [
      "a segment of a topology that is too long",
      { RequestedTopologies: { Required: [{ Segments: { zone: "z".repeat(257) } }] } },
      400,
      "validation: Volumes.0.RequestedTopologies.Required.0.Segments.zone: Too big: expected string to have <=256 characters",
    ],
    ["an unknown plugin", { PluginID: "nope" }, 404, "no CSI plugin named: nope could be found"],
    ["an unknown namespace", { Namespace: "nope" }, 400, "volume v1 is in nonexistent namespace nope"],
    ["an unknown field", { Colour: "red" }, 400, "validation: Volumes.0: unknown field Colour"],
    [
      "a secret that is not text",
      { Secrets: { a: 1 } },
      400,
      "validation: Volumes.0.Secrets.a: Invalid input: expected string, received number",
    ],
  ])("refuses %s without a change", async (_what, more, status, said) => {
    expect(refusal(await create(more))).toEqual([status, said]);
    expect([await listed(), csi.sent]).toEqual([[], []]);
  });

  // Proves: D.rules.4.create
  it("again, with a higher capacity, expands it", async () => {
    await make({ RequestedCapacityMin: 1000 });
    expect(await make({ RequestedCapacityMin: 3000 })).toMatchObject({ Capacity: 3000, RequestedCapacityMin: 3000 });
    expect(csi.asked).toEqual(["create", "expand"]);
  });

  itRows<[string, unknown]>([
    ["nothing", undefined],
    ["no object", "[]"],
    ["no JSON", "{"],
    ["an empty object", {}],
    ["no volume", { Volumes: [] }],
    ["null for a volume", { Volumes: [null] }],
    ["a text for the volumes", { Volumes: "v1" }],
    ["more volumes than may be", { Volumes: Array.from({ length: 51 }, (_, at) => definition({ ID: `v${at}` })) }],
    ["a field twice", { Volumes: [{ ...definition(), plugin_id: "x" }] }],
    ["a volume twice", { Volumes: [definition(), definition()] }],
    ["a negative size", { Volumes: [definition({ RequestedCapacityMin: -1 })] }],
    ["a size beyond all numbers", `{"Volumes":[{"ID":"v1","RequestedCapacityMin":99999999999999999999}]}`],
    ["a name that steers terminals", { Volumes: [definition({ ID: "v1", Name: "a\u001b[2J" })] }],
    ["a secret of a strange name", { Volumes: [definition({ Secrets: { "a b": "canary" } })] }],
    ["null among flags", { Volumes: [definition({ MountOptions: { MountFlags: [null] } })] }],
  ])("refuses a body of %s and stores nothing", async (_what, body) => {
    for (const path of ["/v1/volume/csi/v1", "/v1/volume/csi/v1/create", "/v1/volumes"]) {
      const answer = await put(path, body, UPSTREAM);
      expect([path, answer.status]).toEqual([path, 400]);
      expect(answer.text).not.toContain("canary");
    }
    expect([await listed(), csi.sent]).toEqual([[], []]);
  });

  // Proves: D.rules.5.create-delete
  it("requires a plugin with the capability, and names the missing one", async () => {
    await addCsiNode(1, { SupportsCreateDelete: false });
    expect(refusal(await create())).toEqual([501, "plugin does not support creating volumes"]);
  });
});

describe("registering a CSI volume", () => {
  // Proves: D.csi.register.endpoint
  it("calls its plugin to validate the volume, on the specified node", async () => {
    await addCsiNode(2);
    const made = await register({ ExternalID: "ext", NodeID: nodeId(2), Context: { a: "b" } }, {});
    expect(made.status, made.text).toBe(200);
    expect(made.body.Volumes[0]).toMatchObject({ ID: "v1", ExternalID: "ext", Capacity: 0, Context: { a: "b" } });
    expect(csi.sent.map(({ node, operation }) => [node, operation.method, operation.params["externalId"]])).toEqual([
      [nodeId(2), "csi.controller.validate", "ext"],
    ]);
  });

  // Proves: D.csi.register.NodeID-required
  itRows<[string, Record<string, unknown>, number, string]>([
    ["no node", {}, 400, "NodeID: is required: the node that validates the volume"],
    ["an unknown node", { NodeID: nodeId(7) }, 404, "NodeID: node not found"],
    [
      "a node without the plugin",
      { NodeID: nodeId(3) },
      409,
      `node ${nodeId(3)} runs no healthy controller of plugin disk to validate with`,
    ],
  ])("refuses %s", async (_what, more, status, said) => {
    await addNode(3);
    expect(refusal(await register(more, {}))).toEqual([status, said]);
    expect(await listed()).toEqual([]);
  });

  // Proves: D.rules.5.register-exists
  it("stores all volumes of a request or none", async () => {
    csi.behave = ({ params }) =>
      params["externalId"] === "b" ? { state: "failed", error: { kind: "missing", message: "not there" } } : "work";
    const both = { Volumes: [definition({ ID: "a" }), definition({ ID: "b" })] };
    expect(refusal(await put("/v1/volumes", both, UPSTREAM))).toEqual([404, "controller validate volume: not there"]);
    expect(await listed()).toEqual([]);
    csi.behave = () => "work";
    const made = await put("/v1/volumes", both, UPSTREAM);
    expect(made.body.Volumes.map(({ CreateIndex }: { CreateIndex: number }) => CreateIndex)).toEqual([
      made.body.Index,
      made.body.Index,
    ]);
  });

  it("accepts a returned volume, and keeps its hidden flags and secrets", async () => {
    await make({ MountOptions: { FSType: "ext4", MountFlags: ["noatime"] }, Secrets: { key: "s3cr3t" } });
    const shown = (await get("/v1/volume/csi/v1")).body;
    const again = await put("/v1/volume/csi/v1", { Volumes: [shown] }, UPSTREAM);
    expect(again.status, again.text).toBe(200);
    expect(again.body.Volumes[0]).toEqual({
      ...shown,
      ModifyIndex: again.body.Index,
      ModifyTime: expect.any(Number),
    });
    expect(csi.sent.at(-1)?.operation).toMatchObject({
      secrets: { key: "s3cr3t" },
      params: { mount: { fsType: "ext4", mountFlags: ["noatime"] } },
    });
  });

  it("names every immutable field", async () => {
    await make({ Parameters: { a: "b" } });
    const answer = await register({ Name: "x", ExternalID: "y", CloneID: "z", Parameters: { a: "c" } });
    expect(refusal(answer)).toEqual([
      400,
      "unable to update volume: 4 errors occurred:\n\t* volume name cannot be updated\n\t* volume external ID cannot be updated\n\t* volume clone ID cannot be updated\n\t* volume parameters cannot be updated\n\n",
    ]);
  });

  // Proves: D.rules.4.register
  it("expands a volume to a larger requested size, and returns the new size", async () => {
    await make({ RequestedCapacityMin: 1000 });
    const grown = await register({ RequestedCapacityMin: 1500, RequestedCapacityMax: 2000 });
    expect(grown.body.Volumes[0]).toMatchObject({
      Capacity: 1500,
      RequestedCapacityMin: 1500,
      RequestedCapacityMax: 2000,
    });
    expect(csi.asked).toEqual(["create", "validate", "expand"]);
    await register({ RequestedCapacityMin: 500, RequestedCapacityMax: 5000 });
    expect(csi.asked).toEqual(["create", "validate", "expand", "validate"]);
  });

  it("leaves a volume unchanged when it cannot expand", async () => {
    const made = await make({ RequestedCapacityMin: 1000 });
    csi.behave = ({ method }) =>
      method.endsWith("expand") ? { state: "failed", error: { kind: "exhausted", message: "full" } } : "work";
    expect(refusal(await register({ RequestedCapacityMin: 1500 }))).toEqual([
      507,
      "unable to update volume: unable to expand volume: full",
    ]);
    expect((await get("/v1/volume/csi/v1")).body).toEqual(made);
  });
});

describe("mutable parameters of a CSI volume", () => {
  const iops = (value: string) => ({ MutableParameters: { iops: value } });
  const modified = () =>
    csi.sent
      .filter(({ operation }) => operation.method === "csi.controller.modify")
      .map(({ operation: { params } }) => [params["externalId"], params["mutableParameters"]]);

  it("are set at creation, and changed by later requests, which keep omitted ones", async () => {
    await addCsiNode(1, { SupportsModify: true });
    const made = await make({ MutableParameters: { iops: "100", tier: "a" } });
    expect(made["MutableParameters"]).toEqual({ iops: "100", tier: "a" });
    expect(csi.sent[0]?.operation.params["mutableParameters"]).toEqual({ iops: "100", tier: "a" });
    const changed = await make(iops("200"));
    expect(changed["MutableParameters"]).toEqual({ iops: "200", tier: "a" });
    expect((await register(iops("300"))).body.Volumes[0].MutableParameters).toEqual({ iops: "300", tier: "a" });
    await register();
    await register(iops("300"));
    expect(modified()).toEqual([
      ["ext-vol-one", { iops: "200", tier: "a" }],
      ["ext-vol-one", { iops: "300", tier: "a" }],
    ]);
    const shown = (await eventsOf("CSIVolume")).map(({ Payload }) => Payload["Volume"].MutableParameters.iops);
    expect([...new Set(shown)]).toEqual(["100", "200", "300"]);
    const filter = encodeURIComponent('MutableParameters.iops == "300"');
    expect((await get(`/v1/volumes?type=csi&filter=${filter}`)).body).toHaveLength(1);
  });

  it("are set for a volume that is registered", async () => {
    await addCsiNode(1, { SupportsModify: true });
    const made = await register({ ...iops("1"), ExternalID: "far", Secrets: { key: "s3cr3t" } });
    expect(made.body.Volumes[0]).toMatchObject({ ...iops("1"), ExternalID: "far" });
    expect([csi.asked, modified()]).toEqual([["validate", "modify"], [["far", { iops: "1" }]]]);
    expect(csi.sent[1]?.operation.secrets).toEqual({ key: "s3cr3t" });
  });

  it("are refused without the plugin's capability, and nothing is called", async () => {
    const lacking = [501, "plugin does not support mutable parameters (MODIFY_VOLUME)"];
    expect(refusal(await create(iops("1")))).toEqual(lacking);
    await make();
    expect(refusal(await create(iops("1")))).toEqual(lacking);
    expect(csi.asked).toEqual(["create"]);
  });

  it("are unchanged when the plugin refuses the new ones", async () => {
    await addCsiNode(1, { SupportsModify: true });
    const made = await make(iops("1"));
    csi.behave = ({ method }) =>
      method.endsWith("modify") ? { state: "failed", error: { kind: "invalid", message: "too many" } } : "work";
    expect(refusal(await register(iops("2")))).toEqual([
      400,
      "unable to update volume: unable to modify volume: too many",
    ]);
    expect((await get("/v1/volume/csi/v1")).body).toEqual(made);
  });

  it("are not stored when another request has changed them meanwhile", async () => {
    await addCsiNode(1, { SupportsModify: true });
    const made = await make(iops("1"));
    const superseded = vi.spyOn(CsiVolumes.prototype, "modify").mockReturnValue(ok({ kind: "ready" }));
    expect(refusal(await register(iops("2")))).toEqual([
      409,
      "volume v1: its mutable parameters were changed meanwhile",
    ]);
    superseded.mockRestore();
    expect((await get("/v1/volume/csi/v1")).body).toEqual(made);
  });
});

describe("secrets of a CSI volume", () => {
  it("are passed to its plugin, and are on no disk, in no answer and in no event", async () => {
    csi.behave = () => "hold";
    const making = create({ Secrets: { key: "s3cr3t-canary" } });
    await expect.poll(() => csi.holding).toBe(1);
    expect(csi.sent[0]?.operation.secrets).toEqual({ key: "s3cr3t-canary" });
    expect(await stored()).not.toContain("s3cr3t-canary");
    await csi.release();
    const made = await making;
    const shown = [made.text, (await get("/v1/volume/csi/v1")).text, (await get("/v1/volumes?type=csi")).text];
    const ops = (await get("/v1/volume/csi/v1/operations")).text;
    const everything = [...shown, ops, await stored(), JSON.stringify(await eventsOf("CSIVolume"))].join("\n");
    expect(everything).not.toContain("s3cr3t-canary");
  });

  it("are equally protected as mount flags and as the controller's publish context: no table holds them", async () => {
    const flags = ["password=flag-canary"];
    const heldThen = async (ask: Promise<unknown>) => {
      await expect.poll(() => csi.holding).toBe(1);
      expect(await stored()).not.toMatch(/(?:flag|context)-canary/);
      await csi.release();
      await ask;
    };
    csi.behave = ({ method }) => {
      if (method !== "csi.controller.publish") return "hold";
      return { state: "done", result: { publishContext: { token: "context-canary" } } };
    };
    await heldThen(make({ RequestedCapacityMin: 1, MountOptions: { FSType: "ext4", MountFlags: flags } }));
    await heldThen(register());
    await heldThen(make({ RequestedCapacityMin: 2 }));
    await heldThen(run(nodeId(1), [{ Type: "csi", Source: "v1" } as never]));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(await stored()).not.toMatch(/(?:flag|context)-canary/);
    expect((await eventsOf("CSIVolume")).map((event) => JSON.stringify(event)).join()).not.toContain("canary");
    const seen = csi.sent.map(({ operation }) => operation.params as { mount?: unknown; publishContext?: unknown });
    expect(seen.map(({ mount }) => mount)).toEqual(seen.map(() => ({ fsType: "ext4", mountFlags: flags })));
    expect(seen.at(-1)?.publishContext).toEqual({ token: "context-canary" });
  });

  it("are equally protected in a job: only the job itself shows them", async () => {
    await make();
    const MountOptions = { FSType: "", MountFlags: ["job-canary"] };
    await run(nodeId(1), [{ Type: "csi", Source: "v1", MountOptions } as never]);
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(csi.sent.at(-1)?.operation.params["mount"]).toEqual({ fsType: "", mountFlags: ["job-canary"] });
    expect(await stored("reported")).not.toContain("job-canary");
  });

  it("of a volume created after its failure was reported are stored with it", async () => {
    csi.behave = () => ({ state: "given-up", error: { kind: "timeout", message: "lost the way" } });
    await create({ Secrets: { a: "1" }, MountOptions: { MountFlags: ["ro"] } });
    const { operation, node } = csi.sent[0] ?? expect.fail();
    await csi.tell(node, operation.id, csi.work(operation));
    csi.behave = () => "work";
    await register();
    expect(csi.sent.at(-1)?.operation).toMatchObject({
      secrets: { a: "1" },
      params: { mount: { mountFlags: ["ro"] } },
    });
  });

  it("are kept when a request has none, replaced by given ones, and cleared by an empty map", async () => {
    await make({ Secrets: { a: "1" } });
    await register();
    await register({ Secrets: { b: "2" } });
    await register({ Secrets: {} });
    await register();
    expect(csi.sent.slice(1).map(({ operation }) => operation.secrets)).toEqual([
      { a: "1" },
      { b: "2" },
      undefined,
      undefined,
    ]);
  });

  // Proves: D.csi.delete.secrets-header, D.rules.3.merged, D.rules.3.pairs
  it("of the header extend the stored ones in a deletion", async () => {
    await make({ Secrets: { a: "1", b: "2" } });
    await del("/v1/volume/csi/v1/delete", { headers: { "X-Orch-CSI-Secrets": "one,b=3=4,c=5,c=6" } });
    expect(csi.sent.at(-1)?.operation.secrets).toEqual({ a: "1", b: "3=4", c: "6" });
  });

  it("are at most 128 with those of the header", async () => {
    await make({ Secrets: Object.fromEntries(Array.from({ length: 128 }, (_, at) => [`k${at}`, "v"])) });
    const headers = { "X-Orch-CSI-Secrets": "another=v" };
    expect(refusal(await del("/v1/volume/csi/v1/delete", { headers }))).toEqual([
      400,
      "secrets: at most 128, with those of the volume",
    ]);
    expect((await del("/v1/volume/csi/v1/delete", { headers: { "X-Orch-CSI-Secrets": "k0=w" } })).status).toBe(200);
  });

  it("are resealed under a new master key", async () => {
    await make({ Secrets: { a: "1" } });
    expect((await put("/v1/sys/rotate", {})).status).toBeLessThan(300);
    await register();
    expect(csi.sent.at(-1)?.operation.secrets).toEqual({ a: "1" });
  });
});

describe("removing a CSI volume", () => {
  // Proves: D.csi.delete.endpoint
  it("deletes it at the provider first, and succeeds when it is absent there", async () => {
    await make();
    const gone = await del("/v1/volume/csi/v1/delete");
    expect([gone.status, gone.text]).toEqual([200, ""]);
    expect([csi.disks.size, await listed()]).toEqual([0, []]);
    expect((await eventsOf("CSIVolume")).map(({ Type, Key }) => [Type, Key])).toEqual([
      ["CSIVolumeRegistered", "v1"],
      ["CSIVolumeDeregistered", "v1"],
    ]);
    expect(refusal(await del("/v1/volume/csi/v1/delete"))).toEqual([404, "volume not found: v1"]);
  });

  // Proves: D.csi.deregister.endpoint, D.csi.deregister.force, D.state.deregister
  it("by deregistration keeps it at the provider", async () => {
    await make();
    expect((await del("/v1/volume/csi/v1?force=true")).status).toBe(200);
    expect([csi.disks.size, await listed(), csi.asked]).toEqual([1, [], ["create"]]);
    expect(refusal(await del("/v1/volume/csi/v1"))).toEqual([404, "volume not found: v1"]);
    expect(refusal(await del("/v1/volume/csi/v1?force=maybe"))).toEqual([400, "invalid force value"]);
  });

  it.each<[string, string]>([
    ["delete", "/v1/volume/csi/v1/delete"],
    ["deregister", "/v1/volume/csi/v1"],
    ["deregister by force", "/v1/volume/csi/v1?force=true"],
    ["detach", `/v1/volume/csi/v1/detach?node=${nodeId(1)}`],
  ])("is refused while an allocation uses it: %s", async (_what, path) => {
    await make();
    await run(nodeId(1), [{ Type: "csi", Source: "v1" } as never]);
    await expect.poll(() => statesOf()).toEqual(["published"]);
    const said = `volume in use: v1: held by allocation a1 on node ${nodeId(1)} (published)`;
    expect(refusal(await del(path))).toEqual([409, said]);
    expect([csi.asked, await listed()]).toEqual([["create", "publish", "node.publish"], ["v1"]]);
    const shown = (await get("/v1/volume/csi/v1")).body;
    expect([shown.WriteAllocs, shown.Allocations.map(({ ID }: { ID: string }) => ID)]).toEqual([{ a1: null }, ["a1"]]);
  });

  it("by forced deregistration works while ended allocations hold it, without a release", async () => {
    await make();
    await run(nodeId(1), [{ Type: "csi", Source: "v1" } as never]);
    await expect.poll(() => statesOf()).toEqual(["published"]);
    csi.behave = () => "hold";
    await run(nodeId(1), [{ Type: "csi", Source: "v1" } as never], { status: "complete" });
    await expect.poll(() => csi.holding).toBe(1);
    expect((await del("/v1/volume/csi/v1")).text).toMatch(/^volume in use: v1: held by allocation a1 .*unpublishing/);
    expect((await del("/v1/volume/csi/v1?force=true")).status).toBe(200);
    await csi.release();
    await scheduler.wait(50);
    expect([csi.asked, await listed()]).toEqual([["create", "publish", "node.publish", "node.detach"], []]);
  });

  it("keeps it when its plugin cannot delete it", async () => {
    await make();
    csi.behave = () => ({ state: "failed", error: { kind: "conflict", message: "has snapshots" } });
    expect(refusal(await del("/v1/volume/csi/v1/delete"))).toEqual([409, "controller delete volume: has snapshots"]);
    expect(await listed()).toEqual(["v1"]);
  });

  // Proves: D.csi.detach.node-required
  it("by detaching succeeds on a node without it, and requires a node", async () => {
    await make();
    expect((await del(`/v1/volume/csi/v1/detach?node=${nodeId(1)}`)).status).toBe(200);
    expect(refusal(await del("/v1/volume/csi/v1/detach"))).toEqual([400, "detach requires node ID"]);
    expect(refusal(await del(`/v1/volume/csi/no/detach?node=${nodeId(1)}`))).toEqual([404, "no such volume"]);
  });
});

describe("one plugin", () => {
  it("runs one modifying operation at a time, and namespaces alternate", async () => {
    await put("/v1/namespace/prod", {});
    for (const id of ["a", "b", "c"]) await register({ ID: id });
    await register({ ID: "p", Namespace: "prod" });
    csi.behave = () => "hold";
    const deletions: Promise<Answer>[] = [];
    for (const path of ["a/delete", "b/delete", "c/delete", "p/delete?namespace=prod"]) {
      deletions.push(del(`/v1/volume/csi/${path}`));
      await scheduler.wait(60);
    }
    for (let at = 0; at < 4; at++) {
      await expect.poll(() => csi.holding).toBe(1);
      await csi.release();
    }
    expect((await Promise.all(deletions)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const order = csi.sent.slice(4).map(({ operation }) => operation.params["externalId"]);
    expect(order[0]).toBe("a");
    expect(order.indexOf("p")).toBeLessThan(3);
  });
});

describe("operations of a CSI volume", () => {
  it("are listed, newest first, including failed ones", async () => {
    await make();
    csi.behave = () => ({ state: "failed", error: { kind: "plugin", message: "no" } });
    await del("/v1/volume/csi/v1/delete");
    const shown = (await get("/v1/volume/csi/v1/operations")).body;
    expect(shown).toMatchObject([
      { Method: "csi.controller.delete", State: "failed", Error: "controller delete volume: no", NodeID: nodeId(1) },
      { Method: "csi.controller.create", State: "done", Error: "", PluginID: PLUGIN, NodesAsked: [nodeId(1)] },
    ]);
    const page = await get("/v1/volume/csi/v1/operations?per_page=1");
    const token = page.headers.get("X-Orch-NextToken");
    expect([page.body.length, (await get(`/v1/volume/csi/v1/operations?next_token=${token}`)).body]).toEqual([
      1,
      [shown[1]],
    ]);
  });
});

describe("lists of CSI volumes", () => {
  const stock = async () => {
    await put("/v1/namespace/prod", {});
    for (const ID of ["vol-01", "vol-02", "vol-03"]) await register({ ID, Parameters: { n: ID.slice(-1) } });
    await register({ ID: "web", Namespace: "prod" });
  };

  it("are paged, filtered by expression and by prefix", async () => {
    await stock();
    expect(await listed()).toEqual(["vol-01", "vol-02", "vol-03", "web"]);
    const page = await get("/v1/volumes?type=csi&namespace=*&per_page=2");
    expect(page.headers.get("X-Orch-NextToken")).toBe("default.vol-03");
    expect(await listed("&next_token=default.vol-03")).toEqual(["vol-03", "web"]);
    expect(await listed("&prefix=vol-0")).toEqual(["vol-01", "vol-02", "vol-03"]);
    expect(await listed(`&filter=${encodeURIComponent('Parameters.n == "2"')}`)).toEqual(["vol-02"]);
    expect(await listed(`&plugin_id=${PLUGIN}&prefix=w`)).toEqual(["web"]);
    expect(await listed("&plugin_id=ab")).toEqual([]);
    expect((await get("/v1/volumes?type=csi&plugin_id=abc")).status).toBe(400);
  });

  itRows(["Secrets.a == b", "MountOptions.MountFlags is empty", "Nope == 1"])(
    "return an error for %s",
    async (filter) => {
      expect((await get(`/v1/volumes?type=csi&filter=${encodeURIComponent(filter)}`)).status).toBe(400);
    },
  );

  it("show the volumes in use on a node", async () => {
    await stock();
    await run(nodeId(1), [{ Type: "csi", Source: "vol-02", ReadOnly: true } as never]);
    expect(await listed(`&node_id=${nodeId(1).slice(0, 8)}`)).toEqual(["vol-02"]);
    const [row] = (await get("/v1/volumes?type=csi&prefix=vol-02")).body;
    expect([row.CurrentReaders, row.CurrentWriters]).toEqual([1, 0]);
    expect(await listed("&node_id=ff")).toEqual([]);
  });

  // Proves: D.list.acl.csi
  it("show only volumes that the token may read", async () => {
    await stock();
    const { client_token: token } = await holderOf('namespace "prod" { capabilities = ["csi-list-volume"] }');
    const seen = await get("/v1/volumes?type=csi&namespace=*", { token });
    expect(seen.body.map(({ ID }: { ID: string }) => ID)).toEqual(["web"]);
    expect((await get("/v1/volumes?type=csi", { token })).status).toBe(403);
    expect((await get("/v1/volume/csi/web?namespace=prod", { token })).status).toBe(403);
  });

  it("wake blocking queries", async () => {
    const { body, headers } = await get("/v1/volumes?type=csi");
    expect(body).toEqual([]);
    const waiting = get(`/v1/volumes?type=csi&index=${headers.get("X-Orch-Index")}&wait=10s`);
    await scheduler.wait(50);
    await register();
    expect((await waiting).body).toMatchObject([{ ID: "v1" }]);
  });
});

describe("access to CSI volumes", () => {
  it("requires csi-write-volume for writes, and of upstream clients plugin:read as well", async () => {
    const { client_token: token } = await holderOf('namespace "default" { capabilities = ["csi-write-volume"] }');
    const { client_token: reader } = await holderOf('namespace "default" { capabilities = ["csi-read-volume"] }');
    const body = { Volumes: [definition()] };
    expect((await put("/v1/volume/csi/v1/create", body, { token: reader })).status).toBe(403);
    expect((await put("/v1/volume/csi/v1/create", body, { token })).status).toBe(200);
    const upstream = { token: null, headers: { "X-Nomad-Token": token } };
    expect((await put("/v1/volume/csi/v1/create", body, upstream)).status).toBe(403);
    expect((await get("/v1/volume/csi/v1", { token: reader })).status).toBe(200);
    expect((await del("/v1/volume/csi/v1/delete", { token: reader })).status).toBe(403);
    expect((await del("/v1/volume/csi/v1/delete", { token })).status).toBe(200);
  });
});

it("a volume is not deleted at its provider while it is claimed there as another volume", async () => {
  const { ExternalID } = await make();
  expect((await register({ ID: "twin", Name: "", ExternalID })).status).toBe(200);
  await run(nodeId(1), [{ Type: "csi", Source: "twin" } as never]);
  expect(refusal(await del("/v1/volume/csi/v1/delete"))).toEqual([
    409,
    "volume in use: v1: held as another volume, which is the same at the provider",
  ]);
  expect([...csi.disks.keys()]).toEqual(["vol-one"]);
  expect((await del("/v1/volume/csi/v1")).status).toBe(200);
});
