import type { Refusal } from "../../lib/result.ts";

/** Thrown inside a transaction to roll it back; the caller of the transaction returns the refusal. */
export class Refused extends Error {
  override readonly name = "Refused";

  constructor(readonly refusal: Refusal) {
    super(refusal.message);
  }
}
