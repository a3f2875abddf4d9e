import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COMMANDS } from "../../packages/cli/src/commands.ts";
import type { Finding } from "../../packages/cli/src/doctor/finding.ts";
import { VERSION } from "../../packages/cli/src/version.ts";
import { RELEASE } from "../../src/platform/version.ts";
import { type FakeNamespace, FakeVault, TOKEN } from "../doubles/vault.ts";
import { shownIn, withoutTheVolatile } from "../smoke/readme.ts";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { FIRST } from "./certificates.ts";
import { cli, startCli } from "./cli-program.ts";
import { Service } from "./events-service.ts";

/* The program `sallyport` against the whole runtime: its bundle, the tours of its pages, and its commands. */

// Pushes fail at once.
const service = new Service({ CLOUD_A_SM_URL: "http://127.0.0.1:1" });
const empty = new Service({});
const dir = mkdtempSync(join(tmpdir(), "sallyport-cli-"));
const program = join(dir, "sallyport.mjs");

beforeAll(async () => {
  execFileSync(process.execPath, ["packages/cli/build.ts"], { stdio: "pipe" });
  copyFileSync("packages/cli/dist/sallyport.mjs", program);
  await Promise.all([service.create(), empty.create()]);
}, 300_000);
afterAll(async () => {
  rmSync(dir, { recursive: true });
  await Promise.all([service.destroy(), empty.destroy()]);
});

const env = (token = "root", { base } = service) => ({ SALLYPORT_ADDR: base, SALLYPORT_TOKEN: token });

async function findingsOf(settings: Readonly<Record<string, string>>) {
  const { code, out, err } = await cli(["doctor", "--json"], settings);
  expect(err).toBe("");
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  const of = (check: string) => findings.filter((each) => each.check === check);
  return { code, findings, of };
}

describe("the bundle", () => {
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { cwd: dir, env: PROGRAM_ENV });
    return [status, String(stdout), String(stderr)] as const;
  };

  it("is one file that runs from any directory", () => {
    expect(run("--version")).toEqual([0, `${RELEASE}\n`, ""]);
    expect(VERSION).toBe(RELEASE);
    expect(run("kv", "get", "--help")).toEqual([0, expect.stringContaining("Usage: sallyport kv get"), ""]);
  });

  it("is built by the command that npx finds in a checkout", () => {
    rmSync("packages/cli/dist", { recursive: true });
    const { status, stdout } = spawnSync("node_modules/.bin/sallyport", ["--version"], { env: PROGRAM_ENV });
    expect([status, String(stdout)]).toEqual([0, `${RELEASE}\n`]);
    const inputs: string[] = JSON.parse(readFileSync("packages/cli/dist/inputs.json", "utf8"));
    for (const path of ["src/main.ts", "build.ts", "../../src/platform/settings.ts", "../../package-lock.json"])
      expect(inputs).toContain(path);
    expect(inputs.filter((path) => !existsSync(join("packages/cli", path)))).toEqual([]);
  });

  it("is built again after a change of one of its files, or says why it cannot be", () => {
    // A checkout with a bundler of its own.
    const checkout = mkdtempSync(join(dir, "checkout-"));
    const at = (path: string) => join(checkout, path);
    for (const path of ["packages/cli/bin", "packages/cli/dist", "node_modules/node/bin", "src"])
      mkdirSync(at(path), { recursive: true });
    copyFileSync("packages/cli/bin/sallyport.mjs", at("packages/cli/bin/sallyport.mjs"));
    const bundler = (script: string) =>
      writeFileSync(at("node_modules/node/bin/node"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const started = () => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [at("packages/cli/bin/sallyport.mjs")], {
        encoding: "utf8",
        env: PROGRAM_ENV,
      });
      return [status, stdout, stderr];
    };
    const bundle = at("packages/cli/dist/sallyport.mjs");
    writeFileSync(bundle, 'console.log("old")');
    writeFileSync(at("packages/cli/dist/inputs.json"), '["../../src/a.ts"]');
    bundler(`echo 'console.log("new")' > ${bundle}`);
    writeFileSync(at("src/a.ts"), "");
    utimesSync(at("src/a.ts"), 1, 1);
    expect(started()).toEqual([0, "old\n", ""]);
    utimesSync(bundle, 0.5, 0.5);
    expect(started()).toEqual([0, "new\n", ""]);
    rmSync(at("packages/cli/dist/inputs.json"));
    bundler("echo 'Failed to write: permission denied' >&2; exit 1");
    expect(started()).toEqual([1, "", expect.stringMatching(/^sallyport: .* cannot be written: [^\n]+\n$/)]);
  });

  it("starts the relay, which ends with SIGTERM", async () => {
    const settings = { ...PROGRAM_ENV, SALLYPORT_ADDR: "http://127.0.0.1:1", NOMAD_ADDR: "http://127.0.0.1:1" };
    const args = [program, "relay", "nomad", "--metrics", "off", "--state-dir", join(dir, "relay")];
    const relay = spawn(process.execPath, args, { env: settings });
    let log = "";
    relay.stderr.on("data", (bytes) => (log += bytes));
    await expect.poll(() => log).toContain('"event":"started"');
    relay.kill("SIGTERM");
    expect(await once(relay, "close")).toEqual([0, null]);
  });
});

it("sends requests through the proxy of the environment, but none to loopback", async () => {
  const asked: string[] = [];
  const proxy = createServer().on("connect", ({ url = "" }, socket) => {
    asked.push(url);
    socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  // Without a scheme, as curl takes it.
  const HTTPS_PROXY = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const commands = [
    ["kv", "get", "secret/a"],
    ["snapshot", "save", join(dir, "proxied")],
  ];
  for (const SALLYPORT_ADDR of ["https://service.invalid", "https://127.0.0.1:1"])
    for (const args of commands) {
      const { code } = await startCli(args, { SALLYPORT_ADDR, SALLYPORT_TOKEN: "t", HTTPS_PROXY }).ended;
      expect(code, `${args[0]} ${SALLYPORT_ADDR}`).toBe(1);
    }
  proxy.close();
  expect([...new Set(asked)]).toEqual(["service.invalid:443"]);
  expect(asked.length).toBeGreaterThanOrEqual(commands.length);
});

it("prints help for every command, whose options its pages name", async () => {
  const pages = [
    "guides/cli",
    "guides/cli-secrets",
    "guides/move-from-vault",
    "guides/mirror-nomad",
    "operate/first-deployment",
  ]
    .map((page) => readFileSync(`docs/${page}.md`, "utf8"))
    .join("");
  const { out: help } = await cli(["--help"], {});
  const commands = [...help.matchAll(/^ {2}([a-z]+(?: [a-z]+)?) {2,}/gm)].map(([, words = ""]) => words);
  expect(commands).toEqual(expect.arrayContaining(["kv get", "run", "sync status", "relay nomad", "import vault"]));
  for (const command of commands) {
    const { code, out } = await cli([...command.split(" "), "--help"], {});
    expect([code, out], command).toEqual([0, expect.stringContaining(`Usage: sallyport ${command}`)]);
    if (command === "cost") continue;
    for (const [option] of out.matchAll(/--[a-z][a-z-]+/g))
      if (option !== "--path" && option !== "--from") expect(pages, `${command} ${option}`).toContain(option);
  }
  const { words } =
    /`--json` prints\s+results for programs, for every command except (?<words>[^.]*)\./.exec(pages)?.groups ?? {};
  const without = COMMANDS.filter(({ summary, options }) => summary !== "" && !("json" in options));
  expect(without.map((each) => each.words.join(" ")).sort()).toEqual(
    [...(words ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name).sort(),
  );
});

describe("the tours", () => {
  beforeAll(() => {
    writeFileSync(
      join(dir, "npx"),
      `#!/bin/sh\n[ "$1" != --no ] || shift\nshift\nexec '${process.execPath}' '${program}' "$@"\n`,
    );
    chmodSync(join(dir, "npx"), 0o755);
  });

  /** Runs the commands of a page as its reader does, where `npx sallyport` is the bundle. */
  async function follow(page: string, settings: Readonly<Record<string, string>>): Promise<void> {
    const shown = shownIn(`docs/guides/${page}.md`, "Tour");
    expect(shown.length).toBeGreaterThan(3);
    for (const { command, output } of shown)
      expect(withoutTheVolatile(await shell(command, settings)), command).toBe(withoutTheVolatile(output));
  }

  /** Stand-ins answer in this process, so it does not wait for the shell. */
  async function shell(command: string, settings: Readonly<Record<string, string>>): Promise<string> {
    const path = { ...PROGRAM_ENV, PATH: `${dir}:${process.env["PATH"]}` };
    const child = spawn("bash", ["-c", `{ ${command}\n} 2>&1`], { cwd: dir, env: { ...path, ...settings } });
    let output = "";
    child.stdout.on("data", (bytes) => (output += bytes));
    await once(child, "close");
    return output;
  }

  it("of the command line can be followed", async () => {
    await service.must("PUT", "/v1/sys/mounts/data", { type: "kv" });
    await follow("cli", env());
  });

  it("of secrets from the command line can be followed", async () => {
    await service.must("PUT", "/v1/sys/mounts/secret", { type: "kv", options: { version: "2" } });
    await follow("cli-secrets", env());
    await service.must("DELETE", "/v1/sys/mounts/secret");
  });

  const versions = { 1: { value: '{"password":"p1"}' }, 2: { value: '{"password":"p2"}' } };
  const gone = { value: "{}", deletion_time: "2026-10-02T00:00:00Z" };
  const source: FakeNamespace = {
    mounts: {
      "apps/": {
        type: "kv",
        options: { version: "2" },
        accessor: "kv_1",
        secrets: { web: { versions }, worker: { versions: { 1: { value: '{"k":"v"}' }, 2: gone } } },
      },
      "pki/": { type: "pki", options: null, accessor: "pki_1" },
      "secret/": {
        type: "kv",
        options: { version: "2" },
        accessor: "kv_2",
        secrets: { "a b/c": { versions }, top: { versions: { 1: { value: '{"n":1}' } } } },
      },
    },
    policies: { "read-web": 'path "apps/data/web" { capabilities = ["read"] }' },
  };

  it("of the move from Vault can be followed", async () => {
    const { "secret/": _other, ...mounts } = source.mounts;
    const vault = new FakeVault({ "": { ...source, mounts } });
    await vault.start();
    await follow("move-from-vault", { ...env(), VAULT_ADDR: vault.url, VAULT_TOKEN: TOKEN });
    expect(vault.faults).toEqual([]);
    vault.stop();
  });

  it.skipIf(spawnSync("jq", ["--version"]).error)("the script of dumps can be followed", async () => {
    const vault = new FakeVault({ "": source });
    await vault.start();
    await service.must("PUT", "/v1/sys/mounts/secret", { type: "kv", options: { version: "2" } });
    // The two commands of `vault` that the script runs: `kv list` and `kv get`, with -format=json and a path.
    const read = `curl -sG -H "X-Vault-Token: $VAULT_TOKEN" "$VAULT_ADDR/v1/secret`;
    writeFileSync(
      join(dir, "vault"),
      `#!/bin/bash
name=$(printf %s "\${4#secret/}" | sed 's/ /%20/g')
case $2 in
  list) ${read}/metadata/\${name%/}" -d list=true | jq .data.keys ;;
  get) ${read}/data/$name" ;;
esac
`,
      { mode: 0o755 },
    );
    const page = readFileSync("docs/guides/move-from-vault.md", "utf8");
    const [, script = ""] = /```sh\n(dump[\s\S]*?)```/.exec(page) ?? [];
    const output = await shell(script, { ...env(), VAULT_ADDR: vault.url, VAULT_TOKEN: TOKEN });
    expect(output).toMatch(/^secrets +2 /m);
    expect((await service.must("GET", "/v1/secret/data/a%20b/c")).body.data.data).toEqual({ password: "p2" });
    expect(vault.faults).toEqual([]);
    vault.stop();
  });
});

describe("doctor", () => {
  it("names what only a deployment on Cloudflare has as such", async () => {
    const { findings } = await findingsOf(env());
    const actions = findings
      .map(({ action }) => action)
      .filter((action) => /AUDIT_BUCKET|SNAPSHOT_|LISTINGS/.test(action));
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^(?!on Cloudflare).+ on Cloudflare /);
  });

  it("lets each part do real work with --deep, and leaves nothing", { timeout: 120_000 }, async () => {
    const { out } = await cli(["doctor", "--deep", "--json"], env());
    const { findings } = JSON.parse(out) as { findings: Finding[] };
    const from = findings.findIndex(({ check }) => check === "secrets");
    expect(findings.slice(from).map(({ check, status }) => `${status} ${check}`)).toEqual([
      ...["secrets", "lists", "replicas", "queue", "event stream", "socket"].map((check) => `ok ${check}`),
      // Never called: an address of this machine.
      "unknown subscription",
      ...["engine", "identity", "agent session", "metrics object", "alarm"].map((check) => `ok ${check}`),
      "unknown audit bucket",
    ]);
    // Without the gateway of a self-hosted service the trigger is awaited, as in a deployment.
    expect(findings.find(({ check }) => check === "cron")).toMatchObject({
      status: "unknown",
      message: expect.stringMatching(/^no run in \d+ minutes; the first one/),
    });
    const mounts = await service.must("GET", "/v1/sys/mounts");
    expect(JSON.stringify(mounts.body)).not.toContain("doctor-");
  });

  it("finds an open breaker and failing associations, with what to do", async () => {
    await service.must("PUT", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
    const at = "/v1/sys/sync/destinations/cloud-a-sm/broken";
    await service.must("POST", at, {
      region: "eu-west-1",
      access_key_id: "AKIAIOSFODNN7EXAMPLE",
      secret_access_key: "x".repeat(40),
    });
    for (let n = 0; n < 6; n++) {
      await service.must("PUT", `/v1/kv/data/s${n}`, { data: { n } });
      await service.must("POST", `${at}/associations/set`, { mount: "kv", secret_name: `s${n}` });
    }
    await expect.poll(async () => (await service.must("GET", at)).body.data.circuit_breaker).toBeDefined();
    // A scrape on a busy machine may lack an object.
    await expect
      .poll(async () => (await findingsOf(env())).of("sync"))
      .toMatchObject([{ status: "problem", message: expect.stringMatching(/^cloud-a-sm\/broken 6 /) }]);
    const { code, of } = await findingsOf(env());
    expect(code).toBe(1);
    expect(of("destinations")).toMatchObject([
      {
        status: "problem",
        message: expect.stringMatching(/^cloud-a-sm\/broken: the breaker is open after \d+ failures/),
      },
    ]);
    await service.must("DELETE", `${at}?force_delete=true`);
    await expect.poll(async () => (await service.call("GET", at))?.status).toBe(404);
    expect((await findingsOf(env())).of("destinations")).toMatchObject([{ status: "ok" }]);
  });

  it("says which rights a token lacks", async () => {
    const { auth } = (await service.must("POST", "/v1/auth/token/create", { ttl: "1h" })).body;
    await service.must("PUT", "/v1/sys/policies/acl/nothing", { policy: 'path "a" { capabilities = ["read"] }' });
    const limited = (await service.must("POST", "/v1/auth/token/create", { policies: ["nothing"], ttl: "1h" })).body
      .auth;
    const { of } = await findingsOf(env(limited.client_token));
    for (const check of ["metrics", "audit", "snapshots", "agents", "destinations", "root rotation"])
      expect(of(check), check).toMatchObject([
        { status: "unknown", message: expect.stringContaining("the token lacks") },
      ]);
    expect(of("token")).toMatchObject([{ status: "warning", message: expect.stringContaining("expires in 1 h") }]);
    expect(auth.client_token).not.toBe("");
    const unknown = await findingsOf(env("hvs.unknown"));
    expect(unknown.code).toBe(1);
    expect(unknown.of("token")).toMatchObject([{ status: "problem", message: expect.stringContaining("expired") }]);
    const bare = { policies: ["nothing"], no_default_policy: true };
    const without = (await service.must("POST", "/v1/auth/token/create", bare)).body.auth;
    expect((await findingsOf(env(without.client_token))).of("token")).toMatchObject([
      { status: "unknown", message: "the token lacks read on auth/token/lookup-self" },
    ]);
  });

  it("names the cause when nothing, something else, or an unknown certificate answers", async () => {
    expect(
      (await findingsOf({ SALLYPORT_ADDR: "http://127.0.0.1:65533", SALLYPORT_TOKEN: "t" })).findings,
    ).toMatchObject([
      { check: "reachable", status: "problem", action: expect.stringContaining("nothing listens there") },
    ]);
    const answer = { current: "hello" };
    const secure = createTlsServer(FIRST, (_request, response) => response.end(answer.current)).listen(0, "127.0.0.1");
    await once(secure, "listening");
    const url = `https://localhost:${(secure.address() as AddressInfo).port}`;
    const other = { SALLYPORT_ADDR: url, SALLYPORT_TOKEN: "t" };
    expect((await findingsOf(other)).findings).toMatchObject([
      { action: expect.stringContaining("NODE_EXTRA_CA_CERTS") },
    ]);
    writeFileSync(join(dir, "ca.pem"), FIRST.cert);
    const trusted = { ...other, NODE_EXTRA_CA_CERTS: join(dir, "ca.pem") };
    expect((await findingsOf(trusted)).findings).toMatchObject([
      { action: expect.stringContaining("something else answers") },
    ]);
    const health = { initialized: true, sealed: true, sealed_because: "no MASTER_KEY", parts: { outbox: "behind" } };
    answer.current = JSON.stringify({ ...health, degraded: ["outbox"], failing: [], server_time_utc: 1_000 });
    const { code, of } = await findingsOf(trusted);
    expect(code).toBe(1);
    expect(of("sealed")).toMatchObject([{ status: "problem", message: "no MASTER_KEY" }]);
    expect(of("health")).toMatchObject([{ status: "problem", message: "outbox: behind" }]);
    expect(of("clock")).toMatchObject([{ status: "problem" }]);
    expect(of("tls")[0]?.message).toMatch(/the certificate is valid for \d+ days/);
    secure.close();
    secure.closeAllConnections();
  });
});

describe("snapshot", () => {
  it("saves, checks and restores a deployment", async () => {
    await service.must("PUT", "/v1/sys/policies/acl/kept", { policy: 'path "kept" { capabilities = ["read"] }' });
    const file = join(dir, "whole.snapshot");
    const saved = await cli(["snapshot", "save", file, "--json"], env());
    const { sha256, bytes } = JSON.parse(saved.out);
    expect([statSync(file).size, statSync(file).mode & 0o777]).toEqual([bytes, 0o600]);
    const wrong = await cli(["snapshot", "restore", file, "--sha256", "0".repeat(64)], env("root", empty));
    expect([wrong.code, wrong.err]).toEqual([1, "sallyport snapshot restore: whole.snapshot has another digest\n"]);
    const restored = await cli(["snapshot", "restore", file, "--sha256", sha256], env("root", empty));
    expect(restored, restored.err).toMatchObject({ code: 0, out: expect.stringContaining("restored") });
    expect((await empty.must("GET", "/v1/sys/policies/acl/kept")).status).toBe(200);
    expect((await findingsOf(env())).of("snapshots")).toMatchObject([
      { status: "ok", message: expect.stringContaining("the last snapshot was taken 0.0 days ago") },
    ]);
    const list = await cli(["snapshot", "list"], env());
    expect([list.code, list.err]).toEqual([1, expect.stringContaining("no bucket is bound as SNAPSHOT_BUCKET")]);
    const denied = await cli(["snapshot", "restore", file], env("unknown", empty));
    expect([denied.code, denied.err]).toEqual([1, expect.stringContaining("403 permission denied")]);
  });

  it("leaves no file of a snapshot that breaks off, and those of others alone", async () => {
    writeFileSync(join(dir, "half.snapshot.part"), "another's");
    const broken = createServer((_request, response) => {
      response.writeHead(200, { "content-type": "application/octet-stream" });
      response.write("sallyport-snapshot 1\n", () => response.destroy());
    }).listen(0, "127.0.0.1");
    await once(broken, "listening");
    const address = `http://127.0.0.1:${(broken.address() as AddressInfo).port}`;
    const file = join(dir, "half.snapshot");
    const { code } = await cli(["snapshot", "save", file], { SALLYPORT_ADDR: address, SALLYPORT_TOKEN: "t" });
    expect([code, readdirSync(dir).filter((name) => name.startsWith("half."))]).toEqual([1, ["half.snapshot.part"]]);
    broken.close();
    broken.closeAllConnections();
  });
});

it("agent join creates a token for the node, and prints a line that a shell reads as it is meant", async () => {
  const args = ["agent", "join", "--pool", "edge", "--name", "it's", "--ttl", "10m", "--json"];
  const { token, accessor, line, install } = JSON.parse((await cli(args, env())).out);
  // This service is built without the agent's package.
  expect(install).toBe(null);
  const { body } = await service.must("GET", "/v1/agent/tokens");
  expect(body).toContainEqual(expect.objectContaining({ AccessorID: accessor, NodePool: "edge", Name: "it's" }));
  // A shell that shows the arguments instead of running `sudo`.
  const script = `sudo() { echo "$*"; case "$*" in *stdin*) cat; echo;; esac; }; ${line}`;
  const shown = String(execFileSync("bash", ["-c", script]))
    .trim()
    .split("\n");
  expect(shown).toEqual([
    "install -d /etc/sallyport-agent",
    "install -m 644 /dev/stdin /etc/sallyport-agent/agent.json",
    JSON.stringify({
      service: service.base,
      name: "it's",
      pool: "edge",
      joinTokenFile: "/etc/sallyport-agent/join-token",
    }),
    "install -m 600 -o sallyport-agent /dev/stdin /etc/sallyport-agent/join-token",
    token,
    "systemctl enable --now sallyport-agent",
  ]);
  const refused = await cli(["agent", "join"], env("unknown"));
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("403 Permission denied")]);
});

it("agent join prints a line that installs the agent, where the deployment serves its package", async () => {
  const answer = { Token: "t'1", AccessorID: "a", ExpirationTime: "later" };
  const deployment = createServer((request, response) => {
    response.setHeader("Content-Type", "application/json");
    response.end(request.method === "HEAD" ? "" : JSON.stringify(answer));
  }).listen(0, "127.0.0.1");
  await once(deployment, "listening");
  const address = `http://127.0.0.1:${(deployment.address() as AddressInfo).port}`;
  const { out, code } = await cli(["agent", "join", "--name", "n"], { SALLYPORT_ADDR: address, SALLYPORT_TOKEN: "t" });
  deployment.close();
  const [install = "", line = ""] = out.trim().split("\n");
  expect([code, line]).toEqual([0, expect.stringContaining("systemctl enable --now sallyport-agent")]);
  // A shell that shows the script's address and environment instead of running them.
  const script = `curl() { echo "$*"; }; sudo() { echo "$*"; case "$*" in *stdin*) cat; echo;; env*) cat;; esac; }; ${install}`;
  const shown = String(execFileSync("bash", ["-c", script], { input: "" }))
    .trim()
    .split("\n");
  expect(shown).toEqual([
    "install -d /etc/sallyport-agent",
    "install -m 644 /dev/stdin /etc/sallyport-agent/agent.json",
    JSON.stringify({ service: address, name: "n", joinTokenFile: "/etc/sallyport-agent/join-token" }),
    "install -m 600 /dev/stdin /etc/sallyport-agent/join-token",
    "t'1",
    `env SALLYPORT_ADDR=${address} sh`,
    `-fsS ${address}/install/agent`,
  ]);
});

it("cost prints the bill of npm run cost, and refuses a value that is no number", async () => {
  const { code, out } = await cli(["cost", "--reads", "100", "--nodes", "1000"], {});
  expect([code, out]).toEqual([0, expect.stringMatching(/^total .* [\d.]+$/m)]);
  expect(out).toContain("reads 100");
  const json = JSON.parse((await cli(["cost", "--reads", "100", "--nodes", "1000", "--json"], {})).out);
  expect(json).toMatchObject({ deployment: { reads: 100, nodes: 1000 }, lines: expect.any(Array) });
  expect(out).toMatch(new RegExp(`^total +${json.total.toFixed(2)}$`, "m"));
  const refused = await cli(["cost", "--reads", "many"], {});
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining("--reads: must be a number")]);
});
