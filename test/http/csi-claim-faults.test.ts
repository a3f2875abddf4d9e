import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { Rpc } from "@sallyport/csi-wire";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { pauseAfter, retriesOf } from "../../agent/src/csi/retry.ts";
import { allocation, allocationId, type CsiNode, job, World } from "./csi-chain-world.ts";
import { PATIENT } from "./node-faults-world.ts";

vi.setConfig({ testTimeout: 240_000 });
const world = new World();

beforeAll(() => world.start(), 180_000);
afterAll(() => world.destroy(), 60_000);

/** Simulates a reboot for an agent: another boot id, and no mounts. */
function startAfterReboot(node: CsiNode): void {
  for (const path of node.mounts()) rmSync(path);
  rmSync(join(node.driver.root, "mounts"), { recursive: true });
  const path = node.at("reboot.mjs");
  const bootId = "/proc/sys/kernel/random/boot_id";
  writeFileSync(
    path,
    `import fs from "node:fs";
     import { syncBuiltinESMExports } from "node:module";
     const read = fs.readFileSync;
     fs.readFileSync = (path, ...more) => (path === "${bootId}" ? "another" : read(path, ...more));
     syncBuiltinESMExports();`,
  );
  node.start({ NODE_OPTIONS: `--import=${pathToFileURL(path)}` });
}

let allocations = 0;

/** A volume for an allocation on a node, with its current state. */
async function volumeFor(node: CsiNode) {
  const [id, jobId, alloc] = [`${node.plugin}-1`, `${node.plugin}-job`, allocationId(++allocations)];
  const { ExternalID } = await world.made({ ID: id, Name: id, PluginID: node.plugin });
  await world.report(job(jobId, id));
  return {
    /** Reports the allocation as running or as complete. */
    is: (status: "running" | "complete") => world.report(allocation(alloc, jobId, node.id, status)),
    isTaken: async () => {
      const [claim] = await world.claimed(id, "published");
      await vi.waitFor(() => expect(node.mounts(), node.log).toEqual([claim?.Path]), PATIENT);
      expect(Object.keys(node.record(ExternalID).published)).toEqual([node.name]);
    },
    /** The volume has no claims and is not mounted or published. */
    isFree: async () => {
      await world.claimed(id);
      expect([node.mounts(), node.record(ExternalID).published]).toEqual([[], {}]);
    },
    goes: async () => expect((await world.ask("DELETE", `/v1/volume/csi/${id}/delete`)).status).toBe(200),
  };
}

const isCalled = ({ driver, log }: CsiNode, rpc: Rpc) =>
  vi.waitFor(() => expect(driver.calls(rpc), log).toBeGreaterThan(0), PATIENT);

it("an allocation has its volume published again after its node has rebooted", async () => {
  const node = await world.csiNode("reboot");
  const volume = await volumeFor(node);
  await volume.is("running");
  await volume.isTaken();
  const mounts = node.mounts();
  await node.kill();
  await node.driver.kill();
  startAfterReboot(node);
  expect(node.mounts()).toEqual([]);
  await node.driver.start();
  await volume.isTaken();
  expect(node.mounts()).toEqual(mounts);
  await volume.is("complete");
  await volume.isFree();
  await volume.goes();
});

it("a claim is taken and released once although its plugin is busy, in use, away or frozen meanwhile", async () => {
  const node = await world.csiNode("moody");
  const volume = await volumeFor(node);
  const fail = (code: number, times: number) => ({ fail: { code, times } });
  node.driver.misbehave({
    calls: {
      // Longer than the agent's own retries.
      ControllerPublishVolume: fail(9, 6),
      NodeStageVolume: fail(14, 2),
      NodePublishVolume: fail(10, 3),
    },
  });
  await volume.is("running");
  await volume.isTaken();
  expect(node.driver.calls("ControllerPublishVolume")).toBe(7);
  node.driver.misbehave({
    calls: { NodeUnpublishVolume: fail(10, 3), NodeUnstageVolume: fail(14, 2), ControllerUnpublishVolume: fail(10, 2) },
  });
  node.driver.signal("SIGSTOP");
  await volume.is("complete");
  await sleep(1_000);
  node.driver.signal("SIGCONT");
  await volume.isFree();
  expect(node.driver.calls("ControllerUnpublishVolume")).toBe(3);
  await volume.goes();
});

it("a claim proceeds when the results of its steps are lost in transit", async () => {
  const node = await world.csiNode("unheard");
  const volume = await volumeFor(node);
  for (const [rpc, status, isSo] of [
    ["ControllerPublishVolume", "running", volume.isTaken],
    ["NodeUnpublishVolume", "complete", volume.isFree],
  ] as const) {
    node.driver.misbehave({ calls: { [rpc]: { delayMs: 500 } } });
    await volume.is(status);
    await isCalled(node, rpc);
    world.line.deafen();
    await sleep(1_000);
    world.line.cut();
    await isSo();
    expect(node.driver.calls(rpc)).toBe(1);
  }
  await volume.goes();
});

it("a claim is taken and released by another controller when the called one crashes permanently", async () => {
  const one = await world.csiNode("twins", { roles: ["controller"] });
  const other = await world.csiNode("twins", { beside: one, roles: ["controller"] });
  const node = await world.csiNode("twins", { beside: one, roles: ["node"] });
  const [first, second] = [one, other].sort((a, b) => (a.id < b.id ? -1 : 1)) as [CsiNode, CsiNode];
  const volume = await volumeFor(node);
  for (const [rpc, status, isSo] of [
    ["ControllerPublishVolume", "running", volume.isTaken],
    ["ControllerUnpublishVolume", "complete", volume.isFree],
  ] as const) {
    first.driver.misbehave({ calls: { [rpc]: { hang: 1 } } });
    await volume.is(status);
    await isCalled(first, rpc);
    await first.kill();
    await first.driver.kill();
    await isSo();
    expect(second.driver.calls(rpc)).toBe(1);
    await first.driver.start();
    first.start();
    await vi.waitFor(async () => expect((await world.plugin("twins"))?.controllers).toBe(2), PATIENT);
  }
  await volume.goes();
});

it("a volume in use on another node does not block the agent's plugin", () => {
  const tries = (rpc: Rpc) => [1, 2, 3, 4, 5, 6].filter((times) => pauseAfter(9, times, retriesOf(rpc)) !== undefined);
  expect([tries("ControllerPublishVolume"), tries("CreateVolume")]).toEqual([[1, 2, 3, 4], []]);
});
