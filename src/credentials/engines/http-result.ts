import type { CloudCode, CloudFailure, CloudResult } from "../../contracts/cloud-calls.ts";
import { isRaw, parseLossless } from "../../lib/json.ts";
import { type Call, retryAfterMs } from "../../providers/outcome.ts";

/** A call for the messages of its failures. */
interface Operation {
  /** "Creating a key". */
  readonly name: string;
  /** Whether the call changes no state, so that a missing answer leaves nothing uncertain. */
  readonly reads: boolean;
}

/** Meanings of statuses that say that a call was not applied. */
const REFUSALS: Readonly<Record<number, readonly [CloudFailure["outcome"], CloudCode]>> = {
  401: ["client", "auth_failed"],
  403: ["client", "permission_denied"],
  404: ["client", "not_found"],
  409: ["client", "already_exists"],
  423: ["client", "locked"],
  429: ["external", "throttled"],
};

/** Codes for requests that never left. */
const NOT_SENT: ReadonlySet<string> = new Set(["invalid_url", "insecure_url", "address_refused", "network_not_bound"]);

/**
 * The JSON of an answer, where an integer that no number holds exactly is a text; undefined for any other text.
 */
export function answerJson(text: string): unknown {
  if (text === "") return undefined;
  try {
    return withPlainNumbers(parseLossless(text));
  } catch {
    return undefined;
  }
}

const isLongInteger = (text: string): boolean => /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text));

function withPlainNumbers(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withPlainNumbers);
  if (isRaw(value)) return isLongInteger(value.rawJSON) ? value.rawJSON : Number(value.rawJSON);
  return Object.fromEntries(Object.entries(value).map(([name, inside]) => [name, withPlainNumbers(inside)]));
}

/**
 * The result of a JSON call over HTTP, for engines whose provider uses statuses by their common meaning. The value of a
 * success is its body, null without one. A 5xx may have been applied.
 */
export function httpResult(call: Call, operation: Operation): CloudResult<unknown> {
  if (!call.ok) return unanswered(call, operation);
  const { name, reads } = operation;
  const unsure = reads ? "external" : "unknown";
  const { response, text } = call;
  const { status } = response;
  if (response.ok) {
    const value = text === "" ? null : answerJson(text);
    if (value !== undefined) return { ok: true, value };
    return failed(unsure, "unreadable_answer", `${name} was answered, but not with JSON (HTTP ${status}).`, { status });
  }
  const message = `${name} failed (HTTP ${status}).`;
  const [outcome, code] =
    REFUSALS[status] ??
    (status >= 500 || status === 408 || status === 499
      ? ([unsure, "provider_unavailable"] as const)
      : (["client", "refused"] as const));
  const wait = outcome === "client" ? null : retryAfterMs(response);
  return failed(outcome, code, message, { status, ...(wait !== null && { retryAfterMs: wait }) });
}

/** The failure of a call without an answer. */
export function unanswered({ outcome: { outcome, code, message } }: Call & { ok: false }, { name, reads }: Operation) {
  const isRedirect = code === "redirect_refused";
  const why = `${name} failed: ${message}`;
  if (NOT_SENT.has(code) || (isRedirect && reads)) return failed("client", "misconfigured", why);
  // A server may apply a write, and then redirect to what it has made.
  if (isRedirect) return failed("unknown", "unreadable_answer", why);
  const known = code === "deadline_exceeded" ? code : "network_error";
  return failed(outcome === "unknown" && reads ? "external" : outcome, known, why);
}

/** A failed call; by default one without an answer. */
export const failed = (
  outcome: CloudFailure["outcome"],
  code: CloudCode,
  message: string,
  more: Partial<Pick<CloudFailure, "status" | "providerCode" | "retryAfterMs">> = {},
): { readonly ok: false; readonly failure: CloudFailure } => ({
  ok: false,
  failure: { outcome, code, message, status: null, providerCode: "", ...more },
});
