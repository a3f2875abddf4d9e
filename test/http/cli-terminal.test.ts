import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { Service } from "./events-service.ts";
import { programOf } from "./prepared-program.ts";

/* The command line at a terminal: a pseudo-terminal of `script`, whose input is typed after each prompt. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-terminal-"));
const service = new Service({});

beforeAll(async () => {
  await service.create();
  await service.must("PUT", "/v1/sys/mounts/secret", { type: "kv", options: { version: "2" } });
  await service.must("POST", "/v1/sys/auth/userpass", { type: "userpass" });
  await service.must("POST", "/v1/auth/userpass/users/ann", { password: "correct-horse", token_policies: "default" });
}, 300_000);
afterAll(async () => {
  rmSync(dir, { recursive: true });
  await service.destroy();
});

class Terminal {
  readonly #child: ChildProcess;
  readonly #ended: Promise<number | null>;
  shown = "";

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    const words = [process.execPath, programOf("packages/cli/src/main.ts"), ...args];
    const line = `exec ${words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ")}`;
    this.#child = spawn("script", ["-qec", line, "/dev/null"], { env: { ...PROGRAM_ENV, SHELL: "/bin/sh", ...env } });
    this.#child.stdout?.on("data", (bytes) => (this.shown += bytes));
    this.#ended = new Promise((resolve) => this.#child.once("close", resolve));
  }

  /** Types after the text has appeared. */
  async type(after: string, keys: string): Promise<void> {
    await expect.poll(() => this.shown).toContain(after);
    this.#child.stdin?.write(keys);
  }

  async code(): Promise<number | null> {
    const code = await this.#ended;
    this.#child.stdin?.destroy();
    return code;
  }
}

const ENTER = "\r";
const CTRL_C = "\x03";
const CTRL_D = "\x04";
const CTRL_BACKSLASH = "\x1c";

const env = () => ({ HOME: dir, SALLYPORT_ADDR: service.base, SALLYPORT_TOKEN: "root" });
const program = (name: string, lines: string): string => {
  const path = join(dir, name);
  writeFileSync(path, lines);
  return path;
};

describe("login", () => {
  const without = () => ({ HOME: mkdtempSync(join(dir, "home-")) });
  const login = ["login", "--method", "userpass", "--address"];

  it("asks for name and password, and shows only the name", async () => {
    const home = without();
    const terminal = new Terminal([...login, service.base], home);
    await terminal.type("Name: ", `ann${ENTER}`);
    await terminal.type("Password: ", `correct-horse${ENTER}`);
    expect([await terminal.code(), terminal.shown]).toEqual([0, expect.stringContaining("as userpass-ann")]);
    expect(terminal.shown).toContain("ann");
    expect(terminal.shown).not.toContain("correct");
    expect(terminal.shown).not.toContain("horse");
    const stored = readFileSync(join(home.HOME, ".config/sallyport/logins.json"), "utf8");
    expect(stored).not.toContain("correct-horse");
  });

  it.each([
    ["Ctrl C", CTRL_C],
    ["Ctrl D", CTRL_D],
  ])("is cancelled by %s at the password", async (_, key) => {
    const terminal = new Terminal([...login, service.base, "--username", "ann"], without());
    await terminal.type("Password: ", key);
    expect([await terminal.code(), terminal.shown]).toEqual([2, expect.stringContaining("cancelled")]);
  });
});

describe("kv edit", () => {
  it("gives the terminal to the editor, and opens a text again that cannot be read", async () => {
    await service.must("POST", "/v1/secret/data/edited", { data: { a: "1" } });
    const editor = program(
      "editor.sh",
      `test -t 0 && test -t 1 || exit 1
printf 'value? '
read -r line
printf '%s\\n' "$line" > "$1"
`,
    );
    const terminal = new Terminal(["kv", "edit", "secret/edited"], { ...env(), EDITOR: `sh ${editor}` });
    await terminal.type("value? ", `a: [${ENTER}`);
    await terminal.type("opened again", `a: typed${ENTER}`);
    expect([await terminal.code(), terminal.shown]).toEqual([0, expect.stringContaining("secret/edited: version 2")]);
    expect((await service.must("GET", "/v1/secret/data/edited")).body.data.data).toEqual({ a: "typed" });
  });
});

describe("run", () => {
  it.each([
    ["Ctrl C", CTRL_C, "INT"],
    ["Ctrl \\", CTRL_BACKSLASH, "QUIT"],
  ])("gives the terminal to the program, which gets %s once and sets the exit code", async (_, key, signal) => {
    await service.must("POST", "/v1/secret/data/ran", { data: { KEY: "v" } });
    const path = program(
      `${signal}.cjs`,
      `let times = 0;
process.on("SIG${signal}", () => { times += 1; });
setInterval(() => times > 0 && setTimeout(() => { console.log("times=" + times); process.exit(7); }, 300), 50);
console.log(process.stdin.isTTY && process.stdout.isTTY ? "started " + process.env.KEY : "no terminal");
`,
    );
    const terminal = new Terminal(["run", "--path", "secret/ran", "--", process.execPath, path], env());
    await terminal.type("started v", key);
    expect([await terminal.code(), terminal.shown]).toEqual([7, expect.stringContaining("times=1")]);
  });
});
