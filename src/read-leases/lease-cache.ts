import { BoundedEntries } from "./bounded-entries.ts";
import type { Grant, Keys } from "./lease-table.ts";

/**
 * The replica's side of coherent reads (docs/internals/reads-near-the-caller.md). Pure: the clock is given. Owns what one
 * replica remembers of its owners, in memory alone, and the questions that are under way.
 *
 *   entry of a key
 *
 *     none ──answer, not overtaken, of the newest term──> kept ──invalidation, new term, eviction──> none
 *                                                          │ served while the owner's lease runs
 *
 *   question about a key
 *
 *     open ──invalidation of its key──> overtaken         later reads ask a question of their own
 *       │  └───its key is given back───> overtaken
 *       │                                   │
 *       └──answer: kept                     └──answer: kept only if it includes the invalidation
 */

/** A question to an owner that has not been answered. */
export interface Question {
  /** Questions of an instance have rising numbers. */
  readonly number: number;
  readonly owner: string;
  readonly key: string;
  /** The name by which a change concerns the key; null, which every change concerns, until the answer contains it. */
  readonly tag: string | null;
  /** By the replica's clock, before the question left. */
  readonly sentAt: number;
  /** The newest invalidation of the key since it left; 0 for none, infinite once the key was given back. */
  overtakenBy: number;
}

/** An owner's answer. */
export interface Answer<V> extends Grant {
  readonly value: V;
  /** Whether nothing exists under the key: such answers have a bound of their own. */
  readonly absent: boolean;
  /** Size in memory, in characters. */
  readonly size: number;
  /** Whether the answer may be served to another read: not for tokens whose uses are counted. */
  readonly reusable: boolean;
  /** The key under which the answer is kept, if not that of the question. */
  readonly key?: string;
  /** The name by which a change concerns the key, if the question left it open. */
  readonly tag?: string;
  /** When the answer ends by itself, by the replica's clock; null for never. */
  readonly ends?: number | null;
}

interface Entry<V> {
  readonly value: V;
  readonly term: number;
  readonly clock: number;
  readonly ends: number | null;
}

interface Owner {
  term: number;
  /** End of the lease, by the replica's clock. */
  until: number;
  /** Entries older than this were invalidated together. */
  floor: number;
  readonly questions: Set<Question>;
}

export class LeaseCache<V> {
  readonly #owners = new Map<string, Owner>();
  readonly #entries: BoundedEntries<Entry<V>>;
  #asked = 0;

  constructor(bounds: { readonly characters: number; readonly absent: number }) {
    this.#entries = new BoundedEntries(bounds);
  }

  /** The value of a key under a running lease; undefined when its owner must be asked. */
  read(owner: string, key: string, now: number): V | undefined {
    const known = this.#owners.get(owner);
    if (!known || known.until <= now) return undefined;
    const entry = this.#entries.get(nameOf(owner, key));
    if (!entry || !this.isCurrent(entry, known) || (entry.ends !== null && entry.ends <= now)) return undefined;
    return entry.value;
  }

  /** How long the lease of an owner still runs; 0 or less without one. */
  remaining(owner: string, now: number): number {
    return (this.#owners.get(owner)?.until ?? 0) - now;
  }

  /** A question about the key that a read may join; null when it needs a question of its own. */
  joinable(owner: string, key: string): Question | null {
    for (const question of this.#owners.get(owner)?.questions ?? []) {
      if (question.key === key && this.mayJoin(question)) return question;
    }
    return null;
  }

  /** Records a question that is about to leave. @param tag see `Question` */
  ask(owner: string, key: string, now: number, tag: string | null = key): Question {
    this.#asked += 1;
    const question = { number: this.#asked, owner, key, tag, sentAt: now, overtakenBy: 0 };
    this.#owner(owner).questions.add(question);
    return question;
  }

  /** Ends a question without an answer. */
  fail(question: Question): void {
    this.#owner(question.owner).questions.delete(question);
  }

  /**
   * Ends a question with its answer, which is kept where that is safe. The read that asked is served in any case.
   * @returns the replica's time until which reads that joined may have begun: later ones have to ask again
   */
  answer(question: Question, answer: Answer<V>, now: number): number {
    const { owner, key } = question;
    const known = this.#owner(owner);
    if (!known.questions.delete(question) || !answer.reusable) return question.sentAt;
    const until = this.leaseBegin(question, now) + answer.ms;
    if (answer.term < known.term) return question.sentAt;
    if (answer.term > known.term) Object.assign(known, { term: answer.term, until });
    else known.until = Math.max(known.until, until);
    if (this.mayKeep(question, answer) && answer.clock >= known.floor) {
      const { value, term, clock, absent, size, ends = null } = answer;
      const group = nameOf(owner, answer.tag ?? question.tag ?? key);
      this.#entries.set(nameOf(owner, answer.key ?? key), { value, term, clock, ends }, { absent, size, group });
    }
    return until;
  }

  /** Forgets the keys of a change. Acknowledge it afterwards, even when nothing was known of them. */
  invalidate(owner: string, seq: number, keys: Keys): void {
    const known = this.#owner(owner);
    for (const question of known.questions) {
      const concerned = keys === null || question.tag === null || keys.includes(question.tag);
      if (concerned) question.overtakenBy = Math.max(question.overtakenBy, seq);
    }
    if (keys === null) known.floor = Math.max(known.floor, seq);
    for (const key of keys ?? []) this.#entries.deleteGroup(nameOf(owner, key), ({ clock }) => clock < seq);
  }

  /**
   * Forgets a key before a change of it, so that the change need not be announced.
   * @returns the number of the latest question: of questions up to it no answer about the key is kept
   */
  giveBack(owner: string, tag: string): number {
    for (const question of this.#owners.get(owner)?.questions ?? []) {
      if (question.tag === null || question.tag === tag) this.overtake(question);
    }
    this.#entries.deleteGroup(nameOf(owner, tag), () => true);
    return this.#asked;
  }

  /** Ends all leases, when their elapsed time is unknown. */
  forget(): void {
    for (const known of this.#owners.values()) {
      known.until = 0;
      known.questions.clear();
    }
    this.#entries.clear();
  }

  /** Memory in use. */
  get size(): { readonly characters: number; readonly present: number; readonly absent: number } {
    return this.#entries.size;
  }

  /** Whether no gap between two leases, and no invalidation of everything, lies behind an entry. */
  protected isCurrent(entry: Pick<Entry<V>, "term" | "clock">, owner: Pick<Owner, "term" | "floor">): boolean {
    return entry.term === owner.term && entry.clock >= owner.floor;
  }

  /** A question that left before an invalidation may bring the state before it. */
  protected mayJoin(question: Question): boolean {
    return question.overtakenBy === 0;
  }

  protected mayKeep(question: Question, { clock }: Pick<Answer<V>, "clock">): boolean {
    return clock >= question.overtakenBy;
  }

  protected overtake(question: Question): void {
    question.overtakenBy = Number.POSITIVE_INFINITY;
  }

  /** A lease counts from before the question: the owner's began later. */
  protected leaseBegin(question: Question, _now: number): number {
    return question.sentAt;
  }

  #owner(name: string): Owner {
    let known = this.#owners.get(name);
    if (!known) {
      known = { term: 0, until: 0, floor: 0, questions: new Set() };
      this.#owners.set(name, known);
    }
    return known;
  }
}

/** No owner's name holds a line feed. */
const nameOf = (owner: string, key: string): string => `${owner}\n${key}`;
