import { execFileSync, spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Metrics } from "../../packages/relay/src/metrics.ts";
import { PROGRAM_ENV } from "../support/program-env.ts";

const page = readFileSync("docs/guides/mirror-nomad.md", "utf8");
const unit = readFileSync("packages/relay/sallyport-relay.service", "utf8");
const container = readFileSync("packages/relay/Containerfile", "utf8");
const dir = mkdtempSync(join(tmpdir(), "sallyport-relay-bundle-"));
const program = join(dir, "relay.mjs");

beforeAll(() => {
  execFileSync(process.execPath, ["packages/relay/build.ts"], { stdio: "pipe" });
  copyFileSync("packages/relay/dist/sallyport-relay.mjs", program);
});
afterAll(() => rmSync(dir, { recursive: true }));

it("the bundle is one file that runs from any directory, and ends with 2 and its usage for invalid options", () => {
  const { status, stderr } = spawnSync(process.execPath, [program, "nomad"], { cwd: dir, env: PROGRAM_ENV });
  expect([status, String(stderr)]).toEqual([
    2,
    expect.stringMatching(/^SALLYPORT_ADDR: must be set to a URL\n\nUsage: /),
  ]);
});

it("metrics and health are served at the address", async () => {
  const metrics = new Metrics();
  const server = await metrics.serve("127.0.0.1", 0);
  const { port } = server.address() as { port: number };
  const get = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    return [answer.status, await answer.text()] as const;
  };
  expect(await get("/health")).toEqual([503, "the stream of the cluster is closed\n"]);
  metrics.set("connected", 1);
  metrics.add("lines_total", 3);
  expect(await get("/health")).toEqual([200, "ok\n"]);
  const [, text] = await get("/metrics");
  expect(text).toContain("# TYPE sallyport_relay_lines_total counter\nsallyport_relay_lines_total 3\n");
  expect((await get("/other"))[0]).toBe(404);
  server.close();
  server.closeAllConnections();
});

it("the unit runs the bundle of the page without privileges, and leaves invalid options to the operator", () => {
  for (const setting of [
    "DynamicUser=yes",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "StateDirectory=sallyport-relay",
    "RestartPreventExitStatus=2",
    "MemoryMax=1G",
  ])
    expect(unit.split("\n")).toContain(setting);
  const [, installed] = /^ExecStart=\/usr\/bin\/node (\S+) nomad$/m.exec(unit) ?? [];
  expect(page).toContain("dist/sallyport-relay.mjs /usr/local/lib/");
  expect(installed).toBe("/usr/local/lib/sallyport-relay.mjs");
  for (const [path] of unit.matchAll(/\/etc\/sallyport-relay\/[a-z.-]+/g)) expect(page).toContain(path);
});

it("the container file copies the bundle, uses an unprivileged user, and keeps the state in a volume", () => {
  expect(container).toContain("COPY dist/sallyport-relay.mjs /usr/local/lib/sallyport-relay.mjs");
  expect(container).toMatch(/^USER node$/m);
  expect(container).toMatch(/^VOLUME \/var\/lib\/sallyport-relay$/m);
});

it("the relay stops while the cluster cannot be reached", async () => {
  const env = { ...PROGRAM_ENV, NOMAD_ADDR: "http://127.0.0.1:1", SALLYPORT_ADDR: "http://127.0.0.1:1" };
  const relay = spawn(process.execPath, [program, "nomad", "--metrics", "off", "--state-dir", join(dir, "s")], { env });
  let log = "";
  relay.stderr.on("data", (text) => {
    log += String(text);
  });
  await vi.waitFor(() => expect(log).toContain("started"));
  const exit = new Promise((resolve) => relay.once("exit", resolve));
  relay.kill("SIGTERM");
  expect(await exit).toBe(0);
});
