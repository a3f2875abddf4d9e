import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { SyncControl } from "../../src/worker.ts";
import { randomFrom } from "../crash/random.ts";
import { itRows } from "../support/rows.ts";
import { get, send } from "./client.ts";
import { evictObject } from "./evict-all.ts";
import { eventually } from "./sync-helpers.ts";
import { configure, pause, resume } from "./sync-limits.ts";

const control = () => env.SYNC_CONTROL.getByName("main");
const share = async (destination: string, kept: number, waiting = 0, asked = 0): Promise<number> =>
  (await control().share(destination, { kept, waiting, asked })).granted;
const rows = () =>
  runInDurableObject(control(), (_object: SyncControl, { storage }) =>
    storage.sql
      .exec<{ destination: string; granted: number; wanted: number }>("SELECT * FROM shares ORDER BY destination")
      .toArray(),
  );

describe("the configuration", () => {
  it("has defaults, keeps unnamed fields in a change, and is reset by a deletion", async () => {
    const defaults = { disabled: false, queue_capacity: 1_000_000 };
    expect((await get("/sys/sync/config")).body.data).toEqual(defaults);
    expect((await pause()).body.data).toEqual({ ...defaults, disabled: true });
    expect((await configure({ queue_capacity: 7 })).body.data).toEqual({ disabled: true, queue_capacity: 7 });
    await evictObject(control());
    expect((await get("/sys/sync/config")).body.data).toEqual({ disabled: true, queue_capacity: 7 });
    const reset = await send("DELETE", "/sys/sync/config");
    expect([reset.status, reset.body.data]).toEqual([200, defaults]);
  });

  itRows([
    ["queue_capacity", 0],
    ["queue_capacity", -1],
    ["queue_capacity", 1.5],
    ["queue_capacity", "many"],
    ["disabled", "perhaps"],
  ])("refuses %s = %j by its name without a change", async (field, value) => {
    const refused = await configure({ [field]: value });
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining(field)]);
    expect((await get("/sys/sync/config")).body.data).toEqual({ disabled: false, queue_capacity: 1_000_000 });
  });
});

describe("the queue's capacity", () => {
  beforeEach(() => configure({ queue_capacity: 10 }));

  it("is granted up to the capacity over all destinations", async () => {
    expect(await share("a", 0, 0, 6)).toBe(6);
    expect(await share("b", 0, 0, 6)).toBe(4);
    expect(await share("c", 0, 0, 1)).toBe(0);
    expect(await control().pending()).toBe(10);
  });

  it("is not used up by a repeated request", async () => {
    for (let time = 0; time < 5; time++) expect(await share("a", 3, 2, 1)).toBe(6);
    expect(await control().pending()).toBe(6);
  });

  it("keeps queued operations when it is lowered, and grants no more", async () => {
    await share("a", 0, 8);
    await configure({ queue_capacity: 3 });
    expect(await share("a", 8, 5)).toBe(8);
    expect(await share("b", 0, 0, 1)).toBe(0);
    expect(await share("a", 2, 5), "what was done makes room for no more than fits").toBe(3);
  });

  it("is divided equally while others wait, and each destination gets a part", async () => {
    expect(await share("a", 0, 100)).toBe(10);
    expect(await share("b", 0, 100)).toBe(0);
    expect(await share("c", 0, 100)).toBe(0);
    // As the first gets on with its work it gives up what goes beyond its part.
    expect(await share("a", 6, 94)).toBe(6);
    expect(await share("b", 0, 100)).toBe(3);
    expect(await share("a", 1, 90)).toBe(3);
    expect(await share("c", 0, 100)).toBe(3);
    expect(await control().pending()).toBeLessThanOrEqual(10);
  });

  it("keeps no row for a destination without grant and need", async () => {
    await share("a", 0, 10);
    expect(await share("b", 0, 0, 3)).toBe(0);
    await share("a", 0);
    expect(await rows()).toEqual([]);
    expect(await share("b", 0, 0, 10), "nobody counts as waiting").toBe(10);
  });

  it("is granted ahead of the need while plentiful, and released when unused", async () => {
    await configure({ queue_capacity: 1_000_000 });
    const ahead = await share("a", 0, 1);
    expect(ahead).toBeGreaterThan(1);
    expect(await share("a", 1, 0), "nothing more is needed").toBe(1);
    await configure({ queue_capacity: 10_000 });
    expect(await share("a", 1, 1), "room is scarce").toBe(2);
  });

  it.each([41, 42, 43])(
    "is never exceeded, and equals the sum of its parts, for any requests (seed %i)",
    async (seed) => {
      const random = randomFrom(seed);
      const names = ["a", "b", "c", "d", "e"];
      await runInDurableObject(control(), (object: SyncControl, { storage }) => {
        const granted = new Map<string, number>();
        for (let step = 0; step < 500; step++) {
          const name = names[Math.floor(random() * names.length)] as string;
          const kept = Math.floor(random() * ((granted.get(name) ?? 0) + 1));
          const need = { kept, waiting: Math.floor(random() * 8), asked: Math.floor(random() * 4) };
          const answer = object.share(name, need);
          expect(answer.granted).toBeGreaterThanOrEqual(kept);
          expect(answer.granted).toBeLessThanOrEqual(kept + need.waiting + need.asked);
          granted.set(name, answer.granted);
          const sum = [...granted.values()].reduce((total, one) => total + one, 0);
          expect(sum).toBeLessThanOrEqual(10);
          expect(object.pending()).toBe(sum);
          const { short } = storage.sql.exec<{ short: number }>("SELECT short FROM total").one();
          const counted = "SELECT count(*) AS n FROM shares WHERE wanted > granted";
          expect(short).toBe(storage.sql.exec<{ n: number }>(counted).one().n);
        }
      });
    },
  );
});

describe("the end of a pause", () => {
  const woken = () => {
    const names: string[] = [];
    const sent = vi.spyOn(env.SYNC_WORK, "sendBatch").mockImplementation(async (messages) => {
      for (const { body } of messages) names.push((body as { destination: string }).destination);
      return { metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } };
    });
    return { names, sent };
  };
  const isDone = () => runInDurableObject(control(), (object: SyncControl) => expect(object.nextDue()).toBeNull());
  const many = Array.from({ length: 250 }, (_, index) => `in-mem/d${String(index).padStart(3, "0")}`);
  beforeEach(async () => {
    await pause();
    await runInDurableObject(control(), (object: SyncControl) => {
      for (const name of many) object.share(name, { kept: 0, waiting: 1, asked: 0 });
      object.share("in-mem/idle", { kept: 0, waiting: 0, asked: 0 });
    });
  });

  it("wakes every destination with pending work, a page at a time", async () => {
    const { names, sent } = woken();
    await resume();
    await eventually(() => expect(new Set(names)).toEqual(new Set(many)));
    for (const [messages] of sent.mock.calls) expect([...messages].length).toBeLessThanOrEqual(100);
  });

  it("continues at its position after a failure of the queue or a restart", async () => {
    const { names, sent } = woken();
    sent.mockRejectedValueOnce(new Error("queue is down"));
    await resume();
    await evictObject(control());
    await eventually(() => expect(new Set(names)).toEqual(new Set(many)));
    await eventually(isDone);
  });

  it("stops when the next pause begins", async () => {
    const { names } = woken();
    await runInDurableObject(control(), async (object: SyncControl) => {
      await Promise.all([object.setConfig({ disabled: false }), object.setConfig({ disabled: true })]);
    });
    const before = names.length;
    expect(before).toBeLessThanOrEqual(100);
    await runInDurableObject(control(), async (object: SyncControl) => {
      await object.alarm();
      expect(object.nextDue()).toBeNull();
    });
    expect(names.length).toBe(before);
  });

  it("wakes again when it follows another whose messages were still being sent", async () => {
    const { names, sent } = woken();
    const answer = sent.getMockImplementation() as NonNullable<ReturnType<typeof sent.getMockImplementation>>;
    let queue: "slow" | "down" | "up" = "slow";
    sent.mockImplementation(async (messages) => {
      if (queue === "up") return answer(messages);
      if (queue === "down") throw new Error("queue is down");
      // These arrive during the next pause.
      while (queue === "slow") await scheduler.wait(5);
      return { metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } };
    });
    await runInDurableObject(control(), async (object: SyncControl, { storage }) => {
      storage.sql.exec("DELETE FROM shares WHERE destination > 'in-mem/d050'");
      const first = object.setConfig({ disabled: false });
      await scheduler.wait(50);
      await object.setConfig({ disabled: true });
      const second = object.setConfig({ disabled: false });
      queue = "down";
      await Promise.all([first, second]);
    });
    queue = "up";
    await eventually(() => expect(new Set(names)).toEqual(new Set(many.filter((name) => name <= "in-mem/d050"))));
  });

  it("wakes like a higher capacity, but not a lower one", async () => {
    const { names } = woken();
    const all = async () => {
      await eventually(() => expect(new Set(names)).toEqual(new Set(many)));
      await eventually(isDone);
    };
    await resume();
    await all();
    names.length = 0;
    await configure({ queue_capacity: 300 });
    await configure({ queue_capacity: 200 });
    expect(names).toEqual([]);
    await configure({ queue_capacity: 400 });
    await all();
  });
});
