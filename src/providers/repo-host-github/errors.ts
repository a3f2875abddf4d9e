import * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { memo } from "../../lib/memo.ts";
import { failure, retryAfterMs } from "../outcome.ts";

/** The wait when an answer names none: "Wait for at least one minute" (GitHub's REST API, "Rate limits"). */
const defaultWaitMs = 60_000;
const maxWaitMs = 60 * 60_000;

/** `code` is one word, such as missing_field. `message` may quote the request: for decisions only. */
const ErrorBody = memo(() =>
  z.object({
    message: z.string().catch(""),
    documentation_url: z.string().catch(""),
    errors: z.array(z.object({ code: z.string().regex(/^[a-z_]{1,40}$/) }).catch({ code: "" })).catch([]),
  }),
);
type ErrorBody = z.infer<ReturnType<typeof ErrorBody>>;

/** The failure for an answer without success. @param request method and path, shown in the message */
export function meaningOf(response: Response, parsed: unknown, request: string): Failure {
  const body = ErrorBody().safeParse(parsed).data ?? { message: "", documentation_url: "", errors: [] };
  const { status, headers } = response;
  const say = (outcome: "client" | "external", code: string, text: string, wait: number | null = null) =>
    failure(outcome, code, `${request} was refused: ${text} (${cause(response, body)}).`, wait);

  if (status === 429 || (status === 403 && isRateLimit(headers, body))) {
    return say(
      "external",
      "throttled",
      "too many requests",
      retryAfterMs(response) ?? resetMs(headers) ?? defaultWaitMs,
    );
  }
  if (status >= 500 || status === 408) {
    return say("external", "provider_unavailable", "the provider failed", retryAfterMs(response));
  }
  switch (status) {
    case 401:
      return say("client", "auth_failed", "the credentials are not accepted");
    case 403:
      return say("client", "permission_denied", deniedText(headers));
    case 404:
      return say("client", "not_found", "it was not found, or the credentials may not see it");
    case 409:
      return say("external", "conflict", "something else changes it at the same time");
    case 422:
      return say("client", "invalid_request", "the provider does not accept the content");
    default:
      return say("client", "refused", "the provider does not accept the request");
  }
}

/** Whether an answer is a rate limit. Both kinds use 403 or 429; a 403 without their marks concerns permissions. */
function isRateLimit(headers: Headers, { message, documentation_url: documentation }: ErrorBody): boolean {
  return (
    headers.has("retry-after") ||
    headers.get("x-ratelimit-remaining") === "0" ||
    /rate[- ]limit|abuse/i.test(message) ||
    /rate-limit/i.test(documentation)
  );
}

/** The wait until `x-ratelimit-reset` (seconds since 1970) when no request remains; otherwise null. */
function resetMs(headers: Headers): number | null {
  const reset = headers.get("x-ratelimit-reset") ?? "";
  if (headers.get("x-ratelimit-remaining") !== "0" || !/^\d{1,12}$/.test(reset)) return null;
  return Math.min(Math.max(Number(reset) * 1000 - Date.now(), 1000), maxWaitMs);
}

/** The message of a denial: `x-accepted-github-permissions` lists permissions, `x-github-sso` requires a sign-on. */
function deniedText(headers: Headers): string {
  if (headers.get("x-github-sso")?.startsWith("required")) {
    return "the token must be authorised for the organization's single sign-on";
  }
  const needed = headers.get("x-accepted-github-permissions") ?? "";
  return /^[a-z_=;, ]{1,200}$/.test(needed)
    ? `the credentials lack a permission, one of ${needed}`
    : "the credentials lack the permission";
}

function cause({ status, headers }: Response, { errors }: ErrorBody): string {
  const codes = errors.map(({ code }) => code).filter((code) => code !== "");
  const id = headers.get("x-github-request-id") ?? "";
  return [`HTTP ${status}`, ...codes.slice(0, 3), ...(/^[\w:-]{1,80}$/.test(id) ? [`request ${id}`] : [])].join(", ");
}
