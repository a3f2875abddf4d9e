import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { WorkLease } from "../../src/platform/durable/lease.ts";
import { migrate } from "../../src/platform/durable/migrations.ts";
import { LEASE_MS, WorkQueue, workMigrations } from "../../src/platform/durable/work-queue.ts";

/** Bounds and second steps of the work list, on real storage with a clock that only the test moves. */
const withWork = (run: (work: WorkQueue) => void, options = {}): Promise<void> =>
  runInDurableObject(env.EVENT_LOG.getByName("work-bounds"), (_object, state) => {
    migrate(state.storage, "work", workMigrations);
    run(new WorkQueue(state.storage.sql, options));
  });

const claimed = (work: WorkQueue, now: number): WorkLease => {
  const [claim] = work.lease(1, now);
  if (!claim) throw new Error("nothing was claimed");
  return claim;
};

describe("a lease", () => {
  it("is valid until its last millisecond, and for the newest desired state only", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      const claim = claimed(work, 0);
      expect([work.holds(claim, LEASE_MS - 1), work.holds(claim, LEASE_MS)]).toEqual([true, false]);
      work.setDesired("a", 1);
      expect(work.holds(claim, 2)).toBe(false);
    }));

  it("is extended by its holder, and not after its expiry", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      const first = claimed(work, 0);
      const second = claimed(work, LEASE_MS);
      expect(work.renew(second, LEASE_MS + 10).leaseUntil).toBe(2 * LEASE_MS + 10);
      work.renew(first, LEASE_MS + 500);
      expect(work.firstLeaseEnd()).toBe(2 * LEASE_MS + 10);
    }));

  it("counts from its grant to its completion", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      expect([work.leased(0), work.firstLeaseEnd()]).toEqual([0, null]);
      const claim = claimed(work, 0);
      expect([work.leased(0), work.firstLeaseEnd()]).toEqual([1, LEASE_MS]);
      work.complete(claim, { kind: "again" }, 1);
      expect([work.leased(1), work.firstLeaseEnd()]).toEqual([0, null]);
    }));
});

describe("a row", () => {
  it("that is returned without an outcome keeps its count of attempts", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      expect(work.complete(claimed(work, 0), { kind: "retry" }, 1)).toBe("retrying");
      expect(work.complete(claimed(work, 60_000), { kind: "again" }, 60_001)).toBe("retrying");
      expect(work.find("a")).toMatchObject({ attempts: 1, leased: false });
    }));

  it("is parked after its last attempt", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      const outcomes = [0, 60_000].map((now) =>
        work.complete(claimed(work, now), { kind: "retry", attempts: 2 }, now + 1),
      );
      expect([outcomes, work.find("a")]).toEqual([["retrying", "parked"], null]);
    }));

  it.each([
    ["while it waits", false],
    ["while it is leased", true],
  ])("whose last attempt failed is leased after the others, also with a new desired state set %s", (_when, isLeased) =>
    withWork(
      (work) => {
        const set = () => work.setDesired("a", 1_001);
        work.setDesired("a", 0);
        const first = claimed(work, 0);
        if (isLeased) set();
        work.complete(first, { kind: "retry" }, 1_000);
        if (!isLeased) set();
        work.setDesired("b", 1_002);
        expect(work.lease(2, 1_002).map(({ id }) => id)).toEqual(["b", "a"]);
      },
      { failedLast: true },
    ),
  );

  it("that has waited longest for queue quota is queued first", () =>
    withWork((work) => {
      work.setDesired("young", 2_000, false);
      work.setDesired("old", 1_000, false);
      expect([work.promote(1), work.waiting(), work.queued()]).toEqual([1, 1, 1]);
      expect(claimed(work, 3_000).id).toBe("old");
    }));
});

describe("a pause", () => {
  it("requested by one row applies to all rows, until the latest requested time", () =>
    withWork((work) => {
      work.setDesired("a", 0);
      work.setDesired("b", 0);
      work.complete(claimed(work, 0), { kind: "retry", all: true, afterMs: 60_000 }, 1);
      work.pause(30_000);
      expect(work.pausedUntil()).toBe(60_001);
      expect([work.lease(2, 60_000), work.lease(2, 60_001).length]).toEqual([[], 2]);
      work.unpause();
      expect(work.pausedUntil()).toBe(0);
    }));
});
