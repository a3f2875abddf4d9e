/**
 * Callers that wait inside the object until a lock is free: the order of arrival is the order of the rows in `jobs`, and only
 * the first caller of a line is woken. In memory only: a restart fails the calls, and their Workers ask again.
 */
export class Line {
  /** By lock, then by job. */
  readonly #waiting = new Map<string, Map<string, () => void>>();

  /** Resolves once the lock may be free for this job, and after `ms` at the latest. */
  async wait(lock: string, job: string, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const line = this.#waiting.get(lock) ?? new Map<string, () => void>();
    this.#waiting.set(lock, line);
    line.set(job, resolve);
    const timer = setTimeout(resolve, ms);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      // A later call of the same job keeps its place.
      if (line.get(job) === resolve) line.delete(job);
      if (line.size === 0 && this.#waiting.get(lock) === line) this.#waiting.delete(lock);
    }
  }

  /** Wakes the first of `jobs` that waits for the lock. */
  wake(lock: string, jobs: Iterable<string>): void {
    const line = this.#waiting.get(lock);
    if (!line) return;
    for (const job of jobs) {
      const resolve = line.get(job);
      if (!resolve) continue;
      resolve();
      return;
    }
  }
}
