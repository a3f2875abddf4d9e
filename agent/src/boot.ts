import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

/** Identifies the current boot of the machine. */
export const BOOT_ID = bootId();

function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return randomUUID();
  }
}
