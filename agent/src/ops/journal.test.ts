import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PROPERTY } from "../../../test/support/long.ts";
import { type Accepted, type Ending, Journal } from "./journal.ts";

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "sallyport-journal-"));
  path = join(directory, "journal");
});
afterEach(() => rmSync(directory, { recursive: true }));

const operation = (op: string, { key = "k", gen = 1, secret = false } = {}): Accepted => ({
  op,
  method: "dhv.create",
  key,
  gen,
  deadlineMs: 1000,
  params: { name: "é€" },
  secret,
});
const worked: Ending = { ok: true, result: { path: "/v" }, ms: 5 };
const failed: Ending = { ok: false, error: { kind: "plugin", message: "no", outcome: "failed" }, ms: 5 };

/** The complete state of a journal, for comparison. */
const stateOf = (journal: Journal) => ({
  entries: journal.entries(),
  fences: ["k", "l"].map((key) => journal.fence(key)),
});

async function reopened(options?: Parameters<typeof Journal.open>[1]) {
  const journal = await Journal.open(path, options);
  const state = stateOf(journal);
  await journal.close();
  return state;
}

it("restores accepted, completed and dropped operations in order after a restart", async () => {
  const journal = await Journal.open(path);
  await journal.accept(operation("a", { gen: 3 }));
  await journal.accept(operation("b", { key: "l", gen: 2, secret: true }));
  await journal.accept(operation("c"));
  await journal.end("a", worked);
  await journal.end("b", failed);
  await journal.drop("b");
  const before = stateOf(journal);
  await journal.close();
  const after = await reopened();
  expect(after).toEqual(before);
  expect(after.entries).toMatchObject([{ op: "a", ended: { ending: worked } }, { op: "c" }]);
  expect(after.fences).toEqual([3, 2]);
});

it("opens with every intact line after a crash at any byte", PROPERTY, async () => {
  const journal = await Journal.open(path, { now: () => 1 });
  const states = new Map([[0, stateOf(journal)]]);
  const steps = [
    () => journal.accept(operation("a", { gen: 2 })),
    () => journal.end("a", failed),
    () => journal.accept(operation("b", { key: "l" })),
    () => journal.drop("a"),
    () => journal.end("b", worked),
  ];
  for (const step of steps) {
    await step();
    states.set(statSync(path).size, structuredClone(stateOf(journal)));
  }
  await journal.close();
  const whole = readFileSync(path);
  const ends = [...states.keys()];
  for (let length = 0; length <= whole.length; length++) {
    writeFileSync(path, whole.subarray(0, length));
    const torn = await Journal.open(path, { now: () => 1 });
    const expected = states.get(Math.max(...ends.filter((end) => end <= length)));
    expect(stateOf(torn)).toEqual(expected);
    await torn.accept(operation("z"));
    await torn.close();
    expect((await reopened({ now: () => 1 })).entries.map(({ op }) => op)).toContain("z");
  }
});

it("cuts off a torn end of zeros", async () => {
  const journal = await Journal.open(path);
  await journal.accept(operation("a"));
  await journal.close();
  writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.alloc(5_000)]));
  const cut = await Journal.open(path);
  expect(cut.entries()).toMatchObject([{ op: "a" }]);
  await cut.accept(operation("b"));
  await cut.close();
  expect((await reopened()).entries).toMatchObject([{ op: "a" }, { op: "b" }]);
});

it("reports the line of other damage and changes nothing", async () => {
  const journal = await Journal.open(path);
  for (const op of ["a", "b", "c"]) await journal.accept(operation(op));
  await journal.close();
  const damaged = readFileSync(path, "utf8").replace('"op":"b"', '"op":7  ');
  writeFileSync(path, damaged);
  await expect(Journal.open(path)).rejects.toThrow(`line 2 of ${path} is damaged`);
  expect(readFileSync(path, "utf8")).toBe(damaged);
});

it("has concurrent operations on disk when their promises resolve", async () => {
  const journal = await Journal.open(path);
  const ops = Array.from({ length: 200 }, (_, number) => `op-${number}`);
  await Promise.all(
    ops.map(async (op) => {
      await journal.accept(operation(op));
      expect(readFileSync(path, "utf8")).toContain(`"${op}"`);
    }),
  );
  await journal.close();
  expect((await reopened()).entries.map(({ op }) => op)).toEqual(ops);
});

it("keeps the highest accepted generation as fence after its operations are dropped", async () => {
  const journal = await Journal.open(path);
  await journal.accept(operation("a", { gen: 7 }));
  await journal.accept(operation("b", { gen: 4 }));
  for (const op of ["a", "b"]) await journal.drop(op);
  expect(journal.fence("k")).toBe(7);
  expect(journal.fence("never")).toBe(0);
  await journal.close();
  expect((await reopened()).fences).toEqual([7, 0]);
});

it("compacts the file without losing state", async () => {
  const journal = await Journal.open(path, { compactAbove: 4_000 });
  await journal.accept(operation("kept", { key: "m" }));
  await journal.end("kept", failed);
  await journal.accept(operation("deleted", { key: "l", gen: 9 }));
  await journal.drop("deleted");
  for (let number = 0; number < 500; number++) {
    await journal.accept(operation(`op-${number}`, { gen: number + 1 }));
    await journal.end(`op-${number}`, worked);
    await journal.drop(`op-${number}`);
    expect(statSync(path).size).toBeLessThan(6_000);
  }
  const before = stateOf(journal);
  await journal.close();
  expect(await reopened()).toEqual(before);
  expect(before).toMatchObject({ entries: [{ op: "kept", ended: { ending: failed } }], fences: [500, 9] });
});

it("keeps results for a day, open operations without limit and fences for thirty days after use", async () => {
  let now = 0;
  const day = 24 * 3_600_000;
  const journal = await Journal.open(path, { now: () => now, compactAbove: 0 });
  await journal.accept(operation("ended"));
  await journal.accept(operation("cut-off", { key: "l", gen: 5 }));
  await journal.end("ended", worked);
  now = day - 1;
  expect(journal.entries().map(({ op }) => op)).toEqual(["ended", "cut-off"]);
  now = day;
  expect(journal.entries().map(({ op }) => op)).toEqual(["cut-off"]);
  now = 30 * day - 1;
  journal.entries();
  expect(journal.fence("k")).toBe(1);
  now = 31 * day;
  journal.entries();
  expect(["k", "l"].map((key) => journal.fence(key))).toEqual([0, 5]);
  await journal.close();
});

it("keeps a result for a day after completion, independent of the duration", async () => {
  let now = 0;
  const journal = await Journal.open(path, { now: () => now });
  await journal.accept(operation("slow"));
  now = 20 * 3_600_000;
  await journal.end("slow", worked);
  now = 43 * 3_600_000;
  expect(journal.entries()).toHaveLength(1);
  now = 44 * 3_600_000;
  expect(journal.entries()).toEqual([]);
  await journal.close();
});

it("keeps the newest 1,000 results", async () => {
  const journal = await Journal.open(path);
  const ops = Array.from({ length: 1_010 }, (_, number) => `op-${number}`);
  await Promise.all(ops.map((op) => journal.accept(operation(op))));
  await Promise.all(ops.map((op) => journal.end(op, worked)));
  expect(journal.entries().map(({ op }) => op)).toEqual(ops.slice(10));
  await journal.close();
});

it("has no publish context on disk, also of an earlier release, and keeps its operation for a repetition", async () => {
  const attached: Ending = { ok: true, result: { publishContext: { token: "canary" } }, ms: 5 };
  const onDisk = () => readFileSync(path, "utf8");
  const journal = await Journal.open(path, { compactAbove: 0 });
  await journal.accept(operation("a"));
  await journal.end("a", attached);
  expect(journal.get("a")?.ended?.ending).toEqual(attached);
  await journal.accept(operation("b", { key: "l" }));
  expect(onDisk()).not.toContain("canary");
  await journal.close();
  const at = Date.now();
  const lines = [
    { r: "accepted", at, ...operation("c", { key: "m" }), params: { publishContext: { token: "canary" } } },
    { r: "ended", at, op: "b", ending: attached },
  ];
  appendFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const next = await Journal.open(path);
  expect(onDisk()).not.toContain("canary");
  expect(next.entries().map(({ op, secret, ended }) => [op, secret, ended])).toEqual([
    ["a", false, undefined],
    ["b", false, undefined],
    ["c", true, undefined],
  ]);
  await next.close();
});

it("is readable by its owner only", async () => {
  await (await Journal.open(path)).close();
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

it("refuses partially written lines and removes their remains", async () => {
  const journal = await Journal.open(path);
  await journal.accept(operation("a"));
  const handle = await open(path);
  const files = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const before = readFileSync(path, "utf8");
  const refuse = async (...ops: string[]) => {
    vi.spyOn(files, "datasync").mockRejectedValueOnce(new Error("EIO"));
    const refused = ops.map((op) => journal.accept(operation(op)));
    for (const promise of refused) await expect(promise).rejects.toThrow("EIO");
    for (const op of ops) expect(journal.get(op)).toBeUndefined();
  };
  await refuse("b", "c");
  expect(readFileSync(path, "utf8")).toBe(before);
  // The truncation fails as well; it is repeated before the next line.
  vi.spyOn(files, "truncate").mockRejectedValueOnce(new Error("EIO"));
  await refuse("b", "c");
  expect(readFileSync(path, "utf8")).not.toBe(before);
  await journal.drop("a");
  await journal.close();
  expect((await reopened()).entries).toEqual([]);
  const again = await Journal.open(path);
  await again.accept(operation("d"));
  await again.close();
  expect((await reopened()).entries.map(({ op }) => op)).toEqual(["d"]);
});
