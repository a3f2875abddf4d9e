import type { Bounds, FeedPage } from "../contracts/event-log.ts";
import { backoff } from "../lib/backoff.ts";
import { within } from "../lib/timeout.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { feedLines, lineFrom } from "./feed-line.ts";
import type { LogView, Slice } from "./group.ts";
import type { Line } from "./line.ts";
import { Ring } from "./ring.ts";

/** The log, as a relay reaches it. */
export interface FeedSource {
  bounds(): Promise<Bounds>;
  /** Every line after an index, in order, as `feedLines` reads them. */
  follow(after: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  lines(after: number, traces: readonly string[] | null): Promise<FeedPage>;
}

/** Those whom the feed is for. */
export interface FeedUsers {
  /** Whether there is anybody. */
  any(): boolean;
  /** Lines are shown from this turn on. @param lost whether others before them never came */
  told(lines: readonly Line[], lost: boolean): void;
  /** For how long the feed goes on although nobody is there, and for how long it may be silent before it is taken for dead. */
  pace(): { readonly lingerMs: number; readonly silentMs: number };
}

const BACKOFF = { base: 100, cap: 5_000 };
/** How long the log may take to answer, and the feed to come as far as the log is when somebody joins. */
const PATIENCE_MS = 10_000;
/** Pages that are fetched at once: what readers who are behind may cost in memory, whatever their number. */
const PAGES_AT_ONCE = 8;

/**
 * The log at second hand: its newest lines as one feed brings them, the others a page at a time. It lags, but it never has a
 * line without all that came before it.
 */
export class Feed implements LogView {
  readonly #source: FeedSource;
  readonly #users: FeedUsers;
  readonly #pages = new Turns(PAGES_AT_ONCE);
  #following: AbortController | undefined;
  #ring = new Ring();
  #newest = 0;
  /** As far as is known here. */
  #evicted = 0;
  #grown = Promise.withResolvers<void>();
  /** The last question about bounds, over once it is answered or not to be, and the one that is asked next. */
  #asked: Promise<unknown> = Promise.resolve();
  #nextBounds: Promise<Bounds> | undefined;
  #unusedSince: number | null = null;

  constructor(source: FeedSource, users: FeedUsers) {
    this.#source = source;
    this.#users = users;
  }

  get following(): boolean {
    return this.#following !== undefined;
  }

  /**
   * What the log holds now, once all of it can be read here, so that nobody finds less here than elsewhere.
   * Rejects when the log cannot be reached, or the feed does not come that far.
   */
  async join(): Promise<Bounds> {
    const bounds = await this.#bounds();
    if (!this.#following) this.#begin(bounds.newest);
    this.#learn(bounds.oldest - 1);
    await within(PATIENCE_MS, this.#reach(bounds.newest), `behind the log for ${PATIENCE_MS} ms`);
    return bounds;
  }

  newest(): number {
    return this.#newest;
  }

  /** What is held here is still to be had, though it may have left the log. */
  evicted(): number {
    return Math.min(this.#evicted, (this.#ring.oldest ?? this.#newest + 1) - 1);
  }

  after(cursor: number): Slice | null {
    const lines = this.#ring.after(cursor);
    return lines && { lines, upTo: this.#newest };
  }

  async fetch(cursor: number, traces: readonly string[] | null): Promise<Slice> {
    try {
      const { lines, upTo, evicted } = await this.#pages.take(() =>
        within(PATIENCE_MS, this.#source.lines(cursor, traces)),
      );
      // So that who stands before a gap is cut, not led past it.
      this.#learn(evicted);
      return { lines: lines.map(lineFrom), upTo };
    } catch (failure) {
      warn("feed-page-failed", { after: cursor, because: textOf(failure) });
      await scheduler.wait(backoff(3, BACKOFF));
    }
    return { lines: [], upTo: cursor };
  }

  /** By an answer that is no older than this call. Whoever comes while one is on its way shares the next. */
  #bounds(): Promise<Bounds> {
    this.#nextBounds ??= this.#asked.then(() => {
      this.#nextBounds = undefined;
      const bounds = within(PATIENCE_MS, this.#source.bounds());
      this.#asked = bounds.catch(() => undefined);
      return bounds;
    });
    return this.#nextBounds;
  }

  async #reach(index: number): Promise<void> {
    while (this.#newest < index) await this.#grown.promise;
  }

  #learn(evicted: number): void {
    this.#evicted = Math.max(this.#evicted, evicted);
  }

  #begin(newest: number): void {
    this.#following = new AbortController();
    this.#newest = newest;
    void this.#follow(this.#following.signal);
  }

  #end(): void {
    this.#following?.abort();
    this.#following = undefined;
    this.#ring = new Ring();
  }

  /** Follows the log until nobody is there any more, whatever becomes of the connection. */
  async #follow(signal: AbortSignal): Promise<void> {
    for (let failures = 0; ; failures++) {
      try {
        const { silentMs } = this.#users.pace();
        const feed = await within(silentMs, this.#source.follow(this.#newest, signal));
        for await (const lines of feedLines(feed, silentMs)) {
          failures = 0;
          this.#take(lines);
          if (this.#unused()) return this.#end();
        }
      } catch (failure) {
        warn("feed-lost", { at: this.#newest, because: textOf(failure) });
      }
      if (this.#unused()) return this.#end();
      await scheduler.wait(backoff(failures, BACKOFF));
    }
  }

  #take(lines: readonly Line[]): void {
    const [first] = lines;
    if (!first) return;
    // What lies between may be there still, or have left: the next page tells.
    if (first.index !== this.#newest + 1) this.#ring = new Ring();
    const lost = lines.some(({ index }, at) => index !== (lines[at - 1]?.index ?? this.#newest) + 1);
    for (const line of lines) {
      this.#ring.push(line);
      this.#newest = line.index;
    }
    this.#users.told(lines, lost);
    this.#grown.resolve();
    this.#grown = Promise.withResolvers();
  }

  /** Whether nobody has been there for a while. The feed's own signs of life are the clock, so that no timer is needed. */
  #unused(): boolean {
    if (this.#users.any()) this.#unusedSince = null;
    else this.#unusedSince ??= Date.now();
    return this.#unusedSince !== null && Date.now() - this.#unusedSince >= this.#users.pace().lingerMs;
  }
}

/** Lets only so many work at once; the others wait for their turn. */
class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}
