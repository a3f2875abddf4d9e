import { randomUUID } from "node:crypto";
import { mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { restorePauseMs } from "../../agent/src/dhv/checks.ts";
import {
  DIRECTORY_PLUGIN,
  FAILING_PLUGIN,
  HOLDING_PLUGIN,
  NAME_TAKEN,
  problems,
  request,
  TestNode,
} from "./agent-dhv-node.ts";

let node: TestNode;
beforeEach(() => {
  node = new TestNode();
});
afterEach(() => node.remove());

const fileOf = ({ id }: { id: string }) => `${id}.json`;

it("stores everything needed to recreate a volume, readable by the agent's user only", async () => {
  const volume = request({ parameters: { mode: "0711" }, capacityMin: 5, capacityMax: 6 });
  await node.start().create(volume);
  const path = join(node.volumesDir, volume.id);
  expect(node.records()).toEqual({ [fileOf(volume)]: { state: "ready", request: volume, path, bytes: 0 } });
  expect(statSync(join(node.stateDir, "host-volumes")).mode & 0o077).toBe(0);
  expect(statSync(join(node.stateDir, "host-volumes", fileOf(volume))).mode & 0o077).toBe(0);
});

it("records a volume before its plugin runs, and marks it ready afterwards", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  node.flag("create.hold");
  const volumes = node.start();
  const volume = request({ pluginId: "p" });
  const making = volumes.create(volume);
  await vi.waitFor(() => expect(node.calls()).toHaveLength(1));
  expect(node.records()).toEqual({ [fileOf(volume)]: { state: "creating", request: volume } });
  expect(await problems(volumes)).toEqual({ [volume.id]: "it is being created" });
  node.unflag("create.hold");
  expect(await making).toMatchObject({ ok: true });
  expect(node.records()[fileOf(volume)]?.state).toBe("ready");
  expect(await problems(volumes)).toEqual({ [volume.id]: undefined });
});

it("keeps the volume unchanged after a failed update, and stores a successful one", async () => {
  node.plugin("p", FAILING_PLUGIN);
  const volumes = node.start();
  const volume = request({ pluginId: "p", parameters: { a: "1" } });
  await volumes.create(volume);
  const before = node.records();
  node.flag("create.fail");
  expect(await volumes.create({ ...volume, parameters: { a: "2" } })).toMatchObject({ ok: false });
  expect(node.records()).toEqual(before);
  node.unflag("create.fail");
  expect(await volumes.create({ ...volume, parameters: { a: "3" } })).toMatchObject({ ok: true });
  expect(node.records()[fileOf(volume)]?.request.parameters).toEqual({ a: "3" });
});

it("refuses to change a volume's plugin, or to turn a created volume into a registered one", async () => {
  node.plugin("p", DIRECTORY_PLUGIN);
  const volumes = node.start();
  const created = request();
  const registered = request();
  await volumes.create(created);
  mkdirSync(join(node.root, "v"));
  await volumes.register({ ...registered, hostPath: join(node.root, "v") });
  const conflict = (message: string) => ({ ok: false, kind: "conflict", outcome: "failed", message });
  const byMkdir = conflict(`volume "${created.id}" was created by plugin "mkdir", which cannot be changed`);
  expect(await volumes.create({ ...created, pluginId: "p" })).toEqual(byMkdir);
  expect(await volumes.register({ ...created, hostPath: join(node.root, "v") })).toEqual(byMkdir);
  expect(await volumes.create(registered)).toEqual(
    conflict(`volume "${registered.id}" was registered, which cannot be changed`),
  );
});

it("leaves no record of a volume whose creation the plugin refused", async () => {
  node.plugin("p", FAILING_PLUGIN);
  node.flag("create.fail");
  const volumes = node.start();
  expect(await volumes.create(request({ pluginId: "p" }))).toMatchObject({ ok: false, outcome: "failed" });
  expect(node.records()).toEqual({});
  expect(await volumes.volumes()).toEqual([]);
});

it("keeps the record of a possibly created volume until it is deleted", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  node.flag("create.hold");
  const volumes = node.start({ limits: { operationMs: 2_000, killGraceMs: 100 } });
  const volume = request({ pluginId: "p" });
  expect(await volumes.create(volume)).toMatchObject({ ok: false, kind: "timeout", outcome: "unknown" });
  expect(await problems(volumes)).toEqual({ [volume.id]: expect.stringContaining("did not end within 2000 ms") });
  expect(await volumes.create(request({ name: volume.name }))).toEqual(NAME_TAKEN);
  expect(await volumes.delete(volume)).toMatchObject({ ok: false, kind: "timeout", outcome: "unknown" });

  mkdirSync(join(node.volumesDir, volume.id));
  node.unflag("create.hold");
  // Without its plugin, a repetition leaves the outcome open.
  volumes.configure({ pluginDir: node.pluginDir, allowed: [], registerRoots: [] });
  expect(await volumes.create(volume)).toMatchObject({ ok: false, kind: "forbidden", outcome: "unknown" });
  volumes.configure({ pluginDir: node.pluginDir, allowed: [{ name: "p" }], registerRoots: [] });
  expect(await volumes.delete(volume)).toEqual({ ok: true });
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
});

it("a forced deletion drops a creation whose plugin hangs, and frees the name", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  node.flag("create.hold");
  const volumes = node.start({ limits: { operationMs: 1_500, killGraceMs: 100 } });
  const volume = request({ pluginId: "p" });
  expect(await volumes.create(volume)).toMatchObject({ ok: false, outcome: "unknown" });
  expect(await volumes.delete({ id: volume.id, force: true })).toEqual({ ok: true });
  // Its path is looked up without another creation.
  expect(node.calls()).toEqual([`create ${volume.id}`]);
  expect([node.records(), await volumes.volumes()]).toEqual([{}, []]);
  expect(node.log.at(-1)).toContain(`volume "${volume.id}" is given up`);
  node.unflag("create.hold");
  expect(await volumes.create(request({ name: volume.name }))).toMatchObject({ ok: true });
});

it("a forced deletion drops a volume whose plugin hangs or is missing, but not one whose plugin refuses", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  node.plugin("f", FAILING_PLUGIN);
  const volumes = node.start({ limits: { operationMs: 1_500, killGraceMs: 100 } });
  const [hangs, refuses] = [request({ pluginId: "p" }), request({ pluginId: "f" })];
  for (const volume of [hangs, refuses]) await volumes.create(volume);
  node.flag("delete.hold");
  node.flag("delete.fail");
  expect(await volumes.delete(hangs)).toMatchObject({ ok: false, outcome: "unknown" });
  expect(await volumes.delete({ id: hangs.id, force: true })).toEqual({ ok: true });
  expect(await volumes.delete({ id: refuses.id, force: true })).toMatchObject({ ok: false, outcome: "failed" });
  const later = node.start({ allowed: [] });
  expect(await later.delete(refuses)).toMatchObject({ ok: false, kind: "forbidden" });
  expect(await later.delete({ id: refuses.id, force: true })).toEqual({ ok: true });
  expect(node.records()).toEqual({});
});

it("retries a plugin whose creation fails, with doubling delays", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  node.flag("create.hold");
  let now = 1_000_000;
  const volumes = node.start({ limits: { operationMs: 1_500, killGraceMs: 50 }, now: () => now });
  await volumes.create(request({ pluginId: "p" }));
  const runsAfter = async (seconds: number) => {
    now += seconds * 1_000;
    await volumes.restore();
    return node.calls().length;
  };
  const runs: number[] = [];
  for (const seconds of [29, 1, 59, 1, 119, 1]) runs.push(await runsAfter(seconds));
  expect(runs).toEqual([1, 2, 2, 3, 3, 4]);
  node.unflag("create.hold");
  expect(await runsAfter(240)).toBe(5);
  expect(Object.values(await problems(volumes))).toEqual([undefined]);
  expect([1, 7, 8, 9, 1_000].map(restorePauseMs)).toEqual([30_000, 1_920_000, 3_600_000, 3_600_000, 3_600_000]);
});

it("deletes a new volume through its plugin, by the created path, when its record cannot be stored", async () => {
  node.plugin("p", FAILING_PLUGIN);
  let writes = 0;
  const step = (name: string) => {
    if (name === "ready written" && writes++ === 0) throw Object.assign(new Error(), { code: "ENOSPC" });
  };
  const volumes = node.start({ step });
  const volume = request({ pluginId: "p" });
  expect(await volumes.create(volume)).toEqual({
    ok: false,
    kind: "exhausted",
    outcome: "failed",
    message: `error creating volume "${volume.id}" with plugin "p": the node cannot store it: no space left on the device`,
  });
  expect(node.calls()).toEqual([`create ${volume.id}`, `delete ${volume.id} ${join(node.volumesDir, volume.id)}`]);
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
  expect(await volumes.create(request({ name: volume.name }))).toMatchObject({ ok: true });
});

it("keeps the record when that deletion fails, too", async () => {
  node.plugin("p", FAILING_PLUGIN);
  node.flag("delete.fail");
  const step = (name: string) => {
    if (name === "ready written") throw Object.assign(new Error(), { code: "ENOSPC" });
  };
  const volume = request({ pluginId: "p" });
  expect(await node.start({ step }).create(volume)).toMatchObject({ ok: false, outcome: "unknown" });
  node.unflag("delete.fail");
  const later = node.start();
  expect(await later.delete(volume)).toEqual({ ok: true });
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
});

it("creates no volume when its record cannot be stored", async () => {
  const step = (name: string) => {
    if (name === "creating written") throw Object.assign(new Error(), { code: "EROFS" });
  };
  expect(await node.start({ step }).create(request())).toMatchObject({
    ok: false,
    kind: "internal",
    outcome: "failed",
  });
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
});

it("an update that cannot be stored changes neither the volume, its directory nor its record", async () => {
  const volume = request({ parameters: { mode: "0700" } });
  await node.start().create(volume);
  const before = node.records();
  const step = (name: string) => {
    if (name === "ready written") throw Object.assign(new Error(), { code: "ENOSPC" });
  };
  expect(await node.start({ step }).create({ ...volume, name: "other" })).toMatchObject({ ok: false });
  expect([node.volumes(), node.records()]).toEqual([[volume.id], before]);
});

it("deleting an unknown volume succeeds and removes nothing", async () => {
  const id = randomUUID();
  mkdirSync(join(node.volumesDir, id));
  expect(await node.start().delete({ id })).toEqual({ ok: true });
  expect(node.volumes()).toEqual([id]);
});

it("the next deletion completes an interrupted one, and the volume cannot be created in between", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  const volumes = node.start({ limits: { operationMs: 2_000, killGraceMs: 100 } });
  const volume = request({ pluginId: "p" });
  await volumes.create(volume);
  node.flag("delete.hold");
  expect(await volumes.delete(volume)).toMatchObject({ ok: false, kind: "timeout", outcome: "unknown" });
  expect(await problems(volumes)).toEqual({ [volume.id]: expect.stringContaining("its deletion has not finished") });
  expect(await volumes.create(volume)).toMatchObject({ ok: false, kind: "conflict" });
  node.unflag("delete.hold");
  expect(await volumes.delete(volume)).toEqual({ ok: true });
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
});

it("volumes of a missing plugin are reported and cannot be deleted", async () => {
  node.plugin("p", DIRECTORY_PLUGIN);
  const volumes = node.start();
  const volume = request({ pluginId: "p" });
  await volumes.create(volume);
  rmSync(join(node.pluginDir, "p"));
  expect(await volumes.delete(volume)).toEqual({
    ok: false,
    kind: "missing",
    outcome: "failed",
    message: `error deleting volume "${volume.id}" with plugin "p": no such plugin: "p"`,
  });
  expect(node.volumes()).toEqual([volume.id]);
  expect(await problems(volumes)).toEqual({ [volume.id]: undefined });
});

it("operations fail with the reason while the state directory is unusable, and can be retried", async () => {
  writeFileSync(join(node.stateDir, "host-volumes"), "in the way");
  const volumes = node.start();
  const volume = request();
  expect(await volumes.create(volume)).toMatchObject({ ok: false, kind: "internal" });
  expect(node.volumes()).toEqual([]);
  rmSync(join(node.stateDir, "host-volumes"));
  expect(await volumes.create(volume)).toMatchObject({ ok: true });
});
