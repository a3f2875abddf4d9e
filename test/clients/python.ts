import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Step, stepsOf } from "./steps.ts";

const INSTALL_MS = 400_000;
const FLOW_MS = 120_000;

/**
 * Makes a Python environment. The pip of the machine installs into it where it can: a copy of pip in each environment
 * takes 5 s of processor time. @returns the command `pip` for the environment; null when there is no python3 with venv
 */
export function pythonEnvironment(dir: string): readonly string[] | null {
  const python = join(dir, "bin/python");
  const succeeds = (...args: string[]): boolean => spawnSync("python3", args, { encoding: "utf8" }).status === 0;
  if (succeeds("-m", "venv", "--without-pip", dir) && succeeds("-m", "pip", "--python", python, "--version"))
    return ["python3", "-m", "pip", "--python", python];
  return succeeds("-m", "venv", "--clear", dir) ? [join(dir, "bin/pip")] : null;
}

/** Runs pip. @returns whether it has succeeded within the time */
export function runsPip(
  [program = "", ...first]: readonly string[],
  args: readonly string[],
  timeout: number,
): boolean {
  return spawnSync(program, [...first, ...args], { encoding: "utf8", timeout }).status === 0;
}

/**
 * A package from PyPI for the long run, kept in the cache folder of the user. Modules in `dir` are found by
 * `PYTHONPATH`. `missing` is why it is not there; null when it is.
 */
export function pythonPackage(requirement: string): { readonly dir: string; readonly missing: string | null } {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const dir = join(cache, "sallyport-clients", requirement.replaceAll(/[^\w.]+/g, "-"));
  return { dir, missing: existsSync(dir) ? null : installPackage(requirement, dir) };
}

function installPackage(requirement: string, dir: string): string | null {
  if (process.env["LONG_TESTS"] !== "1") return "npm run test:long installs it";
  const python = mkdtempSync(join(tmpdir(), "sallyport-pip-"));
  const partial = `${dir}.${process.pid}`;
  try {
    const pip = pythonEnvironment(python);
    if (pip === null) return "there is no python3 with venv";
    mkdirSync(partial, { recursive: true });
    const args = ["install", "--quiet", "--retries", "0", "--timeout", "60", "--target", partial, requirement];
    if (!runsPip(pip, args, INSTALL_MS)) return "pip cannot install it";
    renameSync(partial, dir);
    return null;
  } finally {
    for (const each of [python, partial]) rmSync(each, { recursive: true, force: true });
  }
}

/** A separate Python environment with the clients of `requirements.txt`. */
export class PythonClients {
  readonly #dir = mkdtempSync(join(tmpdir(), "sallyport-python-"));

  /** Installs the clients. @returns why they cannot be installed on this machine; null when they are */
  install(): string | null {
    const pip = pythonEnvironment(this.#dir);
    if (pip === null) return "there is no python3 with venv";
    const requirements = resolve("test/clients/requirements.txt");
    const args = ["install", "--quiet", "--retries", "0", "--timeout", "20", "-r", requirements];
    return runsPip(pip, args, INSTALL_MS) ? null : "pip cannot install the clients";
  }

  /** Runs a flow against a service. @throws Error when the flow itself fails */
  run(flow: string, address: string, token: string): Promise<Step[]> {
    return stepsOf(join(this.#dir, "bin/python"), [resolve("test/clients", flow), address, token], FLOW_MS);
  }

  remove(): void {
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
