import { mkdirSync, mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import * as z from "zod";
import { pageOf } from "./pages.ts";
import { Scratch } from "./scratch.ts";
import { Shelf } from "./shelf.ts";

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

async function shelf() {
  const root = mkdtempSync(join(tmpdir(), "shelf-"));
  roots.push(root);
  const scratch = new Scratch(root);
  await scratch.prepare();
  const options = { root, kind: "volumes", prefix: "vol", scratch, step: async () => {} } as const;
  const made = new Shelf({ ...options, schema: z.object({ id: z.string(), name: z.string() }) });
  await made.prepare();
  const add = async (name: string) => made.add({ id: await made.idFor(name), name }, async () => {});
  /** Sets the directory's modification time `seconds` into the past. */
  const age = (seconds: number) => {
    const time = Date.now() / 1000 - seconds;
    utimesSync(join(root, "volumes"), time, time);
  };
  return { made, add, age, root };
}

it("reads the directory only after a change", async () => {
  const { made, add, age } = await shelf();
  await add("a");
  age(60);
  const first = await made.ids();
  expect(await made.ids()).toBe(first);
  await add("b");
  expect(await made.ids()).toHaveLength(2);
});

it("does not cache a directory that changed within the last clock tick", async () => {
  const { made, add, age, root } = await shelf();
  await add("a");
  age(0);
  await made.ids();
  mkdirSync(join(root, "volumes", "vol-00000000000-00000000"));
  age(0);
  expect(await made.ids()).toHaveLength(2);
});

it("finds the start of a page after a token, also after its volume was deleted", async () => {
  const { made, add } = await shelf();
  for (const name of ["a", "b", "c", "d", "e"]) await add(name);
  const page = (startingToken: string) => pageOf(made, { maxEntries: 2, startingToken }, 0);
  const names: string[] = [];
  let token = "";
  do {
    const { entries, nextToken } = await page(token);
    names.push(...entries.map(({ name }) => name));
    const last = entries.at(-1);
    if (names.length === 2 && last) await made.remove(last);
    token = nextToken;
  } while (token !== "");
  expect(names).toEqual(["a", "b", "c", "d", "e"]);
});
