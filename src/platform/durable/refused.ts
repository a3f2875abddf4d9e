import type { Refusal } from "../../lib/result.ts";

/** Thrown inside a transaction to roll it back; the caller of the transaction returns the refusal. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}
