import type { Scope, StreamAnswer, StreamQuestion } from "../contracts/stream-rights.ts";
import { BATCH_ACCESSOR } from "../contracts/tokens.ts";
import { backoff } from "../lib/backoff.ts";
import { within } from "../lib/timeout.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import type { EventHeader } from "../publishing/event-headers.ts";

/** The access control object is unreachable. */
export class PermissionsUnavailable extends Error {
  override readonly name = "PermissionsUnavailable";
}

/** Answers questions in order, one page at a time; rejects while unreachable. */
export type Ask = (questions: readonly StreamQuestion[]) => Promise<readonly StreamAnswer[]>;

const QUESTIONS_PER_PAGE = 100;
const BACKOFF = { base: 250, cap: 5_000 };
/** Timeout of a page: all further questions wait behind it. */
const ASK_TIMEOUT_MS = 10_000;
/** Minimum pause: a fast local clock must not cause a busy loop. */
const MIN_PAUSE_MS = 250;

/**
 * State of one permission.
 *
 *   open ──token or policy changed──> unsure ──answer──> open | denied
 *     └──────validity ends────────> expired ──answer──> open | denied
 *
 * `unsure`: no event until the next answer; heartbeats continue. `expired`: nothing at all until the next answer.
 */
export type PermissionState = "open" | "unsure" | "expired" | "denied";

export class Permission {
  scope: Scope = { namespaces: [], rules: null };
  readers = 0;
  denied = false;
  /** Time of the next question. */
  askAt = 0;
  /** Number of changes not covered by an answer; above 0, the last answer is not used. */
  changes = 0;
  /** Keys of the policies that the last answer depends on; null = any. */
  #policies: readonly string[] | null = null;
  #expires = Number.POSITIVE_INFINITY;
  #failures = 0;

  constructor(readonly question: StreamQuestion) {}

  /** The permission of a relay. It cannot be revoked. */
  static forRelay(): Permission {
    const permission = new Permission({ accessor: "", namespace: "*", topics: ["*"] });
    permission.scope = { namespaces: null, rules: null, paths: null };
    permission.readers = 1;
    return permission;
  }

  stateAt(now: number): PermissionState {
    if (this.denied) return "denied";
    if (now >= this.#expires) return "expired";
    return this.changes > 0 ? "unsure" : "open";
  }

  /** Whether a change of a policy may change the answer. While changes are not covered, the token may have others. */
  dependsOn(policy: string): boolean {
    return this.changes > 0 || this.#policies === null || this.#policies.includes(policy);
  }

  /** Whether the token may have rights through an entity: their policies are not listed. */
  get mayHaveEntity(): boolean {
    return this.changes > 0 || this.#policies === null;
  }

  invalidate(): void {
    this.changes += 1;
    this.askAt = 0;
  }

  /** @param checked number of changes when the question was sent */
  answered(answer: StreamAnswer, checked: number, now: number): void {
    this.#failures = 0;
    this.changes -= checked;
    this.denied = !answer.allowed;
    if (answer.allowed) {
      this.scope = answer.scope;
      this.#expires = answer.expires ?? Number.POSITIVE_INFINITY;
      this.#policies = answer.policies ?? null;
    }
    const settled = answer.allowed ? Math.max(this.#expires, now + MIN_PAUSE_MS) : Number.POSITIVE_INFINITY;
    this.askAt = this.changes > 0 ? 0 : settled;
  }

  unanswered(now: number): void {
    this.askAt = now + backoff(this.#failures, BACKOFF);
    this.#failures += 1;
  }

  /** Copies a newer answer to the same question. */
  adopt(newer: Permission): void {
    this.scope = newer.scope;
    this.denied = newer.denied;
    this.changes = newer.changes;
    this.askAt = newer.askAt;
    this.#expires = newer.#expires;
    this.#policies = newer.#policies;
  }
}

/** A first question; no reader depends on its answer yet. */
interface Opening {
  readonly permission: Permission;
  /** Number of readers that wait for it. */
  readers: number;
  readonly admitted: PromiseWithResolvers<Permission | null>;
}

/**
 * Permissions of all readers. Rights change at the line that reports the change: from then on, affected readers get no
 * event until `AccessControl` has answered again. One question serves all readers with the same token, namespace and
 * topics.
 */
export class Permissions {
  readonly #held = new Map<string, Permission>();
  readonly #opening = new Map<string, Opening>();
  /** Openings with a pending question. */
  #sent: readonly Opening[] = [];
  #asking = false;

  /** @param changed called after answers, and when the time of the next question changes */
  constructor(
    private readonly ask: Ask,
    private readonly changed: () => void,
  ) {}

  /**
   * The permission of a new reader, by an answer no older than this call; null when denied. Rejects with
   * `PermissionsUnavailable` when access control is unreachable.
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

  /**
   * Marks permissions as unsure after changes of their token or policies, of roles, and the end of an auth method. A line
   * without events stands for changes of entities and groups, about which there is no event.
   */
  onHeaders(headers: readonly EventHeader[]): void {
    if (headers.length === 0) {
      for (const permission of this.#all()) if (permission.mayHaveEntity) permission.invalidate();
    }
    for (const { Topic, Type, Key } of headers) {
      const isEndOfMethod = Type === "ACLAuthMethodDeleted";
      if (Topic !== "ACLToken" && Topic !== "ACLPolicy" && Topic !== "ACLRole" && !isEndOfMethod) continue;
      for (const permission of this.#all()) {
        if (Topic === "ACLToken" && !endsWithToken(permission.question.accessor, Key)) continue;
        if (Topic === "ACLPolicy" && !permission.dependsOn(Key)) continue;
        permission.invalidate();
      }
    }
  }

  /** Marks all permissions as unsure after lost lines. */
  invalidateAll(): void {
    for (const permission of this.#all()) permission.invalidate();
  }

  /** Time of the next question; infinite without one. */
  nextAsk(): number {
    let next = Number.POSITIVE_INFINITY;
    if (!this.#asking) for (const permission of this.#all()) next = Math.min(next, permission.askAt);
    return next;
  }

  /** Asks all due questions, page by page. Never rejects. */
  async askDue(): Promise<void> {
    if (this.nextAsk() > Date.now()) return;
    this.#asking = true;
    // Questions added in the same turn join the first page.
    await Promise.resolve();
    for (let page = this.#due(); page.length > 0; page = this.#due()) await this.#askPage(page);
    this.#asking = false;
    this.changed();
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
    const checked = page.map((permission) => permission.changes);
    // Later readers get their own answer.
    this.#sent = page.flatMap((permission) => this.#takeOpening(permission) ?? []);
    try {
      const asked = this.ask(page.map(({ question }) => question));
      const answers = await within(ASK_TIMEOUT_MS, asked);
      const now = Date.now();
      page.forEach((permission, position) => {
        permission.answered(answers[position] ?? { allowed: false }, checked[position] ?? 0, now);
      });
      for (const opening of this.#sent) opening.admitted.resolve(this.#admitted(opening));
    } catch (failure) {
      warn("stream-rights-unknown", { questions: page.length, because: textOf(failure) });
      for (const permission of page) permission.unanswered(Date.now());
      for (const { admitted } of this.#sent) admitted.reject(new PermissionsUnavailable());
    }
    this.#sent = [];
    this.changed();
  }

  #takeOpening(permission: Permission): Opening | undefined {
    const key = keyOf(permission.question);
    const opening = this.#opening.get(key);
    if (opening?.permission !== permission) return undefined;
    this.#opening.delete(key);
    return opening;
  }

  /** Readers with the same question share one permission, and with it the newest answer. */
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

const keyOf = ({ accessor, namespace, topics, service, subscribe }: StreamQuestion): string =>
  JSON.stringify([accessor, namespace, topics, service, subscribe]);

/** Whether the end of the token of `ended` is the end of the token of `accessor`: its own, or its parent's. */
const endsWithToken = (accessor: string, ended: string): boolean =>
  accessor === ended || accessor.startsWith(`${BATCH_ACCESSOR}${ended}.`);
