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
export function httpResult(call: Call, { name, reads }: Operation): CloudResult<unknown> {
  const unsure = reads ? "external" : "unknown";
  if (!call.ok) {
    const { outcome, code, message } = call.outcome;
    const isRedirect = code === "redirect_refused";
    if (NOT_SENT.has(code) || (isRedirect && reads))
      return failed("client", "misconfigured", `${name} failed: ${message}`, null);
    // A server may apply a write, and then redirect to what it has made.
    if (isRedirect) return failed("unknown", "unreadable_answer", `${name} failed: ${message}`, null);
    const known = code === "deadline_exceeded" ? code : "network_error";
    return failed(outcome === "unknown" ? unsure : outcome, known, `${name} failed: ${message}`, null);
  }
  const { response, text } = call;
  const { status } = response;
  if (response.ok) {
    const value = text === "" ? null : answerJson(text);
    if (value !== undefined) return { ok: true, value };
    return failed(unsure, "unreadable_answer", `${name} was answered, but not with JSON (HTTP ${status}).`, status);
  }
  const message = `${name} failed (HTTP ${status}).`;
  const [outcome, code] =
    REFUSALS[status] ??
    (status >= 500 || status === 408 || status === 499
      ? ([unsure, "provider_unavailable"] as const)
      : (["client", "refused"] as const));
  return failed(outcome, code, message, status, outcome === "client" ? null : retryAfterMs(response));
}

const failed = (
  outcome: CloudFailure["outcome"],
  code: CloudCode,
  message: string,
  status: number | null,
  wait: number | null = null,
): CloudResult<never> => ({
  ok: false,
  failure: { outcome, code, message, status, providerCode: "", ...(wait !== null && { retryAfterMs: wait }) },
});
