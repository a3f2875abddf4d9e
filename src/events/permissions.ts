import type { Fact } from "../contracts/event-headers.ts";
import type { Scope, StreamAnswer, StreamQuestion } from "../contracts/stream-rights.ts";
import { backoff } from "../lib/backoff.ts";
import { within } from "../lib/timeout.ts";
import { textOf, warn } from "../platform/observability/log.ts";

/** Nobody could be asked. */
export class RightsUnknown extends Error {
  override readonly name = "RightsUnknown";
}

/** Answers questions in order, a page at a time; rejects while nobody can be asked. */
export type Ask = (questions: readonly StreamQuestion[]) => Promise<readonly StreamAnswer[]>;

const QUESTIONS_PER_PAGE = 100;
const BACKOFF = { base: 250, cap: 5_000 };
/** Everybody's questions wait behind the one that is asked. */
const LONGEST_ASK_MS = 10_000;
/** A clock that is ahead of the one that answers must not make for a busy loop. */
const LEAST_PAUSE_MS = 250;

/**
 * What is known of one question. `open`: events may be shown. `unsure`: something was told that may change the answer; no event
 * until it was asked anew. `expired`: its time is over unless the token was renewed; nothing at all until it was asked anew.
 */
export type Standing = "open" | "unsure" | "expired" | "denied";

export class Permission {
  readonly question: StreamQuestion;
  scope: Scope = { namespaces: [], rules: null };
  readers = 0;
  denied = false;
  /** When to ask (again). */
  askAt = 0;
  /** What was told of rights that no answer covers yet, by number; with any, the answer in hand is not to be used. */
  told = 0;
  #expires = Number.POSITIVE_INFINITY;
  #failures = 0;

  constructor(question: StreamQuestion) {
    this.question = question;
  }

  /** For a reader that is part of this service. Nothing takes it away. */
  static ofOurOwn(): Permission {
    const permission = new Permission({ accessor: "", namespace: "*", topics: ["*"] });
    permission.scope = { namespaces: null, rules: null };
    permission.readers = 1;
    return permission;
  }

  standing(now: number): Standing {
    if (this.denied) return "denied";
    if (now >= this.#expires) return "expired";
    return this.told > 0 ? "unsure" : "open";
  }

  tell(): void {
    this.told += 1;
    this.askAt = 0;
  }

  /** @param told what had been told when the question was sent */
  answered(answer: StreamAnswer, told: number, now: number): void {
    this.#failures = 0;
    this.told -= told;
    this.denied = !answer.allowed;
    if (answer.allowed) {
      this.scope = answer.scope;
      this.#expires = answer.expires ?? Number.POSITIVE_INFINITY;
    }
    const settled = answer.allowed ? Math.max(this.#expires, now + LEAST_PAUSE_MS) : Number.POSITIVE_INFINITY;
    this.askAt = this.told > 0 ? 0 : settled;
  }

  unanswered(now: number): void {
    this.askAt = now + backoff(this.#failures, BACKOFF);
    this.#failures += 1;
  }

  /** Takes over a newer answer to the same question. */
  adopt(newer: Permission): void {
    this.scope = newer.scope;
    this.denied = newer.denied;
    this.told = newer.told;
    this.askAt = newer.askAt;
    this.#expires = newer.#expires;
  }
}

/** A question asked for the first time, so that nobody who reads already depends on its answer. */
interface Opening {
  readonly permission: Permission;
  /** How many want to read. */
  readers: number;
  readonly admitted: PromiseWithResolvers<Permission | null>;
}

/**
 * Who may go on reading. Rights change at the line that tells of it: from then on, readers whom it may concern get no event until
 * `AccessControl` was asked about them again. One question serves all readers of one token who want the same.
 */
export class Permissions {
  readonly #ask: Ask;
  readonly #changed: () => void;
  readonly #held = new Map<string, Permission>();
  readonly #opening = new Map<string, Opening>();
  /** Openings whose question is on its way. */
  #sent: readonly Opening[] = [];
  #asking = false;

  /** @param changed hears when answers have come, and when to ask has changed */
  constructor(ask: Ask, changed: () => void) {
    this.#ask = ask;
    this.#changed = changed;
  }

  /**
   * The permission of one more reader, by an answer that is no older than this call; null when there is none.
   * Rejects with `RightsUnknown` when nobody can be asked.
   */
  admit(question: StreamQuestion): Promise<Permission | null> {
    const key = keyOf(question);
    let opening = this.#opening.get(key);
    if (!opening) {
      opening = { permission: new Permission(question), readers: 0, admitted: Promise.withResolvers() };
      this.#opening.set(key, opening);
    }
    opening.readers += 1;
    void this.askDue();
    return opening.admitted.promise;
  }

  release(permission: Permission): void {
    permission.readers -= 1;
    if (permission.readers === 0) this.#held.delete(keyOf(permission.question));
  }

  /** What a line tells of tokens or policies makes everybody concerned unsure. */
  told(facts: readonly Fact[]): void {
    for (const { Topic, Key } of facts) {
      if (Topic !== "ACLToken" && Topic !== "ACLPolicy") continue;
      for (const permission of this.#all()) {
        if (Topic === "ACLPolicy" || permission.question.accessor === Key) permission.tell();
      }
    }
  }

  /** Lines were lost, and may have told of anything. */
  doubt(): void {
    for (const permission of this.#all()) permission.tell();
  }

  /** When somebody has to be asked about; infinite when nobody has. */
  nextAsk(): number {
    let next = Number.POSITIVE_INFINITY;
    if (!this.#asking) for (const permission of this.#all()) next = Math.min(next, permission.askAt);
    return next;
  }

  /** Asks about everybody it is time for, until there is nobody left. Never rejects. */
  async askDue(): Promise<void> {
    if (this.nextAsk() > Date.now()) return;
    this.#asking = true;
    // Whoever comes in this very turn is asked about in the same page.
    await Promise.resolve();
    for (let page = this.#due(); page.length > 0; page = this.#due()) await this.#askPage(page);
    this.#asking = false;
    this.#changed();
  }

  *#all(): Iterable<Permission> {
    yield* this.#held.values();
    for (const { permission } of this.#opening.values()) yield permission;
    for (const { permission } of this.#sent) yield permission;
  }

  #due(): Permission[] {
    const now = Date.now();
    const page: Permission[] = [];
    for (const permission of this.#all()) {
      if (permission.askAt <= now) page.push(permission);
      if (page.length === QUESTIONS_PER_PAGE) break;
    }
    return page;
  }

  async #askPage(page: readonly Permission[]): Promise<void> {
    const told = page.map((permission) => permission.told);
    // Who comes from now on gets an answer of their own.
    this.#sent = page.flatMap((permission) => this.#takeOpening(permission) ?? []);
    try {
      const asked = this.#ask(page.map(({ question }) => question));
      const answers = await within(LONGEST_ASK_MS, asked);
      const now = Date.now();
      page.forEach((permission, position) => {
        permission.answered(answers[position] ?? { allowed: false }, told[position] ?? 0, now);
      });
      for (const opening of this.#sent) opening.admitted.resolve(this.#admitted(opening));
    } catch (failure) {
      warn("stream-rights-unknown", { questions: page.length, because: textOf(failure) });
      for (const permission of page) permission.unanswered(Date.now());
      for (const { admitted } of this.#sent) admitted.reject(new RightsUnknown());
    }
    this.#sent = [];
    this.#changed();
  }

  #takeOpening(permission: Permission): Opening | undefined {
    const key = keyOf(permission.question);
    const opening = this.#opening.get(key);
    if (opening?.permission !== permission) return undefined;
    this.#opening.delete(key);
    return opening;
  }

  /** Readers of one question share one permission, and with it the newest answer. */
  #admitted({ permission, readers }: Opening): Permission | null {
    if (permission.denied) return null;
    const key = keyOf(permission.question);
    const held = this.#held.get(key);
    if (held) held.adopt(permission);
    else this.#held.set(key, permission);
    const shared = held ?? permission;
    shared.readers += readers;
    return shared;
  }
}

const keyOf = ({ accessor, namespace, topics }: StreamQuestion): string =>
  JSON.stringify([accessor, namespace, topics]);
