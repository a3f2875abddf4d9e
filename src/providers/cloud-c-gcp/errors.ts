import * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { tryParseObject } from "../../lib/json.ts";
import { memo } from "../../lib/memo.ts";
import { failure, retryAfterMs } from "../outcome.ts";

/** A failed call. `status` is the name of the google.rpc.Code in the answer, null without one. */
export interface CloudCFailure {
  ok: false;
  status: string | null;
  outcome: Failure;
}

export type CloudCAnswer = { ok: true; body: Record<string, unknown> } | CloudCFailure;

export const unanswered = (outcome: Failure): CloudCFailure => ({ ok: false, status: null, outcome });

type Meaning = readonly [outcome: "client" | "external", code: string, text: string];

const unavailable: Meaning = ["external", "provider_unavailable", "the provider failed"];
const throttled: Meaning = ["external", "throttled", "too many requests"];
const denied: Meaning = ["client", "permission_denied", "the service account lacks the permission"];
const unauthenticated: Meaning = ["client", "auth_failed", "the access token is not accepted"];
const invalid: Meaning = ["client", "invalid_parameter", "a parameter is not valid"];
const noProject: Meaning = ["client", "project_not_found", "there is no such project, or the account may not see it"];

/** Meanings by google.rpc.Code. */
const byStatus = new Map<string, Meaning>([
  ["UNAUTHENTICATED", unauthenticated],
  ["PERMISSION_DENIED", denied],
  ["NOT_FOUND", ["client", "not_found", "there is no such object"]],
  ["ALREADY_EXISTS", ["client", "already_exists", "the object exists already"]],
  ["INVALID_ARGUMENT", invalid],
  ["OUT_OF_RANGE", invalid],
  ["FAILED_PRECONDITION", ["client", "precondition_failed", "the object's state or a policy does not allow it"]],
  ["RESOURCE_EXHAUSTED", throttled],
  ["ABORTED", ["external", "contended", "another caller changed the object at the same time"]],
  ["CANCELLED", unavailable],
  ["UNKNOWN", unavailable],
  ["DEADLINE_EXCEEDED", unavailable],
  ["INTERNAL", unavailable],
  ["UNAVAILABLE", unavailable],
  ["DATA_LOSS", unavailable],
]);

/** Meanings by google.api.ErrorReason and IAM's reasons, which are more specific than the status. */
const byReason = new Map<string, Meaning>([
  ["SERVICE_DISABLED", ["client", "api_disabled", "the Secret Manager API is not enabled in the project"]],
  ["CONSUMER_INVALID", noProject],
  ["RESOURCE_PROJECT_INVALID", noProject],
  ["CONSUMER_SUSPENDED", ["client", "project_suspended", "the project is suspended"]],
  ["BILLING_DISABLED", ["client", "billing_disabled", "billing is not enabled for the project"]],
  ["ACCOUNT_STATE_INVALID", ["client", "account_disabled", "the service account is disabled or deleted"]],
  ["ACCESS_TOKEN_SCOPE_INSUFFICIENT", denied],
  ["RATE_LIMIT_EXCEEDED", throttled],
]);

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
