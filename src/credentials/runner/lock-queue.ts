/**
 * Callers that wait inside the object until a lock is free. The rows of `jobs` give their order, and only the first
 * caller of a lock is woken. In memory only: a restart of the object fails the calls, and the Workers call again.
 */
export class LockQueue {
  /** Resolvers by lock, then by job. */
  readonly #waiting = new Map<string, Map<string, () => void>>();

  /** Resolves when the lock may be free for this job, or after `ms`. */
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
      // A newer call of the same job keeps its place.
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
