import { beforeEach, describe, expect, it } from "vitest";
import { type LeaseRows, LeaseTable, type PendingChange, REVIEW_MS } from "./lease-table.ts";

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
    table.grant("fra", 0);
    table.grant("iad", 0);
    const seq = pending(["a"], 10);
    expect([table.unsettled("a"), table.unsettled("b"), table.unsettled(null)]).toEqual([[seq], [], [seq]]);
    table.acknowledge("fra", [seq]);
    expect(table.isSettled(seq)).toBe(false);
    expect([...table.unacknowledged()]).toEqual([["iad", [{ seq, keys: ["a"] }]]]);
    table.acknowledge("iad", [seq]);
    expect([table.isSettled(seq), table.unsettled("a"), rows.pending.size]).toEqual([true, [], 0]);
  });

  it("waits at most 5 % longer than a lease", () => {
    const { ms } = table.grant("fra", 0);
    const seq = pending(["a"], 10);
    expect([ms, table.nextDue()]).toEqual([2_000, 2_100]);
    table.settle(2_099);
    expect(table.isSettled(seq)).toBe(false);
    table.settle(2_100);
    expect([table.isSettled(seq), table.nextDue(), table.isIdle]).toEqual([true, null, true]);
  });

  it("does not wait longer because its holder asks about other keys", () => {
    table.grant("fra", 0);
    const seq = pending(["a"], 10);
    expect(table.grant("fra", 1_050)).toMatchObject({ ms: 1_000 });
    table.settle(2_100);
    expect(table.isSettled(seq)).toBe(true);
  });

  it("of everything concerns every key", () => {
    table.grant("fra", 0);
    const seq = pending(null, 10);
    expect(table.unsettled("anything")).toEqual([seq]);
  });

  it("is not acknowledged by another instance of the replica", () => {
    table.grant("fra 1", 0);
    const seq = pending(["a"], 10);
    table.acknowledge("fra 2", [seq]);
    expect(table.isSettled(seq)).toBe(false);
  });

  it("does not wait for a lease that began after it", () => {
    table.grant("fra", 0);
    const seq = pending(["a"], 10);
    table.grant("iad", 20);
    table.acknowledge("fra", [seq]);
    expect(table.isSettled(seq)).toBe(true);
  });
});

describe("a lease", () => {
  it("is extended without a row, and keeps its term", () => {
    const first = table.grant("fra", 0);
    const { writes } = rows;
    expect(table.grant("fra", 1_000)).toEqual(first);
    expect(rows.writes).toBe(writes);
  });

  it("begins a new term after a gap, without a row when the gap is short", () => {
    const { term } = table.grant("fra", 0);
    const { writes } = rows;
    expect(table.grant("fra", 2_100).term).toBeGreaterThan(term);
    expect(rows.writes).toBe(writes);
  });

  it("leaves no row behind when its holder stays away", () => {
    table.grant("fra", 0);
    expect(table.nextReview()).toBe(REVIEW_MS);
    table.settle(REVIEW_MS);
    expect(rows.holders.size).toBe(1);
    table.review(REVIEW_MS);
    expect([rows.holders.size, table.nextReview()]).toEqual([0, null]);
    table.grant("fra", 2 * REVIEW_MS);
    expect([rows.holders.size, table.nextReview()]).toEqual([1, 3 * REVIEW_MS]);
  });

  it("that goes on costs no further row, and is reviewed each minute", () => {
    table.grant("fra", 0);
    table.grant("iad", 0);
    const { writes } = rows;
    for (let now = 0; now < 3 * REVIEW_MS; now += 1_000) {
      table.grant("fra", now);
      if (now === table.nextReview()) table.review(now);
    }
    expect(rows.writes - writes).toBe(1);
    expect([[...rows.holders], table.nextReview()]).toEqual([["fra"], 3 * REVIEW_MS]);
  });

  it("comes with the newest change that the answer includes", () => {
    const { clock } = table.grant("fra", 0);
    const seq = pending(["a"], 10);
    expect(seq).toBeGreaterThan(clock);
    table.acknowledge("fra", [seq]);
    expect(table.grant("fra", 20).clock).toBe(seq);
  });
});

it("a holder without a row gets no lease", () => {
  rows.putHolder = () => {
    throw new Error("disk is full");
  };
  expect(() => table.grant("fra", 0)).toThrow("disk is full");
  expect([table.isIdle, table.change(["a"], 10), table.nextReview()]).toEqual([true, null, null]);
  expect(table.noLease()).toMatchObject({ ms: 0 });
});

describe("an owner that restarts", () => {
  it("still waits for the holders of a pending change, for a whole lease by its new clock", () => {
    table.grant("fra", 0);
    const seq = pending(["a"], 10);
    const next = new LeaseTable(rows, 90_000_000);
    expect([next.unsettled("a"), next.nextDue()]).toEqual([[seq], 90_002_100]);
    next.settle(90_002_099);
    expect(next.isSettled(seq)).toBe(false);
    next.acknowledge("fra", [seq]);
    expect(next.isSettled(seq)).toBe(true);
  });

  it("makes later changes wait for the leases of before", () => {
    table.grant("fra", 0);
    expect(new LeaseTable(rows, 5).change(["a"], 6)).not.toBeNull();
  });

  it("reviews its rows at its next alarm, which the instance before has set", () => {
    table.grant("fra", 0);
    const next = new LeaseTable(rows, 5);
    expect(next.nextReview()).toBeNull();
    next.review(2_105);
    expect([rows.holders.size, next.nextReview(), next.change(["a"], 2_106)]).toEqual([0, null, null]);
  });

  it("reviews its rows again when their leases run at its next alarm", () => {
    table.grant("fra", 0);
    const next = new LeaseTable(rows, 5);
    next.review(10);
    expect([rows.holders.size, next.nextReview()]).toEqual([1, REVIEW_MS + 10]);
  });

  it("begins a new term for the holders of before", () => {
    const { term } = table.grant("fra", 0);
    table.grant("fra", 2_500);
    const latest = table.grant("fra", 5_000).term;
    expect(new LeaseTable(rows, 5_100).grant("fra", 5_100).term).toBeGreaterThan(latest);
    expect(latest).toBeGreaterThan(term);
  });

  it("gives no number twice after a transaction that was rolled back", () => {
    table.grant("fra", 0);
    const { seq: before } = rows;
    const last = pending(["a"], 10);
    rows.seq = 0;
    table.rolledBack();
    table.acknowledge("fra", [last]);
    const next = pending(["a"], 20);
    expect(rows.seq).toBeGreaterThanOrEqual(next);
    expect(before).toBeGreaterThan(0);
  });

  it("gives no number twice", () => {
    table.grant("fra", 0);
    const seq = pending(["a"], 10);
    table.acknowledge("fra", [seq]);
    table.settle(2_100);
    expect(new LeaseTable(rows, 3_000).grant("fra", 3_000).term).toBeGreaterThan(seq);
  });
});
