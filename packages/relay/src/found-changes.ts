import type { StaleObject } from "./comparison.ts";

/** Time for the line of a found change on a stream that brings no other. */
const SETTLE_MS = 1_000;

/**
 * Owns the changes that a comparison has found until the stream tells whether it has a line for them: it has none when
 * it has passed their index, or when nothing has come for a time.
 */
export class FoundChanges {
  #pending: readonly StaleObject[] = [];
  #quietAt = 0;

  get isPending(): boolean {
    return this.#pending.length > 0;
  }

  /** The time from which a stream without lines settles the pending changes. */
  get quietAt(): number {
    return this.#quietAt;
  }

  add(stale: readonly StaleObject[], now = Date.now()): void {
    this.#pending = [...this.#pending, ...stale];
    this.#quietAt = now + SETTLE_MS;
  }

  /**
   * Removes and returns the settled changes.
   * @param position index of the newest mirrored line
   * @param isQuiet whether no line waits
   */
  settled(position: number, isQuiet: boolean, now = Date.now()): readonly StaleObject[] {
    const all = isQuiet && now >= this.#quietAt;
    const isSettled = ({ modifyIndex }: StaleObject) => all || modifyIndex < position;
    const settled = this.#pending.filter(isSettled);
    this.#pending = this.#pending.filter((each) => !isSettled(each));
    return settled;
  }
}
