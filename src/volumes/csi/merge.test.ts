import { describe, expect, it } from "vitest";
import type { CsiRequest, CsiVolume } from "../../contracts/csi-volumes.ts";
import { humanBytes, merged } from "./merge.ts";

const request: CsiRequest = {
  id: "v",
  namespace: "default",
  name: "",
  pluginId: "p",
  externalId: "",
  cloneId: "",
  snapshotId: "",
  capabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
  mount: null,
  topologyRequest: null,
  parameters: {},
  context: {},
  capacityMin: 0,
  capacityMax: 0,
  secrets: null,
};

const { secrets: _secrets, ...wanted } = request;
const volume: CsiVolume = {
  ...wanted,
  name: "n",
  externalId: "e",
  parameters: { a: "b" },
  context: { kept: "yes" },
  mount: { FSType: "ext4", MountFlags: ["noatime"] },
  provider: "x",
  providerVersion: "1",
  controllerRequired: true,
  topologies: [{ Segments: { zone: "a" } }],
  topologyRequest: { Required: [{ Segments: { zone: "a" } }], Preferred: null },
  capacityBytes: 1500,
  capacityMin: 1000,
  capacityMax: 2000,
  nodeExpansionOwed: false,
  createTime: 1,
  modifyTime: 1,
  createIndex: 1,
  modifyIndex: 1,
};

const MODES = { AccessMode: "single-node-writer", AttachmentMode: "file-system" };
const change = (more: Partial<CsiRequest>, inUse = false) =>
  merged(volume, { ...request, ...more }, inUse, inUse ? MODES : null);
const refused = (said: string) => ({
  ok: false,
  reason: "invalid",
  message: `unable to update volume: 1 error occurred:\n\t* ${said}\n\n`,
});

describe("merged", () => {
  it("keeps omitted fields", () => {
    const kept = { ...volume, mutableParameters: {} };
    expect(change({})).toEqual({ ok: true, value: { volume: kept, grows: false, modifies: false } });
  });

  it.each<[string, Partial<CsiRequest>]>([
    ["volume name cannot be updated", { name: "other" }],
    ["volume external ID cannot be updated", { externalId: "other" }],
    ["volume clone ID cannot be updated", { cloneId: "other" }],
    ["volume snapshot ID cannot be updated", { snapshotId: "other" }],
    ["volume plugin ID cannot be updated", { pluginId: "other" }],
    ["volume parameters cannot be updated", { parameters: { a: "c" } }],
    [
      "volume topology request update was not compatible with existing topology",
      { topologyRequest: { Required: [{ Segments: { zone: "b" } }], Preferred: null } },
    ],
  ])("%s", (said, more) => {
    expect(change(more)).toEqual(refused(said));
  });

  it("refuses mount changes while the volume is in use and maps redacted flags to the stored ones", () => {
    const mount = { FSType: "xfs", MountFlags: [] };
    expect(change({ mount })).toMatchObject({ value: { volume: { mount } } });
    expect(change({ mount }, true)).toEqual(refused("can not update mount options while volume is in use"));
    const shown = { FSType: "ext4", MountFlags: ["[REDACTED]"] };
    expect(change({ mount: shown }, true)).toMatchObject({ value: { volume: { mount: volume.mount } } });
  });

  it("compares mount flags as a set, and takes absent options and lists for empty ones", () => {
    const flags = (MountFlags: string[]) => ({ FSType: "", MountFlags });
    const inUse = (stored: CsiVolume["mount"], mount: CsiRequest["mount"]) =>
      merged({ ...volume, mount: stored }, { ...request, mount }, true, MODES).ok;
    expect(inUse(null, flags([]))).toBe(true);
    expect(inUse(flags(["a", "b"]), flags(["b", "a", "b"]))).toBe(true);
    expect(inUse(flags(["a", "b"]), flags(["a"]))).toBe(false);
    expect(inUse(null, { FSType: "xfs", MountFlags: [] })).toBe(false);
    expect(change({ topologyRequest: { Required: [{ Segments: { zone: "a" } }], Preferred: [] } }).ok).toBe(true);
  });

  it.each<[min: number, max: number, stored: [number, number], grows: boolean]>([
    [0, 0, [1000, 2000], false],
    [1000, 2000, [1000, 2000], false],
    [1501, 2000, [1501, 2000], true],
    [1500, 2000, [1500, 2000], false],
    [500, 5000, [500, 5000], false],
    [1600, 0, [1600, 0], true],
  ])("with %i to %i bytes becomes what was asked for, and grows only beyond what it has", (min, max, stored, grows) => {
    expect(change({ capacityMin: min, capacityMax: max })).toMatchObject({
      value: { grows, volume: { capacityMin: stored[0], capacityMax: stored[1], capacityBytes: 1500 } },
    });
  });

  it.each<[number, number, string]>([
    [3, 2, "max requested capacity (2 B) less than or equal to min (3 B)"],
    [0, 2, "max requested capacity (2 B) less than or equal to current (1.5 kB)"],
  ])("cannot have %i to %i bytes", (capacityMin, capacityMax, said) => {
    expect(change({ capacityMin, capacityMax })).toMatchObject({ message: `unable to update volume: ${said}` });
  });
});

it.each([
  [2, "2 B"],
  [999, "999 B"],
  [1000, "1.0 kB"],
  [1500, "1.5 kB"],
  [10_000_000_000, "10 GB"],
  [Number.MAX_SAFE_INTEGER, "9.0 PB"],
])("%i bytes read as %s", (bytes, said) => {
  expect(humanBytes(bytes)).toBe(said);
});
