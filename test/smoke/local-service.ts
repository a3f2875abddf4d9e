/** `npm start` as a user runs it: in a separate directory, with a separate environment. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, delimiter, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readTour } from "../../scripts/tour.ts";
import { outputsOf, type Shown, shownIn } from "./readme.ts";

const READY_MS = 300_000;
const GONE_MS = 60_000;

/** The working tree without what git ignores, and with the packages that are installed already. Needs no git. */
export function cloneOfWorkingTree(): string {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-smoke-"));
  const ignored = [".git", ...readFileSync(".gitignore", "utf8").split("\n").filter(Boolean)];
  const isIgnored = (name: string) =>
    ignored.some((pattern) =>
      pattern.startsWith("*") ? name.endsWith(pattern.slice(1)) : name === pattern.replace(/\/$/, ""),
    );
  cpSync(".", dir, { recursive: true, filter: (path) => !isIgnored(basename(path)) });
  symlinkSync(resolve("node_modules"), join(dir, "node_modules"));
  return dir;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

export class LocalService {
  readonly port: number;
  readonly #dir: string;
  readonly #npm: ChildProcess;
  readonly #exit: Promise<number | null>;
  /** Every process that comes from this start carries it in its environment. */
  readonly #mark = randomUUID();
  #output = "";

  constructor(dir: string, port: number, settings: Record<string, string> = {}) {
    this.port = port;
    this.#dir = dir;
    this.#npm = spawn("npm", ["start"], {
      cwd: dir,
      // A separate process group, as in a terminal: a signal to the group is Ctrl-C.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...cleanEnvironment(), PORT: String(port), STATE_DIR: "state", SMOKE_MARK: this.#mark, ...settings },
    });
    for (const stream of [this.#npm.stdout, this.#npm.stderr]) stream?.on("data", (bytes) => (this.#output += bytes));
    this.#exit = once(this.#npm, "close").then(([code]) => code as number | null);
  }

  get output(): string {
    return this.#output;
  }

  get exit(): Promise<number | null> {
    return this.#exit;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get token(): string {
    return /^Root token: (\S+)$/m.exec(this.#output)?.[1] ?? "";
  }

  async ready(): Promise<this> {
    const deadline = Date.now() + READY_MS;
    while (!this.token) {
      if (this.#npm.exitCode !== null || Date.now() > deadline)
        throw new Error(`npm start is not ready:\n${this.#output}`);
      await sleep(20);
    }
    return this;
  }

  /** Ids of the nodes that it runs agents for, ready or not. */
  get nodes(): string[] {
    return [...this.#output.matchAll(/^Node: +(\S+) /gm)].map(([, id = ""]) => id);
  }

  /** The environment of a terminal with the banner's variables. */
  #terminal(): Record<string, string | undefined> {
    const lines = [...this.#output.matchAll(/^export (.*)$/gm)].map(([, line = ""]) => line);
    const exported = lines.flatMap((line) =>
      [...line.matchAll(/([A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name, value]),
    );
    return { ...cleanEnvironment(), ...Object.fromEntries(exported) };
  }

  /** The output of a shell command run with the banner's variables. */
  async shell(command: string): Promise<string> {
    const child = spawn("bash", ["-c", command], { env: this.#terminal(), stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (bytes) => (stdout += bytes));
    child.stderr.on("data", (bytes) => (stderr += bytes));
    const [code] = await once(child, "close");
    if (code !== 0) throw new Error(`${command}\nended with ${code}: ${stderr}${stdout}`);
    return stdout;
  }

  /** The output of each of a page's commands, in one shell as a reader would paste them. Stops at the first failure. */
  async session(shown: readonly Shown[]): Promise<string[]> {
    const shell = spawn("bash", [], { cwd: this.#dir, env: this.#terminal(), stdio: ["pipe", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    shell.stdout.on("data", (bytes) => (stdout += bytes));
    shell.stderr.on("data", (bytes) => (stderr += bytes));
    const run = async (command: string): Promise<string> => {
      stdout = "";
      shell.stdin.write(`{ ${command}\n} </dev/null\nprintf '\\036%s\\036' $?\n`);
      for (;;) {
        const [, printed = "", code] = /^([^\x1e]*)\x1e(\d+)\x1e$/.exec(stdout) ?? [];
        if (code === "0") return printed;
        if (code !== undefined || shell.exitCode !== null)
          throw new Error(`${command}\nended with ${code ?? shell.exitCode}: ${stderr}${stdout}`);
        await sleep(5);
      }
    };
    try {
      return await outputsOf(shown, run);
    } finally {
      shell.kill();
    }
  }

  /** The outputs of the commands of `seeds/tour.json`, one after another. */
  async tour(): Promise<string[]> {
    const shown = shownIn(join(this.#dir, "README.md"), "Tour");
    const tour = readTour(this.#dir).map(({ command }) => ({
      command,
      output: shown.find((each) => each.command === command)?.output ?? "",
    }));
    return outputsOf(tour, (command) => this.shell(command));
  }

  signal(signal: "SIGINT" | "SIGTERM" | "SIGKILL", whom: "group" | "npm" = "group"): void {
    const pid = Number(this.#npm.pid);
    process.kill(whom === "group" ? -pid : pid, signal);
  }

  /** Waits until nothing is left of it. Answers what still is when the time is up. */
  async remains(): Promise<string[]> {
    const deadline = Date.now() + GONE_MS;
    for (;;) {
      const left = this.commandLines();
      if (await accepts(this.port)) left.push(`something listens on port ${this.port}`);
      if (left.length === 0 || Date.now() > deadline) return left;
      await sleep(50);
    }
  }

  /** Command lines of all its processes, as visible to any user. Linux only; elsewhere none. */
  commandLines(): string[] {
    return this.#processes().map(({ commandLine }) => commandLine);
  }

  /** Kills those of its processes whose command line has this in it, as the system does when memory is short. */
  kill(part = "", signal: "SIGKILL" | "SIGSTOP" = "SIGKILL"): number[] {
    const found = this.pids(part);
    for (const pid of found) send(pid, signal);
    return found;
  }

  /** Of its processes whose command line has this in it. */
  pids(part: string): number[] {
    return this.#processes()
      .filter(({ commandLine }) => commandLine.includes(part))
      .map(({ pid }) => pid);
  }

  #processes(): Array<{ pid: number; commandLine: string }> {
    if (!existsSync("/proc")) return [];
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && read(`/proc/${name}/environ`).includes(`SMOKE_MARK=${this.#mark}`))
      .map((name) => ({ pid: Number(name), commandLine: read(`/proc/${name}/cmdline`).replaceAll("\0", " ") }));
  }
}

export function remove(dir: string): void {
  rmSync(dir, { recursive: true, force: true });
}

/**
 * Without what `npm test` and vitest have added, so that nothing works only because of them. The cache of compiled code
 * changes no result.
 */
function cleanEnvironment(): Record<string, string | undefined> {
  const { HOME, LANG, NODE_COMPILE_CACHE, PATH = "" } = process.env;
  return {
    HOME,
    LANG,
    NODE_COMPILE_CACHE,
    PATH: PATH.split(delimiter)
      .filter((entry) => !entry.includes("node_modules"))
      .join(delimiter),
  };
}

function send(pid: number, signal: "SIGKILL" | "SIGSTOP"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Empty when the process has exited or belongs to another user. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
