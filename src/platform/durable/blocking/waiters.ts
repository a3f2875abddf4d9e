/** Maximum of open queries; a further one does not wait. */
const MAX_WAITERS = 20_000;

interface Waiter {
  readonly tables: readonly string[];
  readonly since: number;
  readonly answer: (index: number) => void;
}

/** Blocking queries: requests that wait until the index of a table moves. */
export class Waiters {
  readonly #waiting = new Map<string, Set<Waiter>>();
  #count = 0;

  constructor(private readonly indexOf: (table: string) => number) {}

  get count(): number {
    return this.#count;
  }

  /**
   * The newest index of these tables: immediately when it is beyond `since`, else when it moves or after `waitMs`. Null
   * at once when too many queries wait.
   */
  changed(tables: readonly string[], since: number, waitMs: number): Promise<number | null> {
    const now = this.#newest(tables);
    if (now > since || waitMs <= 0) return Promise.resolve(now);
    if (this.#count >= MAX_WAITERS) return Promise.resolve(null);
    const { promise, resolve } = Promise.withResolvers<number>();
    const timer = setTimeout(() => waiter.answer(this.#newest(tables)), waitMs);
    const waiter: Waiter = {
      tables,
      since,
      answer: (index) => {
        clearTimeout(timer);
        this.#remove(waiter);
        resolve(index);
      },
    };
    this.#add(waiter);
    return promise;
  }

  /** Answers the queries whose index is below the current index of these tables. */
  wake(tables: Iterable<string>): void {
    for (const table of tables) {
      for (const waiter of [...(this.#waiting.get(table) ?? [])]) {
        const index = this.#newest(waiter.tables);
        if (index > waiter.since) waiter.answer(index);
      }
    }
  }

  #newest(tables: readonly string[]): number {
    return Math.max(1, ...tables.map((table) => this.indexOf(table)));
  }

  #add(waiter: Waiter): void {
    this.#count += 1;
    for (const table of waiter.tables) {
      const held = this.#waiting.get(table) ?? new Set();
      this.#waiting.set(table, held.add(waiter));
    }
  }

  #remove(waiter: Waiter): void {
    this.#count -= 1;
    for (const table of waiter.tables) {
      const held = this.#waiting.get(table);
      held?.delete(waiter);
      if (held?.size === 0) this.#waiting.delete(table);
    }
  }
}
