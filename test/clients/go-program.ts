import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";

const BUILD_MS = 1_500_000;

/** A program that is built from its Go modules once for each version of them, outside the checkout. */
export interface GoProgram {
  readonly path: string;
  /** Why it is not there; null when it is. */
  readonly missing: string | null;
}

/** Vault with upstream's build tag `minimal`: KV, PKI, SSH and transit, the common logins, and every command. */
export const vaultProgram = (): GoProgram => goProgram("vault", "vault", "github.com/hashicorp/vault", "minimal");

/**
 * Builds a program unless it is built.
 * @param sources the folder of its go.mod and go.sum below test/clients
 * @param target the package that `go build` builds there
 */
export function goProgram(sources: string, name: string, target = ".", tags = ""): GoProgram {
  const folder = resolve("test/clients", sources);
  const hash = createHash("sha256").update(tags);
  for (const file of ["go.sum", "main.go"].map((each) => join(folder, each)))
    if (existsSync(file)) hash.update(readFileSync(file));
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const dir = join(cache, "sallyport-clients", `${name}-${hash.digest("hex").slice(0, 16)}`);
  const path = join(dir, name);
  return { path, missing: build(folder, ["-tags", tags, target], dir, path) };
}

/** Builds a program in a folder with its go.mod. */
export function builtFrom(folder: string, path: string, ...args: readonly string[]): GoProgram {
  const command = ["go", "build", "-o", path, ...(args.length > 0 ? args : ["."])];
  const { status } = spawnSync("nice", command, { cwd: folder, timeout: BUILD_MS });
  return { path, missing: status === 0 ? null : "it cannot be built" };
}

function build(folder: string, args: readonly string[], dir: string, path: string): string | null {
  if (process.env["LONG_TESTS"] !== "1") return "npm run test:long tries it";
  if (existsSync(path)) return null;
  if (spawnSync("go", ["version"]).error) return "there is no go to build it";
  mkdirSync(dir, { recursive: true });
  const options = { cwd: folder, timeout: BUILD_MS, env: { ...process.env, GOFLAGS: "-p=1" } };
  const built: SpawnSyncReturns<Buffer> = spawnSync("nice", ["go", "build", "-o", path, ...args], options);
  return built.status === 0 ? null : "it cannot be built";
}
