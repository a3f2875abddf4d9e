import type { GivenBack, ReadLease } from "../contracts/read-lease.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { readReplica } from "../rpc/stubs.ts";
import { type Holder, type Keys, type LeaseRows, LeaseTable, type PendingChange } from "./lease-table.ts";
import { replicaOf } from "./replica-name.ts";

/**
 * Connects a `LeaseTable` with the object that owns the data: its rows, its clock, the delivery of changes to replicas,
 * and the answers that wait for them. Where no replica has the keys it costs one look-up in memory, and nothing on disk.
 *
 * An answer is computed at once and leaves when the changes that it includes are settled. So a read waits for changes
 * that came before it and for no later one.
 */
export class LeaseOwner {
  readonly #table: LeaseTable;
  readonly #waiting = new Set<Waiting>();
  /** Holders to which changes are being delivered. */
  readonly #deliveries = new Set<Holder>();
  #timer: { readonly at: number; readonly id: ReturnType<typeof setTimeout> } | null = null;
  #isTidying = false;
  /** The clock never goes back, and goes on by timers while the system's stands still. */
  #clock = 0;

  /** @param name under which replicas know the owner; @param arm sets the object's alarm for its deadlines */
  constructor(
    private readonly env: Env,
    private readonly storage: DurableObjectStorage,
    private readonly name: string,
    private readonly arm: () => void,
  ) {
    this.#table = new LeaseTable(new StoredLeases(storage.kv), this.#now());
  }

  /** Records a change. Call inside its transaction. */
  change(keys: Keys): void {
    // A list that long costs more than what a replica has to ask again.
    const named = keys && keys.length <= MAX_KEYS ? [...new Set(keys)] : null;
    if (this.#table.change(named, this.#now()) !== null) queueMicrotask(() => this.#deliver());
  }

  /** Call after a rollback. */
  rolledBack(): void {
    this.#table.rolledBack();
  }

  /** Records a change of everything outside of a transaction, such as one by a restore. */
  changeAll(): void {
    if (!this.#table.isIdle) this.storage.transactionSync(() => this.change(null));
  }

  /**
   * The lease of an answer that is computed now.
   * @param key that the answer is about; @param question its number; without one the holder cannot give the key back
   */
  grant(holder: Holder, key: string, question?: number): ReadLease {
    const review = this.#table.nextReview();
    try {
      const grant = this.#table.grant(holder, key, this.#now(), question);
      if (this.#table.nextReview() !== review) this.arm();
      return grant;
    } catch (failure) {
      // Reads go on while the disk is full, without a lease.
      warn("lease-not-granted", { owner: this.name, because: textOf(failure) });
      return this.#table.noLease();
    }
  }

  /** Records that a holder gave a key back, before a change of the key. */
  takeBack({ holder, key, question }: GivenBack): void {
    this.#table.takeBack(holder, key, question);
  }

  /** When the object's alarm must call `review` (ms since 1970); null for never. */
  nextReview(): number | null {
    return this.#table.nextReview();
  }

  /** Call at each alarm: deletes the rows of replicas that stay away. */
  review(): void {
    this.#table.review(this.#now());
    this.#settle();
  }

  /**
   * Holds an answer back until the changes that it may include are settled. The runtime awaits a promise that a method
   * returns, so callers get the answer in any case.
   * @param key that the answer is about; null for any
   */
  hold<T>(answer: T, key: string | null = null): T {
    if (this.#table.isIdle) return answer instanceof Promise ? (this.#holdLater(answer, key) as T) : answer;
    if (answer instanceof Promise) return this.#holdLater(answer, key) as T;
    if (isUnavailable(answer)) this.changeAll();
    this.#settle();
    const seqs = this.#table.unsettled(key);
    return seqs.length === 0 ? answer : (this.#settled(seqs).then(() => answer) as T);
  }

  /** Resolves when all changes until now are settled. */
  async settled(): Promise<void> {
    this.#settle();
    const seqs = this.#table.unsettled(null);
    if (seqs.length > 0) await this.#settled(seqs);
  }

  async #holdLater<T>(answer: Promise<T>, key: string | null): Promise<T> {
    return this.hold(await answer, key);
  }

  #settled(seqs: readonly number[]): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add({ seqs, resolve });
    this.#deliver();
    this.#schedule();
    return promise;
  }

  /** Answers whatever waits for nothing any more. */
  #settle(): void {
    this.#table.settle(this.#now());
    for (const waiting of this.#waiting) {
      if (!waiting.seqs.every((seq) => this.#table.isSettled(seq))) continue;
      this.#waiting.delete(waiting);
      waiting.resolve();
    }
    this.#schedule();
    this.#tidyLater();
  }

  /** Deletes the rows of settled changes together, behind the answers that waited for them. */
  #tidyLater(): void {
    if (this.#isTidying || !this.#table.isUntidy) return;
    this.#isTidying = true;
    setTimeout(() => {
      this.#isTidying = false;
      try {
        this.#table.tidy();
      } catch (failure) {
        // The next change tries again.
        warn("lease-rows-not-deleted", { owner: this.name, because: textOf(failure) });
      }
    }, TIDY_MS);
  }

  /** Sets the timer for the end of a lease that an answer waits for. Otherwise there is none. */
  #schedule(): void {
    const at = this.#waiting.size === 0 ? null : this.#table.nextDue();
    if (at === (this.#timer?.at ?? null)) return;
    clearTimeout(this.#timer?.id);
    this.#timer = null;
    if (at === null) return;
    const due = () => {
      this.#timer = null;
      this.#clock = Math.max(this.#clock, at);
      this.#settle();
    };
    this.#timer = { at, id: setTimeout(due, Math.max(0, at - this.#now())) };
  }

  /** Starts the delivery to each holder that has something to acknowledge. */
  #deliver(): void {
    for (const holder of this.#table.unacknowledged().keys()) {
      if (!this.#deliveries.has(holder)) void this.#deliverTo(holder);
    }
  }

  async #deliverTo(holder: Holder): Promise<void> {
    this.#deliveries.add(holder);
    try {
      for (;;) {
        const changes = this.#table.unacknowledged().get(holder);
        if (!changes || !(await this.#deliverOnce(holder, changes))) return;
      }
    } finally {
      this.#deliveries.delete(holder);
    }
  }

  /** @returns whether to go on: not when another instance has taken the place of the holder, whose lease must run out */
  async #deliverOnce(holder: Holder, changes: readonly { seq: number; keys: Keys }[]): Promise<boolean> {
    try {
      const by = await readReplica(this.env, replicaOf(holder)).invalidate(this.name, changes);
      const seqs = changes.map(({ seq }) => seq);
      this.#table.acknowledge(by, seqs);
      this.#settle();
      return by === holder;
    } catch (failure) {
      warn("invalidation-failed", { owner: this.name, replica: replicaOf(holder), because: textOf(failure) });
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      this.#settle();
      return true;
    }
  }

  #now(): number {
    this.#clock = Math.max(this.#clock, Date.now());
    return this.#clock;
  }
}

interface Waiting {
  readonly seqs: readonly number[];
  readonly resolve: () => void;
}

const MAX_KEYS = 64;
const RETRY_MS = 100;
const TIDY_MS = 100;

/** Answers of an owner that is sealed or being restored: replicas must not go on with what they have. */
const isUnavailable = (answer: unknown): boolean => {
  const found = (answer ?? {}) as { readonly answer?: object };
  const { ok, reason } = (found.answer ?? found) as { readonly ok?: unknown; readonly reason?: unknown };
  return ok === false && (reason === "sealed" || reason === "unavailable");
};

const SEQ = "lease-seq";
const HOLDER = "lease-holder:";
const PENDING = "lease-change:";
/** So that the keys of changes are in their order. */
const DIGITS = 16;

/** Stored beside the tables: snapshots exclude leases, and a restore does not replace them. */
class StoredLeases implements LeaseRows {
  constructor(private readonly kv: SyncKvStorage) {}

  load() {
    return {
      seq: this.kv.get<number>(SEQ) ?? 0,
      holders: [...this.kv.list({ prefix: HOLDER })].map(([key]) => key.slice(HOLDER.length)),
      pending: [...this.kv.list<PendingChange>({ prefix: PENDING })].map(([, change]) => change),
    };
  }

  putSeq(seq: number): void {
    this.kv.put(SEQ, seq);
  }

  putHolder(holder: Holder): void {
    this.kv.put(HOLDER + holder, Date.now());
  }

  dropHolder(holder: Holder): void {
    this.kv.delete(HOLDER + holder);
  }

  putPending(change: PendingChange): void {
    this.kv.put(keyOf(change.seq), change);
  }

  dropPending(seq: number): void {
    this.kv.delete(keyOf(seq));
  }
}

const keyOf = (seq: number): string => PENDING + String(seq).padStart(DIGITS, "0");
