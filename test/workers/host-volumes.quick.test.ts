import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { itRows } from "../support/rows.ts";
import { type Answer, del, get, put } from "./client.ts";
import { ask, listed, lose, make, nodeId, nodes, openNodes, register } from "./host-volumes.ts";

const KERNEL = `\${attr.kernel.name}`;

beforeEach(() => openNodes(1));

const refusal = ({ status, text }: Answer) => [status, text];
const nothingStored = async () => expect(await listed()).toEqual([]);

describe("updating a host volume", () => {
  // Proves: D.rules.6.with-id
  it("changes mutable fields and keeps the rest", async () => {
    const made = await make({
      Constraints: [{ LTarget: KERNEL, Operand: "=", RTarget: "linux" }],
      RequestedCapabilities: [{ AccessMode: "single-node-multi-writer", AttachmentMode: "file-system" }],
    });
    const updated = await ask({
      ID: made.ID,
      PluginID: "",
      Name: "renamed",
      Parameters: { mode: "0700" },
      RequestedCapacityMaxBytes: 9,
      Constraints: [{ LTarget: "x", Operand: "=", RTarget: "y" }],
    });
    expect(updated.status, updated.text).toBe(200);
    expect(updated.body.Volume).toEqual({
      ...made,
      Name: "renamed",
      Parameters: { mode: "0700" },
      RequestedCapacityMaxBytes: 9,
      State: "pending",
      ModifyIndex: updated.body.Index,
      ModifyTime: expect.any(Number),
    });
    expect(updated.body.Index).toBeGreaterThan(made.ModifyIndex);
    expect(nodes.sent.map(({ operation }) => operation.gen)).toEqual([1, 2]);
  });

  it("accepts a returned volume unchanged", async () => {
    const made = await make({ Parameters: { mode: "0700" } });
    await nodes.report(nodeId(1));
    const shown = (await get(`/v1/volume/host/${made.ID}`)).body;
    const again = await put("/v1/volume/host/create", { Volume: shown });
    expect(again.status, again.text).toBe(200);
    expect(again.body.Volume).toEqual({
      ...shown,
      ModifyIndex: again.body.Index,
      ModifyTime: expect.any(Number),
    });
  });

  it("frees the old name and reserves the new one", async () => {
    const first = await make();
    await make({ Name: "two" });
    expect(refusal(await ask({ ID: first.ID, Name: "two" }))).toEqual([409, "volume name already exists on this node"]);
    await ask({ ID: first.ID, Name: "three" });
    expect((await make()).NodeID).toBe(nodeId(1));
    expect((await ask({ Name: "three" })).status).toBe(409);
  });

  it("leaves a volume unchanged when the node cannot update it", async () => {
    const made = await make();
    nodes.behave = () => ({ state: "failed", error: { kind: "plugin", message: "no" } });
    expect(refusal(await ask({ ID: made.ID, Name: "renamed" }))).toEqual([502, "no"]);
    expect((await get(`/v1/volume/host/${made.ID}`)).body).toEqual(made);
    nodes.behave = () => "work";
    expect((await make({ Name: "renamed" })).NodeID).toBe(nodeId(1));
  });

  // Proves: D.rules.6.with-id
  it.each<[string, object, string]>([
    ["node", { NodeID: nodeId(2) }, "node ID cannot be updated"],
    ["pool", { NodePool: "gpu" }, "node pool cannot be updated"],
    ["plugin", { PluginID: "zfs" }, "plugin ID cannot be updated"],
    [
      "size below the current one",
      { RequestedCapacityMaxBytes: 10 },
      "capacity_max (10) cannot be less than existing provisioned capacity (4096)",
    ],
  ])("refuses to change %s", async (_what, change, said) => {
    nodes.behave = () => ({ state: "done", result: { path: "/data/x", bytes: 4096 } });
    const { ID } = await make();
    expect(refusal(await ask({ ID, ...change }))).toEqual([
      400,
      `validating volume "${ID}" update failed: 1 error occurred:\n\t* ${said}\n\n`,
    ]);
    expect(nodes.sent).toHaveLength(1);
  });

  it("reports all errors at once", async () => {
    const { ID } = await make();
    expect((await ask({ ID, NodeID: nodeId(2), NodePool: "gpu" })).text).toBe(
      `validating volume "${ID}" update failed: 2 errors occurred:\n\t* node ID cannot be updated\n\t* node pool cannot be updated\n\n`,
    );
  });

  it("refuses an unknown id, or one in another namespace", async () => {
    const { ID } = await make();
    await put("/v1/namespace/prod", {});
    const unknown = "0199d1f0-0000-7000-8000-000000000000";
    expect(refusal(await ask({ ID: unknown }))).toEqual([
      404,
      `cannot update volume "${unknown}": volume does not exist`,
    ]);
    expect((await ask({ ID, Namespace: "prod" })).status).toBe(404);
  });

  it("fails at once when the node is away", async () => {
    const { ID } = await make();
    await lose(nodeId(1));
    expect(refusal(await ask({ ID }))).toEqual([503, `node ${nodeId(1)} is disconnected`]);
  });
});

describe("registering a host volume", () => {
  // Proves: D.host.register.endpoint
  it("stores a volume as described, without calling a plugin", async () => {
    const made = await register({ CapacityBytes: 77, Constraints: [] });
    expect(made.status, made.text).toBe(200);
    expect(made.body.Volume).toMatchObject({
      Name: "db",
      HostPath: "/srv/db",
      CapacityBytes: 77,
      PluginID: "",
      NodeID: nodeId(1),
      NodePool: "default",
    });
    expect(nodes.sent.map(({ operation }) => [operation.method, operation.params])).toEqual([
      ["dhv.register", { id: made.body.Volume.ID, name: "db", namespace: "default", hostPath: "/srv/db" }],
    ]);
  });

  it("updates a registered volume", async () => {
    const { ID } = (await register()).body.Volume;
    const moved = await register({ ID, HostPath: "/srv/new", CapacityBytes: 5 });
    expect(moved.body.Volume).toMatchObject({ ID, HostPath: "/srv/new", CapacityBytes: 5 });
  });

  itRows<[string, Record<string, unknown>, number, string]>([
    ["no node", { NodeID: "" }, 400, "cannot register volume: node ID is required"],
    ["no path", { HostPath: "" }, 400, "cannot register volume: host path is required"],
    [
      "an unknown node",
      { NodeID: nodeId(7) },
      404,
      `validating volume "db" against state failed: node "${nodeId(7)}" does not exist`,
    ],
    [
      "another pool",
      { NodePool: "gpu" },
      400,
      `validating volume "db" against state failed: node ID "${nodeId(1)}" is not in pool "gpu"`,
    ],
  ])("refuses %s", async (_what, more, status, said) => {
    expect(refusal(await register(more))).toEqual([status, said]);
    await nothingStored();
  });

  it("refuses a name in use on the node", async () => {
    await make();
    expect(refusal(await register())).toEqual([409, "volume name already exists on this node"]);
  });
});

describe("deleting a host volume", () => {
  // Proves: D.host.delete.endpoint
  it.each(["", "/delete"])("removes it from its node and from all lists (%s)", async (tail) => {
    const { ID, ModifyIndex } = await make();
    const deleted = await del(`/v1/volume/host/${ID}${tail}`);
    expect([deleted.status, deleted.body]).toEqual([200, { Index: expect.any(Number) }]);
    expect(deleted.body.Index).toBeGreaterThan(ModifyIndex);
    expect(deleted.headers.get("X-Orch-Index")).toBe(String(deleted.body.Index));
    expect(refusal(await get(`/v1/volume/host/${ID}`))).toEqual([404, "volume not found"]);
    expect(refusal(await del(`/v1/volume/host/${ID}`))).toEqual([404, `no such volume: ${ID}`]);
    expect(nodes.disks.get(nodeId(1))?.size).toBe(0);
    expect(nodes.sent.map(({ operation }) => [operation.method, operation.gen])).toEqual([
      ["dhv.create", 1],
      ["dhv.delete", 2],
    ]);
    expect((await make()).NodeID).toBe(nodeId(1));
  });

  it("keeps it when the plugin fails", async () => {
    const made = await make();
    nodes.behave = () => ({
      state: "failed",
      error: { kind: "plugin", message: `error deleting volume "${made.ID}" with plugin "mkdir": busy` },
    });
    expect(refusal(await del(`/v1/volume/host/${made.ID}`))).toEqual([
      502,
      `error deleting volume "${made.ID}" with plugin "mkdir": busy`,
    ]);
    expect((await get(`/v1/volume/host/${made.ID}`)).body).toEqual(made);
  });

  it("requires the right namespace", async () => {
    const { ID } = await make();
    await put("/v1/namespace/prod", {});
    expect((await del(`/v1/volume/host/${ID}?namespace=prod`)).status).toBe(404);
    expect((await del(`/v1/volume/host/${ID}?namespace=default`)).status).toBe(200);
  });

  it("requires force only when its node does not answer", async () => {
    const { ID } = await make();
    await lose(nodeId(1));
    expect(refusal(await del(`/v1/volume/host/${ID}`))).toEqual([
      503,
      `node ${nodeId(1)} is disconnected: volume cannot be removed from unreachable node without force=true`,
    ]);
    const forced = await del(`/v1/volume/host/${ID}?force=true`);
    expect([forced.status, forced.body.Index]).toEqual([200, expect.any(Number)]);
    expect(nodes.sent).toHaveLength(1);
    await nothingStored();
    expect(await clusterRegistry(env).unknownVolumes(nodeId(1), [ID])).toEqual([ID]);
  });

  it("calls its node also with force, when it is connected", async () => {
    const { ID } = await make();
    expect((await del(`/v1/volume/host/${ID}?force=true`)).status).toBe(200);
    expect(nodes.disks.get(nodeId(1))?.size).toBe(0);
  });

  it.each(["x", "yes", "2"])("refuses force=%s", async (force) => {
    const { ID } = await make();
    expect(refusal(await del(`/v1/volume/host/${ID}?force=${force}`))).toEqual([400, "invalid force value"]);
  });
});

// Proves: D.host.create.blocking, D.host.delete.blocking, D.host.register.blocking
it("answers a write at once, for any given index", async () => {
  const wait = "?index=1000000&wait=60s";
  const created = await put(`/v1/volume/host/create${wait}`, { Volume: { Name: "a", PluginID: "mkdir" } });
  const registered = await put(`/v1/volume/host/register${wait}`, {
    Volume: { Name: "b", NodeID: nodeId(1), HostPath: "/srv/b" },
  });
  const deleted = await del(`/v1/volume/host/${created.body.Volume.ID}${wait}`);
  expect([created.status, registered.status, deleted.status]).toEqual([200, 200, 200]);
});
