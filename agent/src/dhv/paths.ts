import { lstat, realpath, stat } from "node:fs/promises";
import { isAbsolute, normalize, relative } from "node:path";
import { fail, type Outcome, systemText } from "./outcome.ts";

const MAX_PATH_LENGTH = 4096;

/** The fault of an external path: it must be absolute, bounded, and free of `..` and control characters. */
export function pathFault(path: string): string | undefined {
  if (path.length > MAX_PATH_LENGTH) return `is longer than ${MAX_PATH_LENGTH} characters`;
  if (/\p{Cc}/u.test(path)) return "has control characters";
  if (!isAbsolute(path)) return "is not absolute";
  if (path.split("/").includes("..")) return 'has a ".." in it';
  return undefined;
}

/** Whether `path` lies below `root`, lexically. */
export function isBelow(root: string, path: string): boolean {
  const rest = relative(root, path);
  return rest !== "" && rest !== ".." && !rest.startsWith("../");
}

/** Whether the existing `path` lies below `root` after resolving symbolic links. @throws the system's error */
export async function isReallyBelow(root: string, path: string): Promise<boolean> {
  return isBelow(await realpath(root), await realpath(path));
}

/** lstat; undefined when nothing exists. */
export const lstatIfThere = (path: string) => lstat(path).catch(unlessMissing);

function unlessMissing(failure: NodeJS.ErrnoException): undefined {
  if (failure.code !== "ENOENT") throw failure;
}

/**
 * Checks a directory for registration: it must lie below a configured root, both lexically (so that messages reveal
 * nothing else about the machine) and with symbolic links resolved.
 */
export async function checkRegistered(roots: readonly string[], path: string): Promise<Outcome> {
  const fault = pathFault(path);
  if (fault !== undefined) return fail("invalid", `the path ${fault}`);
  const outside = fail("forbidden", "the path is not below a directory that this node allows for registered volumes");
  const normal = normalize(path);
  const candidates = roots.filter((root) => isBelow(root, normal));
  if (candidates.length === 0) return outside;
  try {
    for (const root of candidates) {
      if (!(await isReallyBelow(root, normal))) continue;
      return (await stat(normal)).isDirectory() ? { ok: true } : fail("invalid", "the path is not a directory");
    }
  } catch (failure) {
    return fail("missing", systemText(failure));
  }
  return outside;
}
