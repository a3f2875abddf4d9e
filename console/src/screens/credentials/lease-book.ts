/**
 * Leases that have been looked up. Reads at most `MAX_CONCURRENT` at a time; a page with 100 000 rows reads those in sight
 * only.
 */
import { signal } from "../../lib/signal.ts";
import { timeOf } from "../../lib/time.ts";
import { type Lease, MAX_CONCURRENT, readLease } from "./reads.ts";

export class LeaseBook {
  /** Null where the look-up was refused. */
  readonly leases = signal<ReadonlyMap<string, Lease | null>>(new Map());
  readonly #waiting = new Set<string>();
  #readers = 0;

  /** Looks a lease up soon, unless it is known. */
  want(id: string): void {
    if (this.leases.peek().has(id) || this.#waiting.has(id)) return;
    this.#waiting.add(id);
    if (this.#readers < MAX_CONCURRENT) void this.#work();
  }

  async read(id: string): Promise<void> {
    const lease = await readLease(id).catch(() => null);
    this.leases.value = new Map(this.leases.peek()).set(id, lease);
  }

  /** Forgets leases that are gone, and those whose time is over: they may have become irrevocable. */
  keep(ids: readonly string[]): void {
    const wanted = new Set(ids);
    const at = Date.now();
    const kept = [...this.leases.peek()].filter(
      ([id, lease]) => wanted.has(id) && (timeOf(lease?.expire_time) ?? 0) > at,
    );
    this.leases.value = new Map(kept);
  }

  async #work(): Promise<void> {
    this.#readers++;
    for (;;) {
      const [id] = this.#waiting;
      if (id === undefined) break;
      this.#waiting.delete(id);
      await this.read(id);
    }
    this.#readers--;
  }
}
