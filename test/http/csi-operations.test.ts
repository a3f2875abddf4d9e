import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { type Method, nodeReport, type ParamsOf } from "@sallyport/agent-protocol";
import { CONTROLLER_RPC, NODE_RPC } from "@sallyport/csi-wire";
import { expect, it, vi } from "vitest";
import { Csi } from "../../agent/src/csi/index.ts";
import { VERSION } from "../../packages/csi-dir/src/version.ts";
import { afterTest, eventually } from "./agent-service.ts";
import { type Driver, startDriver } from "./csi-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const GIB = 1024 ** 3;
const PLUGIN = "disk";
const CAPABILITY = { accessMode: "single-node-writer", attachmentMode: "file-system" };
type CsiMethod = Extract<Method, `csi.${string}`>;

/** The agent's CSI operations with a real driver. */
function csiOf(driver: Driver, change: object = {}) {
  const plugin = { id: PLUGIN, socket: driver.socket, roles: ["controller" as const, "node" as const], ...change };
  const csi = new Csi({ plugins: [plugin], mountsDir: driver.place("mounts") });
  afterTest(() => csi.stop());
  const run = <M extends CsiMethod>(
    method: M,
    params: Omit<ParamsOf<M>, "pluginId">,
    { secrets = {}, limitMs = 30_000, again = false } = {},
  ) => csi.handlers[method]({ pluginId: PLUGIN, ...params } as ParamsOf<M>, { secrets, limitMs, again });
  return { csi, run };
}

async function world(env?: Record<string, string>) {
  const driver = await startDriver(env);
  const { csi, run } = csiOf(driver);
  const create = (name: string, change: object = {}, how = {}) =>
    run("csi.controller.create", { ...creation(name), ...change }, how);
  const made = async (name: string, change: object = {}) => {
    const volume = await create(name, change);
    if (!volume.ok) throw new Error(volume.message);
    return volume;
  };
  return { driver, csi, run, create, made };
}

const creation = (name: string) => ({
  name,
  capacityMin: 0,
  capacityMax: 0,
  capabilities: [CAPABILITY],
  mount: null,
  parameters: {},
  snapshotId: "",
  cloneId: "",
  topology: null,
});

it("creates, expands, snapshots, lists, publishes, uses, detaches and deletes a volume", async () => {
  const { driver, run, made } = await world({ CSI_DIR_TOPOLOGY: "zone=a" });
  const volume = await made("v", { capacityMin: GIB, topology: { required: [{ zone: "a" }], preferred: [] } });
  const { externalId, context } = volume;
  expect(volume).toEqual({
    ok: true,
    externalId: driver.directories("volumes")[0],
    capacityBytes: GIB,
    context: { "csi-dir/directory": externalId },
    topologies: [{ zone: "a" }],
  });
  const access = { capability: CAPABILITY, mount: { fsType: "ext4", mountFlags: ["noatime"] } };
  expect(
    await run("csi.controller.validate", {
      externalId,
      ...access,
      capabilities: [CAPABILITY],
      parameters: {},
      context,
    }),
  ).toEqual({ ok: true });
  const range = { capacityMin: 2 * GIB, capacityMax: 0 };
  expect(await run("csi.controller.expand", { externalId, ...range, ...access })).toEqual({
    ok: true,
    capacityBytes: 2 * GIB,
    nodeExpansionRequired: false,
  });
  const snapshot = await run("csi.controller.snapshotCreate", { externalId, name: "s", parameters: {} });
  expect(snapshot).toMatchObject({ ok: true, sourceExternalId: externalId, sizeBytes: 2 * GIB, isReady: true });
  expect(snapshot.ok && snapshot.createTime).toBeGreaterThan(1_700_000_000);
  const { snapshotId } = snapshot as { snapshotId: string };
  const page = { maxEntries: 10, startingToken: "" };
  const { ok: _, ...listed } = snapshot;
  expect(await run("csi.controller.snapshotList", page)).toEqual({ ok: true, snapshots: [listed], nextToken: "" });
  const restored = await made("restored", { snapshotId });

  const onNode = { externalId, externalNodeId: "node-1" };
  // A plugin without the capability must not be asked for a read-only attachment.
  driver.misbehave({ withoutControllerRpcs: [CONTROLLER_RPC.publishReadonly] });
  const readOnly = await run("csi.controller.publish", { ...onNode, ...access, readOnly: true, context });
  expect(readOnly).toMatchObject({ ok: true });
  expect(await run("csi.controller.unpublish", onNode)).toMatchObject({ ok: true });
  driver.misbehave({});
  const published = await run("csi.controller.publish", { ...onNode, ...access, readOnly: false, context });
  expect(published).toEqual({ ok: true, publishContext: { "csi-dir/node": "node-1" } });
  const { publishContext } = published as { publishContext: Record<string, string> };
  const use = { ...access, readOnly: false, context, publishContext };
  const paths: string[] = [];
  for (const allocId of ["alloc-1", "../alloc-2"]) {
    const placed = await run("csi.node.publish", { externalId, allocId, ...use });
    expect(placed).toMatchObject({ ok: true, path: expect.stringContaining(driver.place("mounts")) });
    paths.push((placed as { path: string }).path);
  }
  writeFileSync(join(paths[0] ?? "", "file"), "hello");
  expect(readFileSync(join(paths[1] ?? "", "file"), "utf8")).toBe("hello");
  const nodeRange = { capacityMin: 3 * GIB, capacityMax: 0, ...access };
  expect(await run("csi.controller.expand", { externalId, ...nodeRange })).toMatchObject({
    nodeExpansionRequired: true,
  });
  expect(await run("csi.node.expand", { externalId, allocId: "alloc-1", ...nodeRange })).toEqual({
    ok: true,
    capacityBytes: 3 * GIB,
  });

  const volumes = await run("csi.controller.list", page);
  expect(volumes.ok && volumes.volumes.map((one) => [one.externalId, one.snapshotId, one.publishedNodeIds])).toEqual([
    [externalId, "", ["node-1"]],
    [restored.externalId, snapshotId, []],
  ]);
  expect(await run("csi.controller.delete", { externalId })).toMatchObject({ ok: false, kind: "conflict" });
  driver.misbehave({});
  for (let time = 0; time < 2; time++) {
    expect(await run("csi.node.detach", { externalId, allocId: "alloc-1" })).toEqual({ ok: true });
    // The other allocation still has the volume.
    expect(driver.calls("NodeUnstageVolume")).toBe(0);
  }
  expect(await run("csi.node.detach", { externalId, allocId: "../alloc-2" })).toEqual({ ok: true });
  expect(driver.calls("NodeUnstageVolume")).toBe(1);
  const removals: Array<() => Promise<unknown>> = [
    () => run("csi.controller.unpublish", onNode),
    () => run("csi.controller.delete", { externalId }),
    () => run("csi.controller.snapshotDelete", { snapshotId }),
    () => run("csi.controller.delete", { externalId: restored.externalId }),
    () => run("csi.node.detach", { externalId, allocId: "alloc-1" }),
  ];
  // Removing an object that is gone already succeeds.
  for (const removal of [...removals, ...removals]) expect(await removal()).toEqual({ ok: true });
  expect([driver.directories("volumes"), driver.directories("snapshots")]).toEqual([[], []]);
});

const CODES: [keyof typeof status, string, "failed" | "unknown", tries: number][] = [
  ["CANCELLED", "timeout", "unknown", 1],
  ["UNKNOWN", "plugin", "failed", 1],
  ["INVALID_ARGUMENT", "invalid", "failed", 1],
  ["DEADLINE_EXCEEDED", "timeout", "unknown", 1],
  ["NOT_FOUND", "missing", "failed", 1],
  ["ALREADY_EXISTS", "conflict", "failed", 1],
  ["PERMISSION_DENIED", "plugin", "failed", 1],
  ["UNAUTHENTICATED", "plugin", "failed", 1],
  ["RESOURCE_EXHAUSTED", "exhausted", "failed", 1],
  ["FAILED_PRECONDITION", "conflict", "failed", 1],
  ["OUT_OF_RANGE", "invalid", "failed", 1],
  ["UNIMPLEMENTED", "unsupported", "failed", 1],
  ["INTERNAL", "plugin", "failed", 1],
  ["DATA_LOSS", "plugin", "failed", 1],
  ["UNAVAILABLE", "unavailable", "unknown", 3],
];

it("maps each status code of a creation to a kind, an outcome and a number of attempts", async () => {
  const { driver, create } = await world();
  for (const [name, kind, outcome, tries] of CODES) {
    driver.misbehave({ calls: { CreateVolume: { fail: { code: status[name], times: 99, message: "because" } } } });
    expect(await create("v")).toEqual({
      ok: false,
      kind,
      message: `CSI plugin "disk": CreateVolume: ${name}: because`,
      outcome,
      call: { pluginId: PLUGIN, rpc: "CreateVolume", code: status[name] },
    });
    expect(driver.calls("CreateVolume"), name).toBe(tries);
  }
});

it("retries ABORTED and UNAVAILABLE, and creates one volume", async () => {
  const { driver, create, run } = await world();
  driver.misbehave({ calls: { CreateVolume: { fail: { code: status.ABORTED, times: 5 } } } });
  const volume = await create("v");
  expect([volume.ok, driver.calls("CreateVolume")]).toEqual([true, 6]);
  driver.misbehave({ calls: { CreateVolume: { fail: { code: status.UNAVAILABLE, times: 2 } } } });
  expect(await create("v")).toEqual(volume);
  expect(driver.calls("CreateVolume")).toBe(3);
  driver.misbehave({ calls: { ControllerPublishVolume: { fail: { code: status.FAILED_PRECONDITION, times: 2 } } } });
  const { externalId } = volume as { externalId: string };
  const attach = {
    externalId,
    externalNodeId: "node-1",
    capability: CAPABILITY,
    mount: null,
    readOnly: false,
    context: {},
  };
  expect(await run("csi.controller.publish", attach)).toMatchObject({ ok: true });
  expect(driver.directories("volumes")).toEqual([externalId]);
  driver.misbehave({ calls: { ControllerExpandVolume: { fail: { code: status.ABORTED, times: 999 } } } });
  const range = { capacityMin: 5 * GIB, capacityMax: 0, capability: null, mount: null };
  // The deadline passes between the third request and its answer: there is no time for another attempt.
  const limitMs = 600_000;
  const now = Date.now.bind(Date);
  const isLate = () => driver.calls("ControllerExpandVolume") >= 3;
  const clock = vi.spyOn(Date, "now").mockImplementation(() => now() + (isLate() ? limitMs : 0));
  const expansion = await run("csi.controller.expand", { externalId, ...range }, { limitMs });
  clock.mockRestore();
  expect(expansion).toMatchObject({ ok: false, kind: "conflict", outcome: "unknown" });
  expect(driver.calls("ControllerExpandVolume")).toBe(3);
});

it("lists are joined from pages, keep fields that a plugin adds, and refuse an invalid token", async () => {
  const { driver, run, made } = await world();
  for (const name of ["a", "b", "c", "d"]) await made(name);
  const ids = driver.directories("volumes");
  const list = (maxEntries: number, startingToken = "") => run("csi.controller.list", { maxEntries, startingToken });
  const idsOf = (answer: Awaited<ReturnType<typeof list>>) => answer.ok && answer.volumes.map((one) => one.externalId);
  const first = await list(3);
  expect(idsOf(first)).toEqual(ids.slice(0, 3));
  expect(idsOf(await list(3, first.ok ? first.nextToken : ""))).toEqual(ids.slice(3));
  expect(idsOf(await list(0))).toEqual(ids);
  driver.misbehave({ surplusEntries: 1 });
  expect(idsOf(await list(2))).toEqual(ids.slice(0, 3));
  expect(await list(2, "no token")).toMatchObject({ ok: false, kind: "invalid", outcome: "failed" });
  expect(driver.calls("ListVolumes")).toBe(2);
});

it("polls a snapshot until it is ready", async () => {
  const { driver, run, made } = await world();
  const { externalId } = await made("v");
  driver.misbehave({ snapshotReadyAfterMs: 3_000 });
  const snapshot = await run("csi.controller.snapshotCreate", { externalId, name: "s", parameters: {} });
  expect(snapshot).toMatchObject({ ok: true, isReady: true });
  expect(driver.calls("CreateSnapshot")).toBeGreaterThan(1);
  driver.misbehave({ snapshotReadyAfterMs: 60_000 });
  const late = await run(
    "csi.controller.snapshotCreate",
    { externalId, name: "t", parameters: {} },
    { limitMs: 6_000 },
  );
  expect(late).toMatchObject({ ok: true, isReady: false });
  expect(driver.directories("snapshots").length).toBe(2);
});

it("treats an unconfirmed capability without a message as accepted, and with a message as refused", async () => {
  const { driver, run, made } = await world();
  const { externalId, context } = await made("v");
  const validate = (attachmentMode: string) =>
    run("csi.controller.validate", {
      externalId,
      capabilities: [{ ...CAPABILITY, attachmentMode }],
      mount: { fsType: "", mountFlags: ["password=hunter22"] },
      parameters: {},
      context,
    });
  expect(await validate("file-system")).toEqual({ ok: true });
  const refused = await validate("block-device");
  expect(refused).toMatchObject({ ok: false, kind: "invalid", message: expect.stringContaining("block volumes") });
  expect(JSON.stringify(refused)).not.toContain("hunter22");
  driver.misbehave({ withoutConfirmed: true });
  expect(await validate("file-system")).toEqual({ ok: true });
  expect(await validate("raw")).toMatchObject({
    ok: false,
    kind: "invalid",
    message: expect.stringContaining("attachment mode"),
  });
});

it("a malformed answer is a plugin error with an unknown outcome", async () => {
  const { driver, create } = await world();
  driver.misbehave({ contextBytes: 5_000 });
  expect(await create("v")).toMatchObject({ ok: false, kind: "plugin", outcome: "unknown" });
  driver.misbehave({ contextBytes: 17 * 1024 * 1024 });
  expect(await create("v")).toMatchObject({ ok: false, kind: "plugin", outcome: "unknown", call: { code: 0 } });
  // A failed query says nothing about an earlier run.
  driver.misbehave({ calls: { ControllerGetCapabilities: { fail: { code: status.INTERNAL, times: 2 } } } });
  const newer = { capabilities: [{ ...CAPABILITY, accessMode: "single-node-single-writer" }] };
  expect(await create("v", newer)).toMatchObject({ ok: false, kind: "plugin", outcome: "failed" });
  expect(await create("v", newer, { again: true })).toMatchObject({ ok: false, kind: "plugin", outcome: "unknown" });
  driver.misbehave({});
  expect(await create("v")).toMatchObject({ ok: true });
  expect(driver.directories("volumes").length).toBe(1);
});

it("a plugin killed during a call has an unknown outcome, and creates one volume after it restarts at the same path", async () => {
  const { driver, create, run } = await world();
  driver.misbehave({ calls: { CreateVolume: { crash: "after" } } });
  expect(await create("v")).toMatchObject({ ok: false, kind: "unavailable", outcome: "unknown" });
  expect(driver.isAlive).toBe(false);
  const [id] = driver.directories("volumes");
  // No plugin was running, so none has acted.
  expect(await create("w")).toMatchObject({ ok: false, kind: "unavailable", outcome: "failed" });
  // A retried operation may have reached a plugin the first time.
  expect(await create("w", {}, { again: true })).toMatchObject({ ok: false, kind: "unavailable", outcome: "unknown" });
  await driver.start();
  await eventually("the plugin's return", () => driver.isAlive || undefined);
  const again = await vi.waitUntil(async () => {
    const volume = await create("v");
    return volume.ok && volume;
  }, 60_000);
  expect(again).toMatchObject({ externalId: id });
  expect(await run("csi.controller.delete", { externalId: id ?? "" })).toEqual({ ok: true });
});

it("a frozen plugin times out at the deadline and continues when it resumes; others are not delayed beyond their limits", async () => {
  const { driver, create, run, made } = await world();
  const { externalId } = await made("w");
  driver.signal("SIGSTOP");
  const [first, second] = await Promise.all([
    run("csi.controller.delete", { externalId }, { limitMs: 1_500 }),
    run("csi.controller.delete", { externalId: "vol-other" }, { limitMs: 1_000 }),
  ]);
  expect(first).toMatchObject({ ok: false, kind: "timeout", outcome: "unknown" });
  // The driver received no such request.
  expect(second).toMatchObject({ ok: false, kind: "timeout", outcome: "failed" });
  driver.signal("SIGCONT");
  expect(await create("v")).toMatchObject({ ok: true });
  await eventually(
    "the deletion that was given up",
    () => !driver.directories("volumes").includes(externalId) || undefined,
  );
});

it("a plugin that is not configured is not called", async () => {
  const driver = await startDriver();
  const { run, csi } = csiOf(driver, { roles: ["node"] });
  driver.misbehave({});
  expect(await run("csi.controller.create", creation("v"))).toMatchObject({ ok: false, kind: "forbidden" });
  const elsewhere = { pluginId: "/etc/passwd", ...creation("v") };
  const how = { secrets: {}, limitMs: 1_000, again: false };
  const refused = { ok: false, kind: "forbidden", outcome: "failed" };
  expect(await csi.handlers["csi.controller.create"](elsewhere, how)).toMatchObject(refused);
  // An earlier run may have reached it before it was removed from the configuration.
  const open = { ...refused, outcome: "unknown" };
  expect(await csi.handlers["csi.controller.create"](elsewhere, { ...how, again: true })).toMatchObject(open);
  expect(await run("csi.controller.create", creation("v"), { again: true })).toMatchObject(open);
  expect(driver.calls("CreateVolume")).toBe(0);
  await csi.probe();
  expect(csi.reported.CSIControllerPlugins).toEqual({});
});

it("secrets are passed with every call that accepts them", async () => {
  const { driver, run, create } = await world();
  driver.misbehave({ requireSecret: { name: "token", value: "s3cr3t-value" } });
  const how = { secrets: { token: "s3cr3t-value" } };
  expect(await create("v")).toMatchObject({
    ok: false,
    kind: "plugin",
    message: expect.stringContaining("UNAUTHENTICATED"),
  });
  const volume = await create("v", {}, how);
  const { externalId } = volume as { externalId: string };
  const access = { capability: CAPABILITY, mount: null, readOnly: false, context: {} };
  const onNode = { externalId, externalNodeId: "node-1" };
  const range = { capacityMin: 2 * GIB, capacityMax: 0, capability: null, mount: null };
  const use = { externalId, allocId: "a" };
  const snapshot = await run("csi.controller.snapshotCreate", { externalId, name: "s", parameters: {} }, how);
  const { snapshotId } = snapshot as { snapshotId: string };
  const answers = [
    volume,
    snapshot,
    await run(
      "csi.controller.validate",
      { externalId, capabilities: [CAPABILITY], mount: null, parameters: {}, context: {} },
      how,
    ),
    await run("csi.controller.publish", { ...onNode, ...access }, how),
    await run("csi.node.publish", { ...use, ...access, publishContext: {} }, how),
    await run("csi.controller.expand", { externalId, ...range }, how),
    await run("csi.node.expand", { ...use, ...range }, how),
    await run("csi.node.detach", use, how),
    await run("csi.controller.unpublish", onNode, how),
    await run("csi.controller.snapshotList", { maxEntries: 0, startingToken: "" }, how),
    await run("csi.controller.snapshotDelete", { snapshotId }, how),
    await run("csi.controller.delete", { externalId }, how),
  ];
  expect(answers.map(({ ok }) => ok)).toEqual(answers.map(() => true));
});

it("reports a plugin as missing, present, not ready, gone or back, and keeps its last known details", async () => {
  const driver = await startDriver({ CSI_DIR_TOPOLOGY: "zone=a", CSI_DIR_MAX_VOLUMES: "9", CSI_DIR_CAPACITY: "1299" });
  await driver.kill();
  const { csi } = csiOf(driver);
  const changes = vi.fn();
  csi.onChange = changes;
  await csi.probe();
  const controller = () => csi.reported.CSIControllerPlugins?.[PLUGIN];
  expect(controller()).toMatchObject({ Healthy: false, Provider: "" });
  expect(csi.reported.CSINodePlugins?.[PLUGIN]?.NodeInfo.ID).toBe("");
  await driver.start();
  // The health check runs without a request.
  await eventually("a healthy plugin", () => controller()?.Healthy || undefined);
  const common = {
    PluginID: PLUGIN,
    Provider: "csi-dir.sallyport",
    ProviderVersion: VERSION,
    Healthy: true,
    HealthDescription: "healthy",
    RequiresControllerPlugin: true,
    RequiresTopologies: true,
    UpdateTime: expect.any(String),
  };
  const ControllerInfo = {
    SupportsAttachDetach: true,
    SupportsClone: true,
    SupportsCondition: false,
    SupportsCreateDelete: true,
    SupportsCreateDeleteSnapshot: true,
    SupportsExpand: true,
    SupportsGet: false,
    SupportsGetCapacity: true,
    SupportsListSnapshots: true,
    SupportsListVolumes: true,
    SupportsListVolumesAttachedNodes: true,
    SupportsModify: true,
    SupportsReadOnlyAttach: true,
  };
  const NodeInfo = {
    AccessibleTopology: { Segments: { zone: "a" } },
    ID: "node-1",
    MaxVolumes: 9,
    RequiresNodeStageVolume: true,
    SupportsCondition: true,
    SupportsExpand: true,
    SupportsStats: true,
  };
  expect(csi.reported).toEqual({
    CSIControllerPlugins: { [PLUGIN]: { ...common, ControllerInfo, AvailableCapacity: 1_200 } },
    CSINodePlugins: { [PLUGIN]: { ...common, NodeInfo } },
  });
  const before = changes.mock.calls.length;
  await csi.probe();
  expect(changes.mock.calls.length).toBe(before);
  driver.misbehave({ unready: true });
  await csi.probe();
  expect(controller()?.Healthy).toBe(true);
  await csi.probe();
  expect(controller()).toMatchObject({
    Healthy: false,
    HealthDescription: "it says that it is not ready",
    ControllerInfo,
  });
  driver.misbehave({ withoutControllerRpcs: [9] });
  await csi.probe();
  expect(controller()).toMatchObject({ Healthy: true, ControllerInfo: { ...ControllerInfo, SupportsExpand: false } });
  await driver.kill();
  await csi.probe();
  expect(controller()).toMatchObject({ Healthy: false, ControllerInfo: { SupportsCreateDelete: true } });
  await driver.start();
  await eventually("the plugin's return", () => controller()?.Healthy || undefined);
});

it("reports a plugin as unhealthy whose description of the node exceeds the bounds of a report", async () => {
  const segments = Array.from({ length: 65 }, (_, at) => `key-${at}=a`);
  const { csi } = csiOf(await startDriver({ CSI_DIR_TOPOLOGY: segments.join(",") }));
  await csi.probe();
  const { CSINodePlugins } = csi.reported;
  expect(CSINodePlugins[PLUGIN]).toMatchObject({
    Healthy: false,
    HealthDescription: expect.stringContaining("Segments: has more than 64 entries"),
  });
  expect(nodeReport.shape.CSINodePlugins.safeParse(CSINodePlugins).success).toBe(true);
});

it("reports a published volume whose mount was removed, that the plugin does not find, or whose content is gone", async () => {
  const { csi, driver, run, made } = await world();
  const problems = () => csi.reported.CSINodePlugins?.[PLUGIN]?.VolumeProblems;
  const volume = await made("v");
  const use = { externalId: volume.externalId, allocId: "a1" };
  const publishing = { ...use, capability: CAPABILITY, mount: null, readOnly: false, context: volume.context };
  const published = await run("csi.node.publish", { ...publishing, publishContext: {} });
  if (!published.ok) throw new Error(published.message);
  await csi.probe();
  expect(problems()).toBeUndefined();
  writeFileSync(join(published.path, "file"), "12345");
  await csi.probe();
  expect(csi.volumes.get(PLUGIN)?.usage).toEqual([{ externalId: use.externalId, usedBytes: 5, totalBytes: GIB }]);
  const changes = vi.fn();
  csi.onChange = changes;

  rmSync(published.path);
  await csi.probe();
  const named = { ExternalID: use.externalId, AllocID: "a1" };
  expect(problems()).toEqual([{ ...named, Reason: `the link of the plugin at ${published.path} was removed` }]);
  expect(changes).toHaveBeenCalledTimes(1);
  // Another agent on the same state knows it too.
  const again = csiOf(driver).csi;
  await again.probe();
  expect(again.reported.CSINodePlugins?.[PLUGIN]?.VolumeProblems).toEqual(problems());

  await run("csi.node.publish", { ...publishing, publishContext: {} });
  await csi.probe();
  expect(problems()).toBeUndefined();
  rmSync(driver.data(use.externalId), { recursive: true });
  await csi.probe();
  expect(problems()).toEqual([{ ...named, Reason: "its condition is abnormal: its directory is gone" }]);
  driver.misbehave({ withoutNodeRpcs: [NODE_RPC.volumeCondition] });
  await csi.probe();
  expect(problems()).toBeUndefined();
  driver.misbehave({ calls: { NodeGetVolumeStats: { fail: { code: 5, times: 1, message: "not\nhere" } } } });
  await csi.probe();
  expect(problems()).toEqual([{ ...named, Reason: `the plugin does not find it at ${published.path}: not here` }]);
  // A plugin that fails says nothing about the volume.
  driver.misbehave({ calls: { NodeGetVolumeStats: { fail: { code: 13, times: 9 } } } });
  await csi.probe();
  expect(problems()).toBeUndefined();
  driver.misbehave({});
  await run("csi.node.detach", use);
  driver.misbehave({});
  await csi.probe();
  expect([driver.calls("NodeGetVolumeStats"), problems()]).toEqual([0, undefined]);
});

it("accepts single-writer and multi-writer modes of one node where the plugin has them, and refuses them elsewhere", async () => {
  const { driver, run, create } = await world();
  for (const [name, accessMode, second] of [
    ["single", "single-node-single-writer", false],
    ["multi", "single-node-multi-writer", true],
  ] as const) {
    const capability = { accessMode, attachmentMode: "file-system" };
    driver.misbehave({ withoutControllerRpcs: [CONTROLLER_RPC.singleNodeMultiWriter] });
    const refused = await create(name, { capabilities: [capability] });
    expect(refused).toMatchObject({ ok: false, kind: "unsupported", outcome: "failed" });
    expect(refused.ok ? "" : refused.message).toContain(`no access mode ${accessMode} (SINGLE_NODE_MULTI_WRITER)`);
    expect(driver.calls("CreateVolume")).toBe(0);
    driver.misbehave({});
    const volume = await create(name, { capabilities: [capability] });
    if (!volume.ok) throw new Error(volume.message);
    const publish = (allocId: string) =>
      run("csi.node.publish", {
        externalId: volume.externalId,
        allocId,
        capability,
        mount: null,
        readOnly: false,
        context: volume.context,
        publishContext: {},
      });
    driver.misbehave({ withoutNodeRpcs: [NODE_RPC.singleNodeMultiWriter] });
    expect(await publish("a1")).toMatchObject({ ok: false, kind: "unsupported" });
    expect(driver.calls("NodePublishVolume")).toBe(0);
    driver.misbehave({});
    expect(await publish("a1")).toMatchObject({ ok: true });
    expect((await publish("a2")).ok).toBe(second);
  }
});
