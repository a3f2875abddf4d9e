import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { emptyObjectTables } from "../../src/access/mounts/deleted-mounts.ts";
import type { MountType } from "../../src/contracts/mount.ts";
import { storedObject } from "../../src/rpc/stored-objects.ts";
import { accessControl } from "../../src/rpc/stubs.ts";
import { CredentialEngine } from "../../src/worker.ts";
import { allObjects, loseEverything, restore, snapshot } from "./backup-world.ts";
import { del, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { creds, dynamicRole, mountEngine, openTenant, succeeded, writeRole } from "./engine-helpers.ts";
import { eventually, makeDestination, removeAssociation, setAssociation, write } from "./sync-helpers.ts";

clock.moves = true;

const HOUR_MS = 3_600_000;
const control = () => env.ACCESS_CONTROL.getByName("main");
const isInSnapshots = async (uuid: string) => (await allObjects()).some(({ name }) => name === uuid);

/** An hour later the mounts that are gone are looked at. */
async function anHourLater(): Promise<void> {
  const real = Date.now.bind(Date);
  const before = real();
  vi.spyOn(Date, "now").mockImplementation(() => real() + 2 * HOUR_MS);
  await runDurableObjectAlarm(control());
  vi.mocked(Date.now).mockRestore();
  expect(Date.now()).toBeLessThan(before + HOUR_MS);
  // Looked at once more when it is asked for.
  await runInDurableObject(
    control(),
    (_object, { storage }) => void storage.sql.exec("UPDATE ended_mounts SET look = 0"),
  );
}

/** Awaits that a mount leaves the snapshots. A clock that moves while its object still works would end leases of that work. */
async function leavesSnapshots(type: MountType, uuid: string): Promise<void> {
  const object = storedObject(env, { kind: type === "kv" ? "kv-store" : "credential-engine", name: uuid });
  await eventually(async () => expect(await object.holdsOnly(emptyObjectTables(type))).toBe(true));
  // Its names leave the search first.
  await eventually(async () => {
    await anHourLater();
    expect(await isInSnapshots(uuid)).toBe(false);
  });
}

it("a disabled mount is in no snapshot once all of its data is deleted", async () => {
  const { uuid } = await mountKv();
  await write("a", { v: 1 });
  succeeded(await del("/v1/sys/mounts/kv"));
  expect(await isInSnapshots(uuid)).toBe(true);
  await leavesSnapshots("kv", uuid);
});

it("a disabled mount is in snapshots while a destination still has its objects", async () => {
  const { uuid } = await mountKv();
  await write("a", { v: 1 });
  await makeDestination("in-mem", "m");
  succeeded(await setAssociation("in-mem/m", "a"));
  succeeded(await del("/v1/sys/mounts/kv"));
  await anHourLater();
  expect(await isInSnapshots(uuid)).toBe(true);
  succeeded(await removeAssociation("in-mem/m", "a"));
  await leavesSnapshots("kv", uuid);
});

it("a disabled engine is in snapshots until its resources are removed, which a restore continues", async () => {
  const tenant = await openTenant();
  const uuid = await mountEngine(tenant);
  await writeRole("reader", dynamicRole(tenant));
  succeeded(await creds("reader"));
  const turns = vi.spyOn(CredentialEngine.prototype, "poll").mockRejectedValue(new Error("not now"));
  const made = (await tenant.everything()).principals.length;
  // Past the API, which takes away all leases first.
  expect(await accessControl(env).disableMount("", "cloud-b")).toEqual({ ok: true, value: null });
  await anHourLater();
  expect(await isInSnapshots(uuid)).toBe(true);
  const file = await snapshot();
  await loseEverything();
  turns.mockRestore();
  expect((await restore(file)).status).toBe(200);
  await leavesSnapshots("cloud-b", uuid);
  expect((await tenant.everything()).principals.length).toBe(made - 1);
  expect((await put("/v1/sys/mounts/cloud-b", { type: "cloud-b" })).status).toBe(204);
});
