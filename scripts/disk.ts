/** Free space of a disk. */
import { rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A write of a megabyte and its journal. */
const ROOM_BYTES = 4 * 1024 * 1024;
const PROBE_BYTES = 64 * 1024;
const FULL = new Set(["ENOSPC", "EDQUOT", "EROFS"]);

export function freeBytes(dir: string): number {
  const { bavail, bsize } = statfsSync(dir);
  return bavail * bsize;
}

/** Whether data in `dir` cannot grow. Writes a small file, because only a write reveals a quota. */
export function isFull(dir: string): boolean {
  const probe = join(dir, `room-${process.pid}`);
  try {
    if (freeBytes(dir) < ROOM_BYTES) return true;
    writeFileSync(probe, Buffer.alloc(PROBE_BYTES));
    return false;
  } catch (failure) {
    return failure instanceof Error && "code" in failure && FULL.has(String(failure.code));
  } finally {
    rmSync(probe, { force: true });
  }
}
