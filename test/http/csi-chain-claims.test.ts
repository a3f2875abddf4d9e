import { lstatSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { Rpc } from "@sallyport/csi-wire";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { allocation, allocationId, type CsiNode, job, World } from "./csi-chain-world.ts";
import { PATIENT } from "./node-faults-world.ts";

/* Claims on CSI volumes when agents, plugins, nodes or the service die: each is taken and given back once, and none is stuck. */

vi.setConfig({ testTimeout: 240_000 });
const world = new World();

beforeAll(() => world.start(), 180_000);
afterAll(() => world.destroy(), 60_000);

const TAKING = ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"] as const;
const GIVING_BACK = ["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"] as const;

/** A volume for an allocation on a node, reported as desired. */
class Use {
  readonly #node: CsiNode;
  readonly #allocation = allocationId(Math.floor(Math.random() * 1e9));
  readonly volume: string;
  externalId = "";

  constructor(node: CsiNode, number = 1) {
    this.#node = node;
    this.volume = `${node.plugin}-${number}`;
  }

  async prepare(): Promise<this> {
    const { plugin } = this.#node;
    const made = await world.made({ ID: this.volume, Name: this.volume, PluginID: plugin });
    this.externalId = made.ExternalID;
    await world.report(job(`${this.volume}-job`, this.volume));
    return this;
  }

  async report(status: string): Promise<void> {
    const { id } = this.#node;
    const { status: answered, text } = await world.report(
      allocation(this.#allocation, `${this.volume}-job`, id, status),
    );
    if (answered !== 200) throw new Error(text);
  }

  /** The provider, the node and the service agree that the allocation has the volume. */
  async expectTaken(): Promise<void> {
    const [claim] = await world.claimed(this.volume, "published");
    expect(claim).toMatchObject({ AllocID: this.#allocation, LastError: "", Path: expect.anything() });
    expect(this.#node.mounts()).toEqual([claim?.Path]);
    expect(Object.keys(this.#node.record(this.externalId).published)).toEqual([this.#node.name]);
  }

  /** The provider, the node and the service agree that the volume is free, and it can be deleted. */
  async expectFree(): Promise<void> {
    await world.claimed(this.volume);
    expect(this.#node.mounts()).toEqual([]);
    expect(this.#node.record(this.externalId).published).toEqual({});
    const { body } = await world.read(this.volume);
    expect(body).toMatchObject({ AccessMode: "", WriteAllocs: {}, ReadAllocs: {} });
  }

  async remove(): Promise<void> {
    const removed = await world.ask("DELETE", `/v1/volume/csi/${this.volume}/delete`);
    expect([removed.status, removed.text]).toEqual([200, ""]);
    expect(this.#node.driver.directories("volumes")).toEqual([]);
  }
}

const isCalled = ({ driver, ...node }: CsiNode, rpc: Rpc) =>
  vi.waitFor(() => expect(driver.calls(rpc), node.name).toBeGreaterThan(0), PATIENT);

const DEATHS: [who: string, steps: readonly Rpc[], die: (node: CsiNode) => Promise<void>][] = [
  [
    "agent",
    [...TAKING, ...GIVING_BACK],
    async (node) => {
      await node.kill();
      node.start();
    },
  ],
  [
    "plugin",
    ["ControllerPublishVolume", "NodePublishVolume", "NodeUnpublishVolume"],
    async ({ driver }) => {
      await driver.kill();
      await driver.start();
    },
  ],
  ["service", ["NodePublishVolume", "ControllerUnpublishVolume"], () => world.restartService()],
];

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

describe("a claim", () => {
  it.each(DEATHS)("is taken and released once when the %s crashes during a step", async (who, steps, die) => {
    const node = await world.csiNode(`claim-${who}`);
    const use = await new Use(node).prepare();
    const dieIn = async (rpc: Rpc, status: string) => {
      node.driver.misbehave({ calls: { [rpc]: { delayMs: 700 } } });
      await use.report(status);
      await isCalled(node, rpc);
      await sleep(Math.random() * 900);
      await die(node);
      node.driver.misbehave({});
    };
    for (const rpc of steps) {
      const isTaking = TAKING.some((step) => step === rpc);
      if (isTaking) await dieIn(rpc, "running");
      else await use.report("running");
      await use.expectTaken();
      if (isTaking) await use.report("complete");
      else await dieIn(rpc, "complete");
      await use.expectFree();
      await node.isReady();
    }
    await use.remove();
  });

  it("stays published, with its mount, while the agent is upgraded, and one that is being taken completes", async () => {
    const node = await world.csiNode("claim-upgrade");
    const use = await new Use(node).prepare();
    await use.report("running");
    await use.expectTaken();
    const [path] = node.mounts();
    const mount = lstatSync(path ?? "").ino;
    const [before] = await world.claims(use.volume);
    const second = await new Use(node, 2).prepare();
    node.driver.misbehave({ calls: { NodePublishVolume: { delayMs: 1_500 } } });
    await second.report("running");
    await isCalled(node, "NodePublishVolume");
    await node.upgrade("9.9.9");
    await world.claimed(second.volume, "published");
    await vi.waitFor(async () => {
      const { body } = await world.ask("GET", `/v1/agent/${node.id}`);
      expect(body).toMatchObject({ Version: "9.9.9" });
    }, PATIENT);
    // A reconnected node makes the service look at its claims again, which sets the time only.
    expect(await world.claims(use.volume)).toEqual([{ ...before, ModifyTime: expect.any(Number) }]);
    expect(lstatSync(path ?? "").ino).toBe(mount);
    expect(node.driver.allCalls().filter((call) => /Un(publish|stage)Volume$/.test(call))).toEqual([]);
    // The first volume was published before the count began.
    expect(new Set(node.mounts()).size).toBe(2);
    for (const each of [second, use]) await each.report("complete");
    for (const each of [second, use]) await world.claimed(each.volume);
    expect(node.mounts()).toEqual([]);
  });

  it("whose plugin refuses temporarily shows the reason, and continues automatically", async () => {
    const node = await world.csiNode("claim-refused");
    const use = await new Use(node).prepare();
    const refuses = (rpc: Rpc) => node.driver.misbehave({ calls: { [rpc]: { fail: { code: 13, times: 2 } } } });
    const isTold = (rpc: Rpc) =>
      vi.waitFor(async () => {
        const [claim] = await world.claims(use.volume);
        expect(claim?.LastError).toContain(`${rpc}: INTERNAL: told to fail`);
      }, PATIENT);
    refuses("NodeStageVolume");
    await use.report("running");
    await isTold("NodeStageVolume");
    await use.expectTaken();
    refuses("NodeUnpublishVolume");
    await use.report("complete");
    await isTold("NodeUnpublishVolume");
    const refused = await world.ask("DELETE", `/v1/volume/csi/${use.volume}/delete`);
    expect([refused.status, refused.text]).toEqual([409, expect.stringContaining("told to fail")]);
    await use.expectFree();
    await use.remove();
  });

  it("on a volume whose file system has not grown on the node has the expansion pending until it is done", async () => {
    const node = await world.csiNode("claim-grows");
    const use = await new Use(node).prepare();
    await use.report("running");
    await use.expectTaken();
    node.driver.misbehave({ calls: { NodeExpandVolume: { fail: { code: 13, times: 2 } } } });
    const grown = await world.make({
      ID: use.volume,
      Name: "",
      PluginID: node.plugin,
      RequestedCapacityMin: 2 ** 32,
    });
    expect([grown.status, grown.text]).toEqual([
      502,
      expect.stringContaining("has grown, but not yet its file system"),
    ]);
    expect((await world.read(use.volume)).body.Capacity).toBe(2 ** 32);
    expect(node.record(use.externalId).bytes).toBe(String(2 ** 32));
    await vi.waitFor(async () => {
      expect(await world.claims(use.volume)).toMatchObject([{ ExpansionOwed: false, LastError: "" }]);
    }, PATIENT);
    expect(node.driver.calls("ControllerExpandVolume")).toBe(1);
    expect(node.driver.calls("NodeExpandVolume")).toBe(3);
    await use.report("complete");
    await use.expectFree();
    await use.remove();
  });

  it("on a purged node is released by the plugin's controller on another node, once its allocation is lost", async () => {
    const elsewhere = await world.csiNode("claim-purged", { roles: ["controller"] });
    const node = await world.csiNode("claim-purged", { beside: elsewhere });
    const use = await new Use(node).prepare();
    await use.report("running");
    await use.expectTaken();
    await node.kill();
    await node.driver.kill();
    expect((await world.ask("PUT", `/v1/node/${node.id}/purge`)).status).toBe(200);
    await use.report("lost");
    await world.claimed(use.volume);
    expect(node.record(use.externalId).published).toEqual({});
    await use.remove();
  });

  it("is published again after its node has rebooted", async () => {
    const node = await world.csiNode("reboot");
    const use = await new Use(node).prepare();
    await use.report("running");
    await use.expectTaken();
    const mounts = node.mounts();
    await node.kill();
    await node.driver.kill();
    startAfterReboot(node);
    expect(node.mounts()).toEqual([]);
    await node.driver.start();
    await vi.waitFor(() => expect(node.mounts(), node.log).toEqual(mounts), PATIENT);
    await use.expectTaken();
    await use.report("complete");
    await use.expectFree();
    await use.remove();
  });

  it("is taken and released once although its plugin is busy, in use, away or frozen meanwhile", async () => {
    const node = await world.csiNode("moody");
    const use = await new Use(node).prepare();
    const fail = (code: number, times: number) => ({ fail: { code, times } });
    node.driver.misbehave({
      calls: {
        // Longer than the agent's own retries.
        ControllerPublishVolume: fail(9, 6),
        NodeStageVolume: fail(14, 2),
        NodePublishVolume: fail(10, 3),
      },
    });
    await use.report("running");
    await use.expectTaken();
    expect(node.driver.calls("ControllerPublishVolume")).toBe(7);
    node.driver.misbehave({
      calls: {
        NodeUnpublishVolume: fail(10, 3),
        NodeUnstageVolume: fail(14, 2),
        ControllerUnpublishVolume: fail(10, 2),
      },
    });
    node.driver.signal("SIGSTOP");
    await use.report("complete");
    await sleep(1_000);
    node.driver.signal("SIGCONT");
    await use.expectFree();
    expect(node.driver.calls("ControllerUnpublishVolume")).toBe(3);
    await use.remove();
  });

  it("proceeds when the results of its steps are lost in transit", async () => {
    const node = await world.csiNode("unheard");
    const use = await new Use(node).prepare();
    for (const [rpc, status, isSo] of [
      ["ControllerPublishVolume", "running", () => use.expectTaken()],
      ["NodeUnpublishVolume", "complete", () => use.expectFree()],
    ] as const) {
      node.driver.misbehave({ calls: { [rpc]: { delayMs: 500 } } });
      await use.report(status);
      await isCalled(node, rpc);
      world.line.deafen();
      await sleep(1_000);
      world.line.cut();
      await isSo();
      expect(node.driver.calls(rpc)).toBe(1);
    }
    await use.remove();
  });

  it("is taken and released by another controller when the called one crashes permanently", async () => {
    const one = await world.csiNode("twins", { roles: ["controller"] });
    const other = await world.csiNode("twins", { beside: one, roles: ["controller"] });
    const node = await world.csiNode("twins", { beside: one, roles: ["node"] });
    const [first, second] = [one, other].sort((a, b) => (a.id < b.id ? -1 : 1)) as [CsiNode, CsiNode];
    const use = await new Use(node).prepare();
    for (const [rpc, status, isSo] of [
      ["ControllerPublishVolume", "running", () => use.expectTaken()],
      ["ControllerUnpublishVolume", "complete", () => use.expectFree()],
    ] as const) {
      first.driver.misbehave({ calls: { [rpc]: { hang: 1 } } });
      await use.report(status);
      await isCalled(first, rpc);
      await first.kill();
      await first.driver.kill();
      await isSo();
      expect(second.driver.calls(rpc)).toBe(1);
      await first.driver.start();
      first.start();
      await vi.waitFor(async () => expect((await world.plugin("twins"))?.controllers).toBe(2), PATIENT);
    }
    await use.remove();
  });
});
