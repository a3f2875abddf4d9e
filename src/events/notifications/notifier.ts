import type { FeedPage } from "../../contracts/event-log.ts";
import type { NotifiedPage } from "../../contracts/event-relay.ts";
import type { NotificationRequest } from "../../contracts/notification.ts";
import type { Scope, StreamQuestion } from "../../contracts/stream-rights.ts";
import { firstWhere } from "../../lib/first-where.ts";
import { within } from "../../lib/timeout.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { notificationJudge } from "../../rights/notification-rights.ts";
import { newestGap, notifiesOfAccount } from "../account-gaps.ts";
import { lineFrom } from "../feed-line.ts";
import { type Ask, type Permission, Permissions, PermissionsUnavailable } from "../permissions.ts";
import { Frames } from "./frames.ts";
import { type Page, Recent } from "./recent.ts";
import { type Selection, selectionOf } from "./selection.ts";
import { gapNotice } from "./upstream-events.ts";
import { framesIn } from "./wanted.ts";

/** Close codes of RFC 6455. */
const NORMAL = 1000;
const TRY_AGAIN_LATER = 1013;
const PERMISSION_DENIED = "permission denied";

/** Unsent bytes of a subscriber at which delivery to it pauses. */
const FULL_BYTES = 256 * 1024;
/** Unsent bytes of all subscribers together at which every delivery pauses. */
const MAX_UNSENT_BYTES = 32 * 1024 * 1024;
/** How long that may last until the fullest subscribers are closed, and the bytes that the others may keep. */
const CROWDED_MS = 200;
const KEPT_BYTES = MAX_UNSENT_BYTES / 2;
/** How often paused subscribers are looked at. */
const PAUSE_MS = 50;
/** Pause after a failed read of the log, and its time limit. */
const RETRY_MS = 1_000;
const TIMEOUT_MS = 10_000;
/** Time after which the cursors of a burst are kept. Less than the idle time after which an object hibernates. */
const KEEP_MS = 250;

/** Where the frames of one subscriber go. */
export interface Sink {
  /** Bytes that were sent and have not left. */
  readonly waiting: number;
  send(frame: string | Uint8Array): void;
  close(code: number, reason: string): void;
  /** Stores the last delivered index beside the subscription. */
  keep(cursor: number): void;
}

export interface Subscriber {
  readonly request: NotificationRequest;
  readonly sink: Sink;
  readonly selects: Selection;
  /** Null until its rights are asked for, as after hibernation. */
  permission: Permission | null;
  /** Lines up to here were delivered, or were not for it. */
  cursor: number;
  /** The newest index up to which it was told that lines may be missing; 0 for none. */
  told: number;
  isKept: boolean;
  /** Its unsent bytes, as last read or added to. */
  unsent: number;
  /** Since when it takes nothing. */
  fullSince: number | null;
}

/**
 * Delivers event notifications to any number of subscribers, each a cursor: in order, once a connection, by the rights
 * of the moment. A subscriber whose rights are being asked for, or that takes nothing, waits without a queue, and reads
 * the log again later. Unsent bytes are bounded for each subscriber, and for all together.
 *
 *   open ──token revoked, right lost──> closed (1000)
 *     ├──takes nothing for `stallMs`──> closed (1013)
 *     └──among the fullest while all together have no room──> closed (1013)
 */
export class Notifier {
  readonly #permissions: Permissions;
  readonly #subscribers = new Set<Subscriber>();
  readonly #recent = new Recent();
  #newest = 0;
  /** Unsent bytes of all subscribers, and since when they leave no room. */
  #unsent = 0;
  #crowdedSince: number | null = null;
  /** Changes of rights up to this index are known. */
  #observed = 0;
  #isRunning = false;
  #runsAgain = false;
  #keeping = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param onAnswers called when the time of the next question changes */
  constructor(
    private readonly log: { lines(cursor: number): Promise<FeedPage> },
    ask: Ask,
    private readonly stallMs: () => number,
    onAnswers: () => void,
  ) {
    this.#permissions = new Permissions(ask, () => {
      onAnswers();
      this.run();
    });
  }

  get count(): number {
    return this.#subscribers.size;
  }

  /** Whether a request of a subscriber has a property. */
  some(has: (request: NotificationRequest) => boolean): boolean {
    return [...this.#subscribers].some(({ request }) => has(request));
  }

  /** Time of the next question about rights; infinite without one. */
  get nextAsk(): number {
    return this.#permissions.nextAsk();
  }

  get newest(): number {
    return this.#newest;
  }

  subscribersOf(accessor: string): number {
    let count = 0;
    for (const { request } of this.#subscribers) if (request.accessor === accessor) count += 1;
    return count;
  }

  /**
   * The permission of a new subscriber; null without the right. Rejects with `PermissionsUnavailable` when the rights
   * cannot be determined.
   * @param newest the newest line
   */
  admit(request: NotificationRequest, newest = 0): Promise<Permission | null> {
    // The answer includes the changes up to here, and no other subscriber has an older one.
    if (this.#subscribers.size === 0) this.#observed = Math.max(this.#observed, newest);
    return this.#permissions.admit(questionOf(request));
  }

  /** @param permission null: to be asked for, before anything is sent */
  add(request: NotificationRequest, permission: Permission | null, cursor: number, sink: Sink): Subscriber {
    const state = { told: 0, isKept: true, unsent: 0, fullSince: null };
    const subscriber = { request, sink, selects: selectionOf(request), permission, cursor, ...state };
    this.#subscribers.add(subscriber);
    return subscriber;
  }

  /** The subscribers beyond an index. */
  beyond(newest: number): Subscriber[] {
    return [...this.#subscribers].filter(({ cursor }) => cursor > newest);
  }

  remove(subscriber: Subscriber): void {
    if (!this.#subscribers.delete(subscriber)) return;
    this.#unsent -= subscriber.unsent;
    if (subscriber.permission) this.#permissions.release(subscriber.permission);
  }

  /** Lines have arrived. */
  lines(told: NotifiedPage): void {
    const page = pageOf(told);
    this.#observe(page);
    this.#recent.push(page);
    this.reach(page.upTo);
  }

  /** The log reaches up to an index. */
  reach(newest: number): void {
    this.#newest = Math.max(this.#newest, newest);
    this.run();
  }

  /** Delivers to all that are behind. Never rejects. */
  run(): void {
    this.#runsAgain = true;
    if (this.#isRunning) return;
    this.#isRunning = true;
    void this.#run()
      .catch((failure: unknown) => {
        warn("notifications-not-delivered", { because: textOf(failure) });
        this.#again(RETRY_MS);
      })
      .finally(() => {
        this.#isRunning = false;
        if (this.#runsAgain) this.run();
      });
  }

  async #run(): Promise<void> {
    while (this.#runsAgain) {
      this.#runsAgain = false;
      this.#askForMissing();
      void this.#permissions.askDue();
      this.#dropDenied();
      this.#makeRoom();
      this.#deliver(this.#recent);
      const behind = this.#furthestBehind();
      if (behind !== null) {
        const page = pageOf({ ...(await within(TIMEOUT_MS, this.log.lines(behind))), after: behind });
        if (page.upTo <= behind) throw new Error("the log has no line that it told of");
        this.#observe(page);
        this.#deliver(page);
        this.#runsAgain = true;
      }
    }
    if ([...this.#subscribers].every(({ cursor }) => cursor >= this.#recent.upTo)) this.#recent.clear();
    this.#keepSoon();
    this.#waitForOthers();
  }

  /** Changes of rights apply from the line on that reports them. Lines that were not told of may report others. */
  #observe({ after, lines, upTo, evicted, gaps }: Page): void {
    const lost = newestGap([...gaps, { account: "", upTo: evicted }], () => true);
    if (after > this.#observed || (lost > after && lost > this.#observed)) this.#permissions.invalidateAll();
    for (const { index, headers } of lines) if (index > this.#observed) this.#permissions.onHeaders(headers);
    this.#observed = Math.max(this.#observed, upTo);
  }

  #askForMissing(): void {
    for (const subscriber of this.#subscribers) {
      if (subscriber.permission !== null || this.#asking.has(subscriber)) continue;
      this.#asking.add(subscriber);
      this.admit(subscriber.request)
        .then((permission) => {
          if (permission === null) this.#close(subscriber, NORMAL, PERMISSION_DENIED);
          else if (this.#subscribers.has(subscriber)) subscriber.permission = permission;
          else this.#permissions.release(permission);
        })
        .catch((failure: unknown) => {
          if (!(failure instanceof PermissionsUnavailable)) throw failure;
          this.#again(RETRY_MS);
        })
        .finally(() => {
          this.#asking.delete(subscriber);
          this.run();
        });
    }
  }

  readonly #asking = new Set<Subscriber>();

  #dropDenied(): void {
    for (const subscriber of this.#subscribers) {
      if (subscriber.permission?.denied) this.#close(subscriber, NORMAL, PERMISSION_DENIED);
    }
  }

  /** Whether a subscriber may be sent something now. */
  #isReady(subscriber: Subscriber, now: number): boolean {
    if (subscriber.permission?.stateAt(now) !== "open") return false;
    this.#measure(subscriber);
    if (subscriber.unsent < FULL_BYTES) {
      subscriber.fullSince = null;
      return this.#unsent < MAX_UNSENT_BYTES;
    }
    subscriber.fullSince ??= now;
    if (now - subscriber.fullSince >= this.stallMs()) this.#close(subscriber, TRY_AGAIN_LATER, "slow consumer");
    return false;
  }

  /** The least cursor of those that need lines which are not in memory; null for none. */
  #furthestBehind(): number | null {
    const now = Date.now();
    let least: number | null = null;
    for (const subscriber of this.#subscribers) {
      const { cursor } = subscriber;
      if (cursor >= this.#newest || (least !== null && least <= cursor)) continue;
      if (this.#isReady(subscriber, now)) least = cursor;
    }
    return least;
  }

  /** Sends lines to the subscribers that have all lines before them. */
  #deliver({ after, lines, upTo, evicted, gaps }: Page): void {
    const now = Date.now();
    const frames = framesIn(lines);
    for (const subscriber of this.#subscribers) {
      const { cursor, request } = subscriber;
      if (cursor < after || cursor >= upTo || !this.#isReady(subscriber, now)) continue;
      const sees = (account: string) => notifiesOfAccount(request, subscriber.permission?.scope.paths, account);
      const [known, gap] = [Math.max(cursor, subscriber.told), Math.max(evicted, newestGap(gaps, sees))];
      if (gap > known) {
        this.#send(subscriber, new Frames(gapNotice(known + 1, gap + 1, now)));
        subscriber.told = gap;
      }
      subscriber.cursor = this.#sendAfter(subscriber, frames) ?? upTo;
      subscriber.isKept = false;
    }
  }

  /**
   * Sends the frames after a subscriber's cursor that it selects and may see, while there is room.
   * @returns the index before the line that found none; null when all were sent
   */
  #sendAfter(subscriber: Subscriber, frames: readonly Frames[]): number | null {
    const judge = judgeOf(subscriber.permission?.scope);
    const { cursor } = subscriber;
    let last = cursor;
    const isAfter = (at: number): boolean => (frames[at]?.notification.index ?? 0) > cursor;
    for (let at = firstWhere(0, frames.length, isAfter); at < frames.length; at += 1) {
      const each = frames[at];
      if (!each || !subscriber.selects(each.notification)) continue;
      const { index, topic, type, namespace, metadata } = each.notification;
      if (topic !== "" && !judge({ topic, type, namespace, path: metadata["path"] ?? "" })) continue;
      // The events of a line are sent together: the cursor is between lines.
      const isFull = subscriber.unsent >= FULL_BYTES || this.#unsent >= MAX_UNSENT_BYTES;
      if (index > last && isFull) return index - 1;
      this.#send(subscriber, each);
      last = index;
    }
    return null;
  }

  #send(subscriber: Subscriber, frames: Frames): void {
    const frame = frames.in(subscriber.request.format);
    subscriber.sink.send(frame);
    subscriber.unsent += frame.length;
    this.#unsent += frame.length;
  }

  #measure(subscriber: Subscriber): void {
    const { waiting } = subscriber.sink;
    this.#unsent += waiting - subscriber.unsent;
    subscriber.unsent = waiting;
  }

  /** Closes the fullest subscribers when all together have had no room for a while. */
  #makeRoom(): void {
    if (this.#unsent >= MAX_UNSENT_BYTES) for (const subscriber of this.#subscribers) this.#measure(subscriber);
    const now = Date.now();
    const since = this.#unsent < MAX_UNSENT_BYTES ? null : (this.#crowdedSince ?? now);
    this.#crowdedSince = since;
    if (since === null || now - since < CROWDED_MS) return;
    this.#crowdedSince = null;
    for (const subscriber of [...this.#subscribers].sort((a, b) => b.unsent - a.unsent)) {
      if (this.#unsent <= KEPT_BYTES) return;
      this.#close(subscriber, TRY_AGAIN_LATER, "slow consumer");
    }
  }

  #close(subscriber: Subscriber, code: number, reason: string): void {
    this.remove(subscriber);
    subscriber.sink.close(code, reason);
  }

  /** Keeps cursors once for all lines of a burst. */
  #keepSoon(): void {
    if (this.#keeping) return;
    this.#keeping = true;
    setTimeout(() => {
      this.#keeping = false;
      for (const subscriber of this.#subscribers) {
        if (subscriber.isKept) continue;
        subscriber.sink.keep(subscriber.cursor);
        subscriber.isKept = true;
      }
    }, KEEP_MS);
  }

  /** Looks again at subscribers that are behind and not ready. Those whose rights are asked for have their answer. */
  #waitForOthers(): void {
    const behind = [...this.#subscribers].filter(({ cursor }) => cursor < this.#newest);
    if (behind.length === 0) return;
    const isCrowded = this.#unsent >= MAX_UNSENT_BYTES;
    if (isCrowded || behind.some(({ fullSince }) => fullSince !== null)) this.#again(PAUSE_MS);
    else if (this.nextAsk !== Number.POSITIVE_INFINITY) this.#again(Math.max(PAUSE_MS, this.nextAsk - Date.now()));
  }

  #again(afterMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.run(), afterMs);
  }
}

/** A page as it is delivered. A log of version 0.2.0 sends no gaps. */
const pageOf = ({ gaps = [], ...page }: NotifiedPage): Page => ({ ...page, gaps, lines: page.lines.map(lineFrom) });

/** No topic of a stream: an older release answers with rights that show nothing. */
const questionOf = ({ accessor, namespace, pattern }: NotificationRequest): StreamQuestion => ({
  accessor,
  topics: [],
  namespace: "default",
  service: true,
  subscribe: { namespace, path: `sys/events/subscribe/${pattern}` },
});

type Judge = ReturnType<typeof notificationJudge>;
const judges = new WeakMap<Scope, Judge>();

/** Compiled once for each answer about rights. */
function judgeOf(scope: Scope | undefined): Judge {
  if (scope?.paths === undefined) return () => false;
  const judge = judges.get(scope) ?? notificationJudge(scope.paths);
  judges.set(scope, judge);
  return judge;
}
