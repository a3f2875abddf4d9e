import { existsSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
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

it("registers directories below an allowed root only, after links are resolved", async () => {
  const volumes = node.start();
  const dir = join(node.root, "v");
  mkdirSync(dir);
  mkdirSync(join(node.dir, "elsewhere/v"), { recursive: true });
  writeFileSync(join(node.root, "file"), "");
  symlinkSync(join(node.dir, "elsewhere"), join(node.root, "out"));
  symlinkSync(dir, join(node.root, "in"));
  const volume = request();
  const register = (hostPath: string) => volumes.register({ ...volume, hostPath });
  const outside = "the path is not below a directory that this node allows for registered volumes";
  for (const [hostPath, kind, reason] of [
    ["/etc", "forbidden", outside],
    ["/no/such/place", "forbidden", outside],
    [node.root, "forbidden", outside],
    [node.volumesDir, "forbidden", outside],
    [join(node.root, "out"), "forbidden", outside],
    [join(node.root, "out/v"), "forbidden", outside],
    [`${node.root}/../elsewhere/v`, "invalid", 'the path has a ".." in it'],
    ["root/v", "invalid", "the path is not absolute"],
    ["", "invalid", "the path is not absolute"],
    [`${dir}\0`, "invalid", "the path has control characters"],
    [join(node.root, "none"), "missing", "no such file or directory"],
    [join(node.root, "file"), "invalid", "the path is not a directory"],
  ] as const)
    expect(await register(hostPath)).toEqual({
      ok: false,
      kind,
      outcome: "failed",
      message: `could not verify host path for "${volume.id}": ${reason}`,
    });
  expect(node.records()).toEqual({});
  expect(await register(join(node.root, "in"))).toEqual({ ok: true, path: join(node.root, "in"), bytes: 0 });
  expect(await register(dir)).toEqual({ ok: true, path: dir, bytes: 0 });
  expect(await volumes.volumes()).toEqual([
    { id: volume.id, name: volume.name, namespace: "default", pluginId: "", path: dir, bytes: 0, problem: undefined },
  ]);
});

it("registers no directory without an allowed root", async () => {
  const volumes = node.start({ registerRoots: [] });
  expect(await volumes.register({ ...request(), hostPath: node.root })).toMatchObject({ ok: false, kind: "forbidden" });
});

it("deleting a registered volume drops its record, runs no plugin and keeps the directory", async () => {
  node.plugin("p", FAILING_PLUGIN);
  const volumes = node.start();
  const volume = { ...request(), hostPath: join(node.root, "v") };
  mkdirSync(volume.hostPath);
  writeFileSync(join(volume.hostPath, "file"), "data");
  await volumes.register(volume);
  expect(await volumes.delete(volume)).toEqual({ ok: true });
  expect(existsSync(join(volume.hostPath, "file"))).toBe(true);
  expect(node.calls()).toEqual([]);
  expect(node.records()).toEqual({});
  expect(await volumes.create(request({ name: volume.name }))).toMatchObject({ ok: true });
});

it("recreates every volume at the start, and reports it as unavailable until then", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  const first = node.start();
  const [made, lost] = [request({ pluginId: "p" }), request({ parameters: { mode: "0751" } })];
  await first.create(made);
  await first.create(lost);
  rmSync(join(node.volumesDir, lost.id), { recursive: true });

  const again = node.start();
  expect(Object.values(await problems(again))).toEqual(Array(2).fill(expect.stringContaining("not been restored")));
  await again.restore();
  expect(await problems(again)).toEqual({ [made.id]: undefined, [lost.id]: undefined });
  expect(node.calls()).toEqual([`create ${made.id}`, `create ${made.id}`]);
  expect(statSync(join(node.volumesDir, lost.id)).mode & 0o777).toBe(0o751);
});

it("a volume that cannot be restored reports the reason, can be retried, and does not block others", async () => {
  node.plugin("fails", FAILING_PLUGIN);
  node.plugin("gone", DIRECTORY_PLUGIN);
  node.plugin("hangs", HOLDING_PLUGIN);
  const first = node.start();
  const [fails, gone, hangs, fine] = ["fails", "gone", "hangs", "mkdir"].map((pluginId) => request({ pluginId }));
  const moved = { ...request(), hostPath: join(node.root, "v") };
  const unreadable = request();
  if (!fails || !gone || !hangs || !fine) throw new Error("four volumes");
  for (const volume of [fails, gone, hangs, fine, unreadable])
    expect(await first.create(volume)).toMatchObject({ ok: true });
  mkdirSync(moved.hostPath);
  await first.register(moved);

  node.flag("create.fail");
  node.flag("create.hold");
  rmSync(join(node.pluginDir, "gone"));
  rmSync(moved.hostPath, { recursive: true });
  const record = join(node.stateDir, "host-volumes", fileOf(unreadable));
  writeFileSync(record, "{");
  let now = Date.now();
  const again = node.start({ limits: { operationMs: 5_000, killGraceMs: 100 }, now: () => now });
  await again.restore();
  const during = ({ id, pluginId }: { id: string; pluginId: string }) =>
    `error restoring volume "${id}" with plugin "${pluginId}": `;
  const expected = {
    [fails.id]: `${during(fails)}exit code 1: told to`,
    [gone.id]: `${during(gone)}no such plugin: "gone"`,
    [hangs.id]: `${during(hangs)}did not end within 5000 ms`,
    [fine.id]: undefined,
    [moved.id]: `could not verify host path for "${moved.id}": no such file or directory`,
    [unreadable.id]: expect.stringContaining("its record on this node cannot be read"),
  };
  expect(await problems(again)).toEqual(expected);
  for (const { problem } of await again.volumes())
    if (problem !== undefined) expect(node.log).toContainEqual(expect.stringContaining(problem));

  // A volume that is not restored keeps its name and is not removed.
  expect(await again.create(request({ name: fails.name }))).toEqual(NAME_TAKEN);
  expect(await again.delete(unreadable)).toMatchObject({ ok: false, kind: "internal" });
  expect(node.volumes()).toEqual([fails, gone, hangs, fine, unreadable].map(({ id }) => id).sort());

  node.unflag("create.fail");
  node.unflag("create.hold");
  mkdirSync(moved.hostPath);
  node.plugin("gone", DIRECTORY_PLUGIN);
  now += 30_000;
  await again.restore();
  expect(Object.values(await problems(again)).filter((problem) => problem !== undefined)).toHaveLength(1);
});

it("does not restore a registered directory that has moved out of the allowed roots", async () => {
  const volume = { ...request(), hostPath: join(node.root, "v") };
  mkdirSync(volume.hostPath);
  await node.start().register(volume);
  rmSync(volume.hostPath, { recursive: true });
  symlinkSync("/etc", volume.hostPath);
  const again = node.start();
  await again.restore();
  expect(await problems(again)).toEqual({ [volume.id]: expect.stringContaining("is not below a directory") });
});

it("hung plugins delay their own volumes only, and only a few run concurrently", async () => {
  node.plugin("hangs", HOLDING_PLUGIN);
  const first = node.start();
  const hanging = Array.from({ length: 20 }, () => request({ pluginId: "hangs" }));
  const fine = request();
  await Promise.all([...hanging, fine].map((volume) => first.create(volume)));
  const before = node.calls().length;

  node.flag("create.hold");
  const again = node.start();
  const restored = again.restore();
  await vi.waitFor(async () => {
    expect((await problems(again))[fine.id]).toBeUndefined();
    expect(node.calls().length - before).toBe(8);
  });
  node.unflag("create.hold");
  await restored;
  expect(node.calls().length - before).toBe(20);
  expect(new Set(Object.values(await problems(again)))).toEqual(new Set([undefined]));
});
