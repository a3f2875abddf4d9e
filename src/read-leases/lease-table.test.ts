import { beforeEach, describe, expect, it } from "vitest";
import { type LeaseRows, LeaseTable, MAX_GIVEN_CHARACTERS, type PendingChange, REVIEW_MS } from "./lease-table.ts";

/** Rows in memory that outlive a table, and the number of writes. */
class Rows implements LeaseRows {
  readonly holders = new Set<string>();
  readonly pending = new Map<number, PendingChange>();
  seq = 0;
  writes = 0;

  load() {
    return { seq: this.seq, holders: [...this.holders], pending: [...this.pending.values()] };
  }

  putSeq(seq: number): void {
    this.seq = seq;
    this.writes += 1;
  }

  putHolder(holder: string): void {
    this.holders.add(holder);
    this.writes += 1;
  }

  dropHolder(holder: string): void {
    this.holders.delete(holder);
    this.writes += 1;
  }

  putPending(change: PendingChange): void {
    this.pending.set(change.seq, change);
    this.writes += 1;
  }

  dropPending(seq: number): void {
    this.pending.delete(seq);
    this.writes += 1;
  }
}

let rows: Rows;
let table: LeaseTable;

beforeEach(() => {
  rows = new Rows();
  table = new LeaseTable(rows, 0);
});

/** A change that some lease keeps from being settled. */
function pending(keys: readonly string[] | null, now: number): number {
  const seq = table.change(keys, now);
  if (seq === null) throw new Error("settled at once");
  return seq;
}

describe("a change", () => {
  it("is settled at once, without a row, while no lease runs", () => {
    expect(table.change(["a"], 0)).toBeNull();
    expect([table.unsettled("a"), rows.writes]).toEqual([[], 0]);
  });

  it("waits until every holder has acknowledged it", () => {
    table.grant("fra", "a", 0);
    table.grant("iad", "a", 0);
    const seq = pending(["a"], 10);
    expect([table.unsettled("a"), table.unsettled("b"), table.unsettled(null)]).toEqual([[seq], [], [seq]]);
    table.acknowledge("fra", [seq]);
    expect(table.isSettled(seq)).toBe(false);
    expect([...table.unacknowledged()]).toEqual([["iad", [{ seq, keys: ["a"] }]]]);
    table.acknowledge("iad", [seq]);
    expect([table.isSettled(seq), table.unsettled("a")]).toEqual([true, []]);
  });

  it("keeps its row until the rows of settled changes are deleted together", () => {
    table.grant("fra", "a", 0);
    table.grant("fra", "b", 0);
    const seqs = [pending(["a"], 10), pending(["b"], 20)];
    table.acknowledge("fra", seqs);
    expect([table.isUntidy, rows.pending.size]).toEqual([true, 2]);
    table.tidy();
    expect([table.isUntidy, rows.pending.size]).toEqual([false, 0]);
  });

  it("is settled at once, without a row, where no holder has an answer about its key", () => {
    table.grant("fra", "a", 0);
    const { writes } = rows;
    expect([table.change(["b"], 10), rows.writes]).toEqual([null, writes]);
  });

  it("waits for the holders that have an answer about its key alone", () => {
    table.grant("fra", "a", 0);
    table.grant("iad", "b", 0);
    const seq = pending(["a", "c"], 10);
    table.acknowledge("fra", [seq]);
    expect(table.isSettled(seq)).toBe(true);
  });

  it("of everything waits for no holder without an answer", () => {
    table.grant("fra", "a", 0);
    table.acknowledge("fra", [pending(null, 10)]);
    expect(table.change(null, 20)).toBeNull();
  });

  it("is settled at once after an acknowledged one, and waits again after another answer", () => {
    table.grant("fra", "a", 0);
    const first = pending(["a"], 10);
    // Until then the holder may serve what was before both.
    const second = pending(["a"], 20);
    table.acknowledge("fra", [first, second]);
    expect(table.change(["a"], 30)).toBeNull();
    table.grant("fra", "a", 40);
    expect(table.change(["a"], 50)).not.toBeNull();
  });

  it("waits for no holder that gave its key back after all its questions about it", () => {
    table.grant("fra", "a", 0, 1);
    table.grant("fra", "b", 0, 2);
    table.takeBack("fra", "a", 2);
    expect([table.change(["a"], 10), table.change(["b"], 10) === null]).toEqual([null, false]);
    table.grant("fra", "c", 20, 3);
    table.grant("fra", "c", 20, 5);
    // Asked earlier, and answered later.
    table.grant("fra", "c", 20, 4);
    table.takeBack("fra", "c", 4);
    expect(table.change(["c"], 30)).not.toBeNull();
  });

  it("waits for a holder whose question has no number, or from before a restart", () => {
    table.grant("fra", "a", 0);
    table.takeBack("fra", "a", 1_000);
    expect(table.change(["a"], 10)).not.toBeNull();
    const next = new LeaseTable(rows, 20);
    next.takeBack("fra", "a", 1_000);
    expect(next.change(["a"], 20)).not.toBeNull();
  });

  it("waits for an answer that was given between an earlier change and its acknowledgement", () => {
    table.grant("fra", "a", 0);
    const seq = pending(["a"], 10);
    table.grant("fra", "a", 20);
    table.acknowledge("fra", [seq]);
    expect(table.change(["a"], 30)).not.toBeNull();
  });

  it("of any key waits for a holder with more keys than the owner remembers", () => {
    const long = "k".repeat(MAX_GIVEN_CHARACTERS / 4);
    for (let n = 0; n < 4; n++) table.grant("fra", long + n, 0);
    expect(table.change(["other"], 10)).not.toBeNull();
    table.settle(2_100);
    table.grant("fra", "a", 2_200);
    expect(table.change(["other"], 2_300)).toBeNull();
  });

  it("waits at most 5 % longer than a lease", () => {
    const { ms } = table.grant("fra", "a", 0);
    const seq = pending(["a"], 10);
    expect([ms, table.nextDue()]).toEqual([2_000, 2_100]);
    table.settle(2_099);
    expect(table.isSettled(seq)).toBe(false);
    table.settle(2_100);
    expect([table.isSettled(seq), table.nextDue(), table.isIdle]).toEqual([true, null, true]);
  });

  it("does not wait longer because its holder asks about other keys", () => {
    table.grant("fra", "a", 0);
    const seq = pending(["a"], 10);
    expect(table.grant("fra", "a", 1_050)).toMatchObject({ ms: 1_000 });
    table.settle(2_100);
    expect(table.isSettled(seq)).toBe(true);
  });

  it("of everything concerns every key", () => {
    table.grant("fra", "a", 0);
    const seq = pending(null, 10);
    expect(table.unsettled("anything")).toEqual([seq]);
  });

  it("is not acknowledged by another instance of the replica", () => {
    table.grant("fra 1", "a", 0);
    const seq = pending(["a"], 10);
    table.acknowledge("fra 2", [seq]);
    expect(table.isSettled(seq)).toBe(false);
  });

  it("does not wait for a lease that began after it", () => {
    table.grant("fra", "a", 0);
    const seq = pending(["a"], 10);
    table.grant("iad", "a", 20);
    table.acknowledge("fra", [seq]);
    expect(table.isSettled(seq)).toBe(true);
  });
});

describe("a lease", () => {
  it("is extended without a row, and keeps its term", () => {
    const first = table.grant("fra", "a", 0);
    const { writes } = rows;
    expect(table.grant("fra", "a", 1_000)).toEqual(first);
    expect(rows.writes).toBe(writes);
  });

  it("begins a new term after a gap, without a row when the gap is short", () => {
    const { term } = table.grant("fra", "a", 0);
    const { writes } = rows;
    expect(table.grant("fra", "a", 2_100).term).toBeGreaterThan(term);
    expect(rows.writes).toBe(writes);
  });

  it("leaves no row behind when its holder stays away", () => {
    table.grant("fra", "a", 0);
    expect(table.nextReview()).toBe(REVIEW_MS);
    table.settle(REVIEW_MS);
    expect(rows.holders.size).toBe(1);
    table.review(REVIEW_MS);
    expect([rows.holders.size, table.nextReview()]).toEqual([0, null]);
    table.grant("fra", "a", 2 * REVIEW_MS);
    expect([rows.holders.size, table.nextReview()]).toEqual([1, 3 * REVIEW_MS]);
  });

  it("that goes on costs no further row, and is reviewed each minute", () => {
    table.grant("fra", "a", 0);
    table.grant("iad", "a", 0);
    const { writes } = rows;
    for (let now = 0; now < 3 * REVIEW_MS; now += 1_000) {
      table.grant("fra", "a", now);
      if (now === table.nextReview()) table.review(now);
    }
    expect(rows.writes - writes).toBe(1);
    expect([[...rows.holders], table.nextReview()]).toEqual([["fra"], 3 * REVIEW_MS]);
  });

  it("comes with the newest change that the answer includes", () => {
    const { clock } = table.grant("fra", "a", 0);
    const seq = pending(["a"], 10);
    expect(seq).toBeGreaterThan(clock);
    table.acknowledge("fra", [seq]);
    expect(table.grant("fra", "a", 20).clock).toBe(seq);
  });
});

it("a holder without a row gets no lease", () => {
  rows.putHolder = () => {
    throw new Error("disk is full");
  };
  expect(() => table.grant("fra", "a", 0)).toThrow("disk is full");
  expect([table.isIdle, table.change(["a"], 10), table.nextReview()]).toEqual([true, null, null]);
  expect(table.noLease()).toMatchObject({ ms: 0 });
});

describe("an owner that restarts", () => {
  it("still waits for the holders of a pending change, for a whole lease by its new clock", () => {
    table.grant("fra", "a", 0);
    const seq = pending(["a"], 10);
    const next = new LeaseTable(rows, 90_000_000);
    expect([next.unsettled("a"), next.nextDue()]).toEqual([[seq], 90_002_100]);
    next.settle(90_002_099);
    expect(next.isSettled(seq)).toBe(false);
    next.acknowledge("fra", [seq]);
    expect(next.isSettled(seq)).toBe(true);
  });

  it("makes later changes wait for the leases of before, whatever their keys", () => {
    table.grant("fra", "a", 0);
    expect(new LeaseTable(rows, 5).change(["b"], 6)).not.toBeNull();
  });

  it("knows again what its holders have once the leases of before are over", () => {
    table.grant("fra", "a", 0);
    const next = new LeaseTable(rows, 0);
    for (const now of [100, 1_500]) next.grant("fra", "b", now);
    expect([next.change(["a"], 2_100), next.change(["b"], 2_100)]).toEqual([null, expect.any(Number)]);
  });

  it("reviews its rows at its next alarm, which the instance before has set", () => {
    table.grant("fra", "a", 0);
    const next = new LeaseTable(rows, 5);
    expect(next.nextReview()).toBeNull();
    next.review(2_105);
    expect([rows.holders.size, next.nextReview(), next.change(["a"], 2_106)]).toEqual([0, null, null]);
  });

  it("reviews its rows again as soon as the leases of before are over", () => {
    table.grant("fra", "a", 0);
    const next = new LeaseTable(rows, 5);
    next.review(10);
    expect([rows.holders.size, next.nextReview()]).toEqual([1, 2_110]);
    next.review(2_110);
    expect([rows.holders.size, next.nextReview()]).toEqual([0, null]);
  });

  it("reviews its rows at the usual time while a holder of before has asked again", () => {
    table.grant("fra", "a", 0);
    const next = new LeaseTable(rows, 5);
    next.grant("fra", "a", 8);
    next.review(10);
    expect([rows.holders.size, next.nextReview()]).toEqual([1, REVIEW_MS + 10]);
  });

  it("begins a new term for the holders of before", () => {
    const { term } = table.grant("fra", "a", 0);
    table.grant("fra", "a", 2_500);
    const latest = table.grant("fra", "a", 5_000).term;
    expect(new LeaseTable(rows, 5_100).grant("fra", "a", 5_100).term).toBeGreaterThan(latest);
    expect(latest).toBeGreaterThan(term);
  });

  it("gives no number twice after a transaction that was rolled back", () => {
    table.grant("fra", "a", 0);
    const { seq: before } = rows;
    const last = pending(["a"], 10);
    rows.seq = 0;
    table.rolledBack();
    table.acknowledge("fra", [last]);
    table.grant("fra", "a", 15);
    const next = pending(["a"], 20);
    expect(rows.seq).toBeGreaterThanOrEqual(next);
    expect(before).toBeGreaterThan(0);
  });

  it("gives no number twice", () => {
    table.grant("fra", "a", 0);
    const seq = pending(["a"], 10);
    table.acknowledge("fra", [seq]);
    table.settle(2_100);
    expect(new LeaseTable(rows, 3_000).grant("fra", "a", 3_000).term).toBeGreaterThan(seq);
  });
});
