import { lstat, readFile } from "node:fs/promises";
import { codeOf } from "../log.ts";

/** The kinds of files that plugins publish a volume as: a mount, a link, another file, or none. */
export const PLACES = ["mount", "link", "other", "none"] as const;
export type Place = (typeof PLACES)[number];

const TABLE = "/proc/self/mountinfo";

/** The mount points of this machine. Read as text: a call on a mount point may hang with its storage. */
export async function mountPoints(path = TABLE): Promise<ReadonlySet<string>> {
  const table = await readFile(path, "utf8").catch(() => "");
  return new Set(table.split("\n").map((line) => unescaped(line.split(" ")[4] ?? "")));
}

export async function placeOf(path: string, mounts?: ReadonlySet<string>): Promise<Place> {
  if ((mounts ?? (await mountPoints())).has(path)) return "mount";
  try {
    return (await lstat(path)).isSymbolicLink() ? "link" : "other";
  } catch (failure) {
    if (codeOf(failure) === "ENOENT") return "none";
    throw failure;
  }
}

/** The table has spaces, tabs, line feeds and backslashes as three octal digits. */
const unescaped = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
