import { within } from "../../../lib/timeout.ts";
import { objectStub } from "../../durable/jurisdiction.ts";
import { remote } from "../../durable/rpc.ts";
import { type ClientLocation, nearestPlace } from "../../place.ts";
import { settings } from "../../settings.ts";
import { textOf, warn } from "../log.ts";
import { flushCountsSoon } from "../metrics/flush.ts";
import { countMany } from "../metrics/isolate-counters.ts";
import { rememberLine } from "./recent-lines.ts";
import { sinksOf } from "./sinks.ts";

/** Batching delay of lines without a waiting request. */
const BACKGROUND_DELAY_MS = 1_000;
/** Batching delay of lines with a waiting request: concurrent lines become one write. */
const FOREGROUND_DELAY_MS = 5;
/** Maximum wait of a request for its line; after that, the write counts as failed. */
const DEADLINE_MS = 5_000;
/** Delays between retries of a failed call, such as one at a restart of the object, which every deployment causes. */
const RETRY_DELAYS_MS = [0, 500];
/** After this time lines count as lost: work behind an answer has 30 s in all. */
const HAND_OVER_MS = 25_000;
/** Maximum of buffered characters. Further lines are rejected. */
const MAX_BUFFERED_CHARS = 8 * 1024 * 1024;

interface Batch {
  readonly lines: string[];
  /** In characters, also after its lines were taken out. */
  size: number;
  /** Settles in the writer's request only; the runtime rejects it for others when that request has ended. */
  readonly written: PromiseWithResolvers<boolean>;
  /** Closing time, in ms since 1970. */
  readonly closesAt: number;
  /** Whether a request waits for one of the lines. */
  isAwaited: boolean;
}

/** A batch still open this long after its closing time has lost its writer. */
const STALE_AFTER_MS = 2_000;
/** After this time the writer's request has ended: no work continues behind an answer for longer. */
const DEAD_AFTER_MS = 60_000;

type KeepAlive = (work: Promise<unknown>) => void;

/** The method of the object `AuditCollector` that isolates call. */
export interface LineCollector {
  /**
   * Writes lines to every sink, together with those of others.
   * @param isAwaited whether a request waits for the lines; others are written within seconds
   * @returns whether every sink has them. After false, and after a failed call, a sink may have them in part
   */
  write(lines: readonly string[], isAwaited: boolean): Promise<boolean>;
}

type Deliver = LineCollector["write"];

/**
 * Hands the lines of an isolate over in batches. The request with the first line of a batch writes the batch for all
 * others until it closes. A request may end without notice; its remaining lines join the next batch.
 *
 *   open ──closing time──> writing ──every sink has it──> gone
 *     └──writer lost──> its lines join the next batch     └──rejected──> counted as lost
 */
export class BatchWriter {
  readonly #batches = new Set<Batch>();
  #open: Batch | null = null;

  constructor(/** Null when no sink is bound; then no write can fail. */ private readonly deliver: Deliver | null) {}

  get hasSinks(): boolean {
    return this.deliver !== null;
  }

  /** Writes a line soon. A lost line is counted in the log. */
  writeLater(line: string, keepAlive: KeepAlive): void {
    if (this.hasSinks && !this.#append(line, false, keepAlive)) reportLost(1, "full");
  }

  /** Writes a line now. @returns whether every sink has it */
  async write(line: string, keepAlive: KeepAlive): Promise<boolean> {
    if (!this.hasSinks) return true;
    const late = scheduler.wait(DEADLINE_MS).then(() => false);
    for (;;) {
      const batch = this.#append(line, true, keepAlive);
      if (!batch) return false;
      try {
        return await Promise.race([batch.written.promise, late]);
      } catch {
        // The writer is gone and may have written the line: it may then occur twice.
        this.#abandon(batch, line);
      }
    }
  }

  #append(line: string, isAwaited: boolean, keepAlive: KeepAlive): Batch | null {
    const now = Date.now();
    const withinMs = isAwaited ? FOREGROUND_DELAY_MS : BACKGROUND_DELAY_MS;
    const open = this.#open;
    if (!this.#hasRoom(line.length, now)) return null;
    if (open && open.closesAt <= now + withinMs && now < open.closesAt + STALE_AFTER_MS) {
      open.lines.push(line);
      open.size += line.length;
      open.isAwaited ||= isAwaited;
      return open;
    }
    // Takes over lines with a later closing time, or without a writer.
    const lines = [...(open?.lines.splice(0) ?? []), line];
    if (open) this.#batches.delete(open);
    const batch: Batch = {
      lines,
      size: sizeOf(lines),
      closesAt: now + withinMs,
      written: Promise.withResolvers(),
      isAwaited,
    };
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
    const isWritten =
      lines.length === 0 || (await within(HAND_OVER_MS, this.#handOver(lines, batch.isAwaited)).catch(() => false));
    batch.written.resolve(isWritten);
    this.#batches.delete(batch);
    if (!isWritten) reportLost(lines.length, "failed");
  }

  /** A call may fail after its lines were written: a retry then repeats them. */
  async #handOver(lines: readonly string[], isAwaited: boolean): Promise<boolean> {
    for (const delay of [...RETRY_DELAYS_MS, null]) {
      try {
        return (await this.deliver?.(lines, isAwaited)) ?? true;
      } catch (failure) {
        warn("audit-collector-failed", { lines: lines.length, because: textOf(failure) });
        if (delay !== null) await scheduler.wait(delay);
      }
    }
    return false;
  }
}

const sizeOf = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + line.length, 0);

function reportLost(lines: number, because: "failed" | "full"): void {
  warn("audit-lost", { lines, because });
  countMany("sallyport_audit_lines_lost_total", lines, because);
  flushCountsSoon();
}

/** Of the last client: an isolate serves clients near each other. */
let location: ClientLocation = {};

/** Sets the place whose collector writes the lines of this isolate. */
export function locate(of: unknown): void {
  location = of ?? {};
}

/** The object `AuditCollector` of the place; its first call places the object for its lifetime. */
function collector(env: Env): Deliver {
  return (lines, isAwaited) => {
    const place = nearestPlace(location);
    const stub = objectStub(env, env.AUDIT_COLLECTOR, place ?? "anywhere", place);
    return remote<LineCollector>(stub).write(lines, isAwaited);
  };
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

/** The isolate's writer for the deployment of `env`. */
export function batchWriterOf(env: Env): BatchWriter {
  let found = batchWriters.get(env);
  if (!found) {
    found = new BatchWriter(sinksOf(env).length > 0 ? collector(env) : null);
    batchWriters.set(env, found);
  }
  return found;
}
