import * as z from "zod";
import type { CloudCode, CloudFailure } from "../../../contracts/cloud-calls.ts";
import type { Failure } from "../../../contracts/failure.ts";
import { type TokenFailure, word } from "../../../providers/cloud-b-azure/login.ts";
import { maxRetryAfterMs, retryAfterMs } from "../../../providers/outcome.ts";

/** A call's description for the messages of its failures. */
export interface Operation {
  /** "Creating an application". */
  readonly name: string;
  /** Whether the call changes no state, so that a missing answer leaves nothing uncertain. */
  readonly reads: boolean;
  /** The missing permission when the call is forbidden: "grant …". */
  readonly grant: string;
  /** The missing object when the answer is "not found": "there is no …". */
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
  outcome,
  code,
  message,
  status,
  providerCode,
  ...(retryAfterMs !== null && { retryAfterMs }),
});

/** The failure of a malformed request, which was not sent. */
export const notSent = (
  { name }: Pick<Operation, "name">,
  code: "misconfigured" | "refused",
  rule: string,
): CloudFailure => failed("client", code, `${name} was not attempted: ${rule}.`);

/** The failure for a successful status with an unreadable body: the call may have been applied. */
export const unreadable = ({ name, reads }: Operation, status: number): CloudFailure =>
  failed(
    reads ? "external" : "unknown",
    "unreadable_answer",
    `${name} was answered, but not with what was asked for (HTTP ${status}).`,
    status,
  );

/** Codes of `callProvider` and of refused tokens that have another name here. */
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

/** The failure of a call without an answer of the service. */
export function unanswered(
  call: { readonly outcome: Failure } | TokenFailure,
  { reads }: Pick<Operation, "reads">,
): CloudFailure {
  const { outcome, code, message, retryAfterMs = null } = call.outcome;
  const named = kept.find((each) => each === code) ?? renamed.get(code) ?? "provider_unavailable";
  const { status, providerCode } = "providerCode" in call ? call : { status: null, providerCode: "" };
  // A write may have been applied before a redirect; without a token none was sent.
  if (code === "redirect_refused" && !reads && !("providerCode" in call))
    return failed("unknown", "unreadable_answer", message, status);
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
const contended: Meaning = ["external", "contended", "the same object is being changed by another caller"];
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
 * Meanings by the code in the error's body. Graph: "Microsoft Graph error responses and resource types" and the
 * directory's own codes; Resource Manager: "Troubleshoot Azure RBAC" and "Common Azure deployment errors".
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
 * Meanings by the provider's text, for codes shared by many errors (Request_BadRequest, Authorization_RequestDenied).
 * The texts are never shown, because they may quote the request.
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

/** A member that is not replicated yet is reported as a 400 with this text, too. */
const missingReference = /does not exist or one of its queried reference-property objects/i;

function byStatus(status: number, reads: boolean): Meaning {
  if (status === 401) return ["client", "auth_failed", "the token of the engine's application is not accepted"];
  if (status === 403) return denied;
  if (status === 404) return notFound;
  if (status === 409) return contended;
  if (status === 423) return ["client", "locked", "a lock keeps it from being changed; remove the lock"];
  if (status === 429) return throttled;
  // Cloudflare's answer to a Worker for a host name that does not resolve (error 1016).
  if (status === 530) return ["external", "network_error", "the provider's host cannot be reached"];
  if (status >= 500 || status === 408) {
    // A front may answer 503 for a service behind it that has applied the call, so none of these proves the contrary.
    const text = status === 503 ? "the provider is not available" : "the provider failed";
    return [reads ? "external" : "unknown", "provider_unavailable", text];
  }
  return ["client", "refused", "the provider does not accept the request"];
}

const elsewhere: Meaning = ["client", "misconfigured", "what answers there is not the service; check its address"];

const ErrorBody = z.object({ error: z.object({ code: z.unknown(), message: z.string().catch("") }) });

function meaningOf(status: number, code: string, message: string, reads: boolean): Meaning {
  const worded = byWords.find(([words]) => words.test(message))?.[1];
  if (worded !== undefined) return worded;
  if (status === 400 && missingReference.test(message)) return lagging;
  // These statuses take precedence over the code in the body.
  if (status === 429 || status >= 500) return byStatus(status, reads);
  return byCode.get(code) ?? byStatus(status, reads);
}

/** The failure for an answer without success. */
export function refusal(operation: Operation, response: Response, body: unknown): CloudFailure {
  const { status } = response;
  const error = ErrorBody.safeParse(body).data?.error;
  const providerCode = word(error?.code);
  const meant = meaningOf(status, providerCode, error?.message ?? "", operation.reads);
  // The services explain every 404; a bare one comes from another server and proves nothing about the object.
  const [outcome, code, text] = status === 404 && !error ? elsewhere : meant;
  const requestId = response.headers.get("request-id") ?? response.headers.get("x-ms-request-id") ?? "";
  const reference = /^[\w-]{1,64}$/.test(requestId) ? [`request ${requestId}`] : [];
  const cause = [providerCode || "unnamed", `HTTP ${status}`, ...reference].join(", ");
  const why = typeof text === "string" ? text : text(operation);
  const message = `${operation.name} was refused: ${why} (${cause}).`;
  return failed(outcome, code, message, status, providerCode, outcome === "client" ? null : waitAsked(response));
}

/** The wait requested by the provider; Resource Manager may state it in milliseconds. */
function waitAsked(response: Response): number | null {
  const exact = response.headers.get("retry-after-ms") ?? response.headers.get("x-ms-retry-after-ms") ?? "";
  return /^\d{1,9}$/.test(exact) ? Math.min(Number(exact), maxRetryAfterMs) : retryAfterMs(response);
}
