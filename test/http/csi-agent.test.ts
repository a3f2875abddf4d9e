import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { csiVolumeKey, type Method, type ParamsOf } from "@sallyport/agent-protocol";
import { expect, it, vi } from "vitest";
import { type AgentSession, eventually, fakeService, nodeDirectory, startAgent, writePlugin } from "./agent-service.ts";
import { type Driver, type Faults, startDriver } from "./csi-process.ts";

vi.setConfig({ testTimeout: 120_000 });

/** The real agent and the real driver with a scripted service. */
const PLUGIN = "disk";
const opOf = (number: number) => `01930001-7a10-7cc1-8b5e-${String(number).padStart(12, "0")}`;
const CANARY = "CANARY-token-91c7";
const FLAG = "password=CANARY-flag-3f";

async function world() {
  const driver = await startDriver();
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  const csi = { mountsDir: node.at("mounts"), plugins: [{ id: PLUGIN, socket: driver.socket }] };
  writeFileSync(node.path, JSON.stringify({ ...node.config, csi }));
  return { driver, service, node };
}

function request<M extends Extract<Method, `csi.${string}`>>(
  session: AgentSession,
  op: string,
  method: M,
  params: Omit<ParamsOf<M>, "pluginId">,
  change: { key?: string; gen?: number; secrets?: Record<string, string> } = {},
): void {
  const key = csiVolumeKey(PLUGIN, "default", "v");
  session.request({ op, method, key, params: { pluginId: PLUGIN, ...params }, ...change });
}

const creation = (name: string, mountFlags: string[] = []) => ({
  name,
  capacityMin: 0,
  capacityMax: 0,
  capabilities: [{ accessMode: "single-node-writer", attachmentMode: "file-system" }],
  mount: mountFlags.length > 0 ? { fsType: "", mountFlags } : null,
  parameters: {},
  snapshotId: "",
  cloneId: "",
  topology: null,
});

it("the node's report lists its CSI plugins, and changes when one disappears and returns", async () => {
  const { driver, service, node } = await world();
  startAgent(node.path);
  const session = await service.session();
  const hello = await session.welcome({ cfg: { fingerprintMs: 300 } });
  const healths = () =>
    session.frames.flatMap((frame) =>
      frame.t === "fp" && frame.node.CSIControllerPlugins ? [frame.node.CSIControllerPlugins[PLUGIN]?.Healthy] : [],
    );
  const first = hello.node.CSIControllerPlugins?.[PLUGIN]?.Healthy;
  if (!first) await eventually("a healthy plugin", () => healths().at(-1) || undefined);
  expect(hello.features).toContain("csi.controller.create");
  await driver.kill();
  await eventually("the plugin's end", () => healths().at(-1) === false || undefined);
  await driver.start();
  await eventually("the plugin's return", () => healths().at(-1) === true || undefined);
});

it("CSI plugins are reported at once although a host volume plugin hangs in its fingerprint or in a restore", async () => {
  const { driver, service, node } = await world();
  const csi = { mountsDir: node.at("mounts"), plugins: [{ id: PLUGIN, socket: driver.socket }] };
  const hostVolumes = { ...node.config.hostVolumes, plugins: [{ name: "hangs" }] };
  writeFileSync(node.path, JSON.stringify({ ...node.config, csi, hostVolumes }));
  writePlugin(node.at("plugins"), "hangs", "exec /bin/sleep 600");
  const id = opOf(77);
  const request = {
    id,
    name: "v",
    namespace: "default",
    pluginId: "hangs",
    parameters: {},
    capacityMin: 0,
    capacityMax: 0,
  };
  mkdirSync(node.at("state/host-volumes"), { recursive: true, mode: 0o700 });
  chmodSync(node.at("state"), 0o700);
  writeFileSync(node.at(`state/host-volumes/${id}.json`), JSON.stringify({ state: "creating", request }));
  startAgent(node.path);
  const hello = await (await service.session()).welcome();
  expect(hello.node.CSIControllerPlugins?.[PLUGIN]).toMatchObject({ Healthy: true });
  expect(hello.unavailableVolumes).toMatchObject([{ id }]);
});

/** Points at which an agent may die, each produced by a fault of the driver. */
const MOMENTS: [when: string, faults: (rpc: string) => Faults][] = [
  ["before the plugin has begun", (rpc) => ({ calls: { [rpc]: { delayMs: 60_000 } } })],
  ["while the plugin works", () => ({ stepMs: 60_000 })],
  ["while the plugin never answers", (rpc) => ({ calls: { [rpc]: { hang: 1 } } })],
];

it.each(MOMENTS)(
  "an agent killed %s repeats its calls after a restart: one volume, one snapshot, a complete deletion",
  async (_, faults) => {
    const { driver, service, node } = await world();
    let number = 0;
    let gen = 0;
    /** Requests an operation, kills the agent during its call, and returns the result of the next agent. */
    async function cutOff<M extends Extract<Method, `csi.${string}`>>(
      rpc: Parameters<Driver["calls"]>[0],
      method: M,
      params: Omit<ParamsOf<M>, "pluginId">,
    ) {
      driver.misbehave({});
      const agent = startAgent(node.path);
      const session = await service.session();
      await session.welcome();
      const op = opOf(++number);
      driver.misbehave(faults(rpc));
      request(session, op, method, params, { gen: ++gen });
      await eventually(`a call of ${rpc}`, () => driver.calls(rpc) > 0 || undefined);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
      await agent.kill();
      // Ends its delays; a call that hangs goes on hanging.
      driver.misbehave({});

      const next = startAgent(node.path);
      const after = await service.session(30_000);
      const hello = await after.welcome({ resume: [op] });
      expect(hello.journal.find((entry) => entry.op === op)).toMatchObject({ state: "running" });
      const result = await after.result(op);
      expect(result).toMatchObject({ ok: true });
      await next.kill();
      return result.ok ? result.result : {};
    }
    const { externalId } = (await cutOff("CreateVolume", "csi.controller.create", creation("v"))) as {
      externalId: string;
    };
    expect(driver.directories("volumes")).toEqual([externalId]);
    const snapshot = { externalId, name: "s", parameters: {} };
    const { snapshotId } = await cutOff("CreateSnapshot", "csi.controller.snapshotCreate", snapshot);
    expect(driver.directories("snapshots")).toEqual([snapshotId]);
    await cutOff("DeleteVolume", "csi.controller.delete", { externalId });
    driver.misbehave({});
    expect(driver.directories("volumes")).toEqual([]);
    expect(driver.directories("snapshots")).toEqual([snapshotId]);
  },
);

it("secrets and mount flags appear in no file, log or frame although the plugin prints them, and operations without them are not repeated", async () => {
  const { driver, service, node } = await world();
  const first = startAgent(node.path);
  const before = await service.session();
  await before.welcome();
  const secrets = { token: CANARY };
  driver.misbehave({
    leakSecrets: true,
    calls: { CreateVolume: { fail: { code: 13, times: 1, message: `cannot mount with ${FLAG}` } } },
  });
  request(before, opOf(1), "csi.controller.create", creation("v", [FLAG]), { secrets });
  const failed = await before.result(opOf(1));
  expect(failed).toMatchObject({
    ok: false,
    error: { kind: "plugin", call: { pluginId: PLUGIN, rpc: "CreateVolume", code: 13 } },
  });
  expect(JSON.stringify(failed)).toContain("[REDACTED]");

  driver.misbehave({ calls: { CreateVolume: { hang: 1 } } });
  request(before, opOf(2), "csi.controller.create", creation("w", [FLAG]), { gen: 2 });
  await eventually("a call", () => driver.calls("CreateVolume") > 0 || undefined);
  const journal = readFileSync(node.at("state/journal"), "utf8");
  expect(journal).toContain(opOf(2));
  await first.kill();
  const second = startAgent(node.path);
  const after = await service.session();
  await after.welcome({ resume: [opOf(2)] });
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(driver.calls("CreateVolume")).toBe(1);
  request(after, opOf(2), "csi.controller.create", creation("w", [FLAG]), { gen: 2 });
  expect(await after.result(opOf(2))).toMatchObject({ ok: true });
  expect(driver.directories("volumes").length).toBe(1);

  const frames = [...before.texts, ...after.texts].join("\n");
  for (const canary of [CANARY, FLAG]) {
    expect([frames, first.log, second.log, first.out, second.out].join("\n")).not.toContain(canary);
    // grep exits with 1 without a match.
    expect(() => execFileSync("grep", ["-rF", canary, node.root], { stdio: "ignore" })).toThrow();
  }
});
