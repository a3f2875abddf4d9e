import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { Settings } from "../../src/platform/settings.ts";
import { part } from "../support/long.ts";
import { eventsOf } from "../workers/access.ts";
import { get, mountKv, put } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { byItself } from "../workers/clock-and-alarms.ts";
import { enableServiceEvents } from "../workers/streams.ts";
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
