/**
 * The owner's side of coherent read replicas (docs/internals/reads-near-the-caller.md). Pure: rows and clock are given.
 * Owns the leases of one owner's replicas, the keys that each of them was given, and the changes that they have not
 * acknowledged. A change of a key that a holder may have costs a row, deleted later with others, and nothing otherwise; a
 * holder costs a row when it asks again after a pause. A review each minute deletes the rows of holders that stay away:
 * after a restart, a change would wait for them.
 *
 *   lease of a holder
 *
 *     none ──grant──> running ──time──> none        a later grant begins a new term
 *                       │  ^
 *                       └──┘ grant, unless the holder has an invalidation to acknowledge
 *
 *   key of a lease
 *
 *     unknown ──answer about it──> given ──change of it acknowledged, no newer answer──> unknown
 *                                    └──given back by the holder, no later question──> unknown
 *
 *   change of keys
 *
 *     committed ──given to no holder──────────────────────────────> settled
 *         └──> changing ──each holder acknowledged or its lease over──> settled
 *
 *   An answer about a changing key, a read, a refusal or one to a replica, leaves once the changes that it includes are
 *   settled. So does the answer to the change itself.
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
    readonly holders: readonly Holder[];
    readonly pending: readonly PendingChange[];
  };
  putSeq(seq: number): void;
  putHolder(holder: Holder): void;
  dropHolder(holder: Holder): void;
  putPending(change: PendingChange): void;
  dropPending(seq: number): void;
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
const CLOCK_MARGIN = 1.05;

/** Time between two reviews. Until the next one a row outlives its lease: a reader that comes back soon costs none. */
export const REVIEW_MS = 60_000;

/** Of the keys that a lease remembers; with more, every change concerns its holder. */
export const MAX_GIVEN_CHARACTERS = 1_000_000;
/** Of a key beside its text. */
const OVERHEAD = 50;

interface Lease {
  readonly holder: Holder;
  /** 0 = from before a restart; the next grant gives a new one. */
  term: number;
  /** By the owner's clock. */
  until: number;
  /** The keys of which the holder may have an answer. */
  readonly given: Map<string, GivenKey>;
  givenCharacters: number;
  /** Until when the holder may have any key, by the owner's clock: answers of before a restart are unknown. */
  givenAllUntil: number;
}

interface GivenKey {
  /** Of the newest answer. */
  readonly clock: number;
  /** The highest number of an answered question. */
  readonly question: number;
}

interface Change {
  readonly seq: number;
  readonly keys: Keys;
  readonly waits: Set<Holder>;
}

export class LeaseTable {
  readonly #leases = new Map<Holder, Lease>();
  /** Holders with a row. */
  readonly #recorded = new Set<Holder>();
  /** By the owner's clock; null while no row was written. An instance that finds rows reviews them at its first alarm. */
  #review: number | null = null;
  readonly #pending = new Map<number, Change>();
  /** Settled changes whose rows are not deleted. After a restart they wait once more. */
  #settledRows: number[] = [];
  #seq: number;
  /** Numbers up to here are reserved on disk: a restart never gives one of them again. */
  #reserved: number;

  /**
   * @param now the owner's clock, in ms. A stored lease counts from here: it may have begun by another machine's clock.
   */
  constructor(
    private readonly rows: LeaseRows,
    now: number,
  ) {
    const { seq, holders, pending } = rows.load();
    for (const holder of holders) {
      this.#recorded.add(holder);
      const until = this.#end(now);
      this.#leases.set(holder, { ...newLease(holder, 0), until, givenAllUntil: until });
    }
    for (const change of pending) this.#pending.set(change.seq, { ...change, waits: new Set(change.waits) });
    this.#seq = seq;
    this.#reserved = seq;
  }

  /**
   * Grants a lease with an answer that is computed now.
   * @param key that the answer is about; @param question its number at the holder
   * @throws what a row throws; then there is no lease
   */
  grant(holder: Holder, key: string, now: number, question = Number.POSITIVE_INFINITY): Grant {
    this.settle(now);
    const lease = this.#leases.get(holder) ?? this.#begin(holder, now);
    if (lease.term === 0) lease.term = this.#next();
    if (!this.#owesAcknowledgement(holder)) this.#extend(lease, now);
    this.#give(lease, key, question);
    return { ms: Math.floor((lease.until - now) / CLOCK_MARGIN), term: lease.term, clock: this.#seq };
  }

  /** The grant of an answer without a lease, which serves the request that asked and is not kept. */
  noLease(): Grant {
    return { ms: 0, term: 0, clock: this.#seq };
  }

  /**
   * Records a change of keys. Call inside its transaction.
   * @returns its number, or null when no holder can have the keys and the change is settled
   */
  change(keys: Keys, now: number): number | null {
    this.settle(now);
    const waits = new Set<Holder>();
    for (const lease of this.#leases.values()) if (this.mayHave(lease, keys, now)) waits.add(lease.holder);
    if (waits.size === 0) return null;
    const change = { seq: this.#next(), keys: keys && this.#given(keys, now), waits };
    this.rows.putPending({ ...change, waits: [...change.waits] });
    this.#pending.set(change.seq, change);
    return change.seq;
  }

  /**
   * Numbers given in a transaction that was rolled back may have lost their reservation. Call after each rollback; a
   * change of the transaction, if any, is settled like others.
   */
  rolledBack(): void {
    this.#reserved = 0;
  }

  /**
   * Changes of a key that are not settled: what is computed about it now may leave when they are.
   * @param key null = any
   */
  unsettled(key: string | null): number[] {
    const found: number[] = [];
    for (const { seq, keys } of this.#pending.values()) {
      if (key === null || keys === null || keys.includes(key)) found.push(seq);
    }
    return found;
  }

  /** Whether no lease runs and no change is pending. */
  get isIdle(): boolean {
    return this.#leases.size === 0 && this.#pending.size === 0;
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

  /**
   * Records that a holder no longer serves the state before these changes. Idempotent. The row of a change names all its
   * holders until the last one has acknowledged: after a restart the owner may wait for too many.
   */
  acknowledge(holder: Holder, seqs: readonly number[]): void {
    for (const seq of seqs) {
      const change = this.#pending.get(seq);
      if (!change?.waits.delete(holder)) continue;
      this.#takeBack(holder, change);
      this.#dropSettled(change);
    }
  }

  /**
   * Records that a holder gave a key back: it serves nothing of it, and keeps no answer to its questions up to a number.
   * A change of the key then does not wait for it. Idempotent, and true at any later time.
   */
  takeBack(holder: Holder, key: string, question: number): void {
    const lease = this.#leases.get(holder);
    const given = lease?.given.get(key);
    if (lease && given && this.covers(question, given)) this.#takeKey(lease, key);
  }

  /** Whether rows of settled changes wait for their deletion. */
  get isUntidy(): boolean {
    return this.#settledRows.length > 0;
  }

  /** Deletes the rows of settled changes. Apart from `acknowledge`, so that no answer waits for it. */
  tidy(): void {
    for (const seq of this.#settledRows) this.rows.dropPending(seq);
    this.#settledRows = [];
  }

  /** Ends the leases that have run out, and settles the changes that waited for them. */
  settle(now: number): void {
    for (const { holder, until } of this.#leases.values()) if (until <= now) this.#leases.delete(holder);
    for (const change of this.#pending.values()) {
      for (const holder of change.waits) if (!this.#leases.has(holder)) change.waits.delete(holder);
      this.#dropSettled(change);
    }
  }

  /** When an alarm must call `review` (owner's clock); null for no need of one. */
  nextReview(): number | null {
    return this.#review;
  }

  /** When a change may be settled without an acknowledgement (owner's clock); null when none is pending. */
  nextDue(): number | null {
    const ends = [...this.#pending.values()].flatMap(({ waits }) => [...waits].map((holder) => this.#until(holder)));
    return ends.length === 0 ? null : Math.min(...ends);
  }

  /** Whether a holder may have an answer about the keys. */
  protected mayHave({ given, givenAllUntil }: Lease, keys: Keys, now: number): boolean {
    if (givenAllUntil > now) return true;
    return keys === null ? given.size > 0 : keys.some((key) => given.has(key));
  }

  /** The keys that any holder may have: answers about the others need not wait. */
  #given(keys: readonly string[], now: number): readonly string[] {
    const leases = [...this.#leases.values()];
    return keys.filter((key) => leases.some((lease) => this.mayHave(lease, [key], now)));
  }

  /** Whether a holder's answer is not older than a change of its key. */
  protected includes(clock: number, { seq }: Change): boolean {
    return clock >= seq;
  }

  /** Whether a key was given back after all questions about it that were answered. */
  protected covers(question: number, given: GivenKey): boolean {
    return given.question <= question;
  }

  #give(lease: Lease, key: string, question: number): void {
    if (lease.givenAllUntil === Number.POSITIVE_INFINITY) return;
    const before = lease.given.get(key);
    if (!before) lease.givenCharacters += key.length + OVERHEAD;
    lease.given.set(key, { clock: this.#seq, question: Math.max(before?.question ?? 0, question) });
    if (lease.givenCharacters <= MAX_GIVEN_CHARACTERS) return;
    lease.given.clear();
    lease.givenAllUntil = Number.POSITIVE_INFINITY;
  }

  /** After its acknowledgement a holder has no answer about the keys but newer ones. */
  #takeBack(holder: Holder, change: Change): void {
    const lease = this.#leases.get(holder);
    if (!lease) return;
    for (const key of change.keys ?? lease.given.keys()) {
      const given = lease.given.get(key);
      if (given && !this.includes(given.clock, change)) this.#takeKey(lease, key);
    }
  }

  #takeKey(lease: Lease, key: string): void {
    lease.given.delete(key);
    lease.givenCharacters -= key.length + OVERHEAD;
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
    const lease = newLease(holder, this.#next());
    this.#extend(lease, now);
    this.#leases.set(holder, lease);
    return lease;
  }

  #extend(lease: Lease, now: number): void {
    if (!this.#recorded.has(lease.holder)) {
      this.rows.putHolder(lease.holder);
      this.#review ??= now + REVIEW_MS;
      this.#recorded.add(lease.holder);
    }
    lease.until = this.#end(now);
  }

  /** Deletes the rows of holders without a lease, if it is time. Apart from `settle`, so that reads delete nothing. */
  review(now: number): void {
    if (this.#review !== null && this.#review > now) return;
    this.settle(now);
    this.tidy();
    for (const holder of this.#recorded) {
      if (this.#leases.has(holder)) continue;
      this.#recorded.delete(holder);
      this.rows.dropHolder(holder);
    }
    // Leases of before a restart are over soon. An idle owner is out of memory long before the usual review, and would
    // find them running at each.
    const areLoaded = [...this.#leases.values()].some(({ term }) => term === 0);
    this.#review = this.#recorded.size === 0 ? null : areLoaded ? this.#end(now) : now + REVIEW_MS;
  }

  #next(): number {
    this.#seq += 1;
    if (this.#seq > this.#reserved) {
      this.rows.putSeq(this.#seq + NUMBERS);
      this.#reserved = this.#seq + NUMBERS;
    }
    return this.#seq;
  }

  #dropSettled({ seq, waits }: Change): void {
    if (waits.size > 0) return;
    this.#pending.delete(seq);
    this.#settledRows.push(seq);
  }

  #end(now: number): number {
    return now + LEASE_MS * CLOCK_MARGIN;
  }
}

const newLease = (holder: Holder, term: number): Lease => ({
  holder,
  term,
  until: 0,
  given: new Map(),
  givenCharacters: 0,
  givenAllUntil: 0,
});
