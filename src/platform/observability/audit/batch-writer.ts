import { settings } from "../../settings.ts";
import { textOf, warn } from "../log.ts";
import { measureLost } from "../metrics/audit.ts";
import { rememberLine } from "./recent-lines.ts";
import { type Sink, sinksOf } from "./sinks.ts";

/** Batching delay of lines without a waiting request. */
const BACKGROUND_DELAY_MS = 1_000;
/** Batching delay of lines with a waiting request: concurrent lines become one write. */
const FOREGROUND_DELAY_MS = 5;
/** Maximum wait of a request for its line; after that, the write counts as failed. */
const DEADLINE_MS = 5_000;
/** Delays between retries of a failing sink: work behind an answer has 30 s in all. */
const RETRY_DELAYS_MS = [500, 2_000, 5_000];
/** Maximum of buffered characters for unavailable sinks. Further lines are rejected. */
const MAX_BUFFERED_CHARS = 8 * 1024 * 1024;

interface Batch {
  readonly lines: string[];
  /** In characters, also after its lines were taken out. */
  size: number;
  /** Settles in the writer's request only; the runtime rejects it for others when that request has ended. */
  readonly written: PromiseWithResolvers<boolean>;
  /** Closing time, in ms since 1970. */
  readonly closesAt: number;
}

/** A batch still open this long after its closing time has lost its writer. */
const STALE_AFTER_MS = 2_000;
/** After this time the writer's request has ended: no work continues behind an answer for longer. */
const DEAD_AFTER_MS = 60_000;

type KeepAlive = (work: Promise<unknown>) => void;

/**
 * Writes lines to the sinks in batches. The request with the first line of a batch writes the batch for all others
 * until it closes. A request may end without notice; its remaining lines join the next batch.
 *
 *   open ──closing time──> writing ──every sink has it──> gone
 *     └──writer lost──> its lines join the next batch     └──retries used up──> counted as lost
 */
export class BatchWriter {
  readonly #sinks: readonly Sink[];
  readonly #batches = new Set<Batch>();
  #open: Batch | null = null;

  constructor(sinks: readonly Sink[]) {
    this.#sinks = sinks;
  }

  /** Whether a sink is bound; without one, no write can fail. */
  get hasSinks(): boolean {
    return this.#sinks.length > 0;
  }

  /** Writes a line soon. A lost line is counted in the log. */
  writeLater(line: string, keepAlive: KeepAlive): void {
    if (this.hasSinks && !this.#append(line, BACKGROUND_DELAY_MS, keepAlive))
      reportLost(1, "full", "too many lines wait");
  }

  /** Writes a line now. @returns whether every sink has it */
  async write(line: string, keepAlive: KeepAlive): Promise<boolean> {
    if (!this.hasSinks) return true;
    const late = scheduler.wait(DEADLINE_MS).then(() => false);
    for (;;) {
      const batch = this.#append(line, FOREGROUND_DELAY_MS, keepAlive);
      if (!batch) return false;
      try {
        return await Promise.race([batch.written.promise, late]);
      } catch {
        // The writer is gone and may have written the line: it may then occur twice.
        this.#abandon(batch, line);
      }
    }
  }

  #append(line: string, withinMs: number, keepAlive: KeepAlive): Batch | null {
    const now = Date.now();
    const open = this.#open;
    if (!this.#hasRoom(line.length, now)) return null;
    if (open && open.closesAt <= now + withinMs && now < open.closesAt + STALE_AFTER_MS) {
      open.lines.push(line);
      open.size += line.length;
      return open;
    }
    // Takes over lines with a later closing time, or without a writer.
    const lines = [...(open?.lines.splice(0) ?? []), line];
    if (open) this.#batches.delete(open);
    const batch: Batch = { lines, size: sizeOf(lines), written: Promise.withResolvers(), closesAt: now + withinMs };
    this.#open = batch;
    this.#batches.add(batch);
    keepAlive(this.#flush(batch, withinMs));
    return batch;
  }

  #hasRoom(more: number, now: number): boolean {
    let held = more;
    for (const batch of this.#batches) held += batch.size;
    if (held <= MAX_BUFFERED_CHARS) return true;
    for (const batch of this.#batches) if (batch.closesAt + DEAD_AFTER_MS < now) this.#batches.delete(batch);
    return false;
  }

  /** The writer is gone: unwritten lines join the next batch, which repeats `line`. */
  #abandon(batch: Batch, line: string): void {
    this.#batches.delete(batch);
    if (this.#open !== batch) return;
    const others = batch.lines.splice(0).filter((each) => each !== line);
    this.#open = { ...batch, lines: others, closesAt: 0 };
  }

  async #flush(batch: Batch, afterMs: number): Promise<void> {
    await scheduler.wait(afterMs);
    if (this.#open === batch) this.#open = null;
    const lines = batch.lines.splice(0);
    let left = lines.length === 0 ? [] : this.#sinks;
    for (const pause of [0, ...RETRY_DELAYS_MS]) {
      if (pause > 0) await scheduler.wait(pause);
      left = await writeTo(left, lines);
      batch.written.resolve(left.length === 0);
      if (left.length === 0) break;
    }
    this.#batches.delete(batch);
    if (left.length > 0) reportLost(lines.length, "failed", left.map(({ name }) => name).join());
  }
}

const sizeOf = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + line.length, 0);

/** @returns the sinks that may not have the lines */
async function writeTo(sinks: readonly Sink[], lines: readonly string[]): Promise<Sink[]> {
  const failed = await Promise.all(
    sinks.map(async (sink) => {
      try {
        await sink.write(lines);
        return [];
      } catch (failure) {
        warn("audit-sink-failed", { sink: sink.name, lines: lines.length, because: textOf(failure) });
        return [sink];
      }
    }),
  );
  return failed.flat();
}

function reportLost(lines: number, reason: "failed" | "full", because: string): void {
  warn("audit-lost", { lines, because });
  measureLost(lines, reason);
}

const batchWriters = new WeakMap<object, BatchWriter>();

/**
 * Writes a line to the Worker's log and to the sinks, without waiting.
 * @param isMinor is not among the last lines of the isolate
 */
export function record(env: Env, line: string, keepAlive: KeepAlive, isMinor = false): void {
  if (settings(env).AUDIT_LOG === "on") console.info(line);
  if (!env.AUDIT_BUCKET && !isMinor) rememberLine(line);
  batchWriterOf(env).writeLater(line, keepAlive);
}

/** The isolate's writer for the sinks bound in `env`. */
export function batchWriterOf(env: Env): BatchWriter {
  let found = batchWriters.get(env);
  if (!found) {
    found = new BatchWriter(sinksOf(env));
    batchWriters.set(env, found);
  }
  return found;
}
