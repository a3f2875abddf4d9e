import { type Refusal, refuse } from "../../lib/result.ts";
import { Sealed } from "./keyring.ts";

/** Runs `work`; while the keys cannot be used, returns a refusal with the reason. */
export function refuseIfSealed<T>(work: () => T): T | Refusal {
  try {
    return work();
  } catch (failure) {
    if (failure instanceof Sealed) return refuse("sealed", failure.message);
    throw failure;
  }
}
