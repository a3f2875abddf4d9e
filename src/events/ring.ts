import type { Line } from "./line.ts";

/**
 * The newest lines, in memory: single writer, multiple readers, bounded by lines and size. Older lines are read from
 * storage.
 */
export class Ring {
  readonly #lines: Line[] = [];
  readonly #maxLines: number;
  readonly #maxSize: number;
  #size = 0;

  /** @param maxSize in characters of the lines' text */
  constructor(maxLines = 1_000, maxSize = 4 * 1024 * 1024) {
    this.#maxLines = maxLines;
    this.#maxSize = maxSize;
  }

  /** The oldest index in the ring; null when empty. */
  get oldest(): number | null {
    return this.#lines[0]?.index ?? null;
  }

  /** Lines arrive in order. The newest always stays, regardless of its size. */
  push(line: Line): void {
    this.#lines.push(line);
    this.#size += line.text.length;
    while (this.#lines.length > 1 && (this.#lines.length > this.#maxLines || this.#size > this.#maxSize)) {
      this.#size -= this.#lines.shift()?.text.length ?? 0;
    }
  }

  /**
   * Every line after `cursor`, or null when some are no longer in the ring. The log may have evicted lines in between.
   */
  after(cursor: number): readonly Line[] | null {
    const [first] = this.#lines;
    if (first === undefined || first.index > cursor + 1) return null;
    let [low, high] = [0, this.#lines.length];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if ((this.#lines[middle]?.index ?? 0) > cursor) high = middle;
      else low = middle + 1;
    }
    return this.#lines.slice(low);
  }
}
