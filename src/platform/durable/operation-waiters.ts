/** A client that polls counts as present between two polls. */
const BETWEEN_TWO_WAITS_MS = 2_000;

/** How a wait ends: the operation was woken, the time is over, or the client has left. */
type WaitEnd = "woken" | "late" | "left";

/** Requests that wait for operations, in memory of the registry object. */
export class OperationWaiters {
  readonly #waiting = new Map<string, Set<(end: WaitEnd) => void>>();
  /** The time until which a polling client counts as present, by operation. */
  readonly #expected = new Map<string, number>();

  /** Marks a client as about to wait for an operation. */
  expectWaiter(id: string): void {
    this.#expected.set(id, Date.now() + BETWEEN_TWO_WAITS_MS);
  }

  isAwaited(id: string): boolean {
    return this.#waiting.has(id) || (this.#expected.get(id) ?? 0) > Date.now();
  }

  /** Resolves when an operation is woken, at the latest after `waitMs`. @param last the caller does not poll again */
  async wait(id: string, isRunning: () => boolean, waitMs: number, last: boolean): Promise<void> {
    if (!isRunning()) return;
    const { promise, resolve } = Promise.withResolvers<WaitEnd>();
    const timer = setTimeout(() => resolve("late"), waitMs);
    this.#waiting.set(id, (this.#waiting.get(id) ?? new Set()).add(resolve));
    const end = await promise;
    clearTimeout(timer);
    this.#waiting.get(id)?.delete(resolve);
    if (this.#waiting.get(id)?.size === 0) this.#waiting.delete(id);
    if (last || end !== "late" || !isRunning()) this.#expected.delete(id);
    else this.expectWaiter(id);
  }

  /** Wakes all waiters of a completed operation. */
  wake(id: string): void {
    for (const answer of [...(this.#waiting.get(id) ?? [])]) answer("woken");
    this.#expected.delete(id);
  }

  /** Ends one client's wait. Another client of the operation, if it was that one's, polls again at once. */
  leave(id: string): void {
    const [answer] = this.#waiting.get(id) ?? [];
    answer?.("left");
    this.#expected.delete(id);
  }
}
