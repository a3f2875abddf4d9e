import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DIRECTORY_PLUGIN, request, TestNode } from "./agent-dhv-node.ts";

let node: TestNode;
beforeEach(() => {
  node = new TestNode();
});
afterEach(() => node.remove());

const nameTaken = {
  ok: false,
  kind: "conflict",
  outcome: "failed",
  message: "volume name already exists on this node",
};
const fileOf = ({ id }: { id: string }) => `${id}.json`;
const problems = async (volumes: ReturnType<TestNode["start"]>) =>
  Object.fromEntries((await volumes.volumes()).map(({ id, problem }) => [id, problem]));

/** Works as a directory plugin, except that it waits in an operation while the file `<operation>.hold` is there. */
const HOLDING = DIRECTORY_PLUGIN.replace(
  'case "$1" in',
  'echo "$1 $DHV_VOLUME_ID" >> calls\nwhile [ -e "$1.hold" ]; do sleep 0.01; done\ncase "$1" in',
);
/** Fails in an operation while the file `<operation>.fail` is there. */
const FAILING = DIRECTORY_PLUGIN.replace(
  'case "$1" in',
  `echo "$1 $DHV_CREATED_PATH" >> calls\n[ -e "$1.fail" ] && { echo '{"error":"told to"}'; exit 1; }\ncase "$1" in`,
);
const flag = (name: string) => writeFileSync(join(node.pluginDir, name), "");
const unflag = (name: string) => rmSync(join(node.pluginDir, name));
const calls = () => {
  const file = join(node.pluginDir, "calls");
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
};

it("what is created is remembered, with all that is needed to create it again, for the agent's user alone", async () => {
  const volume = request({ parameters: { mode: "0711" }, capacityMin: 5, capacityMax: 6 });
  await node.start().create(volume);
  const path = join(node.volumesDir, volume.id);
  expect(node.records()).toEqual({ [fileOf(volume)]: { state: "ready", request: volume, path, bytes: 0 } });
  expect(statSync(join(node.stateDir, "host-volumes")).mode & 0o077).toBe(0);
  expect(statSync(join(node.stateDir, "host-volumes", fileOf(volume))).mode & 0o077).toBe(0);
});

it("a volume is remembered before its plugin is told, and ready only after", async () => {
  node.plugin("p", HOLDING);
  flag("create.hold");
  const volumes = node.start();
  const volume = request({ pluginId: "p" });
  const making = volumes.create(volume);
  await vi.waitFor(() => expect(calls()).toHaveLength(1));
  expect(node.records()).toEqual({ [fileOf(volume)]: { state: "creating", request: volume } });
  expect(await problems(volumes)).toEqual({ [volume.id]: "it is being created" });
  unflag("create.hold");
  expect(await making).toMatchObject({ ok: true });
  expect(node.records()[fileOf(volume)]?.state).toBe("ready");
  expect(await problems(volumes)).toEqual({ [volume.id]: undefined });
});

it("a second volume of a name is refused, also while the first is under way, and taken when that has failed", async () => {
  node.plugin("p", HOLDING);
  const volumes = node.start();
  const [first, second] = [request({ pluginId: "p", name: "db" }), request({ name: "db", namespace: "other" })];
  flag("create.hold");
  const making = volumes.create(first);
  await vi.waitFor(() => expect(calls()).toHaveLength(1));
  expect(await volumes.create(second)).toEqual(nameTaken);
  expect(await volumes.register({ ...second, hostPath: node.root })).toMatchObject({ ok: false });
  unflag("create.hold");
  await making;
  expect(await volumes.create(second)).toEqual(nameTaken);
  expect(await node.start().create(second)).toEqual(nameTaken);
  expect(node.volumes()).toEqual([first.id]);

  expect(await volumes.delete(first)).toEqual({ ok: true });
  node.plugin("p", FAILING);
  flag("create.fail");
  expect(await volumes.create(first)).toMatchObject({ ok: false, outcome: "failed" });
  expect(await volumes.create(second)).toMatchObject({ ok: true });
});

it("a name stays with its volume when an update fails, and goes when the volume is renamed or deleted", async () => {
  node.plugin("p", FAILING);
  const volumes = node.start();
  const first = request({ pluginId: "p", name: "db" });
  await volumes.create(first);

  flag("create.fail");
  expect(await volumes.create(first)).toMatchObject({ ok: false });
  expect(await volumes.create({ ...first, name: "renamed" })).toMatchObject({ ok: false });
  expect(await volumes.create(request({ name: "db" }))).toEqual(nameTaken);
  expect(await problems(volumes)).toEqual({ [first.id]: undefined });
  const other = request({ name: "renamed" });
  expect(await volumes.create(other)).toMatchObject({ ok: true });
  unflag("create.fail");

  expect(await volumes.create({ ...first, name: "renamed" })).toEqual(nameTaken);
  expect(await volumes.create({ ...first, name: "db-2" })).toMatchObject({ ok: true });
  expect(await volumes.create(request({ name: "db-2" }))).toEqual(nameTaken);
  expect(await volumes.create(request({ name: "db" }))).toMatchObject({ ok: true });
  await volumes.delete(first);
  expect(await volumes.create(request({ name: "db-2" }))).toMatchObject({ ok: true });
});

it("an update that fails leaves the volume as it was, one that succeeds is remembered", async () => {
  node.plugin("p", FAILING);
  const volumes = node.start();
  const volume = request({ pluginId: "p", parameters: { a: "1" } });
  await volumes.create(volume);
  const before = node.records();
  flag("create.fail");
  expect(await volumes.create({ ...volume, parameters: { a: "2" } })).toMatchObject({ ok: false });
  expect(node.records()).toEqual(before);
  unflag("create.fail");
  expect(await volumes.create({ ...volume, parameters: { a: "3" } })).toMatchObject({ ok: true });
  expect(node.records()[fileOf(volume)]?.request.parameters).toEqual({ a: "3" });
});

it("a volume stays with what made it", async () => {
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

it("nothing is left of a volume that a plugin has refused", async () => {
  node.plugin("p", FAILING);
  flag("create.fail");
  const volumes = node.start();
  expect(await volumes.create(request({ pluginId: "p" }))).toMatchObject({ ok: false, outcome: "failed" });
  expect(node.records()).toEqual({});
  expect(await volumes.volumes()).toEqual([]);
});

it("a volume of which something may be left stays known, and is found and deleted", async () => {
  node.plugin("p", HOLDING);
  flag("create.hold");
  const volumes = node.start({ limits: { operationMs: 200, killGraceMs: 100 } });
  const volume = request({ pluginId: "p" });
  expect(await volumes.create(volume)).toMatchObject({ ok: false, kind: "timeout", outcome: "unknown" });
  expect(await problems(volumes)).toEqual({ [volume.id]: expect.stringContaining("did not end within 200 ms") });
  expect(await volumes.create(request({ name: volume.name }))).toEqual(nameTaken);
  expect(await volumes.delete(volume)).toMatchObject({ ok: false, kind: "timeout", outcome: "unknown" });

  mkdirSync(join(node.volumesDir, volume.id));
  unflag("create.hold");
  expect(await volumes.delete(volume)).toEqual({ ok: true });
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
});

it("when a new volume cannot be stored, its plugin deletes it, by the path that it has created", async () => {
  node.plugin("p", FAILING);
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
  expect(calls()).toEqual(["create ", `delete ${join(node.volumesDir, volume.id)}`]);
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
  expect(await volumes.create(request({ name: volume.name }))).toMatchObject({ ok: true });
});

it("when that fails too, the volume stays known", async () => {
  node.plugin("p", FAILING);
  flag("delete.fail");
  const step = (name: string) => {
    if (name === "ready written") throw Object.assign(new Error(), { code: "ENOSPC" });
  };
  const volume = request({ pluginId: "p" });
  expect(await node.start({ step }).create(volume)).toMatchObject({ ok: false, outcome: "unknown" });
  unflag("delete.fail");
  const later = node.start();
  expect(await later.delete(volume)).toEqual({ ok: true });
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
});

it("nothing is created that cannot be remembered", async () => {
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

it("an update that cannot be stored leaves the volume, its directory and its record", async () => {
  const volume = request({ parameters: { mode: "0700" } });
  await node.start().create(volume);
  const before = node.records();
  const step = (name: string) => {
    if (name === "ready written") throw Object.assign(new Error(), { code: "ENOSPC" });
  };
  expect(await node.start({ step }).create({ ...volume, name: "other" })).toMatchObject({ ok: false });
  expect([node.volumes(), node.records()]).toEqual([[volume.id], before]);
});

it("a volume that is not known is deleted already, and nothing is removed for it", async () => {
  const id = randomUUID();
  mkdirSync(join(node.volumesDir, id));
  expect(await node.start().delete({ id })).toEqual({ ok: true });
  expect(node.volumes()).toEqual([id]);
});

it("a deletion that was cut off is finished by the next, and such a volume cannot be created meanwhile", async () => {
  node.plugin("p", HOLDING);
  const volumes = node.start({ limits: { operationMs: 200, killGraceMs: 100 } });
  const volume = request({ pluginId: "p" });
  await volumes.create(volume);
  flag("delete.hold");
  expect(await volumes.delete(volume)).toMatchObject({ ok: false, kind: "timeout", outcome: "unknown" });
  expect(await problems(volumes)).toEqual({ [volume.id]: expect.stringContaining("its deletion has not finished") });
  expect(await volumes.create(volume)).toMatchObject({ ok: false, kind: "conflict" });
  unflag("delete.hold");
  expect(await volumes.delete(volume)).toEqual({ ok: true });
  expect([node.volumes(), node.records()]).toEqual([[], {}]);
});

it("a plugin that is gone keeps its volumes from being deleted, but not from being known", async () => {
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

it("a directory can be registered below an allowed root only, wherever links lead", async () => {
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

it("without an allowed root nothing can be registered", async () => {
  const volumes = node.start({ registerRoots: [] });
  expect(await volumes.register({ ...request(), hostPath: node.root })).toMatchObject({ ok: false, kind: "forbidden" });
});

it("a registered volume is forgotten when it is deleted: no plugin runs, and the directory stays", async () => {
  node.plugin("p", FAILING);
  const volumes = node.start();
  const volume = { ...request(), hostPath: join(node.root, "v") };
  mkdirSync(volume.hostPath);
  writeFileSync(join(volume.hostPath, "file"), "data");
  await volumes.register(volume);
  expect(await volumes.delete(volume)).toEqual({ ok: true });
  expect(existsSync(join(volume.hostPath, "file"))).toBe(true);
  expect(calls()).toEqual([]);
  expect(node.records()).toEqual({});
  expect(await volumes.create(request({ name: volume.name }))).toMatchObject({ ok: true });
});

it("after a start every volume is created again, and until then it is not called usable", async () => {
  node.plugin("p", HOLDING);
  const first = node.start();
  const [made, lost] = [request({ pluginId: "p" }), request({ parameters: { mode: "0751" } })];
  await first.create(made);
  await first.create(lost);
  rmSync(join(node.volumesDir, lost.id), { recursive: true });

  const again = node.start();
  expect(Object.values(await problems(again))).toEqual(Array(2).fill(expect.stringContaining("not been restored")));
  await again.restore();
  expect(await problems(again)).toEqual({ [made.id]: undefined, [lost.id]: undefined });
  expect(calls()).toEqual([`create ${made.id}`, `create ${made.id}`]);
  expect(statSync(join(node.volumesDir, lost.id)).mode & 0o777).toBe(0o751);
});

it("one volume that cannot be restored stands in nobody's way, says why, and may be tried again", async () => {
  node.plugin("fails", FAILING);
  node.plugin("gone", DIRECTORY_PLUGIN);
  node.plugin("hangs", HOLDING);
  const first = node.start();
  const [fails, gone, hangs, fine] = ["fails", "gone", "hangs", "mkdir"].map((pluginId) => request({ pluginId }));
  const moved = { ...request(), hostPath: join(node.root, "v") };
  const unreadable = request();
  if (!fails || !gone || !hangs || !fine) throw new Error("four volumes");
  for (const volume of [fails, gone, hangs, fine, unreadable])
    expect(await first.create(volume)).toMatchObject({ ok: true });
  mkdirSync(moved.hostPath);
  await first.register(moved);

  flag("create.fail");
  flag("create.hold");
  rmSync(join(node.pluginDir, "gone"));
  rmSync(moved.hostPath, { recursive: true });
  const record = join(node.stateDir, "host-volumes", fileOf(unreadable));
  writeFileSync(record, "{");
  const again = node.start({ limits: { operationMs: 300, killGraceMs: 100 } });
  await again.restore();
  const during = ({ id, pluginId }: { id: string; pluginId: string }) =>
    `error restoring volume "${id}" with plugin "${pluginId}": `;
  const expected = {
    [fails.id]: `${during(fails)}exit code 1: told to`,
    [gone.id]: `${during(gone)}no such plugin: "gone"`,
    [hangs.id]: `${during(hangs)}did not end within 300 ms`,
    [fine.id]: undefined,
    [moved.id]: `could not verify host path for "${moved.id}": no such file or directory`,
    [unreadable.id]: expect.stringContaining("its record on this node cannot be read"),
  };
  expect(await problems(again)).toEqual(expected);
  for (const { problem } of await again.volumes())
    if (problem !== undefined) expect(node.log).toContainEqual(expect.stringContaining(problem));

  // What is not restored still holds its name, and is not removed for it.
  expect(await again.create(request({ name: fails.name }))).toEqual(nameTaken);
  expect(await again.delete(unreadable)).toMatchObject({ ok: false, kind: "internal" });
  expect(node.volumes()).toEqual([fails, gone, hangs, fine, unreadable].map(({ id }) => id).sort());

  unflag("create.fail");
  unflag("create.hold");
  mkdirSync(moved.hostPath);
  node.plugin("gone", DIRECTORY_PLUGIN);
  await again.restore();
  expect(Object.values(await problems(again)).filter((problem) => problem !== undefined)).toHaveLength(1);
});

it("a registered directory that now leads out of the allowed roots is not restored", async () => {
  const volume = { ...request(), hostPath: join(node.root, "v") };
  mkdirSync(volume.hostPath);
  await node.start().register(volume);
  rmSync(volume.hostPath, { recursive: true });
  symlinkSync("/etc", volume.hostPath);
  const again = node.start();
  await again.restore();
  expect(await problems(again)).toEqual({ [volume.id]: expect.stringContaining("is not below a directory") });
});

it("operations of one volume run one after the other, those of others beside them", async () => {
  node.plugin("p", HOLDING);
  const volumes = node.start();
  const [slow, other] = [request({ pluginId: "p" }), request()];
  flag("create.hold");
  const order: string[] = [];
  const said = (name: string) => () => order.push(name);
  const all = [
    volumes.create(slow).then(said("created")),
    volumes.delete(slow).then(said("deleted")),
    volumes.create(slow).then(said("created again")),
  ];
  expect(await volumes.create(other)).toMatchObject({ ok: true });
  expect(await volumes.delete(other)).toEqual({ ok: true });
  expect(order).toEqual([]);
  unflag("create.hold");
  await Promise.all(all);
  expect(order).toEqual(["created", "deleted", "created again"]);
  expect(calls()).toEqual([`create ${slow.id}`, `delete ${slow.id}`, `create ${slow.id}`]);
  expect(node.volumes()).toEqual([slow.id]);
});

it("of many that want one name at once, one gets it", async () => {
  const volumes = node.start();
  const made = await Promise.all(Array.from({ length: 20 }, () => volumes.create(request({ name: "db" }))));
  expect(made.filter(({ ok }) => ok)).toHaveLength(1);
  expect(node.volumes()).toHaveLength(1);
});

it("many volumes at once are all made, remembered and restored", async () => {
  const volumes = node.start();
  const wanted = Array.from({ length: 100 }, () => request());
  await Promise.all(wanted.map((volume) => volumes.create(volume)));
  expect(node.volumes()).toEqual(wanted.map(({ id }) => id).sort());
  const again = node.start();
  await again.restore();
  expect((await again.volumes()).map(({ id, problem }) => [id, problem])).toEqual(
    wanted.map(({ id }) => [id, undefined]).sort(),
  );
  expect(readdirSync(join(node.stateDir, "host-volumes"))).toHaveLength(100);
});

it("a state directory that cannot be used fails operations with the reason, and is tried again", async () => {
  writeFileSync(join(node.stateDir, "host-volumes"), "in the way");
  const volumes = node.start();
  const volume = request();
  expect(await volumes.create(volume)).toMatchObject({ ok: false, kind: "internal" });
  expect(node.volumes()).toEqual([]);
  rmSync(join(node.stateDir, "host-volumes"));
  expect(await volumes.create(volume)).toMatchObject({ ok: true });
});
