import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  AgentProcess,
  type AgentSession,
  fakeService,
  nodeDirectory,
  startAgent,
  writePlugin,
} from "./agent-service.ts";

/** `sallyport-agent volumes list` and `volumes drop` as processes, with a service whose known volumes the test sets. */

const DATA = "0193a1b2-0000-7000-8000-000000000001";
const OLD = "0193a1b2-0000-7000-8000-000000000002";
const op = (number: number) => `0193a1b2-0000-7000-9000-00000000000${number}`;

async function make(session: AgentSession, number: number, id: string, name: string): Promise<void> {
  const params = { id, name, namespace: "default", pluginId: "mkdir", parameters: {}, capacityMin: 0, capacityMax: 0 };
  session.request({ op: op(number), key: `dhv:${id}`, method: "dhv.create", params });
  expect(await session.result(op(number))).toMatchObject({ ok: true });
}

/** A node with two volumes and a running agent; `stop` ends the agent. */
async function nodeWithVolumes() {
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  const agent = startAgent(node.path);
  const session = await service.session();
  await session.welcome();
  await make(session, 1, DATA, "data");
  await make(session, 2, OLD, "old");
  writeFileSync(join(node.at("volumes"), OLD, "file"), "precious");
  const stop = async (running = agent) => {
    running.child.kill("SIGTERM");
    expect(await running.exit).toBe(0);
  };
  return { service, ...node, stop };
}

const volumes = (path: string, ...args: string[]) => new AgentProcess(["volumes", ...args, "--config", path]);

async function list(path: string): Promise<Record<string, unknown>[]> {
  const listing = volumes(path, "list");
  expect(await listing.exit, listing.log).toBe(0);
  return listing.out
    .trim()
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

it("`volumes list` shows the volumes on disk, and marks those unknown to the service", async () => {
  const { service, path, at, stop } = await nodeWithVolumes();
  const shown = (ID: string, Name: string, Known: boolean) => ({
    ID,
    Name,
    Namespace: "default",
    PluginID: "mkdir",
    State: "ready",
    Path: join(at("volumes"), ID),
    Known,
  });
  // The running agent continues.
  expect(await list(path)).toEqual([shown(DATA, "data", true), shown(OLD, "old", true)]);
  await stop();
  const again = startAgent(path, {});
  await (await service.session()).welcome({ unknownVolumes: [OLD] });
  await expect.poll(() => list(path)).toEqual([shown(DATA, "data", true), shown(OLD, "old", false)]);
  await stop(again);
  writeFileSync(join(at("state/host-volumes"), `${DATA}.json`), "torn");
  expect((await list(path))[0]).toMatchObject({ ID: DATA, State: expect.stringContaining("cannot be read") });
});

it("`volumes list` prints nothing without volumes", async () => {
  const service = await fakeService();
  expect(await list(nodeDirectory(service.url).path)).toEqual([]);
});

it("`volumes drop` deletes an unknown volume with its content", async () => {
  const { service, path, at, stop } = await nodeWithVolumes();
  await stop();
  const dropping = volumes(path, "drop", OLD);
  const hello = await (await service.session()).welcome({ unknownVolumes: [OLD] });
  expect(Object.keys(hello.node.HostVolumes)).toEqual(["data", "old"]);
  expect(await dropping.exit, dropping.log).toBe(0);
  expect(existsSync(join(at("volumes"), OLD))).toBe(false);
  expect(existsSync(join(at("volumes"), DATA))).toBe(true);
  expect((await list(path)).map(({ ID }) => ID)).toEqual([DATA]);
  // The agent starts on that state as before.
  const again = startAgent(path, {});
  expect(Object.keys((await (await service.session()).welcome()).node.HostVolumes)).toEqual(["data"]);
  await stop(again);
});

it("`volumes drop` refuses a volume that the service knows, and asks the service each time", async () => {
  const { service, path, at, stop } = await nodeWithVolumes();
  await stop();
  const again = startAgent(path, {});
  await (await service.session()).welcome({ unknownVolumes: [OLD] });
  await stop(again);
  const dropping = volumes(path, "drop", OLD);
  await (await service.session()).welcome({ unknownVolumes: [] });
  expect(await dropping.exit).toBe(2);
  expect(dropping.log).toContain(`delete it there (DELETE /v1/volume/host/${OLD})`);
  expect(readFileSync(join(at("volumes"), OLD, "file"), "utf8")).toBe("precious");
  expect(await list(path)).toHaveLength(2);
});

it("`volumes drop` of a registered volume removes its record and keeps the directory", async () => {
  const service = await fakeService();
  const { path, at } = nodeDirectory(service.url);
  const agent = startAgent(path);
  const session = await service.session();
  await session.welcome();
  const params = { id: OLD, name: "old", namespace: "default", hostPath: at("data/old") };
  mkdirSync(at("data/old"));
  session.request({ op: op(1), key: `dhv:${OLD}`, method: "dhv.register", params });
  expect(await session.result(op(1))).toMatchObject({ ok: true });
  agent.child.kill("SIGTERM");
  await agent.exit;
  const dropping = volumes(path, "drop", OLD);
  await (await service.session()).welcome({ unknownVolumes: [OLD] });
  expect(await dropping.exit, dropping.log).toBe(0);
  expect(existsSync(at("data/old"))).toBe(true);
  expect(await list(path)).toEqual([]);
});

it("`volumes drop` removes a volume whose plugin hangs without calling it, and reports that to the service", async () => {
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  const hostVolumes = { ...node.config.hostVolumes, plugins: [{ name: "hangs" }] };
  writeFileSync(node.path, JSON.stringify({ ...node.config, hostVolumes }));
  writePlugin(
    node.at("plugins"),
    "hangs",
    `[ "$1" = fingerprint ] && { echo '{"version":"1.0.0"}'; exit 0; }\necho begun >> ${node.at("begun")}\nexec /bin/sleep 600`,
  );
  const agent = startAgent(node.path);
  const session = await service.session();
  await session.welcome();
  const params = {
    id: OLD,
    name: "old",
    namespace: "default",
    pluginId: "hangs",
    parameters: {},
    capacityMin: 0,
    capacityMax: 0,
  };
  const request = { op: op(1), key: `dhv:${OLD}`, method: "dhv.create" as const, params };
  session.request({ ...request, deadlineMs: 5_000 });
  expect(await session.result(op(1))).toMatchObject({ ok: false, error: { outcome: "unknown" } });
  await agent.kill();
  // Also without the plugin in the configuration.
  writeFileSync(node.path, JSON.stringify(node.config));
  const dropping = volumes(node.path, "drop", OLD);
  expect(await dropping.exit, dropping.log).toBe(0);
  expect(service.sessions).toHaveLength(1);
  expect(await list(node.path)).toEqual([]);
  startAgent(node.path, {});
  const next = await service.session();
  expect(await next.welcome({ resume: [op(1)] })).toMatchObject({ unavailableVolumes: [] });
  const error = { kind: "cancelled", outcome: "failed", message: "it was given up by the node's operator" };
  expect(await next.result(op(1))).toMatchObject({ ok: false, error });
  expect(readFileSync(node.at("begun"), "utf8")).toBe("begun\n");
});

it("`volumes drop` refuses to run beside a running agent", async () => {
  const { service, path, at } = await nodeWithVolumes();
  const dropping = volumes(path, "drop", OLD);
  expect(await dropping.exit).toBe(2);
  expect(dropping.log).toContain("Another agent is running on");
  expect(service.sessions).toHaveLength(1);
  expect(existsSync(join(at("volumes"), OLD))).toBe(true);
});

it("`volumes drop` of an unknown volume, and unknown commands, fail without a change", async () => {
  const { service, path, stop } = await nodeWithVolumes();
  await stop();
  for (const [args, said] of [
    [["drop", "0193a1b2-0000-7000-8000-000000000009"], "This node has no volume 0193a1b2"],
    [["drop", "../identity.key"], "A volume's id is a UUID"],
    [["drop"], "Usage: "],
    [["drop", OLD, DATA], "Usage: "],
    [["purge", OLD], "Usage: "],
  ] as const) {
    const refused = volumes(path, ...args);
    expect(await refused.exit).toBe(2);
    expect(refused.log).toContain(said);
  }
  expect(service.sessions).toHaveLength(1);
  expect(await list(path)).toHaveLength(2);
});
