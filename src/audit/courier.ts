import { settings } from "../env.ts";
import { textOf, warn } from "../log.ts";
import { type Sink, sinksOf } from "./sinks.ts";

/** Lines for which nobody waits go together for so long. */
const LINGER_MS = 1_000;
/** The same for lines for which a request waits: what comes at one moment is one write. */
const HURRY_MS = 5;
/** How long a request waits for its line; after that, it was not handed over. */
const DEADLINE_MS = 5_000;
/** A sink that fails is tried again after these pauses: what runs behind an answer has 30 s in all. */
const AGAIN_AFTER_MS = [500, 2_000, 5_000];
/** Lines held for sinks that do not take them, in characters. What comes beyond is not handed over. */
const MOST_HELD = 8 * 1024 * 1024;

interface Batch {
  readonly lines: string[];
  readonly kept: PromiseWithResolvers<boolean>;
  /** When it will have been closed; one that is still open long after has lost its carrier, and is taken over. */
  readonly closes: number;
}

const GONE_MS = 2_000;

type KeepAlive = (work: Promise<unknown>) => void;

/**
 * Carries lines to the sinks. Whoever brings the first line of a batch carries it for all who come until it is closed; nobody
 * waits for another's work without a deadline of their own, because a carrier may be gone with its request.
 */
export class Courier {
  readonly #sinks: readonly Sink[];
  #open: Batch | null = null;
  #held = 0;

  constructor(sinks: readonly Sink[]) {
    this.#sinks = sinks;
  }

  /** Whether anything is bound; otherwise nothing can fail. */
  get hasSinks(): boolean {
    return this.#sinks.length > 0;
  }

  /** Has a line kept some time soon. One that is lost is counted in the log. */
  bring(line: string, keepAlive: KeepAlive): void {
    if (this.hasSinks && !this.#join(line, LINGER_MS, keepAlive)) lost(1, "too many lines wait");
  }

  /** Has a line kept now. @returns whether every sink has it */
  async handOver(line: string, keepAlive: KeepAlive): Promise<boolean> {
    if (!this.hasSinks) return true;
    const batch = this.#join(line, HURRY_MS, keepAlive);
    if (!batch) return false;
    const late = scheduler.wait(DEADLINE_MS).then(() => false);
    return Promise.race([batch.kept.promise, late]);
  }

  #join(line: string, withinMs: number, keepAlive: KeepAlive): Batch | null {
    if (this.#held + line.length > MOST_HELD) return null;
    this.#held += line.length;
    const now = Date.now();
    const open = this.#open;
    if (open && open.closes <= now + withinMs && now < open.closes + GONE_MS) {
      open.lines.push(line);
      return open;
    }
    // Takes along what waits for a later time, or for a carrier that is gone.
    const batch: Batch = {
      lines: [...(open?.lines.splice(0) ?? []), line],
      kept: Promise.withResolvers(),
      closes: now + withinMs,
    };
    this.#open = batch;
    keepAlive(this.#carry(batch, withinMs));
    return batch;
  }

  async #carry(batch: Batch, afterMs: number): Promise<void> {
    await scheduler.wait(afterMs);
    if (this.#open === batch) this.#open = null;
    const lines = batch.lines.splice(0);
    if (lines.length === 0) return;
    let left = this.#sinks;
    for (const pause of [...AGAIN_AFTER_MS, null]) {
      left = await keep(left, lines);
      batch.kept.resolve(left.length === 0);
      if (left.length === 0 || pause === null) break;
      await scheduler.wait(pause);
    }
    this.#held -= lines.reduce((sum, line) => sum + line.length, 0);
    if (left.length > 0) lost(lines.length, left.map(({ name }) => name).join());
  }
}

/** @returns the sinks that may not have the lines */
async function keep(sinks: readonly Sink[], lines: readonly string[]): Promise<Sink[]> {
  const failed = await Promise.all(
    sinks.map(async (sink) => {
      try {
        await sink.keep(lines);
        return [];
      } catch (failure) {
        warn("audit-sink-failed", { sink: sink.name, lines: lines.length, because: textOf(failure) });
        return [sink];
      }
    }),
  );
  return failed.flat();
}

const lost = (lines: number, because: string): void => warn("audit-lost", { lines, because });

const couriers = new WeakMap<object, Courier>();

/** Writes a line to the Worker's log and to the sinks, without anybody waiting for it. */
export function record(env: Env, line: string, keepAlive: KeepAlive): void {
  if (settings(env).AUDIT_LOG === "on") console.info(line);
  courierOf(env).bring(line, keepAlive);
}

/** The one of this isolate, for what `env` binds. */
export function courierOf(env: Env): Courier {
  let found = couriers.get(env);
  if (!found) {
    found = new Courier(sinksOf(env));
    couriers.set(env, found);
  }
  return found;
}
