import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { mountPoints, placeOf } from "./mount-table.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "mount-table-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

it("reads the mount points of the kernel's table, with its escapes", async () => {
  const table = join(directory, "mountinfo");
  writeFileSync(
    table,
    `36 35 98:0 /mnt1 /mnt/a rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 35 98:0 / /mnt/with\\040space\\011tab\\134back rw - ext3 /dev/sda rw
`,
  );
  const points = await mountPoints(table);
  expect([...points].filter((path) => path !== "")).toEqual(["/mnt/a", "/mnt/with space\ttab\\back"]);
  expect(await mountPoints(join(directory, "none"))).toEqual(new Set([""]));
});

it("tells a mount from a directory at the same path, which it does not open", async () => {
  const path = join(directory, "target");
  mkdirSync(path);
  expect(await placeOf(path, new Set([path]))).toBe("mount");
  // Unmounted: the directory below the mount is there again.
  expect(await placeOf(path, new Set())).toBe("other");
  rmSync(path, { recursive: true });
  expect(await placeOf(path, new Set())).toBe("none");
  symlinkSync("/nowhere", path);
  expect(await placeOf(path, new Set())).toBe("link");
  // Of a path that cannot be looked at, such as hung storage, the table is enough.
  expect(await placeOf("/proc/self/none/x", new Set(["/proc/self/none/x"]))).toBe("mount");
});
