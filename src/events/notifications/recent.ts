import type { AccountGap } from "../../contracts/event-log.ts";
import type { Line } from "../line.ts";

/** Characters of the lines that are kept. */
const MAX_SIZE = 1024 * 1024;

/** Lines of the log with their bounds. */
export interface Page {
  readonly after: number;
  readonly lines: readonly Line[];
  readonly upTo: number;
  /** Lines up to this index are lost, if it is beyond `after`. */
  readonly evicted: number;
  /** Gaps of accounts that reach beyond `after`. */
  readonly gaps: readonly AccountGap[];
}

/** The newest lines as they arrive, while they follow each other: subscribers that are not behind need no read. */
export class Recent implements Page {
  after = 0;
  lines: readonly Line[] = [];
  upTo = 0;
  evicted = 0;
  gaps: readonly AccountGap[] = [];

  push({ after, lines, upTo, evicted, gaps }: Page): void {
    if (upTo <= this.upTo) return;
    const follows = after <= this.upTo && after >= this.after && evicted <= after && gaps.length === 0;
    const size = this.lines.reduce((sum, { text }) => sum + text.length, 0);
    if (follows && size < MAX_SIZE) this.lines = [...this.lines, ...lines.filter(({ index }) => index > this.upTo)];
    else {
      this.after = after;
      this.lines = lines;
      this.evicted = evicted > after ? evicted : 0;
      this.gaps = gaps;
    }
    this.upTo = upTo;
  }

  /** Every subscriber has the lines. */
  clear(): void {
    this.after = this.upTo;
    this.lines = [];
    this.evicted = 0;
    this.gaps = [];
  }
}
