import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

const FETCH_MS = 300_000;
/** Why a client without a checkout is not tried. */
export const NO_SOURCE = "npm run test:long tries it, where its repository can be fetched";

/**
 * The source of a client that is in no package registry, fetched once at a fixed commit, outside the checkout.
 * @param repository of GitHub
 * @returns its folder; null when it cannot be fetched here
 */
export function sourceCheckout(repository: string, commit: string): string | null {
  if (process.env["LONG_TESTS"] !== "1") return null;
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const dir = join(cache, "sallyport-clients", `${repository.replace("/", "-")}-${commit.slice(0, 16)}`);
  if (existsSync(dir)) return dir;
  const partial = `${dir}.${process.pid}`;
  mkdirSync(partial, { recursive: true });
  const git = (...args: string[]): boolean =>
    spawnSync("git", ["-C", partial, ...args], {
      timeout: FETCH_MS,
      env: { ...process.env, GIT_TERMINAL_PROMPT: "0" },
    }).status === 0;
  const url = `https://github.com/${repository}.git`;
  const fetched =
    git("init", "-q") && git("fetch", "-q", "--depth=1", url, commit) && git("checkout", "-q", "FETCH_HEAD");
  if (fetched) renameSync(partial, dir);
  else rmSync(partial, { recursive: true, force: true });
  return fetched ? dir : null;
}
