import type { CloudCode, CloudFailure, CloudResult } from "../../../contracts/cloud-calls.ts";
import { parseXml, textNamed, type XmlElement } from "../../../providers/cloud-a-aws/xml.ts";
import { type Call, clockDiffers, retryAfterMs } from "../../../providers/outcome.ts";
import { failed, unanswered } from "../http-result.ts";

/** One action of IAM or STS. */
export interface Action {
  readonly service: "iam" | "sts";
  readonly name: string;
  /** Whether it changes nothing that must be found again, so that a missing answer leaves nothing uncertain. */
  readonly reads: boolean;
}

type Meaning = readonly [outcome: CloudFailure["outcome"], code: CloudCode, text: string];

const throttled: Meaning = ["external", "throttled", "too many requests"];
const refusedKey: Meaning = ["client", "auth_failed", "the access key is not known, or not yet"];
const wrongSecret: Meaning = ["client", "auth_failed", "the secret key does not belong to the access key"];
const clockIsOff: Meaning = ["client", "auth_failed", "the provider's clock and ours differ too much"];
const badToken: Meaning = [
  "client",
  "auth_failed",
  "the identity token is not accepted; the account needs an identity provider with its issuer and audience",
];
const busy: Meaning = ["client", "contended", "another caller changes the same object"];
const broken: Meaning = ["unknown", "provider_unavailable", "the provider failed"];

/**
 * Errors by name, as in the API references of IAM and STS ("Common Errors" included), without the suffix Exception. The
 * names of throttling are those of the vendor's SDK.
 */
const MEANINGS: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  ["Throttling", throttled],
  ["Throttled", throttled],
  ["RequestThrottled", throttled],
  ["TooManyRequests", throttled],
  ["RequestLimitExceeded", throttled],
  ["PriorRequestNotComplete", throttled],
  ["ProvisionedThroughputExceeded", throttled],
  ["SlowDown", throttled],
  ["EntityAlreadyExists", ["client", "already_exists", "an object of this name exists"]],
  ["NoSuchEntity", ["client", "not_found", "there is no such user, group, policy or key"]],
  ["DeleteConflict", ["client", "locked", "the user still has something that was added by others"]],
  ["LimitExceeded", ["client", "limit_reached", "a quota of the account or the user is used up"]],
  ["ConcurrentModification", busy],
  ["EntityTemporarilyUnmodifiable", busy],
  ["InvalidClientTokenId", refusedKey],
  ["UnrecognizedClient", refusedKey],
  ["InvalidAccessKeyId", refusedKey],
  ["ExpiredToken", ["client", "auth_failed", "the session has ended"]],
  ["SignatureDoesNotMatch", wrongSecret],
  ["InvalidSignature", wrongSecret],
  ["IncompleteSignature", ["client", "auth_failed", "the credentials are not accepted"]],
  ["MissingAuthenticationToken", ["client", "auth_failed", "the credentials are not accepted"]],
  ["RequestExpired", clockIsOff],
  ["RequestTimeTooSkewed", clockIsOff],
  ["IDPRejectedClaim", badToken],
  ["InvalidIdentityToken", badToken],
  ["IDPCommunicationError", ["external", "provider_unavailable", "the provider did not reach the token's issuer"]],
  ["IDPCommunication", ["external", "provider_unavailable", "the provider did not reach the token's issuer"]],
  ["MalformedPolicyDocument", ["client", "refused", "the policy document is not valid"]],
  ["PackedPolicyTooLarge", ["client", "refused", "policies and tags of the session are too large"]],
  ["PolicyNotAttachable", ["client", "refused", "the policy can be attached by the provider's services only"]],
  ["RegionDisabled", ["client", "refused", "STS is not activated in the region"]],
  ["ValidationError", ["client", "refused", "a parameter is not valid"]],
  ["InvalidInput", ["client", "refused", "a parameter is not valid"]],
  ["InternalFailure", broken],
  ["ServiceFailure", broken],
  ["ServiceUnavailable", broken],
]);

/** Actions on a user that was created before. */
const GIVES_TO_USER: ReadonlySet<string> = new Set([
  "AttachUserPolicy",
  "PutUserPolicy",
  "AddUserToGroup",
  "CreateAccessKey",
]);

/** The result of a call: the answer's root element. */
export function queryResult(call: Call, action: Action): CloudResult<XmlElement> {
  if (!call.ok) return unanswered(call, action);
  const unsure = action.reads ? "external" : "unknown";
  const { response, text } = call;
  const xml = parseXml(text);
  if (response.ok && xml?.name === `${action.name}Response`) return { ok: true, value: xml };
  if (response.ok) {
    const message = `${action.name} was answered, but not as ${action.service.toUpperCase()} answers it.`;
    return failed(unsure, "unreadable_answer", message, { status: response.status });
  }
  const name = bareName(textNamed(xml, "Code") ?? "");
  const about = textNamed(xml, "Message") ?? "";
  const [outcome, code, why] = meaningOf(name, about, response, action);
  const request = textNamed(xml, "RequestId") ?? response.headers.get("x-amzn-requestid") ?? "";
  const reference = /^[\w-]{1,64}$/.test(request) ? `, request id: ${request}` : "";
  const wait = outcome === "client" ? null : retryAfterMs(response);
  return failed(
    outcome === "unknown" ? unsure : outcome,
    code,
    `${name || "unnamed error"}: ${why}\n\tstatus code: ${response.status}${reference}`,
    { status: response.status, providerCode: name, ...(wait !== null && { retryAfterMs: wait }) },
  );
}

/** @param about the provider's text, for decisions only: it may quote values */
function meaningOf(name: string, about: string, response: Response, { service, name: action }: Action): Meaning {
  const { status } = response;
  if (name === "LimitExceeded" && /\brate\b/i.test(about)) return throttled;
  if (/^(SignatureDoesNotMatch|InvalidSignature)$/.test(name) && isAboutTime(about, response)) return clockIsOff;
  // A user that was created a moment ago is not known everywhere; a policy or group of that name does not exist.
  if (name === "NoSuchEntity" && GIVES_TO_USER.has(action) && /\buser with name\b/i.test(about)) {
    return ["client", "not_replicated", "there is no such user, or not yet"];
  }
  const known = MEANINGS.get(name);
  if (known) return known;
  if (name === "AccessDenied" || (status === 403 && name !== "")) {
    return ["client", "permission_denied", `the account is not authorized to perform: ${service}:${action}`];
  }
  if (status === 403)
    return ["client", "permission_denied", "a proxy or firewall before the provider denies the request"];
  if (status === 429) return throttled;
  return status >= 500 || status === 408 ? broken : ["client", "refused", "the provider does not accept the request"];
}

const isAboutTime = (about: string, response: Response): boolean =>
  /signature (expired|not yet current)|too skewed/i.test(about) || clockDiffers(response);

const bareName = (named: string): string => (/^[A-Za-z0-9.]{1,64}$/.test(named) ? named.replace(/Exception$/, "") : "");
