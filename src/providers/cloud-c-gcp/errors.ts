import * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { tryParseObject } from "../../lib/json.ts";
import { memo } from "../../lib/memo.ts";
import { failure, retryAfterMs } from "../outcome.ts";
import { type Meaning, meaningsBy } from "../rest.ts";

/** A failed call. `status` is the name of the google.rpc.Code in the answer, null without one. */
export interface CloudCFailure {
  ok: false;
  status: string | null;
  outcome: Failure;
}

export type CloudCAnswer = { ok: true; body: Record<string, unknown> } | CloudCFailure;

export const unanswered = (outcome: Failure): CloudCFailure => ({ ok: false, status: null, outcome });

const unavailable: Meaning = ["external", "provider_unavailable", "the provider failed"];
const throttled: Meaning = ["external", "throttled", "too many requests"];
const denied: Meaning = ["client", "permission_denied", "the service account lacks the permission"];
const unauthenticated: Meaning = ["client", "auth_failed", "the access token is not accepted"];
/** Meanings by google.rpc.Code. */
const byStatus = meaningsBy<string>(
  [unauthenticated, "UNAUTHENTICATED"],
  [denied, "PERMISSION_DENIED"],
  [["client", "not_found", "there is no such object"], "NOT_FOUND"],
  [["client", "already_exists", "the object exists already"], "ALREADY_EXISTS"],
  [["client", "invalid_parameter", "a parameter is not valid"], "INVALID_ARGUMENT", "OUT_OF_RANGE"],
  [["client", "precondition_failed", "the object's state or a policy does not allow it"], "FAILED_PRECONDITION"],
  [throttled, "RESOURCE_EXHAUSTED"],
  [["external", "contended", "another caller changed the object at the same time"], "ABORTED"],
  [unavailable, "CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"],
);

/** Meanings by google.api.ErrorReason and IAM's reasons, which are more specific than the status. */
const byReason = meaningsBy<string>(
  [["client", "api_disabled", "the Secret Manager API is not enabled in the project"], "SERVICE_DISABLED"],
  [
    ["client", "project_not_found", "there is no such project, or the account may not see it"],
    "CONSUMER_INVALID",
    "RESOURCE_PROJECT_INVALID",
  ],
  [["client", "project_suspended", "the project is suspended"], "CONSUMER_SUSPENDED"],
  [["client", "billing_disabled", "billing is not enabled for the project"], "BILLING_DISABLED"],
  [["client", "account_disabled", "the service account is disabled or deleted"], "ACCOUNT_STATE_INVALID"],
  [denied, "ACCESS_TOKEN_SCOPE_INSUFFICIENT"],
  [throttled, "RATE_LIMIT_EXCEEDED"],
);

const Status = memo(() =>
  z.object({
    error: z.object({
      status: z.string().regex(/^[A-Z_]{1,40}$/),
      details: z.array(z.record(z.string(), z.unknown())).default([]),
    }),
  }),
);

const ErrorInfo = memo(() =>
  z.object({
    "@type": z.literal("type.googleapis.com/google.rpc.ErrorInfo"),
    reason: z.string(),
    metadata: z.record(z.string(), z.unknown()).default({}),
  }),
);

const RetryInfo = memo(() =>
  z.object({
    "@type": z.literal("type.googleapis.com/google.rpc.RetryInfo"),
    retryDelay: z.string().regex(/^\d{1,6}(\.\d{1,9})?s$/),
  }),
);

/**
 * The failure for an answer without success, a google.rpc.Status (AIP-193). Its message is never read, because it may
 * quote the request. A proxy's 404 names no status, so it does not count as an absent object.
 */
export function refusal(response: Response, text: string, operation: string): CloudCFailure {
  const parsed = Status().safeParse(tryParseObject(text));
  const { status, details } = parsed.success ? parsed.data.error : { status: null, details: [] };
  const info = details.map((detail) => ErrorInfo().safeParse(detail).data).find((found) => found !== undefined);
  const [outcome, code, meaning] =
    byReason.get(info?.reason ?? "") ?? byStatus.get(status ?? "") ?? byHttpStatus(response.status);
  const permission = info?.metadata["permission"];
  const named =
    code === "permission_denied" && typeof permission === "string" && /^[a-z]+(\.[A-Za-z]+){1,4}$/.test(permission)
      ? ` ${permission}`
      : "";
  const cause = `${status ?? "unnamed"}, HTTP ${response.status}`;
  const wait = outcome === "external" ? (retryDelayMs(details) ?? retryAfterMs(response)) : null;
  return {
    ok: false,
    status,
    outcome: failure(outcome, code, `${operation} was refused: ${meaning}${named} (${cause}).`, wait),
  };
}

function byHttpStatus(status: number): Meaning {
  if (status === 429) return throttled;
  if (status >= 500 || status === 408) return unavailable;
  if (status === 401) return unauthenticated;
  if (status === 403) return denied;
  return ["client", "refused", "the provider does not accept the request"];
}

/** The wait requested by google.rpc.RetryInfo, milliseconds, at most an hour. */
function retryDelayMs(details: readonly Record<string, unknown>[]): number | null {
  const info = details.map((detail) => RetryInfo().safeParse(detail).data).find((found) => found !== undefined);
  return info === undefined ? null : Math.min(Math.ceil(Number.parseFloat(info.retryDelay) * 1000), 60 * 60 * 1000);
}

const OAuthError = memo(() => z.object({ error: z.string(), error_description: z.string().default("") }));

/**
 * The failure of a refused token request. The OAuth error is always invalid_grant, so the description decides. The
 * description itself is never shown.
 */
export function tokenRefusal(response: Response, text: string): Failure {
  const parsed = OAuthError().safeParse(tryParseObject(text));
  const word = parsed.success && /^[a-z_]{1,40}$/.test(parsed.data.error) ? parsed.data.error : "unnamed";
  const [outcome, code, meaning] = tokenMeaning(response.status, parsed.data?.error_description ?? "", word);
  const wait = outcome === "external" ? retryAfterMs(response) : null;
  return failure(outcome, code, `No access token was given: ${meaning} (${word}, HTTP ${response.status}).`, wait);
}

function tokenMeaning(status: number, description: string, word: string): Meaning {
  if (status === 429 || /rate_?limit|quota/.test(word)) return throttled;
  if (status >= 500 || status === 408) return unavailable;
  if (/disabled/i.test(`${word} ${description}`)) {
    return ["client", "account_disabled", "the service account is disabled"];
  }
  if (/account not found/i.test(description)) {
    return ["client", "auth_failed", "there is no service account with this e-mail address"];
  }
  if (/signature|\bkey\b|kid/i.test(description)) {
    return ["client", "auth_failed", "the private key is not, or no longer, one of the service account's keys"];
  }
  if (/timeframe|short-lived|\biat\b|\bexp\b/i.test(description)) {
    return ["client", "auth_failed", "the provider's clock and ours differ too much"];
  }
  return ["client", "auth_failed", "the service account's credentials are not accepted"];
}
