import type { Refusal } from "../../lib/result.ts";

/** Thrown inside a transaction, which it undoes; whoever began that answers the refusal. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}
