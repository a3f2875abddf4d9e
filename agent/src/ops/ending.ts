import type { ErrorKind, OperationError } from "@sallyport/agent-protocol";
import type { Outcome } from "./handler.ts";
import type { Ending } from "./journal.ts";

/** Redacting shorter values would garble ordinary words. */
const SHORTEST_SECRET = 4;
const MAX_MESSAGE_LENGTH = 4096;

/** The result of an operation that the agent refuses or abandons. */
export const refusal = (kind: ErrorKind, message: string, outcome: OperationError["outcome"] = "failed"): Ending => ({
  ok: false,
  error: { kind, message, outcome },
  ms: 0,
});

/** An unknown outcome is not final: a repeated request runs the operation again. */
export const isFinal = (ending: Ending): boolean => ending.ok || ending.error.outcome === "failed";

/** External text as one line, without secrets in plain, JSON, URL or base64 form. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const forms = secrets
    .filter((secret) => secret.length >= SHORTEST_SECRET)
    .flatMap((secret) => [
      secret,
      JSON.stringify(secret).slice(1, -1),
      encodeURIComponent(secret.toWellFormed()),
      Buffer.from(secret).toString("base64"),
    ]);
  // Longest first, since one form may contain another.
  const clean = forms
    .sort((a, b) => b.length - a.length)
    .reduce((rest, form) => rest.replaceAll(form, "[REDACTED]"), text);
  return clean
    .replace(/\p{Cc}+/gu, " ")
    .slice(0, MAX_MESSAGE_LENGTH)
    .toWellFormed();
}

/** An outcome in the form of the journal and of `res` frames. */
export function endingOf(outcome: Outcome<object>, secrets: readonly string[], ms: number): Ending {
  if (!outcome.ok) {
    const { ok: _, message, ...error } = outcome;
    return { ok: false, error: { ...error, message: withoutSecrets(message, secrets) }, ms };
  }
  const { ok: _, ...result } = outcome;
  return { ok: true, result, ms };
}
