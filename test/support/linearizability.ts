/**
 * Checks that a history of one register is linearizable: that its operations can be put into an order, each at a moment
 * between its call and its return, in which every read sees the newest write before it. The algorithm is Wing and Gong's
 * (1993) with Lowe's memory of states that led nowhere, as in Porcupine. Keys are checked one by one: a history is
 * linearizable when that of each object is (Herlihy and Wing 1990).
 */

export interface Operation {
  readonly kind: "read" | "write";
  readonly value: number;
  readonly call: number;
  /** Infinity for a write whose outcome is unknown: it may take effect at any later time, or never. */
  readonly end: number;
}

/** `undecided`: the search took more states than its bound, which says nothing about the history. */
export type Verdict = "linearizable" | "broken" | "undecided";

const MAX_STATES = 20_000;

/** @param initial the value before the first write */
export function verdictOn(history: readonly Operation[], initial: number): Verdict {
  const operations = withoutUnseen(history).sort((a, b) => a.call - b.call);
  const failed = new Set<string>();

  /** The operations that may come next: those that began before the first return of all that are left. */
  const next = (done: bigint) => {
    const left = operations.flatMap((operation, index) => ((done >> BigInt(index)) & 1n ? [] : [{ operation, index }]));
    const deadline = Math.min(...left.map(({ operation }) => operation.end));
    const isOver = deadline === Number.POSITIVE_INFINITY;
    return { isOver, candidates: left.filter(({ operation }) => operation.call <= deadline) };
  };

  /** Adds the reads that see the current value: they change nothing, so they may come first in any order that exists. */
  const withReads = (done: bigint, value: number): bigint => {
    const reads = next(done).candidates.filter(
      ({ operation }) => operation.kind === "read" && operation.value === value,
    );
    if (reads.length === 0) return done;
    return withReads(
      reads.reduce((all, { index }) => all | (1n << BigInt(index)), done),
      value,
    );
  };

  const search = (before: bigint, value: number): boolean => {
    const done = withReads(before, value);
    const { isOver, candidates } = next(done);
    if (isOver) return true;
    const state = `${done} ${value}`;
    if (failed.has(state) || failed.size > MAX_STATES) return false;
    const writes = candidates.filter(({ operation }) => operation.kind === "write");
    if (writes.some(({ operation, index }) => search(done | (1n << BigInt(index)), operation.value))) return true;
    failed.add(state);
    return false;
  };
  if (search(0n, initial)) return "linearizable";
  return failed.size > MAX_STATES ? "undecided" : "broken";
}

/** Without the writes of unknown outcome whose value no read saw: they may not have happened, and take long to order. */
function withoutUnseen(history: readonly Operation[]): Operation[] {
  const seen = new Set(history.flatMap(({ kind, value }) => (kind === "read" ? [value] : [])));
  return history.filter(({ end, value }) => end < Number.POSITIVE_INFINITY || seen.has(value));
}
