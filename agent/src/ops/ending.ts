import type { ErrorKind, OperationError } from "@sallyport/agent-protocol";
import type { Outcome } from "./handler.ts";
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

/** A text of foreign origin in one line, without what its author must not pass on: not as it was given, nor as it is often quoted. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const forms = secrets
    .filter((secret) => secret.length >= SHORTEST_SECRET)
    .flatMap((secret) => [
      secret,
      JSON.stringify(secret).slice(1, -1),
      encodeURIComponent(secret.toWellFormed()),
      Buffer.from(secret).toString("base64"),
    ]);
  // The longest first: one may hold another.
  const clean = forms
    .sort((a, b) => b.length - a.length)
    .reduce((rest, form) => rest.replaceAll(form, "[REDACTED]"), text);
  return clean
    .replace(/\p{Cc}+/gu, " ")
    .slice(0, LONGEST_MESSAGE)
    .toWellFormed();
}

/** An outcome as it is kept and told. */
export function endingOf(outcome: Outcome<object>, secrets: readonly string[], ms: number): Ending {
  if (!outcome.ok) {
    const { ok: _, message, ...error } = outcome;
    return { ok: false, error: { ...error, message: withoutSecrets(message, secrets) }, ms };
  }
  const { ok: _, ...result } = outcome;
  return { ok: true, result, ms };
}
