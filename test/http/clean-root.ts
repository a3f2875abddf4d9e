import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterTest } from "./agent-service.ts";

/* A root file system with a shell, a few programs and their libraries: as on a new machine, and without Node. */

const PROGRAMS = [
  "sh",
  "cat",
  "chgrp",
  "chmod",
  "chown",
  "cp",
  "curl",
  "getent",
  "groupadd",
  "gzip",
  "id",
  "mkdir",
  "mktemp",
  "mv",
  "rm",
  "sed",
  "setpriv",
  "sha256sum",
  "tar",
  "uname",
  "useradd",
] as const;

const pathOf = (program: string): string | undefined => {
  const { stdout } = spawnSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" });
  return stdout.trim() || undefined;
};

/** Why there can be no clean root here; undefined when there can. */
export function obstacle(): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "root on Linux is needed";
  const missing = [...PROGRAMS, "ldd", "unshare", "chroot", "mount"].filter((program) => !pathOf(program));
  if (missing.length > 0) return `${missing.join(", ")} not found`;
  const { status } = spawnSync("unshare", ["--mount", "mount", "-t", "tmpfs", "none", "/mnt"], { stdio: "ignore" });
  return status === 0 ? undefined : "mounts are not permitted";
}

export class CleanRoot {
  readonly path = mkdtempSync(join(tmpdir(), "clean-root-"));

  constructor() {
    afterTest(() => rmSync(this.path, { recursive: true, force: true }));
    chmodSync(this.path, 0o755);
    for (const directory of ["dev", "proc", "etc", "tmp", "run", "var/lib", "root"])
      mkdirSync(this.at(directory), { recursive: true });
    for (const directory of ["bin", "sbin", "lib", "lib64"]) {
      mkdirSync(this.at(`usr/${directory}`), { recursive: true });
      symlinkSync(`usr/${directory}`, this.at(directory));
    }
    writeFileSync(this.at("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
    writeFileSync(this.at("etc/group"), "root:x:0:\n");
    writeFileSync(this.at("etc/hosts"), "127.0.0.1 localhost\n");
    for (const name of PROGRAMS) this.#add(pathOf(name) ?? "");
    // Libraries that any program of a distribution has; Node itself is left out.
    this.#add(process.execPath, false);
  }

  at(path: string): string {
    return join(this.path, path);
  }

  has(path: string): boolean {
    return existsSync(this.at(path));
  }

  #add(program: string, itself = true): void {
    const libraries = spawnSync("ldd", [program], { encoding: "utf8" }).stdout.match(/\/[^\s)]+(?= \(0x)/g) ?? [];
    for (const path of itself ? [program, ...libraries] : libraries) {
      if (this.has(path)) continue;
      mkdirSync(dirname(this.at(path)), { recursive: true });
      copyFileSync(path, this.at(path));
    }
  }

  /** A command in the root, as root, with nothing of this process's environment. */
  #command(env: Readonly<Record<string, string>>, command: readonly string[]) {
    const inside = 'mount --bind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"';
    const args = ["--mount", "sh", "-c", inside, this.path, ...command];
    return { args, env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ...env } };
  }

  run(command: readonly string[], env: Readonly<Record<string, string>> = {}, input = "") {
    const { args, env: all } = this.#command(env, command);
    const child = spawn("unshare", args, { env: all, stdio: ["pipe", "pipe", "pipe"] });
    child.stdin.on("error", () => {}).end(input);
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (bytes) => {
        text += bytes;
      });
    return new Promise<{ status: number | null; text: string }>((resolve) =>
      child.on("close", (status) => resolve({ status, text })),
    );
  }

  /** A program that runs until the end of the test. */
  start(
    command: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): { child: ChildProcess; log: () => string } {
    const { args, env: all } = this.#command(env, command);
    const child = spawn("unshare", args, { env: all, stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (bytes) => {
        log += bytes;
      });
    const ended = new Promise((resolve) => child.on("close", resolve));
    afterTest(async () => {
      child.kill("SIGKILL");
      await ended;
    });
    return { child, log: () => log };
  }
}

export const isInstalled = (program: string): boolean => pathOf(program) !== undefined;
export const output = (program: string, args: readonly string[]): string =>
  execFileSync(program, [...args], { encoding: "utf8" });
