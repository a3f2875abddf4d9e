import { MAX_KEPT_OPERATIONS, operationError } from "@sallyport/agent-protocol";
import * as z from "zod";
import { JournalFile } from "./journal-file.ts";
import { isSensitive, withoutSensitive } from "./sensitive-params.ts";

/** The result of an operation. */
const ending = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), result: z.record(z.string(), z.unknown()), ms: z.int() }),
  z.object({ ok: z.literal(false), error: operationError, ms: z.int() }),
]);
export type Ending = z.infer<typeof ending>;

const accepted = z.object({
  op: z.string(),
  method: z.string(),
  key: z.string(),
  gen: z.int(),
  deadlineMs: z.int(),
  params: z.record(z.string(), z.unknown()),
  /** It came with secrets, which are not stored: without them it cannot run again. */
  secret: z.boolean(),
});
export type Accepted = z.infer<typeof accepted>;

const record = z.discriminatedUnion("r", [
  z.object({ r: z.literal("accepted"), at: z.int(), ...accepted.shape }),
  z.object({ r: z.literal("ended"), at: z.int(), op: z.string(), ending }),
  z.object({ r: z.literal("dropped"), op: z.string() }),
  z.object({ r: z.literal("fence"), at: z.int(), key: z.string(), gen: z.int() }),
]);
type Line = z.infer<typeof record>;

export interface Entry extends Accepted {
  readonly acceptedAt: number;
  /** Absent while it runs, and after a crash until it has run again. */
  ended?: { at: number; ending: Ending };
}

const DAY_MS = 24 * 3_600_000;
const KEEP_ENDINGS_MS = DAY_MS;
const KEEP_FENCES_MS = 30 * DAY_MS;
const COMPACT_ABOVE_BYTES = 256 * 1024;

/**
 * The write-ahead log of operations and their results: each is on disk before it is reported to the service, except
 * results with a publish context, which stay in memory. It also stores the fence of each key, the highest accepted
 * generation. Single writer: `Operations`.
 */
export class Journal {
  readonly #entries = new Map<string, Entry>();
  readonly #fences = new Map<string, { gen: number; at: number }>();
  readonly #now: () => number;
  #file!: JournalFile;
  /** The file has sensitive values, which earlier releases wrote. */
  #hasSensitive = false;

  private constructor(now: () => number) {
    this.#now = now;
  }

  /** @throws when the file is unreadable, or damaged anywhere but at its end */
  static async open(path: string, { now = Date.now, compactAbove = COMPACT_ABOVE_BYTES } = {}): Promise<Journal> {
    const journal = new Journal(now);
    journal.#file = await JournalFile.open(path, {
      read: (line) => journal.#read(line),
      snapshot: () => journal.#snapshot().map((line) => JSON.stringify(line)),
      replaceAbove: compactAbove,
    });
    if (journal.#hasSensitive) await journal.#file.compact();
    return journal;
  }

  get(op: string): Entry | undefined {
    return this.#entries.get(op);
  }

  /** In order of acceptance. */
  entries(): Entry[] {
    this.#tidy();
    return [...this.#entries.values()];
  }

  /** The highest accepted generation of a key; 0 without one. */
  fence(key: string): number {
    return this.#fences.get(key)?.gen ?? 0;
  }

  /** Resolves when on disk. A failure leaves no entry; the fence stays raised until the next start. */
  async accept(operation: Accepted): Promise<void> {
    const line: Line = { r: "accepted", at: this.#now(), ...operation };
    this.#apply(line);
    try {
      await this.#file.append(JSON.stringify(line));
    } catch (failure) {
      this.#entries.delete(operation.op);
      throw failure;
    }
  }

  /**
   * Resolves when on disk. A failure keeps the result in memory, so that it is sent nevertheless. A result with a
   * publish context stays in memory only: after a crash its operation runs again, which is idempotent.
   */
  async end(op: string, ending: Ending): Promise<void> {
    const line: Line = { r: "ended", at: this.#now(), op, ending };
    if (isPublished(ending)) this.#apply(line);
    else await this.#write(line);
  }

  /** Removes an operation; the fence of its key stays. */
  async drop(op: string): Promise<void> {
    if (this.#entries.has(op)) await this.#write({ r: "dropped", op });
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  #write(line: Line): Promise<void> {
    this.#apply(line);
    return this.#file.append(JSON.stringify(line));
  }

  #read(line: string): boolean {
    try {
      const written = record.parse(JSON.parse(line));
      const clean = cleaned(written);
      this.#hasSensitive ||= clean !== written;
      if (clean) this.#apply(clean);
      return true;
    } catch {
      return false;
    }
  }

  /** Applying a line again is harmless if the later lines are applied too. */
  #apply(line: Line): void {
    switch (line.r) {
      case "accepted": {
        const { r: _, at, ...operation } = line;
        this.#entries.set(line.op, { ...operation, acceptedAt: at });
        this.#raise(line.key, line.gen, at);
        return;
      }
      case "ended": {
        const entry = this.#entries.get(line.op);
        if (entry) entry.ended = { at: line.at, ending: line.ending };
        return;
      }
      case "dropped":
        this.#entries.delete(line.op);
        return;
      case "fence":
        this.#raise(line.key, line.gen, line.at);
    }
  }

  #raise(key: string, gen: number, at: number): void {
    const fence = this.#fences.get(key);
    this.#fences.set(key, { gen: Math.max(gen, fence?.gen ?? 0), at: Math.max(at, fence?.at ?? 0) });
  }

  #snapshot(): Line[] {
    this.#tidy();
    const lines: Line[] = [];
    for (const [key, { gen, at }] of this.#fences) lines.push({ r: "fence", key, gen, at });
    for (const { acceptedAt, ended, ...operation } of this.#entries.values()) {
      lines.push({ r: "accepted", at: acceptedAt, ...operation });
      if (ended && !isPublished(ended.ending)) lines.push({ r: "ended", op: operation.op, ...ended });
    }
    return lines;
  }

  /** Drops entries by age and number. The file still contains them; they are dropped again at the next start. */
  #tidy(): void {
    const now = this.#now();
    let ended = 0;
    for (const [op, entry] of [...this.#entries].reverse()) {
      if (!entry.ended) continue;
      ended++;
      if (ended > MAX_KEPT_OPERATIONS || entry.ended.at + KEEP_ENDINGS_MS <= now) this.#entries.delete(op);
    }
    const inUse = new Set([...this.#entries.values()].map(({ key }) => key));
    for (const [key, { at }] of this.#fences)
      if (at + KEEP_FENCES_MS <= now && !inUse.has(key)) this.#fences.delete(key);
  }
}

const isPublished = (ending: Ending): boolean => ending.ok && isSensitive(ending.result);

/** A line without sensitive values; the same when it has none, and null when nothing else is in it. */
function cleaned(line: Line): Line | null {
  if (line.r === "ended") return isPublished(line.ending) ? null : line;
  if (line.r !== "accepted") return line;
  const params = withoutSensitive(line.params);
  return params === line.params ? line : { ...line, params, secret: true };
}
