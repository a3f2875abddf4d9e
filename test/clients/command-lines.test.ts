import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";
import { difference } from "./command-lines/compared.ts";
import { commandLines, runs } from "./command-lines/programs.ts";
import { reasonOf } from "./command-lines/reasons.ts";

/*
 * The command lines of OpenBao and Vault, unmodified: each command is run against the service and against the server of
 * the same program, and prints the same but for what `transcripts/commands-*.txt` shows. Every such difference has a
 * reason. Each file of commands has both servers for itself. Outside of the long run there is a short file only.
 */

const FILES = process.env["LONG_TESTS"] === "1" ? ["short", "kv", "access", "system"] : ["short"];
/** Those that a server without namespaces, `SCAN`, check-and-set of metadata and Kubernetes answers otherwise. */
const ONLY_BAO = /namespace|NAMESPACE|scan|seal-status|members|key-status|metadata_cas|kubernetes|\bta\b/;
const SUITE_MS = 900_000;

const dir = mkdtempSync(join(tmpdir(), "sallyport-commands-"));
const servers: ChildProcess[] = [];
afterAll(() => {
  for (const server of servers) server.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

/** Starts the judge: the development server of the program itself, in memory. @returns its address */
async function judgeOf(program: string): Promise<string> {
  const listen = `127.0.0.1:${await freePort()}`;
  const home = mkdtempSync(join(dir, "server-"));
  const args = ["-dev", "-dev-root-token-id=root", "-dev-no-store-token", `-dev-listen-address=${listen}`];
  servers.push(spawn(program, ["server", ...args], { cwd: home, stdio: "ignore", env: { HOME: home } }));
  const address = `http://${listen}`;
  await expect
    .poll(
      () =>
        fetch(`${address}/v1/sys/health`).then(
          ({ status }) => status,
          () => 0,
        ),
      { timeout: 60_000 },
    )
    .toBe(200);
  return address;
}

const commandsOf = (file: string, name: string): string[] =>
  readFileSync(`test/clients/command-lines/${file}.txt`, "utf8")
    .trim()
    .split("\n")
    .filter((command) => name === "bao" || !ONLY_BAO.test(command))
    .map((command) => (name === "bao" ? command : command.replace(/\bbao\b/g, name).replace(/\bBAO_/g, "VAULT_")));

for (const program of commandLines()) {
  const { name } = program;
  const missing = program.missing ?? (runs(program.path) ? null : "it does not run here");
  if (missing !== null) console.warn(`The command line ${name} is not tried: ${missing}.`);

  describe.runIf(missing === null)(`the command line ${name}`, () => {
    it.each(FILES)(
      "prints the same as with its own server, for the commands of %s",
      { timeout: SUITE_MS },
      async (file) => {
        const clone = cloneOfWorkingTree();
        const service = await new LocalService(clone, await freePort(), { SEED: "0" }).ready();
        const home = (side: string) => join(dir, `${name}-${file}-${side}`);
        const judge = { address: await judgeOf(program.path), token: "root", dir: home("judge") };
        const tried = { address: service.baseUrl, token: service.token, dir: home("tried") };
        const found: string[] = [];
        const unexplained: string[] = [];
        try {
          for (const command of commandsOf(file, name)) {
            const lines = await difference(program, judge, tried, command);
            if (lines.length === 0) continue;
            found.push(`$ ${command}`, ...lines, "");
            if (reasonOf(command, lines) === null) unexplained.push(command);
            await sleep(0);
          }
        } finally {
          service.signal("SIGINT");
          await service.exit;
          remove(clone);
        }
        expect(unexplained).toEqual([]);
        compare(`commands-${name}-${file}`, `${found.join("\n")}\n`);
      },
    );
  });
}

/** Compares the differences with the file of them, or writes that file. */
function compare(name: string, text: string): void {
  const file = `test/clients/transcripts/${name}.txt`;
  mkdirSync("test/clients/transcripts", { recursive: true });
  if (process.env["UPDATE_TRANSCRIPTS"] === "1") writeFileSync(file, text);
  expect(existsSync(file), `${file} is missing; UPDATE_TRANSCRIPTS=1 writes it`).toBe(true);
  expect(text).toBe(readFileSync(file, "utf8"));
}
