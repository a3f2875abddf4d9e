import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { creation, type Driver, MOUNT, RawClient, startDriver } from "./csi-process.ts";

vi.setConfig({ testTimeout: 240_000 });

/** Kills the driver after each step of a call, and restarts it on the remaining state. */
async function afterEachStep(
  before: (client: RawClient, driver: Driver) => Promise<void>,
  call: (client: RawClient) => Promise<unknown>,
  check: (client: RawClient, driver: Driver, step: number) => Promise<void>,
): Promise<number> {
  const driver = await startDriver();
  for (let step = 1; ; step++) {
    const client = new RawClient(driver.socket);
    driver.misbehave({});
    await before(client, driver);
    driver.misbehave({ crashAtStep: step });
    const crashed = await call(client).then(
      () => false,
      () => true,
    );
    if (!crashed) return step - 1;
    await driver.ended();
    driver.misbehave({});
    await driver.start();
    expect(driver.directories("tmp")).toEqual([]);
    await check(new RawClient(driver.socket), driver, step);
  }
}

const removeAll = async (client: RawClient) => {
  for (const { volume } of (await client.call("ListVolumes")).entries) {
    const volumeId = volume?.volumeId ?? "";
    await client.call("ControllerUnpublishVolume", { volumeId });
    await client.call("DeleteVolume", { volumeId });
  }
  for (const { snapshot } of (await client.call("ListSnapshots")).entries)
    await client.call("DeleteSnapshot", { snapshotId: snapshot?.snapshotId ?? "" });
};

const idOf = async (client: RawClient, name = "v") =>
  (await client.call("CreateVolume", creation(name))).volume?.volumeId ?? "";

it("a repeated creation after a crash at any point yields one complete volume", async () => {
  const steps = await afterEachStep(
    removeAll,
    (client) => client.call("CreateVolume", creation("v")),
    async (client, driver, step) => {
      const there = driver.directories("volumes");
      const id = await idOf(client);
      expect(driver.directories("volumes"), `step ${step}`).toEqual([id]);
      if (there.length > 0) expect(there).toEqual([id]);
      expect(existsSync(driver.data(id))).toBe(true);
      expect((await client.call("ListVolumes")).entries.length).toBe(1);
    },
  );
  expect(steps).toBeGreaterThanOrEqual(5);
});

it("a repeated deletion after a crash at any point leaves nothing, and the name is free", async () => {
  let id = "";
  const steps = await afterEachStep(
    async (client) => {
      await removeAll(client);
      id = await idOf(client);
    },
    (client) => client.call("DeleteVolume", { volumeId: id }),
    async (client, driver) => {
      await client.call("DeleteVolume", { volumeId: id });
      expect(driver.directories("volumes")).toEqual([]);
      const other = creation("v", { parameters: { another: "one" } });
      expect((await client.call("CreateVolume", other)).volume?.volumeId).toBeDefined();
    },
  );
  expect(steps).toBeGreaterThanOrEqual(3);
});

it("a repeated snapshot after a crash at any point is one snapshot with its whole content", async () => {
  let id = "";
  const snapshot = (client: RawClient) => client.call("CreateSnapshot", { sourceVolumeId: id, name: "s" });
  const steps = await afterEachStep(
    async (client, driver) => {
      await removeAll(client);
      id = await idOf(client);
      writeFileSync(join(driver.data(id), "file"), "content");
    },
    snapshot,
    async (client, driver) => {
      const snapshotId = (await snapshot(client)).snapshot?.snapshotId ?? "";
      expect(driver.directories("snapshots")).toEqual([snapshotId]);
      const source = { volumeContentSource: { snapshot: { snapshotId } } };
      const { volume } = await client.call("CreateVolume", creation("restored", source));
      expect(existsSync(join(driver.data(volume?.volumeId ?? ""), "file"))).toBe(true);
    },
  );
  expect(steps).toBeGreaterThanOrEqual(5);
});

it("an expansion or publication is complete after a repeat, and never partial before", async () => {
  let id = "";
  const change = async (client: RawClient) => {
    await client.call("ControllerExpandVolume", { volumeId: id, capacityRange: { requiredBytes: String(2 ** 40) } });
    await client.call("ControllerPublishVolume", { volumeId: id, nodeId: "node-1", volumeCapability: MOUNT });
  };
  const steps = await afterEachStep(
    async (client) => {
      await removeAll(client);
      id = await idOf(client);
    },
    change,
    async (client) => {
      await change(client);
      const [entry] = (await client.call("ListVolumes")).entries;
      expect(entry?.volume?.capacityBytes).toBe(String(2 ** 40));
      expect(entry?.status?.publishedNodeIds).toEqual(["node-1"]);
    },
  );
  expect(steps).toBe(2);
});
