import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Step, stepsOf } from "./steps.ts";

const INSTALL_MS = 400_000;
const FLOW_MS = 120_000;
export const REQUIREMENTS = "test/clients/requirements.txt";
export const QUIET = ["--quiet", "--retries", "0", "--timeout", "20"] as const;

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

/** A folder for packages in the cache folder of the user. */
const keptDir = (name: string): string =>
  join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "sallyport-clients", name);

/**
 * A package from PyPI for the long run, kept in the cache folder of the user. Modules in `dir` are found by
 * `PYTHONPATH`. `missing` is why it is not there; null when it is.
 */
export function pythonPackage(requirement: string): { readonly dir: string; readonly missing: string | null } {
  const dir = keptDir(requirement.replaceAll(/[^\w.]+/g, "-"));
  return { dir, missing: existsSync(dir) ? null : installPackage(requirement, dir) };
}

/**
 * A Python environment with the packages of these files, kept in the cache folder of the user until a file or the
 * version of Python changes: to install one takes up to 20 s of processor time. `missing` is why it is not there.
 * @param complete adds to `dir`, whose environment is in `venv`, and returns why that fails
 */
export function keptEnvironment(
  name: string,
  requirements: readonly string[],
  complete: (dir: string, pip: readonly string[]) => string | null = () => null,
): { readonly dir: string; readonly missing: string | null } {
  const version = spawnSync("python3", ["-VV"], { encoding: "utf8" }).stdout;
  const hash = createHash("sha256").update(String(version));
  for (const file of requirements) hash.update(readFileSync(file));
  const dir = keptDir(`${name}-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(dir)) return { dir, missing: null };
  const partial = `${dir}.${process.pid}`;
  try {
    const pip = pythonEnvironment(join(partial, "venv"));
    if (pip === null) return { dir, missing: "there is no python3 with venv" };
    const args = ["install", ...QUIET, ...requirements.flatMap((file) => ["-r", resolve(file)])];
    const missing = runsPip(pip, args, INSTALL_MS) ? complete(partial, pip) : "pip cannot install the clients";
    // Programs of the environment name its path; its Python does not.
    if (missing === null) renameSync(partial, dir);
    return { dir, missing };
  } catch (failure) {
    // Another run has installed it.
    if (existsSync(dir)) return { dir, missing: null };
    throw failure;
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
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

/** A Python environment with the clients of `requirements.txt`. */
export class PythonClients {
  readonly #kept = keptEnvironment("clients", [REQUIREMENTS]);

  /** Why they cannot be installed on this machine; null when they are. */
  get missing(): string | null {
    return this.#kept.missing;
  }

  /** Runs a flow against a service. @throws Error when the flow itself fails */
  run(flow: string, address: string, token: string): Promise<Step[]> {
    const python = join(this.#kept.dir, "venv/bin/python");
    return stepsOf(python, [resolve("test/clients", flow), address, token], FLOW_MS);
  }
}
