import { firstWhere } from "../lib/first-where.ts";
import type { Line } from "./line.ts";

/** Part of the ring that lines which have left may still take in memory. */
const LEFT_PART = 1 / 16;

/**
 * The newest lines, in memory: single writer, multiple readers, bounded by lines and size. Older lines are read from
 * storage.
 */
export class Ring {
  readonly #lines: Line[] = [];
  /** Position of the oldest line; those before it have left. Moving all lines for each that leaves would cost more. */
  #first = 0;
  #size = 0;
  #leftSize = 0;

  /** @param maxSize in characters of the lines' text */
  constructor(
    private readonly maxLines = 1_000,
    private readonly maxSize = 4 * 1024 * 1024,
  ) {}

  /** The oldest index in the ring; null when empty. */
  get oldest(): number | null {
    return this.#lines[this.#first]?.index ?? null;
  }

  /** Whether every line after a cursor is in the ring. */
  covers(cursor: number): boolean {
    const { oldest } = this;
    return oldest !== null && oldest <= cursor + 1;
  }

  /** Lines arrive in order. The newest always stays, regardless of its size. */
  push(line: Line): void {
    this.#lines.push(line);
    this.#size += line.text.length;
    while (this.#count > 1 && (this.#count > this.maxLines || this.#size > this.maxSize)) {
      const size = this.#lines[this.#first]?.text.length ?? 0;
      this.#size -= size;
      this.#leftSize += size;
      this.#first += 1;
    }
    if (this.#first <= this.maxLines * LEFT_PART && this.#leftSize <= this.maxSize * LEFT_PART) return;
    this.#lines.splice(0, this.#first);
    this.#first = 0;
    this.#leftSize = 0;
  }

  get #count(): number {
    return this.#lines.length - this.#first;
  }

  /**
   * Every line after `cursor`, or null when some are no longer in the ring. The log may have evicted lines in between.
   */
  after(cursor: number): readonly Line[] | null {
    if (!this.covers(cursor)) return null;
    const isAfter = (at: number): boolean => (this.#lines[at]?.index ?? 0) > cursor;
    return this.#lines.slice(firstWhere(this.#first, this.#lines.length, isAfter));
  }
}
