import { describe, expect, it } from "vitest";
import { LeaseCache } from "../../src/read-leases/lease-cache.ts";
import { LeaseTable } from "../../src/read-leases/lease-table.ts";
import { amount, PROPERTY } from "../support/long.ts";
import { type Faults, runHistory } from "./run-history.ts";

/** Each number is one history of some 280 operations, the same in every run. */
const seeds = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

/** Histories without a defect. */
const HISTORIES = amount(120, 500);

/** Deviations from the protocol, each of which lets a reader see the past. */
const DEFECTS: Readonly<Record<string, Faults>> = {
  "a change that is answered before its invalidations are acknowledged": { answersEarly: true },
  "a late answer that is kept": {
    Cache: class extends LeaseCache<number> {
      protected override mayKeep(): boolean {
        return true;
      }
    },
  },
  "a lease that counts from its answer": {
    Cache: class extends LeaseCache<number> {
      protected override leaseBegin(_question: unknown, now: number): number {
        return now;
      }
    },
  },
  "a new value that the owner shows before the replicas know": {
    Table: class extends LeaseTable {
      override unsettled(): number[] {
        return [];
      }
    },
  },
  "an owner that forgets pending invalidations when it restarts": { forgetsPending: true },
  "a read that joins a question sent before an invalidation": {
    Cache: class extends LeaseCache<number> {
      protected override mayJoin(): boolean {
        return true;
      }
    },
  },
  "an entry that outlives a gap between two leases": {
    Cache: class extends LeaseCache<number> {
      protected override isCurrent(): boolean {
        return true;
      }
    },
  },
  "an instance that acknowledges for the one before it": { sharesHolder: true },
  "an owner that delivers changes to no holder from before its restart": {
    Table: class extends LeaseTable {
      protected override mayHave(...[lease, keys]: Parameters<LeaseTable["mayHave"]>): boolean {
        return super.mayHave(lease, keys, Number.POSITIVE_INFINITY);
      }
    },
  },
  "an acknowledgement that counts for later answers, too": {
    Table: class extends LeaseTable {
      protected override includes(): boolean {
        return false;
      }
    },
  },
  "a key that is given back while its question is under way, whose answer is kept": {
    Cache: class extends LeaseCache<number> {
      protected override overtake(): void {}
    },
  },
  "a key that counts as given back after later questions, too": {
    Table: class extends LeaseTable {
      protected override covers(): boolean {
        return true;
      }
    },
  },
};

describe("reads through replicas", () => {
  it("are linearizable over losses, delays, restarts and skewed clocks", PROPERTY, () => {
    const total = { operations: 0, fromMemory: 0, asked: 0 };
    for (const seed of seeds(HISTORIES)) {
      const { broken, undecided, operations, fromMemory, asked } = runHistory(seed);
      expect([...broken, ...undecided], `seed ${seed}`).toEqual([]);
      total.operations += operations;
      total.fromMemory += fromMemory;
      total.asked += asked;
    }
    // Otherwise nothing was tried.
    expect(total.operations).toBeGreaterThan(200 * HISTORIES);
    expect(total.fromMemory / (total.fromMemory + total.asked)).toBeGreaterThan(0.4);
  });

  it.each(Object.entries(DEFECTS))("are not with %s", PROPERTY, (_title, faults) => {
    const found = seeds(100).filter((seed) => runHistory(seed, faults).broken.length > 0);
    expect(found.length).toBeGreaterThan(2);
  });
});
