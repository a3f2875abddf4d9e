import * as z from "zod";
import { FilterError } from "../../lib/bexpr/errors.ts";
import type { Reason, Refusal, Result } from "../../lib/result.ts";
import { isStorageLost } from "../durable/birth.ts";
import { isJurisdictionChanged } from "../durable/jurisdiction.ts";
import { isNewerSchema } from "../durable/migrations.ts";
import { isFrozen } from "../durable/snapshot/frozen.ts";
import { rateHeaders } from "../limits/rate-headers.ts";
import { textOf, warn } from "../observability/log.ts";

/** The one error of the request layer: a status and a message for the caller. Any other exception is a defect. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly messages: readonly string[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    readonly status: number,
    messages: string | readonly string[] = [],
    headers: Record<string, string> = {},
  ) {
    const list = typeof messages === "string" ? [messages] : messages;
    super(list.join("; "));
    this.messages = list;
    this.headers = headers;
  }
}

const statusOf = {
  invalid: 400,
  denied: 403,
  missing: 404,
  conflict: 409,
  "in-use": 400,
  "too-large": 413,
  unsupported: 501,
  unavailable: 503,
  faulty: 502,
  timeout: 504,
  exhausted: 507,
  limited: 429,
  sealed: 503,
} satisfies Record<Reason, number>;

/** Converts an object's refusal into an HTTP error. */
export function refusalError(refusal: Refusal): RequestError {
  const retry: Record<string, string> = refusal.reason === "unavailable" ? { "Retry-After": "1" } : {};
  const { rate } = refusal;
  const limit: Record<string, string> = rate ? { "Retry-After": String(rate.resetS), ...rateHeaders(rate) } : {};
  const headers = { ...retry, ...limit };
  return new RequestError(statusOf[refusal.reason], refusal.message === "" ? [] : refusal.message, headers);
}

/** The value of a result; throws a refusal as an HTTP error. */
export function unwrap<T>(result: Result<T>): T {
  if (!result.ok) throw refusalError(result);
  return result.value;
}

export const badRequest = (message: string): RequestError => new RequestError(400, message);
export const notFound = (message?: string): RequestError => new RequestError(404, message ?? []);
export const denied = (message = "permission denied"): RequestError => new RequestError(403, message);

const MAX_ISSUES = 10;

const sentences = new Set<string>();

/** A message of a schema that is upstream's whole sentence: an answer has it without the field before it. */
export function sentence(text: string): string {
  sentences.add(text);
  return text;
}

/** Lists the violated rules by field. Values are never repeated: they may be secrets. */
export function invalid(failure: z.ZodError): RequestError {
  const messages = failure.issues.slice(0, MAX_ISSUES).map((issue) => {
    const field = issue.path.join(".").slice(0, 200);
    if (issue.code === "unrecognized_keys")
      return `${field === "" ? "" : `${field}: `}unknown field ${issue.keys.join(", ").slice(0, 200)}`;
    const message = /, received undefined$/.test(issue.message) ? "is required" : issue.message;
    const isWhole = field === "" || message.startsWith(`${field}:`) || sentences.has(message);
    return isWhole || message.includes(`'${field}'`) ? message : `${field}: ${message}`;
  });
  return new RequestError(400, messages);
}

/** The result of a parse. @throws RequestError 400 where a schema refuses */
export function validated<T>(parse: () => T): T {
  try {
    return parse();
  } catch (failure) {
    throw failure instanceof z.ZodError ? invalid(failure) : failure;
  }
}

/** The platform's messages for an object that is restarting or overloaded; earlier answers remain valid. */
function isRestart(failure: unknown): boolean {
  const { retryable, overloaded, durableObjectReset } = (failure ?? {}) as Record<string, unknown>;
  return retryable === true || overloaded === true || durableObjectReset === true;
}

/** The HTTP error for any exception. A defect is logged for the operator only, under the request's id. */
export function asRequestError(failure: unknown, requestId: string): RequestError {
  if (failure instanceof RequestError) return failure;
  if (failure instanceof FilterError) return badRequest(failure.message);
  // First, because an object that refuses to start is also reset.
  if (isStorageLost(failure) || isJurisdictionChanged(failure) || isNewerSchema(failure))
    return new RequestError(503, failure.message, { "Retry-After": "60" });
  if (isRestart(failure)) {
    return new RequestError(503, "the service is busy or restarting; try again", { "Retry-After": "1" });
  }
  if (isFrozen(failure)) return new RequestError(503, failure.message, { "Retry-After": "1" });
  // The runtime's syntax errors quote the unparsable text, which may be a secret.
  const because = failure instanceof SyntaxError ? failure.name : textOf(failure);
  const stack =
    failure instanceof Error ? failure.stack?.split("\n").filter((line) => /^\s+at /.test(line)) : undefined;
  warn("defect", { requestId, because, stack: stack?.join("\n") });
  return new RequestError(500, `internal error; the operator finds it in the log under request ${requestId}`);
}
