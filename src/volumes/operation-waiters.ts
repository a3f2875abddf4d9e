/** A request that asks again and again is still there between two times. */
const BETWEEN_TWO_WAITS_MS = 2_000;

/** Who waits for operations to end. */
export class Attendance {
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Until when somebody surely waits for an operation. */
  readonly #attended = new Map<string, number>();

  /** Somebody is about to wait for an operation. */
  attend(id: string): void {
    this.#attended.set(id, Date.now() + BETWEEN_TWO_WAITS_MS);
  }

  isAttended(id: string): boolean {
    return this.#waiting.has(id) || (this.#attended.get(id) ?? 0) > Date.now();
  }

  /**
   * Resolves when an operation is woken, at the latest after `waitMs`.
   * @param last nobody asks again after this time
   */
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

  /** Answers whoever waits for an operation, which has ended. */
  wake(id: string): void {
    for (const answer of [...(this.#waiting.get(id) ?? [])]) answer();
    this.#attended.delete(id);
  }
}
