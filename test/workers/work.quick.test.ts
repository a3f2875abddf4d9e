import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { WorkLease, WorkOutcome } from "../../src/platform/durable/lease.ts";
import { migrate } from "../../src/platform/durable/migrations.ts";
import { NOTIFY_AGAIN_MS, WakeUp, type WakeUpMessage } from "../../src/platform/durable/wake-up.ts";
import { LEASE_MS, WorkQueue, workMigrations } from "../../src/platform/durable/work-queue.ts";
import { randomFrom } from "../crash/random.ts";
import { part } from "../support/long.ts";

/** A work list on real storage, and a clock that only the test moves. */
const withWork = <R>(run: (work: WorkQueue) => R | Promise<R>, options?: { failedLast: boolean }): Promise<R> =>
  runInDurableObject(env.EVENT_LOG.getByName("work"), (_object, state) => {
    migrate(state.storage, "work", workMigrations);
    return run(new WorkQueue(state.storage.sql, options));
  });

const DONE: WorkOutcome = { kind: "done" };
const only = (claims: WorkLease[]): WorkLease => {
  expect(claims).toHaveLength(1);
  return claims[0] as WorkLease;
};

describe("a lease", () => {
  it("is granted once until it is completed or has expired", () =>
    withWork((work) => {
      work.setDesired("a", 1_000);
      const claim = only(work.lease(10, 1_000));
      expect(claim).toMatchObject({ id: "a", generation: 1, leaseUntil: 1_000 + LEASE_MS });
      expect(work.lease(10, 1_000 + LEASE_MS - 1)).toEqual([]);
      expect(work.lease(10, 1_000 + LEASE_MS - 1, { only: "a" })).toEqual([]);
      expect(work.nextReady()).toBe(claim.leaseUntil);
      const second = only(work.lease(10, claim.leaseUntil));
      expect(second.lease).not.toBe(claim.lease);
      expect(work.complete(claim, DONE, claim.leaseUntil + 1)).toBe("stale");
      expect(work.complete(second, DONE, claim.leaseUntil + 1)).toBe("done");
      expect(work.nextReady()).toBeNull();
    }));

  it("that has expired completes nothing, even without another lease", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      const claim = only(work.lease(1, 0));
      expect(work.complete(claim, DONE, LEASE_MS)).toBe("stale");
      expect(work.queued()).toBe(1);
    }));

  it("is completed once: a repeated result changes nothing", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      const claim = only(work.lease(1, 0));
      expect([work.complete(claim, DONE, 1), work.complete(claim, DONE, 2)]).toEqual(["done", "stale"]);
      work.setDesired("a", 3);
      expect(work.complete(claim, DONE, 4)).toBe("stale");
      expect(work.queued()).toBe(1);
    }));

  it("of an older desired state is superseded by the newer one, which is ready at once", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      const claim = only(work.lease(1, 0));
      work.setDesired("a", 10);
      expect(work.lease(1, 10), "two never act on one thing").toEqual([]);
      expect(work.complete(claim, DONE, 20)).toBe("superseded");
      expect(only(work.lease(1, 20)).generation).toBe(2);
    }));

  it("covers the rows that have been ready longest, up to the requested number", () =>
    withWork((work) => {
      for (const [id, at] of [
        ["late", 30],
        ["early", 10],
        ["middle", 20],
        ["future", 99],
      ] as const)
        work.setDesired(id, at);
      expect(work.lease(2, 50).map(({ id }) => id)).toEqual(["early", "middle"]);
      expect(work.lease(9, 50).map(({ id }) => id)).toEqual(["late"]);
    }));

  it("of a withdrawn row stays until its Worker has ended, or its time", () =>
    withWork((work) => {
      const counts = () => [work.queued(), work.leased(1)];
      for (const id of ["a", "b", "c"]) work.setDesired(id, 0);
      const [a, b] = work.lease(2, 0) as [WorkLease, WorkLease];
      for (const id of ["a", "b", "c"]) work.withdraw(id, 1);
      expect(counts(), "a row without a lease is forgotten").toEqual([2, 2]);
      work.setDesired("a", 1);
      expect([work.lease(9, 1), work.holds(a, 1)]).toEqual([[], false]);
      expect([work.complete(a, DONE, 2), work.complete(b, DONE, 2)]).toEqual(["superseded", "superseded"]);
      expect(only(work.lease(9, 2, { only: "a" })).generation).toBe(3);
      work.withdraw("a", 2 + LEASE_MS);
      expect(work.find("a")).toBeNull();
      work.forgetMemos();
      expect(work.queued()).toBe(1);
      work.clear();
      expect([...counts(), work.nextReady()]).toEqual([0, 0, null]);
    }));

  it("of a deleted row is void, also when the row is created again", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      const claim = only(work.lease(1, 0));
      work.forget("a");
      expect(work.complete(claim, DONE, 1)).toBe("stale");
      work.setDesired("a", 2);
      expect(work.complete(claim, DONE, 3), "the generation begins anew, the lease does not").toBe("stale");
      expect(work.queued()).toBe(1);
    }));
});

describe("the order of leases", () => {
  const inOrder = <R>(run: (work: WorkQueue) => R) => withWork(run, { failedLast: true });
  const idsOf = (leases: readonly WorkLease[]) => leases.map(({ id }) => id);

  it("has single changes before many, and many before rows that failed", () =>
    inOrder((work) => {
      work.setDesired("failed", 1, true, "failed");
      work.setDesired("many", 2, true, "many");
      work.setDesired("single", 3);
      expect(work.nextReady()).toBe(1);
      expect([1, 2, 3].flatMap(() => idsOf(work.lease(1, 10)))).toEqual(["single", "many", "failed"]);
    }));

  it("takes one of many after three single changes, so that a burst does not stop the many", () =>
    inOrder((work) => {
      for (let each = 0; each < 40; each++) {
        work.setDesired(`single ${each}`, each);
        work.setDesired(`many ${each}`, each, true, "many");
      }
      const leased = [...idsOf(work.lease(10, 100)), ...idsOf(work.lease(1, 100)), ...idsOf(work.lease(9, 100))];
      expect(leased.filter((id) => id.startsWith("many"))).toEqual([0, 1, 2, 3, 4].map((each) => `many ${each}`));
      expect(leased.filter((id) => id.startsWith("single"))).toHaveLength(15);
    }));

  it("prefers a row of many that is changed by itself, whatever it was set to before", () =>
    inOrder((work) => {
      for (const id of ["a", "b", "c"]) for (let set = 0; set < 2; set++) work.setDesired(id, set, true, "many");
      work.setDesired("c", 5);
      work.setDesired("c", 6, true, "many");
      expect(idsOf(work.lease(1, 10))).toEqual(["c"]);
    }));

  it("keeps a row whose last attempt failed behind the others when it is changed", () =>
    inOrder((work) => {
      work.setDesired("failed", 0);
      work.complete(only(work.lease(1, 0)), { kind: "retry", outcome: "external" } as WorkOutcome, 1);
      work.setDesired("failed", 2);
      work.setDesired("many", 3, true, "many");
      expect(idsOf(work.lease(1, 10))).toEqual(["many"]);
    }));
});

describe("a result", () => {
  it("that requests a retry waits longer each time, and at least as long as requested", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      let now = 0;
      const waits: number[] = [];
      for (let attempt = 0; attempt < 12; attempt++) {
        expect(work.complete(only(work.lease(1, now)), { kind: "retry" }, now + 1)).toBe("retrying");
        const next = work.nextReady() ?? 0;
        waits.push(next - now);
        expect(work.find("a")).toMatchObject({ attempts: attempt + 1, leased: false });
        now = next;
      }
      expect(waits[0]).toBeLessThanOrEqual(1_001);
      expect(waits[8]).toBeGreaterThan(60_000);
      expect(Math.max(...waits)).toBeLessThanOrEqual(300_001);
      work.complete(only(work.lease(1, now)), { kind: "retry", afterMs: 3_600_000 }, now + 1);
      expect(work.nextReady()).toBe(now + 3_600_001);
    }));

  it("is dropped by a new desired state, which starts from the first attempt", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      work.complete(only(work.lease(1, 0)), { kind: "retry", afterMs: 500_000 }, 1);
      work.setDesired("a", 2);
      expect(work.find("a")).toMatchObject({ attempts: 0, readyAt: 2 });
    }));

  it("that parks a row leaves no work until the desired state changes", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      expect(work.complete(only(work.lease(1, 0)), { kind: "park" }, 1)).toBe("parked");
      expect(work.nextReady()).toBeNull();
    }));

  it("that requests a pause of all rows applies although its desired state has changed, and shortens no longer pause", () =>
    withWork((work) => {
      for (const id of ["a", "b"]) work.setDesired(id, 0);
      const [first, second] = work.lease(2, 0);
      if (!first || !second) throw new Error("no claims");
      work.setDesired(first.id, 1);
      expect(work.complete(first, { kind: "retry", afterMs: 60_000, all: true }, 2)).toBe("superseded");
      expect([work.pausedUntil(), work.lease(2, 60_001)]).toEqual([60_002, []]);
      expect(work.complete(second, { kind: "retry", afterMs: 1_000, all: true }, 3)).toBe("retrying");
      expect([work.pausedUntil(), work.nextReady()]).toEqual([60_002, 60_002]);
      expect(work.lease(2, 60_002)).toHaveLength(2);
    }));

  it("that requests a pause of all rows stops every lease until then, new desired states included", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      work.setDesired("b", 0);
      const [a] = work.lease(1, 0);
      work.complete(a as WorkLease, { kind: "retry", afterMs: 30_000, all: true }, 1);
      work.setDesired("c", 2);
      expect(work.lease(10, 30_000)).toEqual([]);
      expect(work.lease(10, 30_000, { only: "c" })).toEqual([]);
      expect(work.nextReady()).toBe(30_001);
      expect(work.lease(10, 30_001)).toHaveLength(3);
    }));
});

/** No desired state is lost, and no two valid leases of one id overlap, for any order of events. */
it.each(part([12, 13, 14, 15, 16, 17, 18]))(
  "keeps every desired state and never grants overlapping leases (seed %i)",
  (seed) =>
    withWork(async (work) => {
      const random = randomFrom(seed);
      const ids = ["a", "b", "c", "d"];
      /** How often each id was wished, and which of those wishes a settled effect has covered. */
      const wished = new Map<string, number>();
      const covered = new Map<string, number>();
      const out: { claim: WorkLease; covers: number }[] = [];
      let superseded = 0;
      let stale = 0;
      let now = 0;
      const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
      for (let step = 0; step < 4_000; step++) {
        // The runtime resets an object that holds it for too long.
        if (step % 500 === 0) await scheduler.wait(0);
        now += Math.floor(random() * 4_000);
        const roll = random();
        if (roll < 0.3) {
          const id = pick(ids);
          work.setDesired(id, now);
          wished.set(id, (wished.get(id) ?? 0) + 1);
        } else if (roll < 0.6) {
          for (const claim of work.lease(1 + Math.floor(random() * 3), now, {
            only: random() < 0.3 ? pick(ids) : undefined,
          })) {
            const live = out.filter((other) => other.claim.id === claim.id && other.claim.leaseUntil > now);
            expect(live, "claims of one id overlap").toEqual([]);
            out.push({ claim, covers: wished.get(claim.id) ?? 0 });
          }
        } else if (out.length > 0) {
          const index = Math.floor(random() * out.length);
          const { claim, covers } = out[index] as (typeof out)[number];
          const repeat = random() < 0.2;
          if (!repeat) out.splice(index, 1);
          const ending = pick<WorkOutcome>([
            DONE,
            DONE,
            { kind: "retry" },
            { kind: "retry", afterMs: 9_000, all: true },
          ]);
          const settled = work.complete(claim, ending, now);
          if (settled === "done") {
            expect(claim.leaseUntil).toBeGreaterThan(now);
            expect(covers, "done although the wish changed").toBe(wished.get(claim.id));
            covered.set(claim.id, covers);
          }
          if (settled === "superseded") superseded++;
          if (settled === "stale") stale++;
          // After completion the lease is released, for any repeated result.
          if (settled !== "stale")
            for (const other of out) if (other.claim === claim) out.splice(out.indexOf(other), 1);
        }
        for (const id of ids) {
          const open = (wished.get(id) ?? 0) > (covered.get(id) ?? 0);
          expect(work.find(id) !== null, `${id} has work`).toBe(open);
        }
        expect(work.nextReady() !== null).toBe(work.queued() > 0);
      }
      // At rest, everything ends.
      for (let round = 0; round < 1_000 && work.queued() > 0; round++) {
        now = Math.max(now, work.nextReady() ?? 0);
        for (const claim of work.lease(10, now)) work.complete(claim, DONE, now);
      }
      expect(work.queued()).toBe(0);
      expect([superseded > 0, stale > 0]).toEqual([true, true]);
    }),
);

describe("a wake-up", () => {
  const bell = (send = async (_bell: WakeUpMessage) => undefined) =>
    new WakeUp({ send } as unknown as Queue<WakeUpMessage>, "d");

  it("is sent once until a poll has run, or for a while", () => {
    const one = bell();
    expect([one.shouldNotify(0), one.shouldNotify(1), one.shouldNotify(NOTIFY_AGAIN_MS - 1)]).toEqual([
      true,
      false,
      false,
    ]);
    expect(one.shouldNotify(NOTIFY_AGAIN_MS)).toBe(true);
    one.resume();
    expect(one.shouldNotify(NOTIFY_AGAIN_MS + 1)).toBe(true);
  });

  it("sets the alarm to the time of the next one, not earlier", () => {
    const one = bell();
    one.shouldNotify(100);
    expect([one.due(null), one.due(50), one.due(999_999)]).toEqual([null, 100 + NOTIFY_AGAIN_MS, 999_999]);
  });

  it("sends no wake-up when the caller is about to lease anyway", () => {
    const one = bell();
    one.expectLeaseWithin(2_000, 0);
    expect([one.shouldNotify(1_999), one.shouldNotify(2_000)]).toEqual([false, true]);
  });

  it("that the queue refuses raises no error", async () => {
    const rung: WakeUpMessage[] = [];
    const broken = bell(async (sent) => {
      rung.push(sent);
      throw new Error("queue is down");
    });
    await expect(broken.notify()).resolves.toBeUndefined();
    expect(rung).toEqual([{ destination: "d" }]);
  });
});
