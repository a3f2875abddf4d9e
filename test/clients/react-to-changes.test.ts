import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { vaultProgram } from "./go-program.ts";
import { pythonEnvironment, runsPip } from "./python.ts";

/** The commands and the program of docs/guides/react-to-changes.md, with a token that has the rights of the page only. */

const { address, token: root } = inject("service");
const PAGE = readFileSync("docs/guides/react-to-changes.md", "utf8");
const dir = mkdtempSync(join(tmpdir(), "sallyport-react-"));
const children: ChildProcess[] = [];
let token = "";

/** The first block of a language that contains a text. */
function block(language: string, text: string): string {
  const blocks = [...PAGE.matchAll(/```(\w+)\n(.*?)```/gs)];
  const found = blocks.find(([, named, code = ""]) => named === language && code.includes(text))?.[2];
  if (found === undefined) throw new Error(`the page has no ${language} with ${text}`);
  return found;
}

const pip = pythonEnvironment(join(dir, "python"));
const noPython =
  pip !== null && runsPip(pip, ["install", "--quiet", "--retries", "0", "websockets==16.0"], 120_000)
    ? null
    : "websockets cannot be installed";
const vault = vaultProgram();
for (const [name, why] of Object.entries({ "program in Python": noPython, "command of vault": vault.missing }))
  if (why !== null) console.warn(`The page's ${name} is not tried: ${why}.`);

async function call(path: string, body: object): Promise<{ auth?: { client_token: string } }> {
  const headers = { "X-Vault-Token": root, "Content-Type": "application/json" };
  const answer = await fetch(`${address}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  expect([path, answer.ok]).toEqual([path, true]);
  return answer.status === 204 ? {} : answer.json();
}

beforeAll(async () => {
  await call("sys/policies/acl/react", { policy: block("hcl", "subscribe_event_types") });
  token = (await call("auth/token/create", { policies: ["react"] })).auth?.client_token ?? "";
});

afterAll(() => {
  for (const { pid } of children) if (pid) process.kill(-pid, "SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

/** Starts a program of the page, writes secrets until it prints one's path, and compares what it has printed of others. */
async function expectTold(program: string, args: readonly string[], line: RegExp): Promise<void> {
  const child = spawn(program, args, {
    // A group of its own: the shell and its program end together.
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOME: dir,
      SALLYPORT_ADDR: address,
      TOKEN: token,
      VAULT_ADDR: address,
      VAULT_TOKEN: token,
    },
  });
  children.push(child);
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (printed += bytes));
  const told = async () => {
    await call("secret/data/other/place", { data: { value: "hidden" } });
    await call("secret/data/app/db", { data: { value: "one more" } });
    return printed;
  };
  await expect.poll(told, { timeout: 60_000, interval: 500 }).toMatch(line);
  expect(printed).not.toMatch(/other\/place|hidden|one more/);
}

it("the page's request by curl is told of a change, and of no other", async () => {
  await expectTold("bash", ["-c", block("sh", "text/event-stream")], /^data:.*"path":"secret\/data\/app\/db"/m);
});

it.runIf(noPython === null)("the page's program in Python prints the change", async () => {
  const file = join(dir, "react.py");
  writeFileSync(file, block("python", "websockets"));
  await expectTold(join(dir, "python/bin/python"), [file], /^data-write secret\/data\/app\/db$/m);
});

it.runIf(vault.missing === null)("the page's command of vault prints the change", async () => {
  const command = block("sh", "vault events").replace("vault", vault.path);
  await expectTold("bash", ["-c", command], /"path":"secret\/data\/app\/db"/);
});
