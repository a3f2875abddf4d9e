import * as z from "zod";
import type { CloudCode, CloudFailure } from "../../contracts/cloud-directory.ts";
import type { Failure } from "../../contracts/failure.ts";
import { maxRetryAfterMs, retryAfterMs } from "../outcome.ts";
import { type TokenFailure, word } from "./login.ts";

/** What a call is about, for the messages of its failures. */
export interface Operation {
  /** "Creating an application". */
  readonly name: string;
  /** Whether nothing is changed by it, so that it does not matter whether a call without an answer was performed. */
  readonly reads: boolean;
  /** What is missing when it is forbidden: "grant …". */
  readonly grant: string;
  /** What is missing when the provider knows no such object: "there is no …". */
  readonly missing: string;
}

const failed = (
  outcome: CloudFailure["outcome"],
  code: CloudCode,
  message: string,
  status: number | null = null,
  providerCode = "",
  retryAfterMs: number | null = null,
): CloudFailure => ({
  ...{ outcome, code, message, status, providerCode },
  ...(retryAfterMs !== null && { retryAfterMs }),
});

/** Nothing was sent, because the request makes no sense. */
export const notSent = (
  { name }: Pick<Operation, "name">,
  code: "misconfigured" | "refused",
  rule: string,
): CloudFailure => failed("client", code, `${name} was not attempted: ${rule}.`);

/** An answer that promises success and does not hold it: what was asked for may have been done. */
export const unreadable = ({ name, reads }: Operation, status: number): CloudFailure =>
  failed(
    reads ? "external" : "unknown",
    "unreadable_answer",
    `${name} was answered, but not with what was asked for (HTTP ${status}).`,
    status,
  );

/** The codes of `callProvider` and of a refused token that are called otherwise here. */
const renamed = new Map<string, CloudCode>([
  ["invalid_url", "misconfigured"],
  ["insecure_url", "misconfigured"],
  ["redirect_refused", "misconfigured"],
  ["answer_too_large", "unreadable_answer"],
]);
const kept: readonly CloudCode[] = [
  ...(["auth_failed", "throttled", "provider_unavailable"] as const),
  ...(["network_error", "deadline_exceeded", "unreadable_answer"] as const),
];

/** A call that came back without an answer of the service's. */
export function unanswered(
  call: { readonly outcome: Failure } | TokenFailure,
  { reads }: Pick<Operation, "reads">,
): CloudFailure {
  const { outcome, code, message, retryAfterMs = null } = call.outcome;
  const named = kept.find((each) => each === code) ?? renamed.get(code) ?? "provider_unavailable";
  const { status, providerCode } = "providerCode" in call ? call : { status: null, providerCode: "" };
  return failed(
    reads && outcome === "unknown" ? "external" : outcome,
    named,
    message,
    status,
    providerCode,
    retryAfterMs,
  );
}

type Meaning = readonly [outcome: CloudFailure["outcome"], code: CloudCode, text: string | ((of: Operation) => string)];

const granted = (of: Operation) => `grant ${of.grant}`;
const absent = (of: Operation) => `there is no ${of.missing}`;

const denied: Meaning = ["client", "permission_denied", granted];
const notFound: Meaning = ["client", "not_found", absent];
const exists: Meaning = ["client", "already_exists", "what it would make is there already"];
const lagging: Meaning = [
  "client",
  "not_replicated",
  "what it refers to is not known everywhere yet, or does not exist any more",
];
const contended: Meaning = ["external", "contended", "the same object is being changed by somebody else"];
const throttled: Meaning = ["external", "throttled", "too many requests"];
const noSubscription: Meaning = [
  "client",
  "not_found",
  "there is no such subscription in this tenant, or the engine's application holds no role in it",
];
const full: Meaning = [
  "client",
  "limit_reached",
  "the object holds as many passwords or members as it can; remove those that are not used",
];

/**
 * By the code in the error's body. Graph: "Microsoft Graph error responses and resource types" and the directory's own codes;
 * resource manager: "Troubleshoot Azure RBAC" and "Common Azure deployment errors".
 */
const byCode = new Map<string, Meaning>([
  ["Authorization_RequestDenied", denied],
  [
    "Authorization_IdentityNotFound",
    ["client", "auth_failed", "the engine's application has no service principal in this tenant; create it there"],
  ],
  [
    "Directory_QuotaExceeded",
    [
      "client",
      "limit_reached",
      "the quota of directory objects is used up; purge deleted applications, have roles delete theirs permanently, or raise the quota",
    ],
  ],
  ["Directory_ResourceSizeExceeded", full],
  ["Directory_ConcurrencyViolation", contended],
  ["NoBackingApplicationObject", lagging],
  ["Request_MultipleObjectsWithSameKeyValue", exists],
  ["Request_ResourceNotFound", notFound],
  [
    "CredentialInvalidLifetimeAsPerAppPolicy",
    ["client", "refused", "a policy of the tenant allows only shorter-lived passwords; set a smaller explicit_max_ttl"],
  ],
  [
    "CredentialTypeNotAllowedAsPerAppPolicy",
    ["client", "refused", "a policy of the tenant forbids passwords; exempt the engine's applications from it"],
  ],
  [
    "SignInAudienceNotAllowedAsPerAppPolicy",
    ["client", "refused", "a policy of the tenant forbids this sign_in_audience; choose another"],
  ],
  ["AuthorizationFailed", denied],
  ["LinkedAuthorizationFailed", denied],
  [
    "DenyAssignmentAuthorizationFailed",
    ["client", "permission_denied", "a deny assignment on the scope forbids it; exempt the engine's application"],
  ],
  ["PrincipalNotFound", lagging],
  ["RoleAssignmentExists", exists],
  [
    "RoleAssignmentLimitExceeded",
    [
      "client",
      "limit_reached",
      "the subscription or management group holds as many role assignments as it can; remove those that are not used",
    ],
  ],
  [
    "RoleAssignmentUpdateNotPermitted",
    ["client", "refused", "an assignment with this id exists for another role, principal or scope"],
  ],
  ["RoleDefinitionDoesNotExist", ["client", "not_found", "there is no such role definition"]],
  ["SubscriptionNotFound", noSubscription],
  ["InvalidSubscriptionId", noSubscription],
  ["MissingSubscription", noSubscription],
  ["ResourceGroupNotFound", ["client", "not_found", "there is no such resource group"]],
  ["ScopeLocked", ["client", "locked", "a lock on the scope keeps it from being changed; remove the lock"]],
  ["ReadOnlyDisabledSubscription", ["client", "refused", "the subscription is disabled"]],
  ["RequestDisallowedByPolicy", ["client", "refused", "a policy on the scope forbids it; exempt the assignment"]],
  [
    "InvalidAuthenticationTokenTenant",
    ["client", "auth_failed", "the subscription belongs to another tenant than tenant_id"],
  ],
]);

/**
 * By the provider's own words, for what it says with one code for many things (Request_BadRequest,
 * Authorization_RequestDenied). They decide only; they are never shown, because they may quote what was sent.
 */
const byWords: readonly (readonly [RegExp, Meaning])[] = [
  [/object references already exist/i, exists],
  [/service principal name .*already in use/i, exists],
  [/no password credential found/i, ["client", "not_found", "there is no such password; it has been removed"]],
  [/does not reference a valid application object/i, lagging],
  [/backing application .*local tenant/i, lagging],
  [/size of the object has exceeded its limit/i, full],
  [/concurrent requests/i, contended],
  [
    /dynamic (membership|group)/i,
    ["client", "refused", "the group's members follow from a rule, so none can be added; name another group"],
  ],
];

/** A member that has not been replicated is a 400 with these words, too. */
const missingReference = /does not exist or one of its queried reference-property objects/i;

function byStatus(status: number, reads: boolean): Meaning {
  if (status === 401) return ["client", "auth_failed", "the token of the engine's application is not accepted"];
  if (status === 403) return denied;
  if (status === 404) return notFound;
  if (status === 409) return contended;
  if (status === 423) return ["client", "locked", "a lock keeps it from being changed; remove the lock"];
  if (status === 429) return throttled;
  // What Cloudflare answers a Worker for a host name that does not resolve (its error 1016).
  if (status === 530) return ["external", "network_error", "the provider's host cannot be reached"];
  if (status === 503) return ["external", "provider_unavailable", "the provider is not available"];
  if (status >= 500 || status === 408) {
    // Only 503 says that nothing was done.
    return [reads ? "external" : "unknown", "provider_unavailable", "the provider failed"];
  }
  return ["client", "refused", "the provider does not accept the request"];
}

const elsewhere: Meaning = ["client", "misconfigured", "what answers there is not the service; check its address"];

const ErrorBody = z.object({ error: z.object({ code: z.unknown(), message: z.string().catch("") }) });

function meaningOf(status: number, code: string, message: string, reads: boolean): Meaning {
  const worded = byWords.find(([words]) => words.test(message))?.[1];
  if (worded !== undefined) return worded;
  if (status === 400 && missingReference.test(message)) return lagging;
  // These say more than any code that comes with them.
  if (status === 429 || status >= 500) return byStatus(status, reads);
  return byCode.get(code) ?? byStatus(status, reads);
}

/** What an answer without success means. */
export function refusal(operation: Operation, response: Response, body: unknown): CloudFailure {
  const { status } = response;
  const error = ErrorBody.safeParse(body).data?.error;
  const providerCode = word(error?.code);
  const meant = meaningOf(status, providerCode, error?.message ?? "", operation.reads);
  // The services explain every 404: from another server it says nothing about the object.
  const [outcome, code, text] = status === 404 && !error ? elsewhere : meant;
  const requestId = response.headers.get("request-id") ?? response.headers.get("x-ms-request-id") ?? "";
  const reference = /^[\w-]{1,64}$/.test(requestId) ? [`request ${requestId}`] : [];
  const cause = [providerCode || "unnamed", `HTTP ${status}`, ...reference].join(", ");
  const why = typeof text === "string" ? text : text(operation);
  const message = `${operation.name} was refused: ${why} (${cause}).`;
  return failed(outcome, code, message, status, providerCode, outcome === "client" ? null : waitAsked(response));
}

/** The resource manager may name its wait in milliseconds, too. */
function waitAsked(response: Response): number | null {
  const exact = response.headers.get("retry-after-ms") ?? response.headers.get("x-ms-retry-after-ms") ?? "";
  return /^\d{1,9}$/.test(exact) ? Math.min(Number(exact), maxRetryAfterMs) : retryAfterMs(response);
}
