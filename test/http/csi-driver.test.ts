import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, lstatSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ACCESS_MODE, NODE_RPC, type RequestDraft } from "@sallyport/csi-wire";
import { expect, it, vi } from "vitest";
import { VERSION } from "../../packages/csi-dir/src/version.ts";
import { afterTest, eventually } from "./agent-service.ts";
import { creation, MOUNT, RawClient, startDriver } from "./csi-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const GIB = 1024 ** 3;

async function served(env?: Record<string, string>) {
  const driver = await startDriver(env);
  const client = new RawClient(driver.socket);
  const create = async (name: string, change?: RequestDraft<"CreateVolume">) => {
    const { volume } = await client.call("CreateVolume", creation(name, change));
    if (!volume) throw new Error("no volume");
    return volume;
  };
  return { driver, client, create };
}

it("returns its identity, readiness and capabilities", async () => {
  const { client } = await served({ CSI_DIR_TOPOLOGY: "zone=a,rack=1", CSI_DIR_MAX_VOLUMES: "7" });
  expect(await client.call("GetPluginInfo")).toEqual({
    name: "csi-dir.sallyport",
    vendorVersion: VERSION,
    manifest: {},
  });
  expect(await client.call("Probe")).toEqual({ ready: null });
  const { capabilities } = await client.call("GetPluginCapabilities");
  expect(capabilities.map(({ service, volumeExpansion }) => [service?.type, volumeExpansion?.type])).toEqual([
    [1, undefined],
    [2, undefined],
    [undefined, 1],
  ]);
  const controller = await client.call("ControllerGetCapabilities");
  expect(controller.capabilities.map(({ rpc }) => rpc?.type)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14]);
  const node = await client.call("NodeGetCapabilities");
  expect(node.capabilities.map(({ rpc }) => rpc?.type)).toEqual([1, 2, 3, 4, 5]);
  expect(await client.call("NodeGetInfo")).toEqual({
    nodeId: "node-1",
    maxVolumesPerNode: "7",
    accessibleTopology: { segments: { zone: "a", rack: "1" } },
  });
});

it("creates a directory per volume, is idempotent, and refuses different settings under the same name", async () => {
  const { driver, client, create } = await served();
  const request = { capacityRange: { requiredBytes: String(2 * GIB) }, parameters: { tier: "fast" } };
  const volume = await create("one", request);
  expect(volume).toMatchObject({ capacityBytes: String(2 * GIB), contentSource: null, accessibleTopology: [] });
  expect(volume.volumeContext).toEqual({ "csi-dir/directory": volume.volumeId });
  expect(lstatSync(driver.data(volume.volumeId)).isDirectory()).toBe(true);
  expect(await create("one", request)).toEqual(volume);
  expect(driver.directories("volumes")).toEqual([volume.volumeId]);
  const others: RequestDraft<"CreateVolume">[] = [
    { ...request, capacityRange: { requiredBytes: String(3 * GIB) } },
    { ...request, capacityRange: { limitBytes: String(GIB) } },
    { ...request, parameters: {} },
    { ...request, volumeContentSource: { volume: { volumeId: volume.volumeId } } },
  ];
  for (const other of others) expect(await client.code("CreateVolume", creation("one", other))).toBe("ALREADY_EXISTS");
});

const REFUSED: [what: string, code: string, request: RequestDraft<"CreateVolume">][] = [
  ["no name", "INVALID_ARGUMENT", creation("")],
  ["a name of more than 128 bytes", "INVALID_ARGUMENT", creation("é".repeat(65))],
  ["no capabilities", "INVALID_ARGUMENT", { name: "x" }],
  ["no access mode", "INVALID_ARGUMENT", { name: "x", volumeCapabilities: [{ mount: {} }] }],
  [
    "an unknown access mode",
    "INVALID_ARGUMENT",
    { name: "x", volumeCapabilities: [{ mount: {}, accessMode: { mode: 42 } }] },
  ],
  ["a block volume", "INVALID_ARGUMENT", { name: "x", volumeCapabilities: [{ ...MOUNT, mount: null, block: {} }] }],
  ["a negative size", "INVALID_ARGUMENT", creation("x", { capacityRange: { requiredBytes: "-1" } })],
  ["a limit below the size", "OUT_OF_RANGE", creation("x", { capacityRange: { requiredBytes: "2", limitBytes: "1" } })],
  [
    "more than any volume has",
    "OUT_OF_RANGE",
    creation("x", { capacityRange: { requiredBytes: "9223372036854775807" } }),
  ],
  ["more than is left", "RESOURCE_EXHAUSTED", creation("x", { capacityRange: { requiredBytes: String(5 * GIB) } })],
  [
    "another topology",
    "RESOURCE_EXHAUSTED",
    creation("x", { accessibilityRequirements: { requisite: [{ segments: { zone: "b" } }] } }),
  ],
  [
    "content of a missing snapshot",
    "NOT_FOUND",
    creation("x", { volumeContentSource: { snapshot: { snapshotId: "s" } } }),
  ],
  [
    "content of a missing volume",
    "NOT_FOUND",
    creation("x", { volumeContentSource: { volume: { volumeId: "../.." } } }),
  ],
  ["content without a source", "INVALID_ARGUMENT", creation("x", { volumeContentSource: {} })],
];

it("refuses an impossible volume with the matching status code, and creates nothing", async () => {
  const { driver, client } = await served({ CSI_DIR_CAPACITY: String(4 * GIB), CSI_DIR_TOPOLOGY: "zone=a" });
  for (const [what, code, request] of REFUSED) {
    expect(await client.code("CreateVolume", request), what).toBe(code);
    expect([driver.directories("volumes"), driver.directories("tmp")], what).toEqual([[], []]);
  }
});

it("clones, snapshots and restored volumes have the content of their source at that time", async () => {
  const { driver, client, create } = await served();
  const source = await create("source", { capacityRange: { requiredBytes: String(GIB) } });
  const write = (id: string, text: string) => writeFileSync(join(driver.data(id), "file"), text);
  const content = (id: string) => readFileSync(join(driver.data(id), "file"), "utf8");
  write(source.volumeId, "first");
  const { snapshot } = await client.call("CreateSnapshot", { sourceVolumeId: source.volumeId, name: "snap" });
  expect(snapshot).toMatchObject({ sourceVolumeId: source.volumeId, readyToUse: true, sizeBytes: String(GIB) });
  expect(Math.abs(Number(snapshot?.creationTime?.seconds) - Date.now() / 1000)).toBeLessThan(60);
  write(source.volumeId, "second");
  const clone = await create("clone", { volumeContentSource: { volume: { volumeId: source.volumeId } } });
  expect(clone.contentSource).toEqual({ snapshot: null, volume: { volumeId: source.volumeId } });
  const restored = await create("restored", {
    volumeContentSource: { snapshot: { snapshotId: snapshot?.snapshotId ?? "" } },
  });
  expect([content(clone.volumeId), content(restored.volumeId)]).toEqual(["second", "first"]);

  expect(await client.call("CreateSnapshot", { sourceVolumeId: source.volumeId, name: "snap" })).toEqual({ snapshot });
  const code = (id: string, name: string) => client.code("CreateSnapshot", { sourceVolumeId: id, name });
  expect(await code(clone.volumeId, "snap")).toBe("ALREADY_EXISTS");
  expect(await code("vol-none", "other")).toBe("NOT_FOUND");
  expect([await code("", "x"), await code(source.volumeId, "")]).toEqual(["INVALID_ARGUMENT", "INVALID_ARGUMENT"]);
  await client.call("DeleteVolume", { volumeId: source.volumeId });
  expect(content(restored.volumeId)).toBe("first");
  const snapshotId = snapshot?.snapshotId ?? "";
  for (let time = 0; time < 2; time++) await client.call("DeleteSnapshot", { snapshotId });
  expect(driver.directories("snapshots")).toEqual([]);
  expect(await client.code("DeleteSnapshot")).toBe("INVALID_ARGUMENT");
});

it("pages neither lose nor repeat a volume while volumes are created and deleted", async () => {
  const { client, create } = await served();
  const ids: string[] = [];
  for (let number = 0; number < 5; number++) ids.push((await create(`v${number}`)).volumeId);
  const first = await client.call("ListVolumes", { maxEntries: 2 });
  expect(first.entries.map(({ volume }) => volume?.volumeId)).toEqual(ids.slice(0, 2));
  await client.call("DeleteVolume", { volumeId: ids[1] ?? "" });
  ids.push((await create("late")).volumeId);
  const second = await client.call("ListVolumes", { maxEntries: 3, startingToken: first.nextToken });
  expect(second.entries.map(({ volume }) => volume?.volumeId)).toEqual(ids.slice(2, 5));
  const third = await client.call("ListVolumes", { maxEntries: 3, startingToken: second.nextToken });
  expect([third.entries.map(({ volume }) => volume?.volumeId), third.nextToken]).toEqual([ids.slice(5), ""]);
  expect(await client.code("ListVolumes", { startingToken: "42" })).toBe("ABORTED");
  expect(await client.code("ListVolumes", { maxEntries: -1 })).toBe("INVALID_ARGUMENT");
});

it("lists snapshots in pages, by source and by id", async () => {
  const { client, create } = await served();
  const [a, b] = [await create("a"), await create("b")];
  const ids: string[] = [];
  for (const [index, { volumeId }] of [a, a, b, a].entries())
    ids.push(
      (await client.call("CreateSnapshot", { sourceVolumeId: volumeId, name: `s${index}` })).snapshot?.snapshotId ?? "",
    );
  const list = async (request: RequestDraft<"ListSnapshots">) => {
    const { entries, nextToken } = await client.call("ListSnapshots", request);
    return { ids: entries.map(({ snapshot }) => snapshot?.snapshotId), nextToken };
  };
  const first = await list({ maxEntries: 2, sourceVolumeId: a.volumeId });
  expect(first.ids).toEqual([ids[0], ids[1]]);
  expect(await list({ maxEntries: 2, sourceVolumeId: a.volumeId, startingToken: first.nextToken })).toEqual({
    ids: [ids[3]],
    nextToken: "",
  });
  expect((await list({ snapshotId: ids[2] ?? "" })).ids).toEqual([ids[2]]);
  expect((await list({ snapshotId: "snap-none" })).ids).toEqual([]);
  expect((await list({ snapshotId: ids[2] ?? "", sourceVolumeId: a.volumeId })).ids).toEqual([]);
});

it("expands a volume and never shrinks it, and requests node expansion when it is published", async () => {
  const { client, create } = await served({ CSI_DIR_CAPACITY: String(8 * GIB) });
  const { volumeId } = await create("v", { capacityRange: { requiredBytes: String(2 * GIB) } });
  const expand = (requiredBytes: number, limitBytes = 0) =>
    client.call("ControllerExpandVolume", {
      volumeId,
      capacityRange: { requiredBytes: String(requiredBytes), limitBytes: String(limitBytes) },
    });
  expect(await expand(3 * GIB)).toEqual({ capacityBytes: String(3 * GIB), nodeExpansionRequired: false });
  expect(await expand(GIB)).toEqual({ capacityBytes: String(3 * GIB), nodeExpansionRequired: false });
  await client.call("ControllerPublishVolume", { volumeId, nodeId: "node-1", volumeCapability: MOUNT });
  expect(await expand(4 * GIB)).toEqual({ capacityBytes: String(4 * GIB), nodeExpansionRequired: true });
  expect(await client.call("GetCapacity")).toEqual({ availableCapacity: String(4 * GIB) });
  const code = (request: RequestDraft<"ControllerExpandVolume">) => client.code("ControllerExpandVolume", request);
  expect(await code({ volumeId, capacityRange: { requiredBytes: String(9 * GIB) } })).toBe("RESOURCE_EXHAUSTED");
  expect(await code({ volumeId, capacityRange: { limitBytes: "1" } })).toBe("OUT_OF_RANGE");
  expect(await code({ volumeId })).toBe("INVALID_ARGUMENT");
  expect(await code({ capacityRange: { requiredBytes: "1" } })).toBe("INVALID_ARGUMENT");
  expect(await code({ volumeId: "vol-none", capacityRange: { requiredBytes: "1" } })).toBe("NOT_FOUND");
});

it("a volume passes through all node steps, and each step is idempotent", async () => {
  const { driver, client, create } = await served();
  const { volumeId, volumeContext } = await create("v");
  const [staging, target] = [driver.place("staging"), driver.place("target")];
  const twice = async (call: () => Promise<unknown>) => {
    const answer = await call();
    expect(await call()).toEqual(answer);
    return answer;
  };
  const attach = { volumeId, nodeId: "node-1", volumeCapability: MOUNT, volumeContext };
  const { publishContext } = (await twice(() => client.call("ControllerPublishVolume", attach))) as {
    publishContext: Record<string, string>;
  };
  const common = { volumeId, publishContext, volumeContext, stagingTargetPath: staging, volumeCapability: MOUNT };
  await twice(() => client.call("NodeStageVolume", common));
  await twice(() => client.call("NodePublishVolume", { ...common, targetPath: target }));
  writeFileSync(join(target, "file"), "hello");
  expect(readlinkSync(target)).toBe(driver.data(volumeId));
  const { usage, volumeCondition } = await client.call("NodeGetVolumeStats", { volumeId, volumePath: target });
  expect(usage[0]).toEqual({ unit: 1, total: String(GIB), used: "5", available: String(GIB - 5) });
  expect(usage[1]).toMatchObject({ unit: 2, used: "1" });
  expect(volumeCondition).toEqual({ abnormal: false, message: "" });
  expect(await client.call("NodeExpandVolume", { volumeId, volumePath: target })).toEqual({
    capacityBytes: String(GIB),
  });
  const { entries } = await client.call("ListVolumes");
  expect(entries[0]?.status?.publishedNodeIds).toEqual(["node-1"]);

  expect(await client.code("DeleteVolume", { volumeId })).toBe("FAILED_PRECONDITION");
  expect(await client.code("NodeUnstageVolume", { volumeId, stagingTargetPath: staging })).toBe("FAILED_PRECONDITION");
  await twice(() => client.call("NodeUnpublishVolume", { volumeId, targetPath: target }));
  expect(lstatSync(target, { throwIfNoEntry: false })).toBeUndefined();
  await twice(() => client.call("NodeUnstageVolume", { volumeId, stagingTargetPath: staging }));
  await twice(() => client.call("ControllerUnpublishVolume", { volumeId, nodeId: "node-1" }));
  await twice(() => client.call("DeleteVolume", { volumeId }));
  expect(driver.directories("volumes")).toEqual([]);
  // The old id does not lead to the new volume.
  const second = await create("v");
  expect(second.volumeId).not.toBe(volumeId);

  // The controller detaches the volume from a node that is away, and deletes it.
  const onNode = { ...common, ...second };
  await client.call("ControllerPublishVolume", { ...attach, ...second });
  await client.call("NodeStageVolume", onNode);
  await client.call("NodePublishVolume", { ...onNode, targetPath: target });
  await client.call("ControllerUnpublishVolume", { volumeId: second.volumeId, nodeId: "node-1" });
  await client.call("DeleteVolume", { volumeId: second.volumeId });
  expect(lstatSync(target).isSymbolicLink()).toBe(true);
  await twice(() => client.call("NodeUnpublishVolume", { volumeId: second.volumeId, targetPath: target }));
  expect(lstatSync(target, { throwIfNoEntry: false })).toBeUndefined();
});

it("refuses access that conflicts with existing publications", async () => {
  const { client, driver, create } = await served();
  const { volumeId } = await create("v");
  const attach = { volumeId, nodeId: "node-1", volumeCapability: MOUNT };
  const code = (change: object) => client.code("ControllerPublishVolume", { ...attach, ...change });
  expect(await code({ nodeId: "nowhere" })).toBe("NOT_FOUND");
  expect(await code({ volumeId: "vol-none" })).toBe("NOT_FOUND");
  expect(await code({ nodeId: "" })).toBe("INVALID_ARGUMENT");
  expect(await code({ volumeCapability: null })).toBe("INVALID_ARGUMENT");
  expect(await code({ volumeContext: { other: "volume" } })).toBe("INVALID_ARGUMENT");
  expect(await code({})).toBe("OK");
  expect(await code({ readonly: true })).toBe("ALREADY_EXISTS");
  const [staging, target] = [driver.place("staging"), driver.place("target")];
  const onNode = { volumeId, stagingTargetPath: staging, targetPath: target, volumeCapability: MOUNT };
  expect(await client.code("NodePublishVolume", onNode)).toBe("FAILED_PRECONDITION");
  await client.call("NodeStageVolume", onNode);
  writeFileSync(target, "something else");
  expect(await client.code("NodePublishVolume", onNode)).toBe("FAILED_PRECONDITION");
  expect(await client.code("NodePublishVolume", { ...onNode, targetPath: "relative" })).toBe("INVALID_ARGUMENT");
  expect(await client.code("NodeUnpublishVolume", { volumeId: "../..", targetPath: target })).toBe("NOT_FOUND");
  expect(readFileSync(target, "utf8")).toBe("something else");
});

it("publishes a volume of a single writer at one target of its node at a time", async () => {
  const { client, driver, create } = await served();
  const { volumeId } = await create("v");
  const mode = (accessMode: number) => ({ ...MOUNT, accessMode: { mode: accessMode } });
  const on = (accessMode: number, name: string) => ({
    volumeId,
    stagingTargetPath: driver.place(`staging-${accessMode}`),
    targetPath: driver.place(name),
    volumeCapability: mode(accessMode),
  });
  const single = ACCESS_MODE.singleNodeSingleWriter;
  await client.call("NodeStageVolume", on(single, "a"));
  expect(await client.code("NodePublishVolume", on(single, "a"))).toBe("OK");
  expect(await client.code("NodePublishVolume", on(single, "a"))).toBe("OK");
  expect(await client.code("NodePublishVolume", on(single, "b"))).toBe("FAILED_PRECONDITION");
  expect(lstatSync(driver.place("b"), { throwIfNoEntry: false })).toBeUndefined();
  await client.call("NodeUnpublishVolume", on(single, "a"));
  expect(await client.code("NodePublishVolume", on(single, "b"))).toBe("OK");
  await client.call("NodeUnpublishVolume", on(single, "b"));
  const many = ACCESS_MODE.singleNodeMultiWriter;
  await client.call("NodeStageVolume", on(many, "a"));
  for (const name of ["a", "b"]) expect(await client.code("NodePublishVolume", on(many, name))).toBe("OK");
});

it("answers NOT_FOUND for statistics and growth of an unknown volume or path, whatever the path looks like", async () => {
  const { client, create } = await served();
  const { volumeId } = await create("v");
  for (const rpc of ["NodeGetVolumeStats", "NodeExpandVolume"] as const) {
    for (const volumePath of ["some/path", "/some/path", "../x"]) {
      expect(await client.code(rpc, { volumeId, volumePath }), `${rpc} ${volumePath}`).toBe("NOT_FOUND");
      expect(await client.code(rpc, { volumeId: "vol-none", volumePath })).toBe("NOT_FOUND");
    }
    expect(await client.code(rpc, { volumeId, volumePath: "" })).toBe("INVALID_ARGUMENT");
    expect(await client.code(rpc, { volumeId: "", volumePath: "/x" })).toBe("INVALID_ARGUMENT");
  }
});

it("validation confirms supported capabilities, and explains others", async () => {
  const { client, create } = await served();
  const { volumeId, volumeContext } = await create("v", { parameters: { a: "1" } });
  const validate = (change: RequestDraft<"ValidateVolumeCapabilities">) =>
    client.call("ValidateVolumeCapabilities", { volumeId, volumeContext, volumeCapabilities: [MOUNT], ...change });
  const { confirmed } = await validate({ parameters: { a: "1" } });
  expect(confirmed).toMatchObject({ volumeContext, parameters: { a: "1" } });
  expect(confirmed?.volumeCapabilities[0]?.accessMode?.mode).toBe(ACCESS_MODE.singleNodeWriter);
  expect(await validate({ parameters: { a: "2" } })).toMatchObject({
    confirmed: null,
    message: expect.stringContaining("parameters"),
  });
  expect(await validate({ volumeCapabilities: [{ block: {}, accessMode: { mode: 1 } }] })).toMatchObject({
    confirmed: null,
    message: expect.stringContaining("block"),
  });
  const request = { volumeId: "vol-none", volumeCapabilities: [MOUNT] };
  expect(await client.code("ValidateVolumeCapabilities", request)).toBe("NOT_FOUND");
});

it("aborts a concurrent call for the same volume, also from another process, and serves other volumes", async () => {
  const { driver, client, create } = await served();
  const { volumeId } = await create("v");
  const other = await create("other");
  const second = await startDriver({ CSI_DIR_ROOT: driver.root, CSI_DIR_NODE_ID: "node-2" });
  const elsewhere = new RawClient(second.socket);
  const expand = (id: string) =>
    client.code("ControllerExpandVolume", { volumeId: id, capacityRange: { requiredBytes: String(2 * GIB) } }, 60_000);
  driver.misbehave({ stepMs: 60_000 });
  const first = expand(volumeId);
  await eventually("a call that holds its lock", () => driver.hasStepped || undefined);
  expect(await client.code("DeleteVolume", { volumeId })).toBe("ABORTED");
  expect(await elsewhere.code("DeleteVolume", { volumeId })).toBe("ABORTED");
  driver.misbehave({});
  expect([await first, await expand(other.volumeId)]).toEqual(["OK", "OK"]);
  expect(await client.code("DeleteVolume", { volumeId })).toBe("OK");
});

it("a service that is not configured is unimplemented", async () => {
  const { client } = await served({ CSI_DIR_ROLES: "node" });
  expect(await client.code("ControllerGetCapabilities")).toBe("UNIMPLEMENTED");
  expect((await client.call("GetPluginCapabilities")).capabilities.map(({ service }) => service?.type)).toEqual([
    undefined,
  ]);
  expect((await client.call("NodeGetCapabilities")).capabilities.length).toBe(Object.keys(NODE_RPC).length - 1);
});

it("the bundle is one file; it replaces a stale socket, but not a served one", async () => {
  execFileSync(process.execPath, ["packages/csi-dir/build.ts"], { stdio: "pipe" });
  const driver = await startDriver();
  const env = { CSI_ENDPOINT: `unix://${driver.socket}`, CSI_DIR_ROOT: driver.root };
  const bundle = () => spawn(process.execPath, ["packages/csi-dir/dist/sallyport-csi-dir.mjs"], { env, stdio: "pipe" });
  const [code] = await once(bundle(), "exit");
  expect(code).toBe(1);
  await driver.kill();
  expect(existsSync(driver.socket)).toBe(true);
  const child = bundle();
  afterTest(() => child.kill("SIGKILL"));
  await once(child.stdout, "data");
  const { capabilities } = await new RawClient(driver.socket).call("GetPluginCapabilities");
  expect(capabilities.length).toBe(2);
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});
