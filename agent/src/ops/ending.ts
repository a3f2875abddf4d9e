import type { ErrorKind, OperationError } from "@sallyport/agent-protocol";
import type { Outcome, Secrets } from "./handlers.ts";
import type { Ending } from "./journal.ts";

/** Shorter values would turn ordinary words into gaps. */
const SHORTEST_SECRET = 4;
const LONGEST_MESSAGE = 4096;

/** The ending of an operation that the agent itself refuses or gives up. */
export const refusal = (kind: ErrorKind, message: string, outcome: OperationError["outcome"] = "failed"): Ending => ({
  ok: false,
  error: { kind, message, outcome },
  ms: 0,
});

/** An unknown outcome is not the last word: asked again, the operation runs again. */
export const isFinal = (ending: Ending): boolean => ending.ok || ending.error.outcome === "failed";

/** A text of foreign origin without the secrets its author was given, and in one line. */
export function withoutSecrets(text: string, secrets: Secrets): string {
  // The longest first: one may hold another.
  const values = Object.values(secrets).sort((a, b) => b.length - a.length);
  let clean = text;
  for (const value of values) if (value.length >= SHORTEST_SECRET) clean = clean.replaceAll(value, "[REDACTED]");
  return clean
    .replace(/\p{Cc}+/gu, " ")
    .slice(0, LONGEST_MESSAGE)
    .toWellFormed();
}

/** An outcome as it is kept and told. */
export function endingOf(outcome: Outcome<object>, secrets: Secrets, ms: number): Ending {
  if (!outcome.ok) {
    const { kind, message, outcome: certainty } = outcome;
    return { ok: false, error: { kind, message: withoutSecrets(message, secrets), outcome: certainty }, ms };
  }
  const { ok: _, ...result } = outcome;
  return { ok: true, result, ms };
}
