/**
 * The owner's side of coherent read replicas (docs/internals/reads-near-the-caller.md). Pure: rows and clock are given.
 * Owns the leases of one owner's replicas and the changes that they have not acknowledged. A change costs one row when a
 * lease runs, and nothing otherwise; a lease costs one row for each term.
 *
 *   lease of a holder
 *
 *     none ──grant──> running ──time──> none        a later grant begins a new term
 *                       │  ^
 *                       └──┘ grant, unless the holder has an invalidation to acknowledge
 *
 *   change of keys
 *
 *     committed ──no lease runs───────────────────────────────────> settled
 *         └──> changing ──each holder acknowledged or its lease over──> settled
 *
 *   While keys are changing, the owner answers nothing about them: no read, no refusal, no question of a replica. The
 *   change itself is answered once it is settled.
 */

/** Keys of a change; null = every key of the owner. */
export type Keys = readonly string[] | null;

/** An instance of a replica. Another instance under the same name is another holder: it has another memory. */
export type Holder = string;

export interface PendingChange {
  readonly seq: number;
  readonly keys: Keys;
  /** Holders that may still serve the keys as they were. */
  readonly waits: readonly Holder[];
}

/** The rows of a lease table. Writes join the owner's transaction. */
export interface LeaseRows {
  /** `seq`: as last put; 0 before. */
  load(): {
    readonly seq: number;
    readonly holders: readonly StoredLease[];
    readonly pending: readonly PendingChange[];
  };
  putSeq(seq: number): void;
  putHolder(lease: StoredLease): void;
  dropHolder(holder: Holder): void;
  putPending(change: PendingChange): void;
  dropPending(seq: number): void;
}

export interface StoredLease {
  readonly holder: Holder;
  readonly term: number;
}

/** A lease that comes with an answer, and the owner's logical time of that answer. */
export interface Grant {
  /** How long the holder may serve from memory, counted from before it asked. */
  readonly ms: number;
  /** Grows when the holder's lease had run out: nothing from before may be served under the new one. */
  readonly term: number;
  /** The newest change that the answer includes. */
  readonly clock: number;
}

/** Longest time that a change waits for a replica that does not answer, by the replica's clock. */
export const LEASE_MS = 2_000;
/** Numbers reserved at a time, so that most changes and terms write no row for their number. */
const NUMBERS = 1_000;
/** The owner waits this much longer: clocks of two machines run at nearly the same speed, and agree on nothing else. */
export const CLOCK_MARGIN = 1.05;

interface Lease extends StoredLease {
  /** By the owner's clock. */
  until: number;
}

interface Change {
  readonly seq: number;
  readonly keys: Keys;
  readonly waits: Set<Holder>;
}

export class LeaseTable {
  readonly #rows: LeaseRows;
  readonly #leases = new Map<Holder, Lease>();
  readonly #pending = new Map<number, Change>();
  #seq: number;
  /** Numbers up to here are reserved on disk: a restart never gives one of them again. */
  #reserved: number;

  /** @param now the owner's clock, in ms. A stored lease counts from here: it may have begun by another machine's clock. */
  constructor(rows: LeaseRows, now: number) {
    this.#rows = rows;
    const { seq, holders, pending } = rows.load();
    for (const { holder, term } of holders) this.#leases.set(holder, { holder, term, until: this.#end(now) });
    for (const change of pending) this.#pending.set(change.seq, { ...change, waits: new Set(change.waits) });
    this.#seq = seq;
    this.#reserved = seq;
  }

  /** Grants a lease with an answer about a key that is not changing. */
  grant(holder: Holder, now: number): Grant {
    this.settle(now);
    const lease = this.#leases.get(holder) ?? this.#begin(holder, now);
    if (!this.#owesAcknowledgement(holder)) lease.until = this.#end(now);
    return { ms: Math.floor((lease.until - now) / CLOCK_MARGIN), term: lease.term, clock: this.#seq };
  }

  /**
   * Records a change of keys. Call inside its transaction.
   * @returns its number, or null when no lease runs and the change is settled
   */
  change(keys: Keys, now: number): number | null {
    this.settle(now);
    if (this.#leases.size === 0) return null;
    const change = { seq: this.#next(), keys, waits: new Set(this.#leases.keys()) };
    this.#pending.set(change.seq, change);
    this.#rows.putPending({ ...change, waits: [...change.waits] });
    return change.seq;
  }

  /** Whether a change of a key is not settled, so that nothing about the key may be answered. */
  isChanging(key: string): boolean {
    for (const { keys } of this.#pending.values()) if (keys === null || keys.includes(key)) return true;
    return false;
  }

  isSettled(seq: number): boolean {
    return !this.#pending.has(seq);
  }

  /** The changes that a holder has to acknowledge, by holder. Deliver them until they are acknowledged or settled. */
  unacknowledged(): Map<Holder, { readonly seq: number; readonly keys: Keys }[]> {
    const found = new Map<Holder, { seq: number; keys: Keys }[]>();
    for (const { seq, keys, waits } of this.#pending.values()) {
      for (const holder of waits) found.set(holder, [...(found.get(holder) ?? []), { seq, keys }]);
    }
    return found;
  }

  /** Records that a holder serves the old state of these changes no more. Idempotent. */
  acknowledge(holder: Holder, seqs: readonly number[]): void {
    for (const seq of seqs) {
      const change = this.#pending.get(seq);
      if (change?.waits.delete(holder)) this.#store(change);
    }
  }

  /** Ends the leases that have run out, and settles the changes that waited for them. */
  settle(now: number): void {
    const over = [...this.#leases.values()].filter(({ until }) => until <= now);
    for (const { holder } of over) {
      this.#leases.delete(holder);
      this.#rows.dropHolder(holder);
    }
    for (const change of this.#pending.values()) {
      const before = change.waits.size;
      for (const holder of change.waits) if (!this.#leases.has(holder)) change.waits.delete(holder);
      if (change.waits.size < before || before === 0) this.#store(change);
    }
  }

  /** When a change may be settled without an acknowledgement (owner's clock); null when none is pending. */
  nextDue(): number | null {
    const ends = [...this.#pending.values()].flatMap(({ waits }) => [...waits].map((holder) => this.#until(holder)));
    return ends.length === 0 ? null : Math.min(...ends);
  }

  /** Such a holder gets no longer lease: a change waits for its end, and would wait for ever. */
  #owesAcknowledgement(holder: Holder): boolean {
    for (const { waits } of this.#pending.values()) if (waits.has(holder)) return true;
    return false;
  }

  #until(holder: Holder): number {
    return this.#leases.get(holder)?.until ?? 0;
  }

  #begin(holder: Holder, now: number): Lease {
    const lease = { holder, term: this.#next(), until: this.#end(now) };
    this.#leases.set(holder, lease);
    this.#rows.putHolder({ holder, term: lease.term });
    return lease;
  }

  #next(): number {
    this.#seq += 1;
    if (this.#seq > this.#reserved) {
      this.#reserved = this.#seq + NUMBERS;
      this.#rows.putSeq(this.#reserved);
    }
    return this.#seq;
  }

  #store({ seq, keys, waits }: Change): void {
    if (waits.size > 0) this.#rows.putPending({ seq, keys, waits: [...waits] });
    else {
      this.#pending.delete(seq);
      this.#rows.dropPending(seq);
    }
  }

  #end(now: number): number {
    return now + LEASE_MS * CLOCK_MARGIN;
  }
}
