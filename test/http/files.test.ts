import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { fillBucket, withBucket } from "../../scripts/bucket.ts";
import { filesVersion, localFiles } from "../../scripts/files.ts";
import { LocalState } from "../../scripts/local-state.ts";
import { Refusal } from "../../scripts/settings.ts";

let dir: string;
let files: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "sallyport-files-"));
  files = join(dir, "files");
});
afterEach(() => rmSync(dir, { recursive: true }));

function write(name: string, content: string | Uint8Array): string {
  const path = join(files, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

const keys = () => localFiles(files).map(({ key }) => key);

it("an absent or empty folder has no files and no version", () => {
  expect(keys()).toEqual([]);
  mkdirSync(join(files, "team-a"), { recursive: true });
  expect(keys()).toEqual([]);
  expect(filesVersion(localFiles(files))).toBeUndefined();
});

it("lists every regular file at any depth under its path in the folder", () => {
  write("gcp.json", "1");
  write("team-a/sub/gcp.json", "2");
  write(".hidden", "");
  expect(keys()).toEqual([".hidden", "gcp.json", "team-a/sub/gcp.json"]);
});

it("follows links inside the folder only", () => {
  writeFileSync(join(dir, "outside"), "secret");
  mkdirSync(join(dir, "files-too"));
  writeFileSync(join(dir, "files-too/x"), "secret");
  const inside = write("..data/gcp.json", "1");
  symlinkSync(inside, join(files, "gcp.json"));
  symlinkSync(join(dir, "outside"), join(files, "out"));
  symlinkSync("../files-too/x", join(files, "sibling"));
  symlinkSync(dir, join(files, "parent"));
  symlinkSync(files, join(files, "circle"));
  symlinkSync("nowhere", join(files, "dangling"));
  expect(keys()).toEqual(["..data/gcp.json", "gcp.json"]);
});

it("accepts a file of 1 MiB, and refuses one byte more with its name", () => {
  const path = write("big", new Uint8Array(1_048_576));
  expect(keys()).toEqual(["big"]);
  write("big", new Uint8Array(1_048_577));
  expect(() => localFiles(files)).toThrow(new Refusal(`${path} has 1048577 bytes; at most 1 MiB is taken.`));
});

it("refuses a path above the length of a key", () => {
  const segment = `${"d".repeat(127)}/`;
  write(`${segment.repeat(7)}${"f".repeat(128)}`, "");
  expect(keys()).toHaveLength(1);
  write(`${segment.repeat(7)}${"f".repeat(129)}`, "");
  expect(() => localFiles(files)).toThrow("a path there may have at most 1024 bytes.");
});

it("refuses a path that is not a folder with one sentence", () => {
  writeFileSync(files, "");
  expect(() => localFiles(files)).toThrow(Refusal);
  expect(() => localFiles(files)).toThrow(`${files} cannot be read: `);
});

it("the version changes with any name or content", () => {
  const versions = new Set([filesVersion(localFiles(files))]);
  const note = () => versions.add(filesVersion(localFiles(files)));
  write("a", "1");
  note();
  write("a", "2");
  note();
  rmSync(join(files, "a"));
  write("b", "2");
  note();
  expect(versions.size).toBe(4);
  write("a", "1");
  rmSync(join(files, "b"));
  note();
  expect(versions.size).toBe(4);
});

it("updates only changed files in the bucket", async () => {
  const said = [vi.spyOn(process.stdout, "write"), vi.spyOn(process.stderr, "write")];
  const data = join(dir, "state");
  const held = () =>
    withBucket(data, async (bucket) => {
      const { objects } = await bucket.list();
      return Promise.all(
        objects.map(async ({ key, version }) => ({ key, version, text: await (await bucket.get(key))?.text() })),
      );
    });

  write("gcp.json", "one");
  write("gone.json", "two");
  write("team-a/gcp.json", "three");
  await fillBucket(data, localFiles(files));
  const before = await held();
  expect(before.map(({ key, text }) => [key, text])).toEqual([
    ["gcp.json", "one"],
    ["gone.json", "two"],
    ["team-a/gcp.json", "three"],
  ]);

  write("team-a/gcp.json", "four");
  rmSync(join(files, "gone.json"));
  await fillBucket(data, localFiles(files));
  const after = await held();
  expect(after.map(({ key, text }) => [key, text])).toEqual([
    ["gcp.json", "one"],
    ["team-a/gcp.json", "four"],
  ]);
  expect(after[0]).toEqual(before[0]);

  rmSync(files, { recursive: true });
  await fillBucket(data, localFiles(files));
  expect(await held()).toEqual([]);
  for (const stream of said) expect(stream.mock.calls).toEqual([]);
}, 60_000);

it("stores the list of uploaded files with the data, and deletes it with the data", () => {
  const state = () => new LocalState(dir, {});
  const first = state();
  expect([first.filesDir, first.files]).toEqual([files, undefined]);
  mkdirSync(join(first.dataDir, "v3"), { recursive: true });
  first.noteFiles("v1");
  first.noteReady();
  first.close();

  const second = state();
  expect(second.files).toBe("v1");
  rmSync(second.dataDir, { recursive: true });
  second.close();

  const third = state();
  expect(third.files).toBeUndefined();
  third.close();
});
