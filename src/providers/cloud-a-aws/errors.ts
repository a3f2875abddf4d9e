import type { Failure } from "../../contracts/failure.ts";
import { clockDiffers, failure, retryAfterMs, withUnsureEffect } from "../outcome.ts";
import { meaningsBy } from "../rest.ts";

export type CloudAService = "secretsmanager" | "ssm" | "sts" | "iam";

/** The error named by the provider: `type` without namespace and suffix, such as "ResourceNotFound". */
interface CloudAError {
  type: string;
  /** The provider's text. For decisions only: it may quote a value, so it is never stored or shown. */
  message: string;
}

/** A failed call; `error` is null without a readable answer. */
export interface CloudAFailure {
  ok: false;
  error: CloudAError | null;
  outcome: Failure;
}

export const unanswered = (outcome: Failure): CloudAFailure => ({ ok: false, error: null, outcome });

/** The failure of a read for a success of another shape. */
export const unreadable = (operation: string): CloudAFailure =>
  unanswered(failure("external", "unreadable_answer", `${operation} was answered, but not as the service answers it.`));

/** The failure of a write for an error that the service `named`, with the service's text in `message`. */
export function refusal(
  response: Response,
  named: string,
  message: string,
  service: CloudAService,
  operation: string,
): CloudAFailure {
  const type = bareType(named);
  const [outcome, code, text] = meaningOf(type, message, response);
  const requestId = response.headers.get("x-amzn-requestid") ?? "";
  const reference = /^[\w-]{1,64}$/.test(requestId) ? `, request ${requestId}` : "";
  const cause = `${type || "unnamed"}, HTTP ${response.status}${reference}`;
  const why = typeof text === "string" ? text : text(service, operation, message);
  // The provider itself names no wait when it throttles, but a proxy in front of it may.
  const wait = outcome === "external" ? retryAfterMs(response) : null;
  const refused = failure(outcome, code, `${operation} was refused: ${why} (${cause}).`, wait);
  return { ok: false, error: { type, message }, outcome: withUnsureEffect(refused, response.status) };
}

/**
 * The bare name of an error. On the wire it is `Name`, `com.example.service#Name` or `Name:http://…` (Smithy protocols
 * restJson1 and awsJson1.1), with or without the suffix Exception or Error.
 */
function bareType(named: string): string {
  const type = named.replace(/:.*$/s, "").replace(/^.*#/s, "");
  return /^[A-Za-z0-9.]{1,64}$/.test(type) ? type.replace(/(Exception|Error)+$/, "") : "";
}

/** The message of a denial. One error type covers the caller's policy, the encryption key's and a role's. */
function whatIsDenied(service: CloudAService, operation: string, message: string): string {
  if (operation === "AssumeRole") {
    return "there is no such role, or these keys may not assume it (sts:AssumeRole), or its trust policy wants other keys or another external id";
  }
  if (operation === "AssumeRoleWithWebIdentity") {
    return "there is no such role, or its trust policy does not accept the identity token's issuer, subject and audience";
  }
  if (/\bkms\b/i.test(message)) return "the credentials may not use the secret's encryption key";
  return `the credentials lack the permission ${service}:${operation} for this object`;
}

type Meaning = readonly [outcome: "client" | "external", code: string, text: string | typeof whatIsDenied];

const denied: Meaning = ["client", "permission_denied", whatIsDenied];
const unknownKey: Meaning = ["client", "auth_failed", "the access key or session is not known in this region"];
const badSignature: Meaning = ["client", "auth_failed", "the secret access key does not belong to the access key"];
const authFailed: Meaning = ["client", "auth_failed", "the credentials are not accepted"];
const clockIsOff: Meaning = ["client", "auth_failed", "the provider's clock and ours differ too much"];
const deniedBefore: Meaning = [
  "client",
  "permission_denied",
  "the answer is none of the service's own; a proxy or firewall before it may deny the request",
];
const throttled: Meaning = ["external", "throttled", "too many requests"];
const unavailable: Meaning = ["external", "provider_unavailable", "the provider failed"];
const encryption: Meaning = ["client", "encryption_failed", "the encryption key cannot be used"];

/** Errors by name, as in the API references of AWS Secrets Manager, SSM and STS ("Common Errors" included). */
const meanings = meaningsBy<string, Meaning[2]>(
  [throttled, "Throttling", "Throttled", "TooManyRequests", "RequestLimitExceeded", "SlowDown"],
  [unavailable, "InternalService", "InternalFailure", "InternalServer", "ServiceUnavailable", "IDPCommunication"],
  [denied, "AccessDenied", "NotAuthorized", "IDPRejectedClaim"],
  [unknownKey, "UnrecognizedClient", "InvalidClientTokenId"],
  [badSignature, "InvalidSignature", "SignatureDoesNotMatch"],
  [authFailed, "IncompleteSignature", "MissingAuthenticationToken", "RequestExpired"],
  [
    [
      "client",
      "auth_failed",
      "the identity token is not accepted; the account needs an identity provider with its issuer and audience",
    ],
    "InvalidIdentityToken",
  ],
  [["client", "auth_failed", "the session has ended"], "ExpiredToken"],
  [["client", "auth_failed", "the account or region is not enabled"], "OptInRequired", "RegionDisabled"],
  [encryption, "EncryptionFailure", "DecryptionFailure", "InvalidKeyId"],
  [["external", "contended", "another caller changes the object at the same time"], "TooManyUpdates"],
  [["client", "quota_exceeded", "a quota of the account or the secret is used up"], "LimitExceeded"],
  [["client", "not_found", "there is no such object"], "ResourceNotFound"],
  [["client", "already_exists", "the object or version exists already"], "ResourceExists"],
  [["client", "invalid_parameter", "a parameter is not valid"], "InvalidParameter", "Validation"],
  [["client", "invalid_request", "the object's state does not allow it"], "InvalidRequest", "PreconditionNotMet"],
  [["client", "not_found", "there is no such parameter"], "ParameterNotFound", "InvalidResourceId"],
  [["client", "already_exists", "the parameter exists already"], "ParameterAlreadyExists"],
  [
    ["client", "quota_exceeded", "a quota of the account or the parameter is used up"],
    "ParameterLimitExceeded",
    "ParameterMaxVersionLimitExceeded",
    "TooManyTags",
  ],
  [["client", "name_invalid", "the name has too many levels"], "HierarchyLevelLimitExceeded"],
  [["client", "name_invalid", "the provider does not take the name"], "ParameterPatternMismatch"],
  [["client", "wrong_type", "the parameter has another type, which cannot change in place"], "HierarchyTypeMismatch"],
  [["client", "policy_invalid", "the policy is not valid"], "MalformedPolicyDocument"],
);

const nested: Meaning = ["client", "value_invalid", "a parameter's value may not contain {{ and }}"];
const tooLarge: Meaning = ["client", "value_too_large", "the value is larger than 4 KB, the most in the standard tier"];

/** Texts of either service about the time of a signature. */
const aboutTime = /signature (expired|not yet current)|RequestTimeTooSkewed|too skewed/i;
const signatureErrors: ReadonlySet<string> = new Set(["InvalidSignature", "SignatureDoesNotMatch", "RequestExpired"]);

function meaningOf(type: string, message: string, response: Response): Meaning {
  const { status } = response;
  // One name for two limits: a rate recovers by itself, a count of secrets or versions does not.
  if (type === "LimitExceeded" && /\brate\b|throttl/i.test(message)) return throttled;
  // One name for every invalid parameter; the two about a value are worth naming.
  if (type === "Validation" && /\bnest(ed)?\b/i.test(message)) return nested;
  if (type === "Validation" && /maximum parameter value/i.test(message)) return tooLarge;
  // The name is the same for a wrong key and a wrong clock.
  const isSignature = signatureErrors.has(type);
  if (type === "RequestTimeTooSkewed" || (isSignature && (aboutTime.test(message) || clockDiffers(response)))) {
    return clockIsOff;
  }
  const known = meanings.get(type);
  if (known !== undefined) return known;
  if (status === 429) return throttled;
  if (status >= 500 || status === 408) return unavailable;
  if (status === 401) return authFailed;
  if (status === 403) return type === "" ? deniedBefore : denied;
  return ["client", "refused", "the provider does not accept the request"];
}
