import type { AccountGap, Bounds, FeedPage } from "../contracts/event-log.ts";
import { backoff } from "../lib/backoff.ts";
import { within } from "../lib/timeout.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { feedLines, lineFrom } from "./feed-line.ts";
import type { LogView, Slice } from "./group.ts";
import type { Line } from "./line.ts";
import { Ring } from "./ring.ts";

/** The log as seen by a relay. */
export interface FeedSource {
  bounds(): Promise<Bounds>;
  /** Every line after an index, in order, in the format of `feedLines`. */
  follow(after: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  lines(after: number, traces: readonly string[] | null): Promise<FeedPage>;
}

/** The readers of a relay's feed. */
export interface FeedReaders {
  /** Whether there are readers. */
  hasReaders(): boolean;
  /** Lines are visible from this turn on. @param lost whether earlier lines are missing */
  onLines(lines: readonly Line[], lost: boolean): void;
  /** How long the feed outlives its last reader, and the silence after which it counts as dead. */
  timeouts(): { readonly idleMs: number; readonly silentMs: number };
}

const BACKOFF = { base: 100, cap: 5_000 };
/** Timeout of calls to the log, and of catching up with it when a reader joins. */
const TIMEOUT_MS = 10_000;
/** Concurrent page requests: bounds the memory for lagging readers, independent of their number. */
const MAX_CONCURRENT_PAGES = 8;

/**
 * A relay's view of the log: the newest lines from one feed, older ones by page. It lags, but it never has a line
 * without all earlier ones. Single writer (the feed), any number of readers; memory is bounded by the ring and eight
 * pages.
 *
 *   idle ──join──> following ──last reader gone for idleMs──> idle
 *                   └──feed lost──> back-off ──> following
 */
export class Feed implements LogView {
  readonly #pages = new Semaphore(MAX_CONCURRENT_PAGES);
  #following: AbortController | undefined;
  #ring = new Ring();
  #newest = 0;
  /** The newest evicted index known here. */
  #evicted = 0;
  /** The newest gaps of accounts known here. */
  readonly #gaps = new Map<string, AccountGap>();
  #grown = Promise.withResolvers<void>();
  /** The current request for bounds, settled or not, and the next one. */
  #currentBounds: Promise<unknown> = Promise.resolve();
  #nextBounds: Promise<Bounds> | undefined;
  #unusedSince: number | null = null;

  constructor(
    private readonly source: FeedSource,
    private readonly readers: FeedReaders,
  ) {}

  get following(): boolean {
    return this.#following !== undefined;
  }

  /**
   * The bounds of the log, once all of it can be read here, so that a relay shows no less than the log. Rejects when
   * the log is unreachable, or the feed does not catch up.
   */
  async join(): Promise<Bounds> {
    const bounds = await this.#bounds();
    if (!this.#following) this.#start(bounds.newest);
    this.#setEvicted(bounds.oldest - 1, bounds.gaps);
    await within(TIMEOUT_MS, this.#reach(bounds.newest), `behind the log for ${TIMEOUT_MS} ms`);
    return bounds;
  }

  newest(): number {
    return this.#newest;
  }

  /** Lines in the ring are still available, although the log may have evicted them. */
  evicted(): number {
    return Math.min(this.#evicted, (this.#ring.oldest ?? this.#newest + 1) - 1);
  }

  gaps(cursor: number): readonly AccountGap[] {
    return this.#ring.covers(cursor) ? [] : [...this.#gaps.values()].filter(({ upTo }) => upTo > cursor);
  }

  after(cursor: number): Slice | null {
    const lines = this.#ring.after(cursor);
    return lines && { lines, upTo: this.#newest };
  }

  async fetch(cursor: number, traces: readonly string[] | null): Promise<Slice> {
    try {
      const { lines, upTo, evicted, gaps } = await this.#pages.run(() =>
        within(TIMEOUT_MS, this.source.lines(cursor, traces)),
      );
      // A reader before the gap is cut instead of skipping lines.
      this.#setEvicted(evicted, gaps);
      return { lines: lines.map(lineFrom), upTo };
    } catch (failure) {
      warn("feed-page-failed", { after: cursor, because: textOf(failure) });
      await scheduler.wait(backoff(3, BACKOFF));
    }
    return { lines: [], upTo: cursor };
  }

  /** Uses an answer no older than this call. Callers during a pending request share the next one. */
  #bounds(): Promise<Bounds> {
    this.#nextBounds ??= this.#currentBounds.then(() => {
      this.#nextBounds = undefined;
      const bounds = within(TIMEOUT_MS, this.source.bounds());
      this.#currentBounds = bounds.catch(() => undefined);
      return bounds;
    });
    return this.#nextBounds;
  }

  async #reach(index: number): Promise<void> {
    while (this.#newest < index) await this.#grown.promise;
  }

  #setEvicted(evicted: number, gaps: readonly AccountGap[] = []): void {
    this.#evicted = Math.max(this.#evicted, evicted);
    for (const gap of gaps) {
      if (gap.upTo > (this.#gaps.get(gap.account)?.upTo ?? 0)) this.#gaps.set(gap.account, gap);
    }
    for (const [account, { upTo }] of this.#gaps) if (upTo <= this.#evicted) this.#gaps.delete(account);
  }

  #start(newest: number): void {
    this.#following = new AbortController();
    this.#newest = newest;
    void this.#follow(this.#following.signal);
  }

  #stop(): void {
    this.#following?.abort();
    this.#following = undefined;
    this.#ring = new Ring();
  }

  /** Follows the log while there are readers; reconnects after failures. */
  async #follow(signal: AbortSignal): Promise<void> {
    for (let failures = 0; ; failures++) {
      try {
        const { silentMs } = this.readers.timeouts();
        const feed = await within(silentMs, this.source.follow(this.#newest, signal));
        for await (const lines of feedLines(feed, silentMs)) {
          failures = 0;
          this.#append(lines);
          if (this.#isUnused()) return this.#stop();
        }
      } catch (failure) {
        warn("feed-lost", { at: this.#newest, because: textOf(failure) });
      }
      if (this.#isUnused()) return this.#stop();
      await scheduler.wait(backoff(failures, BACKOFF));
    }
  }

  #append(lines: readonly Line[]): void {
    if (lines.length === 0) return;
    let lost = false;
    for (const line of lines) {
      if (line.index !== this.#newest + 1) {
        // Lines between may still exist or be evicted; the next page shows which.
        this.#ring = new Ring();
        lost = true;
      }
      this.#ring.push(line);
      this.#newest = line.index;
    }
    this.readers.onLines(lines, lost);
    this.#grown.resolve();
    this.#grown = Promise.withResolvers();
  }

  /** Whether the feed has had no readers for a while. Heartbeats of the feed are the clock, so no timer is needed. */
  #isUnused(): boolean {
    if (this.readers.hasReaders()) this.#unusedSince = null;
    else this.#unusedSince ??= Date.now();
    return this.#unusedSince !== null && Date.now() - this.#unusedSince >= this.readers.timeouts().idleMs;
  }
}

/** Limits concurrent work; further callers wait in order. */
class Semaphore {
  readonly #waiting: (() => void)[] = [];

  constructor(private free: number) {}

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.free > 0) this.free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.free += 1;
    }
  }
}
