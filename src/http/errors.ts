import type * as z from "zod";
import type { Reason, Refusal, Result } from "../result.ts";

/** The one error of the request layer: a status and what the caller reads. Anything else that is thrown is a defect. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly status: number;
  readonly messages: readonly string[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, messages: string | readonly string[] = [], headers: Record<string, string> = {}) {
    const list = typeof messages === "string" ? [messages] : messages;
    super(list.join("; "));
    this.status = status;
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
  sealed: 503,
} satisfies Record<Reason, number>;

/** Turns an object's refusal into the error that the caller reads. */
export function refusalError(refusal: Refusal): RequestError {
  const retry: Record<string, string> = refusal.reason === "unavailable" ? { "Retry-After": "1" } : {};
  return new RequestError(statusOf[refusal.reason], refusal.message === "" ? [] : refusal.message, retry);
}

/** The value of a result; a refusal becomes the answer. */
export function unwrap<T>(result: Result<T>): T {
  if (!result.ok) throw refusalError(result);
  return result.value;
}

export const badRequest = (message: string): RequestError => new RequestError(400, message);
export const notFound = (message?: string): RequestError => new RequestError(404, message ?? []);
export const denied = (message = "permission denied"): RequestError => new RequestError(403, message);

const MAX_ISSUES = 10;

/** Says which fields broke which rules. Values are never repeated: they may be secrets. */
export function invalid(failure: z.ZodError): RequestError {
  const messages = failure.issues.slice(0, MAX_ISSUES).map((issue) => {
    const field = issue.path.join(".").slice(0, 200);
    if (issue.code === "unrecognized_keys")
      return `${field === "" ? "" : `${field}: `}unknown field ${issue.keys.join(", ").slice(0, 200)}`;
    return field === "" || issue.message.startsWith(`${field}:`) ? issue.message : `${field}: ${issue.message}`;
  });
  return new RequestError(400, messages);
}
