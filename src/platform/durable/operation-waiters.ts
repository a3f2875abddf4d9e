/** A client that polls counts as present between two polls. */
const BETWEEN_TWO_WAITS_MS = 2_000;

/** Requests that wait for operations, in memory of the registry object. */
export class OperationWaiters {
  readonly #waiting = new Map<string, Set<(isWoken: boolean) => void>>();
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
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), waitMs);
    this.#waiting.set(id, (this.#waiting.get(id) ?? new Set()).add(resolve));
    const isWoken = await promise;
    clearTimeout(timer);
    this.#waiting.get(id)?.delete(resolve);
    if (this.#waiting.get(id)?.size === 0) this.#waiting.delete(id);
    if (last || isWoken || !isRunning()) this.#expected.delete(id);
    else this.expectWaiter(id);
  }

  /** Wakes all waiters of a completed operation. */
  wake(id: string): void {
    for (const answer of [...(this.#waiting.get(id) ?? [])]) answer(true);
    this.#expected.delete(id);
  }
}
