import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { deliveredTogether, type OutboxRow, storedLater } from "../../src/platform/durable/outbox-delivery.ts";
import { type Inside, waiting, withOutbox } from "../crash/object-internals.ts";
import { randomFrom } from "../crash/random.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { evictObject } from "./evict-all.ts";

clock.moves = true;

const pass = () => Promise.resolve();
const bodies = (rows: readonly OutboxRow[]): unknown[] => rows.map((row) => JSON.parse(row.body));

/** A receiver whose answers the test controls. */
function gate() {
  const open = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  return {
    entered: entered.promise,
    open: () => open.resolve(),
    break: () => open.reject(new Error("receiver failed")),
    deliver: () => {
      entered.resolve();
      return open.promise;
    },
  };
}

describe("lanes that are delivered together", () => {
  const enlist = (object: Inside, lanes: readonly string[]) =>
    object.commit(() => {
      for (const lane of lanes) object.outbox.enlistLatest("t", lane, null);
    });
  const names = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `lane ${from + at}`);

  it("are one call for each hundred; a lane that is alone is delivered by itself", async () => {
    const calls: number[] = [];
    const single = vi.fn(pass);
    const t = deliveredTogether(single, async (lanes) => void calls.push(lanes.length));
    await withOutbox("together", { t }, async (object, state) => {
      enlist(object, names(0, 250));
      await object.outbox.drain();
      expect([calls, single.mock.calls.length, waiting(state)]).toEqual([[100, 100, 50], 0, []]);
      expect(object.nextDue()).toBeNull();
      enlist(object, ["alone"]);
      await object.outbox.drain("t");
      expect([calls.length, single.mock.calls.length, waiting(state)]).toEqual([3, 1, []]);
    });
  });

  it("deliver a row that is enlisted meanwhile, before a drain of its lane resolves", async () => {
    const first = gate();
    const seen: string[] = [];
    const t = deliveredTogether(
      async (lane) => void seen.push(lane),
      async () => first.deliver(),
    );
    await withOutbox("together meanwhile", { t }, async (object, state) => {
      enlist(object, ["a", "b"]);
      const drained = object.outbox.drain();
      await first.entered;
      enlist(object, ["a"]);
      const again = object.outbox.drain("t", "a");
      first.open();
      await Promise.all([drained, again]);
      expect([seen, waiting(state)]).toEqual([["a"], []]);
    });
  });

  it("keep all rows after a failure, and are tried again after a back-off", async () => {
    const together = vi.fn().mockRejectedValueOnce(new Error("receiver failed")).mockResolvedValue(undefined);
    const time = new ShiftedClock();
    await withOutbox("together failing", { t: deliveredTogether(pass, together) }, async (object, state) => {
      enlist(object, ["a", "b", "c"]);
      await object.outbox.drain();
      expect([waiting(state).length, together.mock.calls.length]).toEqual([3, 1]);
      await object.outbox.drain();
      expect(together).toHaveBeenCalledTimes(1);
      expect(object.nextDue()).not.toBeNull();
      time.advance(40_000);
      await object.outbox.drain();
      expect([waiting(state).length, together.mock.calls.length]).toEqual([0, 2]);
    });
  });

  it("write back in the transaction that deletes the rows", async () => {
    const t = deliveredTogether(pass, async () => () => {
      throw new Error("cannot be stored");
    });
    await withOutbox("together written back", { t }, async (object, state) => {
      enlist(object, ["a", "b"]);
      await object.outbox.drain();
      expect(waiting(state)).toHaveLength(2);
    });
  });
});

describe("a row that is enlisted with a commit", () => {
  it("is delivered in the order of its lane, and deleted afterwards", async () => {
    const seen: [string, unknown[]][] = [];
    const t = async (lane: string, rows: OutboxRow[]) => void seen.push([lane, bodies(rows)]);
    await withOutbox("order", { t }, async (object, state) => {
      object.commit(() => {
        for (const [lane, body] of [
          ["a", 1],
          ["b", 2],
          ["a", 3],
        ] as const)
          object.outbox.enlist("t", lane, body);
      });
      await object.outbox.drain();
      expect(waiting(state)).toEqual([]);
      expect(object.nextDue()).toBeNull();
    });
    expect(seen).toEqual([
      ["a", [1, 3]],
      ["b", [2]],
    ]);
  });

  it("is not stored when the change fails", async () => {
    await withOutbox("rollback", { t: pass }, (object, state) => {
      expect(() =>
        object.commit(() => {
          object.outbox.enlist("t", "a", 1);
          throw new Error("refused");
        }),
      ).toThrow("refused");
      expect(waiting(state)).toEqual([]);
    });
  });

  it("has a number that only grows, also after a rollback and a restart", async () => {
    const enlist = (object: Inside) => object.commit(() => object.outbox.enlist("t", "a", 1));
    const undone = (object: Inside) =>
      expect(() =>
        object.commit(() => {
          object.outbox.enlist("t", "a", 1);
          throw new Error("undone");
        }),
      ).toThrow("undone");
    const seen: number[] = [];
    for (let life = 0; life < 3; life++) {
      await withOutbox("numbers", { t: pass }, async (object, state) => {
        undone(object);
        seen.push(enlist(object));
        expect(waiting(state).map(({ seq }) => seq)).toEqual([seen.at(-1)]);
        undone(object);
        seen.push(enlist(object), enlist(object));
        await object.outbox.drain();
        await state.storage.sync();
      });
      await evictObject(env.EVENT_LOG.getByName("numbers"));
    }
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
  });

  it("refuses a topic without a delivery function", async () => {
    await withOutbox("unknown", { t: pass }, (object) => {
      expect(() => object.commit(() => object.outbox.enlist("other", "a", 1))).toThrow("no delivery");
    });
  });

  it("has an alarm that became durable with it, for a crash at any time", async () => {
    let both = 0;
    let neither = 0;
    for (let turns = 0; turns < 12; turns++) {
      const name = `power-cut-${turns}`;
      await withOutbox(name, { t: pass }, async (object, state) => {
        object.commit(() => object.outbox.enlist("t", "a", 1));
        for (let turn = 0; turn < turns; turn++) await (turn % 2 === 0 ? Promise.resolve() : scheduler.wait(1));
        state.abort("killed");
      }).catch(() => undefined);
      const after = await withOutbox(name, { t: pass }, async (_object, state) => ({
        rows: waiting(state).length,
        alarm: await state.storage.getAlarm(),
      }));
      expect(after.alarm !== null, `after ${turns} turns`).toBe(after.rows === 1);
      if (after.rows === 1) both++;
      else neither++;
    }
    expect([both > 0, neither > 0]).toEqual([true, true]);
  });

  it("keeps its alarm when an outer transaction undoes an inner one", async () => {
    await withOutbox("nested", { t: pass }, async (object, state) => {
      expect(() =>
        object.commit(() => {
          object.commit(() => object.outbox.enlist("t", "a", 1));
          throw new Error("outer");
        }),
      ).toThrow("outer");
      expect(waiting(state)).toEqual([]);
      object.commit(() => object.outbox.enlist("t", "a", 2));
      expect(await state.storage.getAlarm()).not.toBeNull();
    });
  });
});

describe("an inner transaction that is undone", () => {
  const undone = (object: Inside, change: () => unknown) =>
    expect(() =>
      object.commit(() => {
        change();
        throw new Error("inner");
      }),
    ).toThrow("inner");

  it("leaves nothing in memory, while the outer one continues", async () => {
    const seen: unknown[] = [];
    const t = async (lane: string, rows: OutboxRow[]) => void seen.push([lane, bodies(rows)]);
    await withOutbox("inner", { t }, async (object, state) => {
      const rolledBack = vi.spyOn(object as Inside & { onRollback(): void }, "onRollback");
      object.commit(() => undone(object, () => object.outbox.enlist("t", "a", 1)));
      expect([object.nextDue(), waiting(state), rolledBack.mock.calls.length]).toEqual([null, [], 1]);
      object.commit(() => {
        object.outbox.enlist("t", "a", "before");
        undone(object, () => object.commit(() => object.outbox.enlist("t", "b", 2)));
        object.outbox.enlist("t", "a", "after");
      });
      expect(object.nextDue()).not.toBeNull();
      await object.outbox.drain();
      expect([object.nextDue(), seen]).toEqual([null, [["a", ["before", "after"]]]]);
    });
  });
});

describe("a lane", () => {
  it("keeps rows that are enlisted during a delivery, and delivers them next", async () => {
    const first = gate();
    const seen: unknown[][] = [];
    const t = async (_lane: string, rows: OutboxRow[]) => {
      seen.push(bodies(rows));
      await first.deliver();
    };
    await withOutbox("during", { t }, async (object, state) => {
      object.commit(() => object.outbox.enlist("t", "a", 1));
      const drained = object.outbox.drain();
      await first.entered;
      object.commit(() => object.outbox.enlist("t", "a", 2));
      const joined = object.outbox.drain("t", "a");
      first.open();
      await Promise.all([drained, joined]);
      expect(waiting(state)).toEqual([]);
    });
    expect(seen).toEqual([[1], [2]]);
  });

  it("with coalescing delivers the row that replaced another in flight, also when that one fails", async () => {
    for (const fails of [false, true]) {
      const first = gate();
      const seen: unknown[] = [];
      const t = async (_lane: string, rows: OutboxRow[]) => {
        seen.push(...bodies(rows));
        if (seen.length === 1) await first.deliver();
      };
      const time = new ShiftedClock();
      await withOutbox(`latest-${fails}`, { t }, async (object, state) => {
        object.commit(() => object.outbox.enlistLatest("t", "a", "old"));
        const drained = object.outbox.drain();
        await first.entered;
        object.commit(() => object.outbox.enlistLatest("t", "a", "new"));
        if (fails) first.break();
        else first.open();
        await drained;
        if (fails) {
          expect(waiting(state)).toMatchObject([{ body: '"new"' }]);
          time.advance(5_000);
          await object.outbox.drain();
        }
        expect(waiting(state)).toEqual([]);
      });
      expect(seen).toEqual(["old", "new"]);
      vi.restoreAllMocks();
    }
  });

  it("holds one row of each body while its deliveries fail", async () => {
    const broken = async () => {
      throw new Error("receiver is down");
    };
    await withOutbox("once", { t: broken }, async (object, state) => {
      const enlist = (body: string) => object.commit(() => object.outbox.enlistOnce("t", "a", body));
      enlist("x");
      await object.outbox.drain();
      const newest = ["x", "y", "x"].map(enlist).at(-1);
      expect(waiting(state).map(({ body }) => body)).toEqual(['"y"', '"x"']);
      expect(waiting(state).at(-1)?.seq).toBe(newest);
    });
  });

  it("is never delivered concurrently, for any number of drains", async () => {
    let inside = 0;
    let most = 0;
    let deliveries = 0;
    const t = async () => {
      most = Math.max(most, ++inside);
      deliveries++;
      await scheduler.wait(1);
      inside--;
    };
    await withOutbox("single", { t }, async (object) => {
      const drains: Promise<void>[] = [];
      for (let round = 0; round < 30; round++) {
        object.commit(() => object.outbox.enlist("t", "a", round));
        drains.push(object.outbox.drain("t"), object.outbox.drain());
        if (round % 3 === 0) await scheduler.wait(round % 2);
        for (let turn = 0; turn < round % 7; turn++) await Promise.resolve();
      }
      await Promise.all(drains);
      expect(object.nextDue()).toBeNull();
    });
    expect(most).toBe(1);
    expect(deliveries).toBeGreaterThan(1);
  });

  it("serves a drain that begins at the moment the previous one ends", async () => {
    await withOutbox("handover", { t: pass }, async (object, state) => {
      for (let turns = 0; turns < 12; turns++) {
        object.commit(() => object.outbox.enlist("t", "a", 1));
        const before = object.outbox.drain();
        for (let turn = 0; turn < turns; turn++) await Promise.resolve();
        object.commit(() => object.outbox.enlist("t", "a", 2));
        await object.outbox.drain();
        expect(waiting(state), `after ${turns} turns`).toEqual([]);
        await before;
      }
    });
  });

  it("that is never empty does not delay callers whose rows were delivered", async () => {
    let busy = true;
    const t = () => scheduler.wait(2);
    await withOutbox("busy", { t }, async (object, state) => {
      // Others promise more before each delivery ends.
      const others = (async () => {
        while (busy) {
          object.commit(() => object.outbox.enlist("t", "a", "theirs"));
          void object.outbox.drain("t", "a");
          await scheduler.wait(1);
        }
      })();
      const seq = object.commit(() => object.outbox.enlist("t", "a", "ours"));
      const answered = object.outbox.drain("t").then(() => "answered");
      expect(await Promise.race([answered, scheduler.wait(30_000)])).toBe("answered");
      expect(waiting(state).some((row) => row.seq === seq)).toBe(false);
      busy = false;
      await others;
      await object.outbox.drain();
      expect(waiting(state)).toEqual([]);
    });
  });

  it("does not wait for another one that hangs", async () => {
    const hung = gate();
    const seen: string[] = [];
    const t = async (lane: string) => {
      if (lane === "hung") await hung.deliver();
      seen.push(lane);
    };
    await withOutbox("hung", { t }, async (object) => {
      object.commit(() => object.outbox.enlist("t", "hung", 1));
      const stuck = object.outbox.drain();
      await hung.entered;
      object.commit(() => object.outbox.enlist("t", "quick", 1));
      await object.outbox.drain("t", "quick");
      expect(seen).toEqual(["quick"]);
      hung.open();
      await stuck;
    });
    expect(seen).toEqual(["quick", "hung"]);
  });

  it("with more rows than one delivery holds is delivered completely", async () => {
    const sizes: number[] = [];
    const t = async (_lane: string, rows: OutboxRow[]) => void sizes.push(rows.length);
    await withOutbox("long", { t }, async (object, state) => {
      object.commit(() => {
        for (let row = 0; row < 250; row++) object.outbox.enlist("t", "a", row);
      });
      await object.outbox.drain();
      expect(waiting(state)).toEqual([]);
    });
    expect(sizes).toEqual([100, 100, 50]);
  });

  it("with large rows is delivered in parts of bounded size", async () => {
    const sizes: number[] = [];
    const t = async (_lane: string, rows: OutboxRow[]) => void sizes.push(rows.length);
    await withOutbox("large", { t }, async (object, state) => {
      // The sizes of rows from before the start are not known; these are added to a lane that is.
      object.commit(() => object.outbox.enlist("t", "b", "small"));
      await object.outbox.drain();
      sizes.length = 0;
      object.commit(() => {
        for (let row = 0; row < 6; row++) object.outbox.enlist("t", "a", "x".repeat(1_500_000));
      });
      await object.outbox.drain();
      expect(waiting(state)).toEqual([]);
    });
    expect(sizes).toEqual([2, 2, 2]);
  });

  it("is found among many lanes", async () => {
    const seen = new Set<string>();
    const t = async (lane: string) => void seen.add(lane);
    await withOutbox("many", { t }, async (object) => {
      object.commit(() => {
        for (let lane = 0; lane < 250; lane++) object.outbox.enlist("t", `lane ${lane}`, null);
      });
      await object.outbox.drain();
    });
    expect(seen.size).toBe(250);
  });
});

describe("a failed delivery", () => {
  const failing = async () => {
    throw new Error("receiver is down");
  };

  it("is retried with growing delays, without delaying callers", async () => {
    const deliver = vi.fn(failing);
    const time = new ShiftedClock();
    await withOutbox("backoff", { t: deliver }, async (object, state) => {
      object.commit(() => object.outbox.enlist("t", "a", 1));
      const waits: number[] = [];
      for (let attempt = 1; attempt <= 10; attempt++) {
        await object.outbox.drain();
        await object.outbox.drain();
        await object.outbox.drain("t", "a");
        expect(deliver).toHaveBeenCalledTimes(attempt);
        const wait = (object.nextDue() ?? 0) - Date.now();
        waits.push(wait);
        time.advance(wait + 1);
      }
      expect(waits[0]).toBeLessThanOrEqual(1_000);
      // The fifth delay is 8 to 16 s; a second one is 2 s at most.
      expect(waits[4]).toBeGreaterThan(4_000);
      expect(Math.max(...waits)).toBeLessThanOrEqual(30_000);
      expect(waiting(state)).toHaveLength(1);
    });
  });

  it("is not retried earlier because rows join its lane", async () => {
    await withOutbox("joins", { t: failing }, async (object) => {
      const long = Date.now() - 60_000;
      object.commit(() => object.outbox.enlist("t", "a", 1, long));
      await object.outbox.drain();
      const due = object.nextDue();
      expect(due).toBeGreaterThan(Date.now());
      object.commit(() => object.outbox.enlist("t", "a", 2, long));
      expect(object.nextDue()).toBe(due);
    });
  });

  it("does not keep the alarm busy", async () => {
    const deliver = vi.fn(failing);
    await withOutbox("calm", { t: deliver }, async (object) => {
      const alarm = vi.spyOn(object, "alarm");
      object.commit(() => {
        for (let row = 0; row < 20; row++) object.outbox.enlist("t", `lane ${row % 3}`, row, Date.now() - 10_000);
      });
      await scheduler.wait(1_500);
      expect(alarm.mock.calls.length).toBeGreaterThan(0);
      expect(alarm.mock.calls.length).toBeLessThan(12);
      expect(deliver.mock.calls.length).toBeLessThan(12);
    });
  });

  it("stores nothing, also when storing its result fails", async () => {
    let broken = true;
    const t = async () => () => {
      if (broken) throw new Error("no");
    };
    const time = new ShiftedClock();
    await withOutbox("confirm", { t }, async (object, state) => {
      object.commit(() => object.outbox.enlist("t", "a", 1));
      await object.outbox.drain();
      expect(waiting(state)).toHaveLength(1);
      expect(object.nextDue()).toBeGreaterThan(Date.now());
      broken = false;
      time.advance(2_000);
      await object.outbox.drain();
      expect(waiting(state)).toEqual([]);
    });
  });

  it("includes one that exceeds its deadline", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      await withOutbox("never", { t: () => new Promise(() => undefined) }, async (object, state) => {
        object.commit(() => object.outbox.enlist("t", "a", 1));
        const drained = object.outbox.drain();
        await Promise.resolve();
        await vi.advanceTimersByTimeAsync(10_001);
        await drained;
        expect(waiting(state)).toHaveLength(1);
        expect(object.nextDue()).toBeGreaterThan(Date.now());
      });
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("a delivery whose success is stored later", () => {
  const enlist = (object: Inside, body: unknown) => object.commit(() => object.outbox.enlist("t", "a", body));

  it("keeps its rows until the next transaction, and is not repeated meanwhile", async () => {
    const seen: unknown[][] = [];
    const written: unknown[] = [];
    const t = storedLater(async (_lane, rows) => {
      seen.push(bodies(rows));
      return () => written.push(...bodies(rows));
    });
    await withOutbox("later", { t }, async (object, state) => {
      enlist(object, 1);
      await object.outbox.drain();
      await object.outbox.drain();
      expect([waiting(state).length, object.outbox.isUnsettled, written]).toEqual([1, true, []]);
      // Of its failure the transaction of another change knows nothing.
      const refuse = () => {
        throw new Error("refused");
      };
      expect(() => object.commit(refuse)).toThrow("refused");
      expect([waiting(state), object.nextDue(), written]).toEqual([[], null, [1]]);
      enlist(object, 2);
      await object.outbox.drain();
      enlist(object, 3);
      expect(waiting(state)).toMatchObject([{ body: "3" }]);
      await object.outbox.drain();
      await object.alarm();
      expect([waiting(state), object.nextDue()]).toEqual([[], null]);
    });
    expect([seen, written]).toEqual([
      [[1], [2], [3]],
      [1, 2, 3],
    ]);
  });

  it("adds the deliveries of rows that were enlisted meanwhile", async () => {
    const first = gate();
    const written: unknown[] = [];
    const t = storedLater(async (_lane, rows) => {
      if (written.length === 0 && bodies(rows)[0] === 1) await first.deliver();
      return () => written.push(...bodies(rows));
    });
    await withOutbox("later, during", { t }, async (object, state) => {
      enlist(object, 1);
      const drained = object.outbox.drain();
      await first.entered;
      enlist(object, 2);
      first.open();
      await drained;
      await object.outbox.drain();
      expect(waiting(state)).toHaveLength(2);
      object.outbox.settle();
      expect([waiting(state), written]).toEqual([[], [1, 2]]);
    });
  });

  it("is repeated when it cannot be stored, without a failure of the next transaction", async () => {
    let broken = true;
    const deliver = vi.fn(async () => () => {
      if (broken) throw new Error("no");
    });
    const time = new ShiftedClock();
    await withOutbox("later, broken", { t: storedLater(deliver) }, async (object, state) => {
      enlist(object, 1);
      await object.outbox.drain();
      expect(object.commit(() => "stored")).toBe("stored");
      expect([waiting(state).length, deliver.mock.calls.length]).toEqual([1, 1]);
      broken = false;
      time.advance(2_000);
      await object.outbox.drain();
      object.outbox.settle();
      expect([waiting(state), deliver.mock.calls.length]).toEqual([[], 2]);
    });
  });

  it("is repeated after a power cut", async () => {
    const deliver = vi.fn(pass);
    await withOutbox("later, cut", { t: storedLater(deliver) }, async (object) => {
      enlist(object, 1);
      await object.outbox.drain();
    });
    await evictObject(env.EVENT_LOG.getByName("later, cut"));
    await withOutbox("later, cut", { t: storedLater(deliver) }, async (object, state) => {
      expect(waiting(state)).toHaveLength(1);
      await object.outbox.drain();
      object.outbox.settle();
      expect([waiting(state), deliver.mock.calls.length]).toEqual([[], 2]);
    });
  });
});

describe("the alarm", () => {
  it("delivers rows left by a crash", async () => {
    const seen: unknown[] = [];
    const t = async (_lane: string, rows: OutboxRow[]) => void seen.push(...bodies(rows));
    await withOutbox("left", { t }, (object) => void object.commit(() => object.outbox.enlist("t", "a", 1)));
    await evictObject(env.EVENT_LOG.getByName("left"));
    await withOutbox("left", { t }, async (object, state) => {
      const time = new ShiftedClock();
      time.advance(3_000);
      await object.alarm();
      expect(waiting(state)).toEqual([]);
    });
    expect(seen).toEqual([1]);
  });

  it("is set whenever rows wait, also while it runs", async () => {
    const hung = gate();
    await withOutbox("guard", { t: hung.deliver }, async (object, state) => {
      object.commit(() => object.outbox.enlist("t", "a", 1, Date.now() - 10_000));
      await hung.entered;
      expect(await state.storage.getAlarm()).not.toBeNull();
      hung.open();
      await vi.waitFor(() => expect(waiting(state)).toEqual([]));
    });
  });

  it("never throws, for any failure", async () => {
    await withOutbox("throws", { t: pass }, async (object, state) => {
      object.commit(() => object.outbox.enlist("t", "a", 1, Date.now() - 10_000));
      const fragile = object as Inside & { onAlarm(): Promise<void> };
      for (const [method, failure] of [
        ["onAlarm", () => Promise.reject(new Error("own part"))],
        [
          "onAlarm",
          () => {
            throw new Error("at once");
          },
        ],
        [
          "nextDue",
          () => {
            throw new Error("no storage");
          },
        ],
      ] as const) {
        object.commit(() => object.outbox.enlist("t", "a", 1, Date.now() - 10_000));
        vi.spyOn(fragile, method).mockImplementationOnce(failure as never);
        await expect(object.alarm(), method).resolves.toBeUndefined();
        expect(await state.storage.getAlarm()).not.toBeNull();
      }
      vi.restoreAllMocks();
      await object.outbox.drain();
    });
  });

  it("keeps a distance to the next one, for rows that stay due", async () => {
    await withOutbox("distance", { t: pass }, async (object, state) => {
      const due = vi.spyOn(object, "nextDue").mockReturnValue(Date.now() - 10_000);
      const began = Date.now();
      await object.alarm();
      expect(((await state.storage.getAlarm()) ?? 0) - began).toBeGreaterThanOrEqual(250);
      due.mockRestore();
    });
  });

  it("is set for rows without a delivery function, but rarely", async () => {
    await withOutbox("orphans", { t: pass }, async (object, state) => {
      object.commit(() => object.outbox.enlist("t", "a", 1, Date.now() - 10_000));
      state.storage.sql.exec("UPDATE outbox SET topic = 'gone'");
      const alarm = vi.spyOn(object, "alarm");
      await scheduler.wait(1_100);
      expect(alarm.mock.calls.length).toBeLessThanOrEqual(6);
      state.storage.sql.exec("DELETE FROM outbox");
    });
  });
});

/** Every row at least once, each lane in order, effects once: with receivers that fail and objects that die at random. */
it.each([
  ...[1, 2, 3, 4, 5, 6].map((seed) => [seed, "at once"] as const),
  ...[7, 8, 9, 10].map((seed) => [seed, "later"] as const),
])("survives random failures and power cuts (seed %i), with success stored %s", async (seed, stored) => {
  const random = randomFrom(seed);
  const name = `fuzz-${seed}`;
  const accepted = new Map<string, number[]>();
  const effects = new Map<string, Set<number>>();
  let repeats = 0;
  let cuts = 0;
  let state: DurableObjectState | undefined;
  const cut = () => {
    cuts++;
    state?.abort("killed");
    throw new Error("killed");
  };
  const deliver = async (lane: string, rows: OutboxRow[]) => {
    if (random() < 0.2) throw new Error("refused");
    if (random() < 0.1) cut();
    const known = effects.get(lane) ?? new Set();
    effects.set(lane, known);
    for (const { seq } of rows) {
      if (known.has(seq)) repeats++;
      // New rows come after all rows that the receiver has seen.
      else expect(seq).toBeGreaterThan(Math.max(0, ...known));
      known.add(seq);
      if (random() < 0.05) throw new Error("broke off in the middle");
    }
    if (random() < 0.5) await scheduler.wait(random() * 3);
    if (random() < 0.15) cut();
  };
  const t = stored === "later" ? storedLater(deliver) : deliver;
  const time = new ShiftedClock();
  for (let round = 0; round < 40; round++) {
    await withOutbox(name, { t }, async (object, inner) => {
      state = inner;
      const drains: Promise<void>[] = [];
      for (let step = 0; step < 6; step++) {
        const lane = `lane ${Math.floor(random() * 4)}`;
        const seq = object.commit(() => object.outbox.enlist("t", lane, null));
        await inner.storage.sync();
        accepted.set(lane, [...(accepted.get(lane) ?? []), seq]);
        if (random() < 0.6) drains.push(object.outbox.drain());
      }
      if (random() < 0.7) await Promise.all(drains);
      time.advance(40_000);
    }).catch((failure: unknown) => {
      if (!String(failure).includes("killed")) throw failure;
    });
  }
  const done = vi.fn();
  for (let round = 0; round < 200 && done.mock.calls.length === 0; round++) {
    time.advance(40_000);
    await withOutbox(name, { t }, async (object, inner) => {
      state = inner;
      await object.outbox.drain();
      object.outbox.settle();
      if (waiting(inner).length === 0) done();
    }).catch(() => undefined);
  }
  // A late delivery must not kill the object while the suite checks it.
  state = undefined;
  expect(done).toHaveBeenCalled();
  const lanes = [...accepted.keys()].sort();
  for (const lane of lanes)
    expect([...(effects.get(lane) ?? [])], lane).toEqual(expect.arrayContaining(accepted.get(lane) ?? []));
  console.info(`outbox fuzz: seed ${seed}, ${cuts} power cuts, ${repeats} repeated rows`);
  expect(cuts).toBeGreaterThan(0);
  expect(repeats).toBeGreaterThan(0);
});
