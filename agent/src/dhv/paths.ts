import { lstat, realpath, stat } from "node:fs/promises";
import { isAbsolute, normalize, relative } from "node:path";
import { fail, type Outcome, systemText } from "./outcome.ts";

const LONGEST_PATH = 4096;

/** Which rule of a path that comes from outside is broken: absolute, no `..`, no control characters, bounded. */
export function pathFault(path: string): string | undefined {
  if (path.length > LONGEST_PATH) return `is longer than ${LONGEST_PATH} characters`;
  if (/\p{Cc}/u.test(path)) return "has control characters";
  if (!isAbsolute(path)) return "is not absolute";
  if (path.split("/").includes("..")) return 'has a ".." in it';
  return undefined;
}

/** Whether `path` lies below `root`, as both are written. */
export function isBelow(root: string, path: string): boolean {
  const rest = relative(root, path);
  return rest !== "" && rest !== ".." && !rest.startsWith("../");
}

/** Whether `path`, which must be there, lies below `root` once all links are followed. Throws what the system says. */
export async function isReallyBelow(root: string, path: string): Promise<boolean> {
  return isBelow(await realpath(root), await realpath(path));
}

/** What `path` itself is, links not followed; undefined when there is nothing. */
export const lstatIfThere = (path: string) => lstat(path).catch(unlessMissing);

function unlessMissing(failure: NodeJS.ErrnoException): undefined {
  if (failure.code !== "ENOENT") throw failure;
}

/**
 * Whether a directory that somebody else made may be a volume: it must lie in one of the configured roots, as written
 * (so that answers say nothing about the rest of the machine) and with all links followed.
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
