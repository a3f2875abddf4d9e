import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, vi } from "vitest";
import { freePort } from "../smoke/local-service.ts";
import { type AgentProcess, eventually, fakeService, nodeDirectory, startAgent, writePlugin } from "./agent-service.ts";
import { startDriver } from "./csi-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const reload = (agent: AgentProcess, path: string, config: object) => {
  writeFileSync(path, JSON.stringify(config));
  agent.child.kill("SIGHUP");
};

it("SIGHUP applies a changed configuration without a new connection, and operations of a removed plugin complete", async () => {
  const [driver, service] = [await startDriver(), await fakeService()];
  const node = nodeDirectory(service.url, { meta: { rack: "a" } });
  const agent = startAgent(node.path);
  const session = await service.session();
  const hello = await session.welcome();
  expect(hello.node.CSIControllerPlugins).toEqual({});

  writePlugin(node.at("plugins"), "nfs", `echo '{"version": "3.1.4"}'`);
  const csi = { mountsDir: node.at("mounts"), plugins: [{ id: "disk", socket: driver.socket }] };
  const hostVolumes = { ...node.config.hostVolumes, plugins: [{ name: "nfs" }] };
  const withPlugins = { ...node.config, meta: { rack: "b" }, csi, hostVolumes, reserved: { memoryMB: 64 } };
  // The default directory of mounts is another one, so it is given from the start in practice.
  reload(agent, node.path, withPlugins);
  await eventually("a refusal", () => agent.log.includes("a change of csi.mountsDir needs a restart") || undefined);
  reload(agent, node.path, { ...withPlugins, csi: { plugins: csi.plugins } });
  const reported = () => session.frames.flatMap((frame) => (frame.t === "fp" ? [frame.node] : []));
  const last = <K extends keyof (typeof hello)["node"]>(field: K) =>
    reported().findLast((change) => change[field] !== undefined)?.[field];
  await eventually("the plugins", () => last("CSIControllerPlugins")?.["disk"]?.Healthy || undefined);
  await eventually("metadata", () => last("Meta")?.["rack"] === "b" || undefined);
  await eventually("nfs", () => last("Attributes")?.["plugins.host_volume.nfs.version"] === "3.1.4" || undefined);
  expect(last("ReservedResources")?.Memory.MemoryMB).toBe(64);

  const op = "01939b5e-7a10-7cc1-8b5e-000000000001";
  driver.misbehave({ calls: { CreateVolume: { delayMs: 1_000 } } });
  const params = {
    pluginId: "disk",
    name: "v",
    capacityMin: 0,
    capacityMax: 0,
    mount: null,
    parameters: {},
    snapshotId: "",
    cloneId: "",
    topology: null,
    capabilities: [{ accessMode: "single-node-writer", attachmentMode: "file-system" }],
  };
  session.request({ op, method: "csi.controller.create", params });
  await eventually("a call", () => driver.calls("CreateVolume") > 0 || undefined);
  reload(agent, node.path, node.config);
  await eventually(
    "no plugins",
    () => Object.keys(last("CSIControllerPlugins") ?? { disk: 1 }).length === 0 || undefined,
  );
  expect(await session.result(op)).toMatchObject({ ok: true });
  session.request({ op: op.replace(/1$/, "2"), method: "csi.controller.create", params, key: "l" });
  expect(await session.result(op.replace(/1$/, "2"))).toMatchObject({ ok: false, error: { kind: "forbidden" } });
  await eventually("nfs is gone", () => !last("Attributes")?.["plugins.host_volume.nfs.version"] || undefined);
  expect(service.sessions).toHaveLength(1);
});

it("SIGHUP leaves the settings when the file is invalid, and the agent names the fault", async () => {
  const service = await fakeService();
  const port = await freePort();
  const node = nodeDirectory(service.url, { monitorAddress: `127.0.0.1:${port}` });
  const agent = startAgent(node.path);
  const session = await service.session();
  await session.welcome();
  reload(agent, node.path, { ...node.config, typo: 1 });
  await eventually("the fault", () => agent.log.includes("typo: there is no such key") || undefined);
  reload(agent, node.path, { ...node.config, service: "https://other.example", pool: "gpu" });
  await eventually("the keys", () => agent.log.includes("a change of service, pool needs a restart") || undefined);
  reload(agent, node.path, { ...node.config, meta: { rack: "z" } });
  await eventually("a change", () => session.texts.find((text) => text.includes('"rack":"z"')));
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  expect(metrics).toContain('sallyport_agent_config_reloads_total{result="applied"} 1');
  expect(metrics).toContain('sallyport_agent_config_reloads_total{result="refused"} 2');
  expect(agent.child.exitCode).toBeNull();
});

it("serves health and metrics on loopback: unhealthy without a connection, and gone with the setting", async () => {
  const service = await fakeService();
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const node = nodeDirectory(service.url, { monitorAddress: `127.0.0.1:${port}` });
  const agent = startAgent(node.path);
  const session = await service.session();
  await session.hello();
  const before = await fetch(`${base}/health`);
  expect([before.status, await before.text()]).toEqual([503, "not connected to the service\n"]);
  await session.welcome();
  await vi.waitFor(async () => expect((await fetch(`${base}/health`)).status).toBe(200), { timeout: 45_000 });
  const op = "01939b5e-7a10-7cc1-8b5e-000000000001";
  session.request({ op, method: "agent.fingerprint" });
  await session.result(op);
  const response = await fetch(`${base}/metrics`);
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4");
  const text = await response.text();
  expect(text).toContain("sallyport_agent_connected 1\n");
  expect(text).toContain('sallyport_agent_operations_total{result="ok"} 1\n');
  expect(text).toMatch(/^sallyport_agent_info\{version="[^"]+",node="[0-9a-f-]+"\} 1$/m);
  expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
  // Each line is a comment or a sample: what a scraper reads.
  for (const line of text.trimEnd().split("\n"))
    expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [\d.e+-]+)$/);
  expect((await fetch(`${base}/other`)).status).toBe(404);
  const { monitorAddress: _, ...without } = node.config as typeof node.config & { monitorAddress: string };
  reload(agent, node.path, without);
  await vi.waitFor(() => expect(fetch(`${base}/health`)).rejects.toThrow(), { timeout: 45_000 });
});

it("an agent whose monitoring address is taken says so and works", async () => {
  const service = await fakeService();
  const taken = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  const { port } = taken.address() as AddressInfo;
  const agent = startAgent(nodeDirectory(service.url, { monitorAddress: `127.0.0.1:${port}` }).path);
  await (await service.session()).welcome();
  await eventually("the failure", () => agent.log.includes('"event":"monitor_failed"') || undefined);
  expect(agent.child.exitCode).toBeNull();
  taken.close();
});
