import type { NewEvent } from "../events/event.ts";
import type { Refusal } from "../result.ts";
import type { Stamp } from "./stamp.ts";

/** What a change puts into its line: events, and the rows that get the line's index. */
export interface Told {
  readonly events: readonly NewEvent[];
  readonly stamps: readonly Stamp[];
}

/** Thrown inside a transaction, which it undoes; whoever began that answers the refusal. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}
