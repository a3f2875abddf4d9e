import { expect, it } from "vitest";
import * as z from "zod";
import { respelt, spelling } from "./spelling.ts";

const Inner = z.strictObject({ FSType: z.string() });
const by = spelling(z.strictObject({ Name: z.string(), MountOptions: Inner }), { MountOptions: spelling(Inner) });

it("accepts every spelling of a field, also in nested objects", () => {
  const guesses = { warnings: [], faults: [] };
  expect(respelt({ name: "a", mount_options: { fstype: "ext4" } }, by, "", guesses)).toEqual({
    Name: "a",
    MountOptions: { FSType: "ext4" },
  });
  expect(guesses).toEqual({ warnings: ["mount_options was read as MountOptions"], faults: [] });
});

it.each(["constructor", "__proto__", "toString", "hasOwnProperty"])("keeps a field named %s", (field) => {
  const given = JSON.parse(`{"${field}":{"FSType":"ext4"}}`);
  const read = respelt(given, by, "", { warnings: [], faults: [] }) as object;
  expect(JSON.stringify(read)).toBe(JSON.stringify(given));
});
