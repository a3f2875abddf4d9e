import { type Answer, LeaseCache, type Question } from "./lease-cache.ts";
import { type Keys, LEASE_MS } from "./lease-table.ts";

/** A read of a replica. */
interface Read<V> {
  readonly owner: string;
  /** The keys under which an answer may be kept; a question is asked, and joined, under the first. */
  readonly keys: readonly [string, ...string[]];
  /** See `Question`. */
  readonly tag: string | null;
  /** @param question its number */
  ask(question: number): Promise<Answer<V>>;
}

/** The rest of a lease below which a read from memory extends it. */
const EXTEND_MS = LEASE_MS / 2;

interface Waiting<V> {
  readonly since: number;
  readonly read: Read<V>;
  readonly resolve: (value: V | Promise<V>) => void;
  readonly reject: (failure: unknown) => void;
}

/**
 * Answers reads of a replica from its `LeaseCache`, or asks their owner once for all that wait for the same answer. Owns
 * the cache and the questions under way, both in memory alone. A read from memory late in a lease has a question sent
 * that nothing waits for: its answer extends the lease, so entries in use outlive it. Without reads the lease ends.
 */
export class SharedAnswers<V> {
  readonly #waiting = new Map<Question, Waiting<V>[]>();
  /** Owners whose lease is being extended. */
  readonly #extending = new Set<string>();
  #latest = 0;

  constructor(
    bounds: ConstructorParameters<typeof LeaseCache>[0],
    private readonly cache = new LeaseCache<V>(bounds),
  ) {}

  /** @throws whatever the owner's call throws */
  read(read: Read<V>): V | Promise<V> {
    const now = this.#now();
    for (const key of read.keys) {
      const known = this.cache.read(read.owner, key, now);
      if (known === undefined) continue;
      if (this.cache.remaining(read.owner, now) < EXTEND_MS) this.#extend(read, now);
      return known;
    }
    const [key] = read.keys;
    const joined = this.#waiting.get(this.cache.joinable(read.owner, key) as Question);
    return new Promise((resolve, reject) => {
      const waiting = { since: now, read, resolve, reject };
      if (joined) joined.push(waiting);
      else void this.#ask(waiting);
    });
  }

  invalidate(owner: string, seq: number, keys: Keys): void {
    this.cache.invalidate(owner, seq, keys);
  }

  /** See `LeaseCache`. */
  giveBack(owner: string, tag: string): number {
    return this.cache.giveBack(owner, tag);
  }

  #extend(read: Read<V>, since: number): void {
    if (this.#extending.has(read.owner)) return;
    this.#extending.add(read.owner);
    const end = () => this.#extending.delete(read.owner);
    void this.#ask({ since, read, resolve: end, reject: end });
  }

  async #ask(first: Waiting<V>): Promise<void> {
    const { owner, keys, tag, ask } = first.read;
    const question = this.cache.ask(owner, keys[0], this.#now(), tag);
    const group = [first];
    this.#waiting.set(question, group);
    let answer: Answer<V>;
    try {
      answer = await ask(question.number);
    } catch (failure) {
      this.cache.fail(question);
      for (const { reject } of group) reject(failure);
      return;
    } finally {
      this.#waiting.delete(question);
    }
    const until = this.cache.answer(question, answer, this.#now());
    const [, ...others] = group;
    first.resolve(answer.value);
    for (const other of others) {
      if (other.since < until) other.resolve(answer.value);
      // Not joined again: reads of an answer that serves one read alone would go to the owner one after the other.
      else if (answer.reusable) other.resolve(this.read(other.read));
      else void this.#ask(other);
    }
  }

  /** A clock that goes back does not show the elapsed time. */
  #now(): number {
    const now = Date.now();
    if (now < this.#latest) this.cache.forget();
    this.#latest = now;
    return now;
  }
}
