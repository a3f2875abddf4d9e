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

/** A method that is refused while the keys cannot be used. */
export const sealed =
  <Parts, Given extends unknown[], Answer>(method: (parts: Parts, ...given: Given) => Answer) =>
  (parts: Parts, ...given: Given): Answer | Refusal =>
    refuseIfSealed(() => method(parts, ...given));
