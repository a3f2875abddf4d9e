import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { freePort } from "../smoke/local-service.ts";
import { builtFrom, type GoProgram, vaultProgram } from "./go-program.ts";
import { CHANGED_TYPES, MOUNT, makeChanges } from "./notified-changes.ts";
import { pythonEnvironment, runsPip } from "./python.ts";
import { SocketRecorder } from "./socket-recorder.ts";
import { NO_SOURCE, sourceCheckout } from "./source-checkout.ts";

/*
 * Clients of event notifications, unmodified: the command line and the proxy of Vault, built from its module, and the
 * event sources of Ansible and Falco, from their repositories. operator.test.ts runs the Vault Secrets Operator.
 * test/http/event-exchanges.quick.test.ts replays what each of them sends.
 */

const { address, token } = inject("service");
const dir = mkdtempSync(join(tmpdir(), "sallyport-subscribers-"));
const children: ChildProcess[] = [];
const EVENT_MS = 60_000;
/** The mount of the proxied secret: its events are no part of the transcript. */
const PROXIED = "proxied";

const vault = vaultProgram();
const ansible = eventSourceOfAnsible();
const falco = eventSourceOfFalco();
const tried = {
  "Vault's command line and proxy": vault,
  "Ansible's event source": ansible,
  "Falco's plugin": falco,
};
for (const [name, { missing }] of Object.entries(tried)) {
  if (missing !== null) console.warn(`${name}: not tried: ${missing}.`);
}

function eventSourceOfAnsible(): GoProgram & { readonly python: string } {
  const python = join(dir, "python/bin/python");
  const source = sourceCheckout("gitrgoliveira/vault-eda-delivery", "77c16f8977d7cb75bdd85fb77c028e6083f89c10");
  if (source === null) return { path: "", python, missing: NO_SOURCE };
  const path = join(
    source,
    "collections/ansible_collections/gitrgoliveira/vault_eda/plugins/event_source/vault_events.py",
  );
  const pip = pythonEnvironment(join(dir, "python"));
  const installs = pip !== null && runsPip(pip, ["install", "--quiet", "websockets==16.0"], 120_000);
  return { path, python, missing: installs ? null : "its package websockets cannot be installed" };
}

function eventSourceOfFalco(): GoProgram {
  const source = sourceCheckout("falcosecurity/plugins", "0e2c4b178a9e624c9ab7308900f4550b202f2b2b");
  if (source === null) return { path: "", missing: NO_SOURCE };
  const cwd = join(source, "plugins/hashicorp-vault");
  mkdirSync(join(cwd, "cmd"), { recursive: true });
  copyFileSync(resolve("test/clients/falco/main.go"), join(cwd, "cmd/main.go"));
  return builtFrom(cwd, join(dir, "falco"), "./cmd");
}

async function call(method: string, path: string, body?: object): Promise<Response> {
  const headers = { "X-Vault-Token": token, "Content-Type": "application/json" };
  return fetch(`${address}/v1/${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
}

const change = async (method: string, path: string, body?: object) => {
  const { ok, status } = await call(method, path, body);
  if (!ok) throw new Error(`${method} ${path}: ${status}`);
};

beforeAll(() => change("POST", `sys/mounts/${MOUNT}`, { type: "kv", options: { version: "2" } }));

afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await call("DELETE", `sys/mounts/${MOUNT}`);
  rmSync(dir, { recursive: true, force: true });
});

function started(program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"], HOME: dir, ...env },
  });
  children.push(child);
  const printed = { stdout: "", all: "" };
  child.stdout.on("data", (bytes) => {
    printed.stdout += bytes;
    printed.all += bytes;
  });
  child.stderr.on("data", (bytes) => (printed.all += bytes));
  return { child, printed };
}

async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + EVENT_MS;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(what);
    await sleep(50);
  }
}

/** The types of the events about the mount that a client printed, one line each. */
const typesIn = (stdout: string): string[] =>
  stdout
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => JSON.parse(line).data)
    .filter(({ plugin_info: plugin }) => plugin?.mount_path === `${MOUNT}/`)
    .map(({ event_type: type }) => type);

/** Runs a client that prints every event, makes the changes, and compares what both said. */
async function followed(name: string, start: (recorder: SocketRecorder) => ReturnType<typeof started>): Promise<void> {
  const recorder = await SocketRecorder.before(address);
  const { child, printed } = start(recorder);
  await until(`${name} does not subscribe: ${printed.all}`, () => recorder.lines(`${MOUNT}/`).length > 0);
  await makeChanges(change);
  await until(`${name} lacks events: ${printed.all}`, () => typesIn(printed.stdout).length >= CHANGED_TYPES.length);
  expect(typesIn(printed.stdout)).toEqual(CHANGED_TYPES);
  const pings = () => recorder.lines(`${MOUNT}/`).includes("< pong");
  if (name === "ansible") await until("no ping is answered", pings);
  child.kill("SIGKILL");
  await once(child, "close");
  recorder.compare(name, `${MOUNT}/`);
  recorder.close();
}

it.runIf(vault.missing === null)("vault events subscribe prints every change", async () => {
  await followed("vault", ({ address: at }) =>
    started(vault.path, ["events", "subscribe", "-namespaces=*", "kv*"], { VAULT_ADDR: at, VAULT_TOKEN: token }),
  );
});

it.runIf(ansible.missing === null)("Ansible's event source hands every change to the rulebook, and pings", async () => {
  await followed("ansible", ({ address: at }) =>
    started(ansible.python, [resolve("test/clients/eda_flow.py"), ansible.path, at, token, "kv-v2/*"]),
  );
});

it.runIf(falco.missing === null)("Falco's plugin hands every change to Falco", async () => {
  await followed("falco", ({ address: at }) => started(falco.path, [new URL(at).host, token]));
});

it.runIf(vault.missing === null)(
  "Vault Proxy serves a cached secret, and its next value without a request",
  async () => {
    const recorder = await SocketRecorder.before(address);
    const at = `127.0.0.1:${await freePort()}`;
    const tokenFile = join(dir, "token");
    const config = join(dir, "proxy.hcl");
    writeFileSync(tokenFile, token);
    writeFileSync(
      config,
      `vault { address = "${recorder.address}" }
auto_auth {
  method {
    type   = "token_file"
    config = { token_file_path = "${tokenFile}" }
  }
}
api_proxy { use_auto_auth_token = true }
cache { cache_static_secrets = true }
listener "tcp" {
  address     = "${at}"
  tls_disable = true
}
`,
    );
    const { child, printed } = started(vault.path, ["proxy", `-config=${config}`, "-log-level=debug"]);
    await change("POST", `sys/mounts/${PROXIED}`, { type: "kv", options: { version: "2" } });
    await change("POST", `${PROXIED}/data/app`, { data: { value: "first" } });
    const read = async () => {
      const answer = await fetch(`http://${at}/v1/${PROXIED}/data/app`, { headers: { "X-Vault-Token": token } });
      return { cache: answer.headers.get("x-cache"), value: (await answer.json()).data?.data?.value };
    };
    await until(`the proxy does not subscribe: ${printed.all}`, () => recorder.lines(`${MOUNT}/`).length > 0);
    await until(`the proxy caches nothing: ${printed.all}`, async () => (await read()).cache === "HIT");
    expect((await read()).value).toBe("first");
    await change("POST", `${PROXIED}/data/app`, { data: { value: "second" } });
    await until(`the proxy keeps the old value: ${printed.all}`, async () => (await read()).value === "second");
    expect(await read()).toEqual({ cache: "HIT", value: "second" });
    await makeChanges(change);
    const frames = () => recorder.lines(`${MOUNT}/`).filter((line) => line.startsWith('< "')).length;
    await until(`the proxy lacks events: ${printed.all}`, () => frames() >= CHANGED_TYPES.length);
    await change("DELETE", `sys/mounts/${PROXIED}`);
    child.kill("SIGKILL");
    await once(child, "close");
    recorder.compare("proxy", `${MOUNT}/`);
    recorder.close();
  },
);
