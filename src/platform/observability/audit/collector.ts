import { within } from "../../../lib/timeout.ts";
import { textOf, warn } from "../log.ts";
import { type Batch, newBatch, type Sink } from "./sinks.ts";

/** Batching delay of awaited lines at least. */
const FIRST_DELAY_MS = 10;
/** Batching delay of lines that no request waits for. */
const BACKGROUND_DELAY_MS = 4_000;
/** Writes of awaited lines that may follow each other at once, after a pause. */
const BURST = 10;
/** A batch of this size is written at once. */
const MAX_LINES = 1_000;
const MAX_CHARS = 1024 * 1024;
/** Writes at the same time at most; a batch that is due waits for one of them. */
const MAX_WRITES = 4;
/** Maximum of characters that wait or are being written. Further lines are rejected. */
const MAX_HELD_CHARS = 16 * 1024 * 1024;
/** Delays between retries of a failing sink. */
const RETRY_DELAYS_MS = [250, 1_000, 2_000, 4_000];
/** Time after which an attempt counts as failed, and the last time for one. */
const ATTEMPT_MS = 5_000;
const LAST_ATTEMPT_MS = 10_000;

interface OpenBatch {
  readonly lines: string[];
  size: number;
  /** Closing time, in ms since 1970. */
  closesAt: number;
  isDue: boolean;
  readonly written: PromiseWithResolvers<boolean>;
}

const newOpenBatch = (): OpenBatch => ({
  lines: [],
  size: 0,
  closesAt: Number.POSITIVE_INFINITY,
  isDue: false,
  written: Promise.withResolvers(),
});

/**
 * Joins lines of many isolates and requests, and writes each batch to all sinks. It stores nothing: a line is either
 * acknowledged, and then in every sink, or its isolate learns that it may be missing.
 *
 *   open ──closing time, or full──> due ──fewer than 4 writes──> writing ──every sink has it──> acknowledged
 *                                                                   └──retries used up──> rejected
 */
export class Collector {
  #open: OpenBatch | null = null;
  #writes = 0;
  #held = 0;
  /** Time of the next write if all were a spacing apart; up to a burst in the past. */
  #nextAt = 0;

  constructor(
    private readonly sinks: () => readonly Sink[],
    /** Mean time between writes of awaited lines at least, in ms. */
    private readonly spacingMs: () => number,
  ) {}

  /** @returns whether every sink has the lines */
  async write(lines: readonly string[], isAwaited: boolean): Promise<boolean> {
    const size = lines.reduce((sum, line) => sum + line.length, 0);
    if (this.#held + size > MAX_HELD_CHARS) return false;
    this.#held += size;
    const now = Date.now();
    const closesAt =
      now +
      (isAwaited ? Math.max(FIRST_DELAY_MS, Math.min(this.#nextAt - now, this.spacingMs())) : BACKGROUND_DELAY_MS);
    this.#open ??= newOpenBatch();
    const batch = this.#open;
    for (const line of lines) batch.lines.push(line);
    batch.size += size;
    if (batch.lines.length >= MAX_LINES || batch.size >= MAX_CHARS) this.#close(batch);
    else if (closesAt < batch.closesAt) {
      batch.closesAt = closesAt;
      void scheduler.wait(closesAt - now).then(() => this.#close(batch));
    }
    return batch.written.promise;
  }

  #close(batch: OpenBatch): void {
    batch.isDue = true;
    this.#writeDue();
  }

  #writeDue(): void {
    const batch = this.#open;
    if (!batch?.isDue || this.#writes >= MAX_WRITES) return;
    this.#open = null;
    this.#writes += 1;
    const spacing = this.spacingMs();
    this.#nextAt = Math.max(this.#nextAt, Date.now() - (BURST - 1) * spacing) + spacing;
    void this.#writeAll(newBatch(batch.lines)).then((isWritten) => {
      this.#writes -= 1;
      this.#held -= batch.size;
      batch.written.resolve(isWritten);
      this.#writeDue();
    });
  }

  /** Never rejects. */
  async #writeAll(batch: Batch): Promise<boolean> {
    const until = Date.now() + LAST_ATTEMPT_MS;
    let left = await attempt(this.sinks(), batch);
    for (const delay of RETRY_DELAYS_MS) {
      if (left.length === 0 || Date.now() > until) break;
      await scheduler.wait(delay);
      left = await attempt(left, batch);
    }
    return left.length === 0;
  }
}

/** @returns the sinks that may not have the batch */
async function attempt(sinks: readonly Sink[], batch: Batch): Promise<Sink[]> {
  const failed = await Promise.all(
    sinks.map(async (sink) => {
      try {
        await within(ATTEMPT_MS, sink.write(batch));
        return [];
      } catch (failure) {
        warn("audit-sink-failed", { sink: sink.name, lines: batch.lines.length, because: textOf(failure) });
        return [sink];
      }
    }),
  );
  return failed.flat();
}
