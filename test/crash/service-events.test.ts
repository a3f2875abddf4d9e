import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { Settings } from "../../src/platform/settings.ts";
import { part } from "../support/long.ts";
import { eventsOf } from "../workers/access.ts";
import { get, mountKv, put } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { byItself } from "../workers/clock-and-alarms.ts";
import { enableServiceEvents } from "../workers/streams.ts";
import { cloudA } from "../workers/sync-cloud-a.ts";
import { association, makeDestination, setAssociation, write } from "../workers/sync-helpers.ts";
import { attempt, both, type Cut, cut } from "./crash-point.ts";

/* Service events after crashes and failures: an event for each change that was stored, once. */

clock.moves = true;

beforeEach(() => enableServiceEvents("Secret,Sync"));
afterAll(() => enableServiceEvents(Settings.parse({}).SERVICE_EVENTS));

describe("a write of a secret with a crash", () => {
  const cuts: Cut[] = [
    ...both("KvStore", "put"),
    ...both("AccessControl", "mountPlace"),
    ...both("EventLog", "append"),
  ];

  it.each(part(cuts))("in %s.%s (%s) has one event if the version is stored", async (...where) => {
    const { uuid } = await mountKv();
    const happened = cut(where);
    await attempt(put("/v1/kv/data/a", { data: {} }));
    await attempt(put("/v1/kv/data/b", { data: {} }));
    await byItself({ mounts: [uuid], destinations: [] }, async () => {
      expect(happened()).toBe(true);
      const stored = await Promise.all(["a", "b"].map((name) => get(`/v1/kv/data/${name}`)));
      const keys = (await eventsOf("Secret")).map(({ Key }) => Key);
      expect(keys).toEqual(["kv/a", "kv/b"].filter((_key, at) => stored[at]?.status === 200));
    });
  });
});

describe("a secret that a destination refuses at first", () => {
  it("has one event of the failure, for all its attempts", async () => {
    await cloudA.begin();
    const { uuid } = await mountKv();
    await write("app", { v: 1 });
    await makeDestination("cloud-a-sm", "d");
    await cloudA.fault({ operation: "CreateSecret", fault: "raw", status: 500, body: "{}", count: 3 });
    await setAssociation("cloud-a-sm/d", "app");
    await byItself({ mounts: [uuid], destinations: ["cloud-a-sm/d"] }, async () => {
      expect(await association("cloud-a-sm/d", "app")).toMatchObject({ sync_status: "SYNCED" });
    });
    await vi.waitFor(async () => {
      const events = await eventsOf("Sync");
      expect(events.map(({ Type, Payload }) => [Type, Payload.Sync.Status, Payload.Sync.ErrorCode])).toEqual([
        ["DestinationCreated", undefined, undefined],
        ["SyncFailed", "EXTERNAL_SERVICE_ERROR", "provider_unavailable"],
        ["SecretSynced", "SYNCED", undefined],
      ]);
    });
  });
});
