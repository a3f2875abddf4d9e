import { beforeEach, expect, it } from "vitest";
import { get, mountKv } from "./client.ts";
import { clock } from "./clock.ts";
import { openCloudC } from "./sync-doubles.ts";
import { association, endFreshRights, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { byItself, time } from "./sync-time.ts";

clock.moves = true;

const at = "cloud-c-sm/d";
let account: Awaited<ReturnType<typeof openCloudC>>;

beforeEach(async () => {
  time.begin();
  account = await openCloudC();
  await mountKv();
  await makeDestination("cloud-c-sm", "d", account.body);
  await write("app", { v: "first" });
  expect((await setAssociation(at, "app")).text).toContain("SYNCED");
});

const drift = async () =>
  (await get(`/sys/sync/destinations/${at}/drift`)).body.data.counters as Record<string, number>;
const readable = async () => (await account.enabled()).map(String).join(" ");
const writes = async () => (await account.requests()).filter(({ operation }) => operation === account.writes).length;

/** Writes a second version whose predecessor cannot be destroyed. */
async function owing(fault: Record<string, unknown>): Promise<void> {
  await account.fault({ operation: "DestroySecretVersion", ...fault });
  await write("app", { v: "second" });
  await eventually(async () => expect(await association(at, "app")).toMatchObject({ synced_version: 2 }));
}

it.each([
  ["an error", { fault: "error", status: "INTERNAL", count: 2 }],
  ["a lost connection", { fault: "drop", count: 2 }],
])("a clean-up that fails by %s is a note, is found by drift, and is retried without a push", async (_, fault) => {
  await owing(fault);
  expect(await association(at, "app")).toMatchObject({
    sync_status: "SYNCED",
    note: expect.stringContaining("a clean-up is owed"),
    next_attempt_at: expect.any(String),
  });
  expect(await drift()).toEqual({ clean_up_owed: 1 });
  expect(await readable()).toContain("first");
  const pushes = await writes();
  await byItself(async () => {
    expect(await readable()).not.toContain("first");
    expect(await association(at, "app")).not.toHaveProperty("note");
  }, [at]);
  expect(await association(at, "app")).toMatchObject({ sync_status: "SYNCED", synced_version: 2 });
  expect(await drift()).toEqual({ in_sync: 1 });
  expect(await writes()).toBe(pushes);
});

it("a refused clean-up is tried again by the resync, which a change of the destination begins", async () => {
  await endFreshRights(at);
  await owing({ fault: "error", status: "PERMISSION_DENIED", count: 1 });
  expect(await association(at, "app")).toMatchObject({ sync_status: "SYNCED", note: expect.any(String) });
  expect(await association(at, "app")).not.toHaveProperty("next_attempt_at");
  expect(await drift()).toEqual({ clean_up_owed: 1 });
  const pushes = await writes();
  await makeDestination("cloud-c-sm", "d", account.body);
  await byItself(async () => {
    expect(await readable()).not.toContain("first");
    expect(await association(at, "app")).not.toHaveProperty("note");
  }, [at]);
  expect(await writes()).toBe(pushes);
});
