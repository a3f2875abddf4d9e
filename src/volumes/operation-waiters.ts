/** A client that polls counts as present between two polls. */
const BETWEEN_TWO_WAITS_MS = 2_000;

/** Requests that wait for operations, in memory of the registry object. */
export class Attendance {
  readonly #waiting = new Map<string, Set<() => void>>();
  /** The time until which a polling client counts as present, by operation. */
  readonly #attended = new Map<string, number>();

  /** Marks a client as about to wait for an operation. */
  attend(id: string): void {
    this.#attended.set(id, Date.now() + BETWEEN_TWO_WAITS_MS);
  }

  isAttended(id: string): boolean {
    return this.#waiting.has(id) || (this.#attended.get(id) ?? 0) > Date.now();
  }

  /** Resolves when an operation is woken, at the latest after `waitMs`. @param last the caller does not poll again */
  async wait(id: string, isRunning: () => boolean, waitMs: number, last: boolean): Promise<void> {
    if (!isRunning()) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, waitMs);
    this.#waiting.set(id, (this.#waiting.get(id) ?? new Set()).add(resolve));
    await promise;
    clearTimeout(timer);
    this.#waiting.get(id)?.delete(resolve);
    if (this.#waiting.get(id)?.size === 0) this.#waiting.delete(id);
    if (last || !isRunning()) this.#attended.delete(id);
    else this.attend(id);
  }

  /** Wakes all waiters of a completed operation. */
  wake(id: string): void {
    for (const answer of [...(this.#waiting.get(id) ?? [])]) answer();
    this.#attended.delete(id);
  }
}
