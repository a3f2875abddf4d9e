import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Report, report, VOLUME_FRAME_BYTES, volumesChange } from "@sallyport/agent-protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseConfig } from "../config.ts";
import type { HostVolume, PluginStatus } from "../dhv/index.ts";
import { changesOf, inFrames, wholeMapsOf, within } from "./changes.ts";
import { machineFacts } from "./machine.ts";
import { Reporter } from "./reporter.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "sallyport-report-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

const ID = "0b6f1a52-3c55-4f6d-9a3e-8a1f2b3c4d5e";
const volume: HostVolume = {
  id: ID,
  name: "db",
  namespace: "default",
  pluginId: "mkdir",
  path: "/v/db",
  bytes: 0,
  problem: undefined,
};
const well: PluginStatus = { name: "nfs", ok: true, version: "1.2.3" };
const unwell: PluginStatus = { name: "nfs", ok: false, kind: "plugin", message: "no", outcome: "failed" };

const noCsi = { probe: async () => {}, reported: { CSIControllerPlugins: {}, CSINodePlugins: {} } };

/** A reporter of a node with the given plugins and volumes. */
function reporter(node: { plugins: PluginStatus[]; volumes: HostVolume[] }) {
  const config = parseConfig(
    "agent.json",
    JSON.stringify({
      service: "https://sallyport.example",
      name: "node-1",
      class: "big",
      meta: { rack: "r1" },
      reserved: { memoryMB: 512, ports: "22" },
      hostVolumes: { volumesDir: directory },
    }),
  );
  return new Reporter(config, { fingerprint: async () => node.plugins, volumes: async () => node.volumes }, noCsi);
}

const version = ({ node }: Report) => node.Attributes["plugins.host_volume.nfs.version"];

it("reports the machine, its configuration and its plugins", async () => {
  const whole = await reporter({ plugins: [well], volumes: [volume] }).inspect();
  expect(report.parse(whole)).toEqual(whole);
  expect(whole.node).toMatchObject({
    Name: "node-1",
    Datacenter: "dc1",
    NodeClass: "big",
    NodePool: "default",
    Meta: { rack: "r1" },
    ReservedResources: { Memory: { MemoryMB: 512 }, Networks: { ReservedHostPorts: "22" } },
    HostVolumes: { db: { ID, Name: "db", Path: "/v/db", ReadOnly: false } },
    Attributes: { "kernel.name": process.platform, "plugins.host_volume.nfs.version": "1.2.3" },
  });
  const { Cpu, Memory, Disk } = whole.node.NodeResources;
  for (const amount of [Cpu.CpuShares, Cpu.TotalCpuCores, Memory.MemoryMB, Disk.DiskMB])
    expect(amount).toBeGreaterThan(0);
  expect(whole.unavailableVolumes).toEqual([]);
});

it("reports an unusable volume with its reason", async () => {
  const whole = await reporter({ plugins: [], volumes: [{ ...volume, problem: "its plugin is gone" }] }).inspect();
  expect(whole.node.HostVolumes).toEqual({});
  expect(whole.unavailableVolumes).toEqual([{ id: ID, name: "db", reason: "its plugin is gone" }]);
  const long = await reporter({ plugins: [], volumes: [{ ...volume, problem: "x".repeat(2_000) }] }).inspect();
  expect(report.safeParse(long).success).toBe(true);
});

it("reports a plugin until it has failed twice in a row", async () => {
  const node: { plugins: PluginStatus[]; volumes: HostVolume[] } = { plugins: [well], volumes: [] };
  const asked = reporter(node);
  expect(version(await asked.inspect())).toBe("1.2.3");
  node.plugins = [unwell];
  expect(version(await asked.inspect())).toBe("1.2.3");
  expect(version(await asked.inspect())).toBeUndefined();
  node.plugins = [well];
  expect(version(await asked.inspect())).toBe("1.2.3");
});

it("does not report a plugin that has never worked", async () => {
  expect(version(await reporter({ plugins: [unwell], volumes: [] }).inspect())).toBeUndefined();
});

it("reports a new volume while a plugin hangs", async () => {
  const node = { plugins: [well], volumes: [volume] };
  const asked = reporter(node);
  Object.assign(node, { plugins: new Promise(() => {}) });
  void asked.inspect();
  expect((await asked.inspectVolumes()).node.HostVolumes).toHaveProperty("db");
});

it("sends whole changed fields to a service of the first release", async () => {
  const node = { plugins: [well], volumes: [volume] };
  const asked = reporter(node);
  const before = await asked.inspect();
  expect(wholeMapsOf(before, await asked.inspect())).toBeUndefined();
  const second = { ...volume, id: ID.replace("0", "1"), name: "logs", path: "/v/logs" };
  node.volumes = [volume, second];
  const now = await asked.inspectVolumes();
  expect(wholeMapsOf(before, now)).toEqual({ node: { HostVolumes: now.node.HostVolumes } });
  node.volumes = [volume, { ...second, problem: "gone" }];
  const later = await asked.inspectVolumes();
  expect(wholeMapsOf(now, later)).toEqual({
    node: { HostVolumes: later.node.HostVolumes },
    unavailableVolumes: later.unavailableVolumes,
  });
});

it("reports stable machine facts", async () => {
  expect(await machineFacts(directory)).toEqual(await machineFacts(directory));
});

it("reports the file system size of a missing volumes directory", async () => {
  const { resources } = await machineFacts(join(directory, "not", "yet"));
  expect(resources.Disk).toEqual((await machineFacts(directory)).resources.Disk);
});

const idOf = (number: number) => ID.replace("0b6f1a52", String(number).padStart(8, "0"));

/** A report with `count` volumes and names of a given length. */
async function reportOf(count: number, characters = 1): Promise<Report> {
  const volumes = Array.from({ length: count }, (_, at) => ({
    ...volume,
    id: idOf(at),
    name: `${at}-`.padEnd(characters, "x"),
  }));
  return reporter({ plugins: [], volumes }).inspect();
}

describe("volume changes", () => {
  it("lists new, unusable and deleted volumes only", async () => {
    const [usable, broken, gone, same] = [0, 1, 2, 3].map((at) => ({ ...volume, id: idOf(at), name: `v${at}` })) as [
      HostVolume,
      HostVolume,
      HostVolume,
      HostVolume,
    ];
    const node = { plugins: [well], volumes: [broken, gone, same] };
    const asked = reporter(node);
    const before = await asked.inspect();
    expect(changesOf(before, await asked.inspect())).toEqual({ node: undefined, volumes: undefined });
    node.volumes = [usable, { ...broken, problem: "gone" }, same];
    expect(changesOf(before, await asked.inspectVolumes())).toEqual({
      node: undefined,
      volumes: {
        usable: [{ ID: usable.id, Name: "v0", Path: "/v/db", ReadOnly: false }],
        unavailable: [{ id: broken.id, name: "v1", reason: "gone" }],
        gone: [gone.id],
      },
    });
  });

  it("has a size independent of the number of volumes", async () => {
    const bytes = async (count: number) => {
      const [before, now] = [await reportOf(count), await reportOf(count)];
      now.node.HostVolumes["new"] = { ID: idOf(9_999), Name: "new", Path: "/v", ReadOnly: false };
      const { volumes } = changesOf(before, now);
      return JSON.stringify(volumes).length;
    };
    expect(await bytes(2_000)).toBe(await bytes(1));
  });

  it("splits into complete frames of bounded size", async () => {
    const none = await reportOf(0);
    const { volumes } = changesOf(none, await reportOf(2_000, 200));
    const frames = volumes ? inFrames(volumes) : [];
    expect(frames.flatMap(({ usable }) => usable)).toEqual(volumes?.usable);
    expect(frames.length).toBeGreaterThan(4);
    for (const frame of frames) {
      expect(volumesChange.parse(frame)).toEqual(frame);
      expect(JSON.stringify(frame).length).toBeLessThan(VOLUME_FRAME_BYTES + 100);
    }
    const { volumes: ended } = changesOf(await reportOf(2_000), none);
    expect(ended ? inFrames(ended).map(({ gone }) => gone.length) : []).toEqual([500, 500, 500, 500]);
  });

  it("sends the volumes that a hello lists by id only", async () => {
    const report = await reportOf(2_000, 250);
    const told = within(300_000, report);
    expect(JSON.stringify(told).length).toBeLessThanOrEqual(300_000);
    expect(JSON.stringify(told).length).toBeGreaterThan(298_000);
    expect(told.held).toHaveLength(2_000);
    const { volumes } = changesOf(told, report);
    const inGreeting = Object.keys(told.node.HostVolumes).length;
    expect(inGreeting).toBeGreaterThan(100);
    expect(volumes?.usable).toHaveLength(2_000 - inGreeting);
    // A volume deleted before its description was sent.
    const last = changesOf(told, await reportOf(1_999, 250));
    expect(last.volumes?.gone).toEqual([idOf(1_999)]);
    expect(within(2_000_000, report)).toEqual(report);
  });
});
