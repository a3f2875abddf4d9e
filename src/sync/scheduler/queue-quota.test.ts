import { beforeEach, describe, expect, it } from "vitest";
import { randomFrom } from "../../../test/crash/random.ts";
import { memorySql } from "../../../test/memory-sql.ts";
import type { QuotaGrant, QuotaRequest } from "../../contracts/sync-control.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { WorkQueue, workMigrations } from "../../platform/durable/work-queue.ts";
import { destinationMigrations } from "../schema.ts";
import { QueueQuota } from "./queue-quota.ts";
import { SyncGate } from "./sync-gate.ts";

const settled = async () => {
  for (let tick = 0; tick < 20; tick++) await null;
};

let sql: SqlStorage;
let work: WorkQueue;
let quota: QueueQuota;
let gate: SyncGate;
let asked: { need: QuotaRequest; answer: PromiseWithResolvers<QuotaGrant> }[];

/** Restarts the object: its memory is lost. */
function restart(): void {
  asked = [];
  const share = (_name: string, need: QuotaRequest) => {
    const answer = Promise.withResolvers<QuotaGrant>();
    asked.push({ need, answer });
    return answer.promise;
  };
  const object = {
    name: "here",
    sql,
    commit: <T>(change: () => T): T => change(),
    env: { SYNC_CONTROL: { getByName: () => ({ share }) } },
  } as unknown as ObjectContext;
  gate = new SyncGate(
    () => Promise.reject(new Error("not asked")),
    () => quota.pauseEnded(),
  );
  quota = new QueueQuota(object, work, gate);
}

beforeEach(() => {
  sql = memorySql([...workMigrations, ...destinationMigrations]);
  work = new WorkQueue(sql);
  restart();
});

const grant = async (granted: number, scarce = false): Promise<void> => {
  asked.shift()?.answer.resolve({ granted, scarce, running: true });
  await settled();
};
const setDesired = (id: string): void => work.setDesired(id, 0, quota.hasRoom());
/** Reserves quota for one row, as `DesiredState.set` does. */
const admit = async (id: string): Promise<boolean> => {
  if (!(await quota.reserve())) return false;
  work.setDesired(id, 0);
  quota.release();
  return true;
};

describe("queue quota", () => {
  it("is requested once for concurrent callers", async () => {
    const sets = Promise.all(["a", "b", "c"].map(admit));
    await settled();
    expect(asked.map(({ need }) => need)).toEqual([{ kept: 0, waiting: 0, asked: 3 }]);
    await grant(2);
    expect(await sets).toEqual([true, true, false]);
    expect(work.queued()).toBe(2);
  });

  it("is kept by a request that follows at once", async () => {
    const first = admit("first");
    await settled();
    const second = admit("second");
    asked.shift()?.answer.resolve({ granted: 1, scarce: false, running: true });
    expect(await first).toBe(true);
    await settled();
    expect(asked[0]?.need).toEqual({ kept: 1, waiting: 0, asked: 1 });
    await grant(2);
    expect(await second).toBe(true);
  });

  it("is granted to callers before operations that began to wait later", async () => {
    const set = admit("asks");
    await settled();
    setDesired("later");
    await grant(1);
    expect([await set, work.queued(), work.waiting()]).toEqual([true, 1, 1]);
  });

  it("is granted to waiting operations before callers", async () => {
    setDesired("waits");
    const set = admit("new");
    await settled();
    expect(asked[0]?.need).toEqual({ kept: 0, waiting: 1, asked: 1 });
    await grant(1);
    expect([await set, work.queued(), work.waiting()]).toEqual([false, 1, 0]);
  });

  it("is not used beyond the kept amount while a request is in flight", async () => {
    setDesired("first");
    void quota.request();
    await settled();
    await grant(3);
    expect([work.queued(), quota.hasRoom()]).toEqual([1, true]);
    void quota.request();
    await settled();
    expect([asked[0]?.need.kept, quota.hasRoom()]).toEqual([1, false]);
    setDesired("second");
    await grant(1);
    expect([work.queued(), work.waiting()]).toEqual([1, 1]);
  });

  it.each(["before the answer", "after the answer was sent"])("is requested again after a crash %s", async () => {
    void admit("lost").catch(() => undefined);
    await settled();
    expect(asked).toHaveLength(1);
    restart();
    expect(quota.due(), "the alarm asks at once").toBeLessThan(Date.now());
    void quota.request();
    await settled();
    expect(asked[0]?.need).toEqual({ kept: 0, waiting: 0, asked: 0 });
    await grant(0);
    expect(quota.due()).toBeNull();
  });

  it("is requested again when a request fails", async () => {
    const set = admit("a").catch(() => "failed");
    await settled();
    asked.shift()?.answer.reject(new Error("down"));
    expect(await set).toBe("failed");
    expect(quota.due()).not.toBeNull();
  });

  it("is released at once when quota is scarce, and kept while it is plentiful", async () => {
    for (const id of ["a", "b", "c"]) setDesired(id);
    void quota.request();
    await settled();
    await grant(3, true);
    expect(quota.shouldRequest()).toBe(false);
    work.forget("a");
    expect(quota.shouldRequest()).toBe(true);
    void quota.request();
    await settled();
    expect(asked[0]?.need.kept).toBe(2);
    await grant(2, false);
    work.forget("b");
    work.forget("c");
    expect([quota.shouldRequest(), quota.due()]).toEqual([false, null]);
    restart();
    expect([quota.shouldRequest(), quota.due()]).toEqual([false, null]);
    expect(quota.due(true)).not.toBeNull();
  });

  it("is released a little later when it is more than a few operations need", async () => {
    setDesired("a");
    void quota.request();
    await settled();
    await grant(1_000, false);
    expect([quota.shouldRequest(), quota.due() !== null]).toEqual([false, true]);
  });

  it("is requested for waiting operations as soon as a pause ends", async () => {
    setDesired("a");
    void quota.request();
    await settled();
    asked.shift()?.answer.resolve({ granted: 0, scarce: false, running: false });
    await settled();
    expect(quota.due()).toBe(gate.pausedUntil());
    gate.update({ running: true, permitMs: 100 }, Date.now());
    expect(quota.due()).toBeLessThanOrEqual(Date.now());
  });

  it("is requested soon when the newest answer says that no pause is left", async () => {
    setDesired("a");
    void quota.request();
    await settled();
    gate.update({ running: true, permitMs: 100 }, Date.now() + 1);
    asked.shift()?.answer.resolve({ granted: 0, scarce: false, running: false });
    await settled();
    expect(quota.due()).toBeLessThan(Date.now() + 10_000);
  });

  it("is requested again when half of it is free and more operations wait", async () => {
    for (const id of ["a", "b", "c", "d", "e", "f"]) setDesired(id);
    void quota.request();
    await settled();
    await grant(4);
    expect([work.queued(), work.waiting()]).toEqual([4, 2]);
    work.forget("a");
    expect(quota.shouldRequest()).toBe(false);
    work.forget("b");
    expect(quota.shouldRequest()).toBe(true);
  });
});

it.each([1, 2, 3, 4, 5, 6])("never queues more than was granted when messages are lost (seed %i)", async (seed) => {
  const random = randomFrom(seed);
  /** The grant recorded by `SyncControl`; never less than the quota in use. */
  let granted = 0;
  for (let step = 0; step < 2_000; step++) {
    const roll = random();
    const id = `s${Math.floor(random() * 40)}`;
    if (roll < 0.25) setDesired(id);
    else if (roll < 0.4) void admit(id).catch(() => undefined);
    else if (roll < 0.6) work.forget(id);
    else if (roll < 0.7) void quota.request().catch(() => undefined);
    else if (roll < 0.75) restart();
    else {
      const question = asked.shift();
      if (question) {
        const { kept, waiting, asked: more } = question.need;
        if (random() < 0.9) granted = Math.max(kept, Math.floor(random() * (kept + waiting + more + 1)));
        if (random() < 0.8) question.answer.resolve({ granted, scarce: random() < 0.5, running: true });
        else question.answer.reject(new Error("lost"));
      }
    }
    await settled();
    expect(work.queued()).toBeLessThanOrEqual(granted);
  }
});
