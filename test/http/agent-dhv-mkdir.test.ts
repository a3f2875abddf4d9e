import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { request, TestNode } from "./agent-dhv-node.ts";

const root = process.getuid?.() === 0;
const umask = process.umask();

let node: TestNode;
beforeEach(() => {
  node = new TestNode();
});
afterEach(() => {
  process.umask(umask);
  node.remove();
});

const volume = request();
const path = () => join(node.volumesDir, volume.id);
const create = (parameters: Record<string, string> = {}) => node.start().create({ ...volume, parameters });
const rightsOf = (file: string) => statSync(file).mode & 0o7777;
const failed = (kind: string, reason: string) => ({
  ok: false,
  kind,
  outcome: "failed",
  message: `error creating volume "${volume.id}" with plugin "mkdir": ${reason}`,
});

it("creates a directory named by the volume's id, accessible by its owner only, with size 0", async () => {
  expect(await create()).toEqual({ ok: true, path: path(), bytes: 0 });
  expect(node.volumes()).toEqual([volume.id]);
  expect(rightsOf(path())).toBe(0o700);
});

it("creates a missing volumes directory", async () => {
  const volumesDir = join(node.dir, "some/where/else");
  const made = await node.start({ volumesDir }).create(volume);
  expect(made).toEqual({ ok: true, path: join(volumesDir, volume.id), bytes: 0 });
});

it.each(["0700", "755", "1777", "02770", "0"])("sets the mode %s exactly, regardless of the umask", async (mode) => {
  process.umask(0o077);
  expect(await create({ mode })).toMatchObject({ ok: true });
  expect(rightsOf(path())).toBe(Number.parseInt(mode, 8));
  chmodSync(path(), 0o700);
});

it("sets owner and group, also each alone", async () => {
  const uid = root ? 12345 : (process.getuid?.() ?? 0);
  const gid = root ? 12346 : (process.getgid?.() ?? 0);
  const own = statSync(node.volumesDir);
  for (const [parameters, owner, group] of [
    [{ uid: String(uid), gid: String(gid), mode: "0750" }, uid, gid],
    [{ uid: String(uid) }, uid, own.gid],
    [{ gid: String(gid) }, own.uid, gid],
  ] as const) {
    const { id } = volume;
    const volumes = node.start();
    expect(await volumes.create({ ...volume, parameters })).toMatchObject({ ok: true });
    expect(statSync(path())).toMatchObject({ uid: owner, gid: group });
    await volumes.delete({ id });
  }
});

it.runIf(!root)("removes a volume whose owner cannot be set", async () => {
  expect(await create({ uid: "0" })).toEqual(failed("plugin", "fchown: operation not permitted"));
  expect(node.volumes()).toEqual([]);
  expect(node.records()).toEqual({});
});

it.each(["directory made", "mode set", "owner set"])("removes a volume whose creation fails after '%s'", async (at) => {
  const step = (name: string) => {
    if (name === at) throw Object.assign(new Error(), { code: "EPERM", syscall: "test" });
  };
  expect(await node.start({ step }).create(volume)).toEqual(failed("plugin", "test: operation not permitted"));
  expect(node.volumes()).toEqual([]);
  expect(node.records()).toEqual({});
});

it("leaves an existing volume with its files and modes unchanged", async () => {
  await create({ mode: "0750" });
  writeFileSync(join(path(), "file"), "data");
  chmodSync(path(), 0o705);
  expect(await create({ mode: "0700" })).toEqual({ ok: true, path: path(), bytes: 0 });
  expect(rightsOf(path())).toBe(0o705);
  expect(existsSync(join(path(), "file"))).toBe(true);
});

it.each([
  [{ size: "1" }, 'unknown mkdir parameter: "size"'],
  [{ Mode: "0700" }, 'unknown mkdir parameter: "Mode"'],
  [{ mode: "8" }, "mkdir parameter mode is not an octal number up to 7777"],
  [{ mode: "10000" }, "mkdir parameter mode is not an octal number up to 7777"],
  [{ mode: "" }, "mkdir parameter mode is not an octal number up to 7777"],
  [{ mode: "rwx" }, "mkdir parameter mode is not an octal number up to 7777"],
  [{ uid: "root" }, "mkdir parameter uid is not a number from 0 to 4294967294"],
  [{ uid: "-1" }, "mkdir parameter uid is not a number from 0 to 4294967294"],
  [{ gid: "4294967295" }, "mkdir parameter gid is not a number from 0 to 4294967294"],
  [{ gid: "1.5" }, "mkdir parameter gid is not a number from 0 to 4294967294"],
])("refuses the parameters %j and creates nothing", async (parameters, reason) => {
  expect(await create(parameters as Record<string, string>)).toEqual(failed("invalid", reason));
  expect(node.volumes()).toEqual([]);
  expect(node.records()).toEqual({});
});

it.each(["", ".", "..", "../x", "a/b", "ABCDEF00-0000-4000-8000-000000000000", "x".repeat(36)])(
  "refuses an id that is not a lower-case UUID: %s",
  async (id) => {
    const volumes = node.start();
    for (const made of [
      await volumes.create({ ...volume, id }),
      await volumes.register({ ...volume, id, hostPath: node.root }),
      await volumes.delete({ id }),
    ])
      expect(made).toMatchObject({ ok: false, kind: "invalid", outcome: "failed", message: `invalid ID "${id}"` });
    expect(node.volumes()).toEqual([]);
  },
);

it("neither accepts nor follows a link or a file in place of a volume", async () => {
  const elsewhere = join(node.dir, "elsewhere");
  const nowhere = join(node.dir, "nowhere");
  mkdirSync(elsewhere);
  chmodSync(elsewhere, 0o755);
  const put = [
    () => symlinkSync(elsewhere, path()),
    () => symlinkSync(nowhere, path()),
    () => writeFileSync(path(), "data"),
  ];
  for (const there of put) {
    there();
    const reason = "something that is not a directory is in its place";
    expect(await create({ mode: "0777" })).toEqual(failed("plugin", reason));
    expect(lstatSync(path()).isDirectory()).toBe(false);
    expect([rightsOf(elsewhere), existsSync(nowhere)]).toEqual([0o755, false]);
    rmSync(path());
  }
});

it("removes, and does not follow, a link in place of the staging directory", async () => {
  const elsewhere = join(node.dir, "elsewhere");
  mkdirSync(elsewhere, { mode: 0o700 });
  writeFileSync(join(elsewhere, "file"), "data");
  symlinkSync(elsewhere, join(node.volumesDir, `.${volume.id}.unfinished`));
  expect(await create({ mode: "0777" })).toMatchObject({ ok: true });
  expect(node.volumes()).toEqual([volume.id]);
  expect([rightsOf(elsewhere), existsSync(join(elsewhere, "file"))]).toEqual([0o700, true]);
});

it("deletes the directory recursively without following links in it", async () => {
  const volumes = node.start();
  await volumes.create(volume);
  const elsewhere = join(node.dir, "elsewhere");
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "file"), "data");
  mkdirSync(join(path(), "a/b"), { recursive: true });
  writeFileSync(join(path(), "a/b/file"), "data");
  symlinkSync(elsewhere, join(path(), "a/link"));
  expect(await volumes.delete({ id: volume.id })).toEqual({ ok: true });
  expect(node.volumes()).toEqual([]);
  expect(existsSync(join(elsewhere, "file"))).toBe(true);
});

it("deletes only the link that replaced a volume", async () => {
  const volumes = node.start();
  await volumes.create(volume);
  const elsewhere = join(node.dir, "elsewhere");
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "file"), "data");
  rmdirSync(path());
  symlinkSync(elsewhere, path());
  expect(await volumes.delete({ id: volume.id })).toEqual({ ok: true });
  expect(node.volumes()).toEqual([]);
  expect(existsSync(join(elsewhere, "file"))).toBe(true);
});

it("succeeds in deleting a volume whose directory is missing", async () => {
  const volumes = node.start();
  await volumes.create(volume);
  rmdirSync(path());
  expect(await volumes.delete({ id: volume.id })).toEqual({ ok: true });
  expect(node.records()).toEqual({});
});
