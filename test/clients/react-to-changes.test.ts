import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { freePort } from "../smoke/local-service.ts";
import { vaultProgram } from "./go-program.ts";
import { pageBlock } from "./react-page.ts";

/** The commands and programs of docs/guides/react-to-changes.md, with tokens that have the rights of the page only. */

const { address, token: root } = inject("service");
const dir = mkdtempSync(join(tmpdir(), "sallyport-react-"));
const children: ChildProcess[] = [];
let token = "";

const noPython = spawnSync("python3", ["--version"]).status === 0 ? null : "there is no python3";
const vault = vaultProgram();
const tried = {
  "program in Python": noPython,
  "command of vault and proxy": vault.missing,
};
for (const [name, why] of Object.entries(tried))
  if (why !== null) console.warn(`The page's ${name} is not tried: ${why}.`);

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
async function call(path: string, body: object): Promise<any> {
  const headers = { "X-Vault-Token": root, "Content-Type": "application/json" };
  const answer = await fetch(`${address}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  expect([path, answer.ok]).toEqual([path, true]);
  return answer.status === 204 ? {} : answer.json();
}

beforeAll(async () => {
  await call("sys/policies/acl/react", { policy: pageBlock("hcl", "subscribe_event_types") });
  token = (await call("auth/token/create", { policies: ["react"] })).auth.client_token;
});

afterAll(() => {
  for (const { pid } of children) if (pid) process.kill(-pid, "SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

const environment = () => ({
  PATH: process.env["PATH"],
  HOME: dir,
  SALLYPORT_ADDR: address,
  TOKEN: token,
  VAULT_ADDR: address,
  VAULT_TOKEN: token,
});

function started(program: string, args: readonly string[]): ChildProcess {
  // A group of its own: the shell and its program end together.
  const options = { cwd: dir, detached: true, env: environment() };
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return child;
}

/** The output of commands of the page, with `TOKEN` of management. */
function ran(commands: string): string {
  const env = { ...environment(), TOKEN: root };
  const { stdout, stderr, status } = spawnSync("bash", ["-c", commands], { env, encoding: "utf8", timeout: 30_000 });
  expect([commands, status, stderr]).toEqual([commands, 0, ""]);
  return stdout;
}

const writeOthers = async () => {
  await call("secret/data/other/place", { data: { value: "hidden" } });
  await call("secret/data/app/db", { data: { value: "one more" } });
};

/** Starts a program of the page, writes secrets until it prints one's path, and compares what it has printed of others. */
async function expectTold(program: string, args: readonly string[], line: RegExp): Promise<void> {
  const child = started(program, args);
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (bytes) => (printed += bytes));
  const told = async () => {
    await writeOthers();
    return printed;
  };
  await expect.poll(told, { timeout: 60_000, interval: 500 }).toMatch(line);
  expect(printed).not.toMatch(/other\/place|hidden|one more/);
}

it("the page's request by curl is told of a change, and of no other", async () => {
  await expectTold("bash", ["-c", pageBlock("sh", "text/event-stream")], /^data:.*"path":"secret\/data\/app\/db"/m);
});

it.runIf(noPython === null)("the page's program in Python prints the change", async () => {
  const file = join(dir, "react.py");
  writeFileSync(file, pageBlock("python", "urlopen"));
  await expectTold("python3", [file], /^data-write secret\/data\/app\/db$/m);
});

it.runIf(vault.missing === null)("the page's command of vault prints the change", async () => {
  const command = pageBlock("sh", "vault events").replace("vault", vault.path);
  await expectTold("bash", ["-c", command], /"path":"secret\/data\/app\/db"/);
});

/** The manifests of the page, by kind. */
const manifests = Object.fromEntries(
  parseAllDocuments(pageBlock("yaml", "VaultStaticSecret")).map((document) => {
    const { kind, spec } = document.toJS();
    return [kind, spec];
  }),
);

it("the page's role lets pods of the manifests log in, and the manifest asks for instant updates", async () => {
  await call("sys/auth/kubernetes", { type: "kubernetes" });
  expect(ran(pageBlock("sh", "auth/kubernetes/role/shop"))).toBe("");
  const headers = { "X-Vault-Token": root };
  const { data } = await (await fetch(`${address}/v1/auth/kubernetes/role/shop`, { headers })).json();
  const { method, mount, kubernetes } = manifests["VaultAuth"];
  expect([method, mount, kubernetes.role]).toEqual(["kubernetes", "kubernetes", "shop"]);
  expect(data).toMatchObject({
    bound_service_account_names: [kubernetes.serviceAccount],
    bound_service_account_namespaces: ["shop"],
    audience: kubernetes.audiences[0],
    token_policies: ["react"],
  });
  expect(manifests["VaultStaticSecret"]).toMatchObject({ type: "kv-v2", syncConfig: { instantUpdates: true } });
});

it.runIf(vault.missing === null)("the proxy of the page serves a value and its change from the cache", async () => {
  await call("sys/auth/approle", { type: "approle" });
  await call("auth/approle/role/shop", { token_policies: "react" });
  const headers = { "X-Vault-Token": root };
  const { data } = await (await fetch(`${address}/v1/auth/approle/role/shop/role-id`, { headers })).json();
  writeFileSync(join(dir, "role-id"), data.role_id);
  writeFileSync(join(dir, "secret-id"), (await call("auth/approle/role/shop/secret-id", {})).data.secret_id);
  const port = await freePort();
  const here = (text: string) => text.replaceAll("127.0.0.1:8100", `127.0.0.1:${port}`);
  writeFileSync(join(dir, "proxy.hcl"), here(pageBlock("hcl", "cache_static_secrets")));
  await call("secret/data/app/db", { data: { value: "first" } });
  started("bash", ["-c", pageBlock("sh", "vault proxy").replace("vault", vault.path)]);
  const read = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/secret/data/app/db`).catch(() => null);
    return [answer?.headers.get("x-cache"), (await answer?.json())?.data?.data.value];
  };
  await expect.poll(read, { timeout: 60_000 }).toEqual(["HIT", "first"]);
  await call("secret/data/app/db", { data: { value: "second" } });
  await expect.poll(read, { timeout: 60_000 }).toEqual(["HIT", "second"]);
  expect(ran(here(pageBlock("sh", "8100")))).toContain('"value":"second"');
});

it("the page's webhook is called for the secret that it names, without a value", async () => {
  const bodies: string[] = [];
  const receiver = createServer(async (request, response) => {
    let body = "";
    for await (const bytes of request.setEncoding("utf8")) body += bytes;
    bodies.push(body);
    response.end();
  }).listen(0, "127.0.0.1");
  await expect.poll(() => receiver.listening).toBe(true);
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/changed`;
  // The service of these tests publishes events of secrets while there is a subscription.
  started("bash", ["-c", pageBlock("sh", "text/event-stream")]);
  expect(ran(pageBlock("sh", "whsec_").replace("https://receiver.example/changed", url))).toBe("");
  const told = async () => {
    await writeOthers();
    return bodies.join("\n");
  };
  await expect.poll(told, { timeout: 60_000, interval: 500 }).toContain('"Key":"secret/app/db"');
  expect(bodies.join("\n")).not.toMatch(/other\/place|hidden|one more/);
  const headers = { "X-Orch-Token": root };
  await fetch(`${address}/v1/event/subscription/react`, { method: "DELETE", headers });
  receiver.close();
});
