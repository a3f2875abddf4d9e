import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { freeBytes } from "./disk.ts";

/** Linux mounts an in-memory file system here. */
const MEMORY_DISK = "/dev/shm";
/** A whole run needs a few hundred megabytes at once. */
const ROOM_BYTES = 2 * 2 ** 30;

/**
 * Directs temporary files of this process and its children to memory until the process exits, where the machine has
 * room. Every storage of a test is a file that is synchronized after each write: on a disk, tests mostly wait for that.
 */
export function keepTemporaryFilesInMemory(): void {
  if (process.env["TMPDIR"]?.startsWith(MEMORY_DISK) || !hasRoom()) return;
  const dir = mkdtempSync(join(MEMORY_DISK, "sallyport-test-"));
  // Some tests run programs as another user, who must pass this directory.
  chmodSync(dir, 0o711);
  process.env["TMPDIR"] = dir;
  process.once("exit", () => rmSync(dir, { recursive: true, force: true, maxRetries: 3 }));
}

function hasRoom(): boolean {
  // 0 or more than the machine has: no limit.
  const memory = Math.min(totalmem(), process.constrainedMemory() || totalmem());
  try {
    return memory >= 3 * ROOM_BYTES && freeBytes(MEMORY_DISK) >= ROOM_BYTES;
  } catch {
    return false;
  }
}
