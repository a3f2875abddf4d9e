import { createHash } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import { type Call, callProvider, type Failure, failure, retryAfterMs } from "./outcome.ts";

/** How a destination reaches its account. Empty strings are not expected: unset means absent. */
export interface CloudAConnection {
  access_key_id?: string;
  secret_access_key?: string;
  region?: string;
  role_arn?: string;
  external_id?: string;
}

/** The settings read here: base URLs that replace the regional ones, and the default credentials and region. */
export interface CloudASettings {
  CLOUD_A_SM_URL?: string | undefined;
  CLOUD_A_STS_URL?: string | undefined;
  CLOUD_A_ACCESS_KEY_ID?: string | undefined;
  CLOUD_A_SECRET_ACCESS_KEY?: string | undefined;
  CLOUD_A_REGION?: string | undefined;
}

/** The error a provider named: `type` without namespace and suffix, such as "ResourceNotFound". */
export interface CloudAError {
  type: string;
  /** The provider's own words. For decisions only: they may quote a value, so they are never stored or shown. */
  message: string;
}

/** `error` is null when no readable answer came. */
export interface CloudAFailure {
  ok: false;
  error: CloudAError | null;
  outcome: Failure;
}

export type CloudAAnswer = { ok: true; body: Record<string, unknown> } | CloudAFailure;

export interface SecretsManager {
  /** One operation, such as "CreateSecret", with its JSON parameters. Sent once: retrying is the caller's. */
  call(operation: string, body: Record<string, unknown>): Promise<CloudAAnswer>;
}

interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

type Resolved = { ok: true; credentials: Credentials; sessionKey: string | null } | CloudAFailure;

/** The shape of a region's name, such as eu-west-1 or us-gov-east-1. It becomes part of a host name. */
export const regionPattern = /^[a-z]{2}(-[a-z]+)+-\d$/;

const sessionSeconds = 3600;
const sessionMarginMs = 5 * 60 * 1000;
const maxSessions = 256;

/** Assumed roles of this isolate, by what they were assumed with; the oldest leaves first. */
const sessions = new Map<string, { credentials: Credentials; expiresAt: number }>();

/**
 * A client of AWS Secrets Manager (JSON protocol 1.1, API version 2017-10-17) for one operation of ours.
 *
 * Signs with the connection's own keys, else with the deployment's default ones, and as `role_arn` when that is
 * set. `deadlineMs` covers all calls made through the client, counted from its creation, milliseconds.
 */
export function secretsManager(
  connection: CloudAConnection,
  settings: CloudASettings,
  { deadlineMs }: { deadlineMs: number },
): SecretsManager {
  const deadline = Date.now() + deadlineMs;

  async function attempt(region: string, signWith: Credentials, operation: string, body: string) {
    const call = await signed({
      url: settings.CLOUD_A_SM_URL || endpoint("secretsmanager", region),
      service: "secretsmanager",
      region,
      credentials: signWith,
      headers: { "content-type": "application/x-amz-json-1.1", "x-amz-target": `secretsmanager.${operation}` },
      body,
      deadline,
    });
    return call.ok ? readJson(call.response, call.text, operation) : unanswered(call.outcome);
  }

  return {
    async call(operation, body) {
      const region = connection.region || settings.CLOUD_A_REGION;
      if (!region || !regionPattern.test(region)) {
        return unanswered(
          failure("client", "region_missing", "Neither the destination nor CLOUD_A_REGION names a region."),
        );
      }
      const text = JSON.stringify(body);
      const resolved = await resolve(connection, settings, region, deadline);
      if (!resolved.ok) return resolved;
      const answer = await attempt(region, resolved.credentials, operation, text);
      if (answer.ok || resolved.sessionKey === null || !sessionRefused(answer.error)) return answer;

      // The role's session ended before its time (it can be revoked): take a new one, once.
      sessions.delete(resolved.sessionKey);
      const renewed = await resolve(connection, settings, region, deadline);
      return renewed.ok ? attempt(region, renewed.credentials, operation, text) : renewed;
    },
  };
}

const unanswered = (outcome: Failure): CloudAFailure => ({ ok: false, error: null, outcome });

const sessionRefused = (error: CloudAError | null) =>
  error !== null && ["ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId"].includes(error.type);

function endpoint(service: string, region: string): string {
  return `https://${service}.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`;
}

/** The credentials to sign with; `sessionKey` tells which cached session they are, null for plain keys. */
async function resolve(
  connection: CloudAConnection,
  settings: CloudASettings,
  region: string,
  deadline: number,
): Promise<Resolved> {
  const own = connection.access_key_id !== undefined;
  const accessKeyId = own ? connection.access_key_id : settings.CLOUD_A_ACCESS_KEY_ID;
  const secretAccessKey = own ? connection.secret_access_key : settings.CLOUD_A_SECRET_ACCESS_KEY;
  if (!accessKeyId || !secretAccessKey) {
    const message = "The destination has no keys of its own and the deployment has no default ones for this provider.";
    return unanswered(failure("client", "credentials_missing", message));
  }
  const base = { accessKeyId, secretAccessKey };
  if (connection.role_arn === undefined) return { ok: true, credentials: base, sessionKey: null };

  const url = settings.CLOUD_A_STS_URL || endpoint("sts", region);
  const parameters = { roleArn: connection.role_arn, externalId: connection.external_id };
  // The secret is part of the key, so that nobody gets a session by knowing only the id of another's access key.
  const sessionKey = createHash("sha256")
    .update(JSON.stringify([url, region, base, parameters]))
    .digest("hex");
  const cached = sessions.get(sessionKey);
  if (cached && cached.expiresAt - sessionMarginMs > Date.now()) {
    return { ok: true, credentials: cached.credentials, sessionKey };
  }
  const assumed = await assumeRole(url, region, base, parameters, deadline);
  if (!assumed.ok) return assumed;
  sessions.delete(sessionKey);
  sessions.set(sessionKey, assumed);
  for (const oldest of sessions.keys()) {
    if (sessions.size <= maxSessions) break;
    sessions.delete(oldest);
  }
  return { ok: true, credentials: assumed.credentials, sessionKey };
}

/** STS AssumeRole (query protocol, API version 2011-06-15): a form goes in, XML comes back. */
async function assumeRole(
  url: string,
  region: string,
  base: Credentials,
  role: { roleArn: string; externalId: string | undefined },
  deadline: number,
): Promise<{ ok: true; credentials: Credentials; expiresAt: number } | CloudAFailure> {
  const form = new URLSearchParams({
    Action: "AssumeRole",
    Version: "2011-06-15",
    RoleArn: role.roleArn,
    RoleSessionName: "sallyport",
    DurationSeconds: String(sessionSeconds),
  });
  if (role.externalId !== undefined) form.set("ExternalId", role.externalId);
  const call = await signed({
    url,
    service: "sts",
    region,
    credentials: base,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: form.toString(),
    deadline,
  });
  // Without an answer here the call that was wanted has not been made, so its effect is known: none.
  if (!call.ok)
    return unanswered(call.outcome.outcome === "unknown" ? { ...call.outcome, outcome: "external" } : call.outcome);
  if (!call.response.ok) {
    const code = xmlField(call.text, "Code") ?? "";
    return refusal(call.response, code, xmlField(call.text, "Message") ?? "", "AssumeRole");
  }
  const [accessKeyId, secretAccessKey, sessionToken, expiration] = [
    "AccessKeyId",
    "SecretAccessKey",
    "SessionToken",
    "Expiration",
  ].map((name) => xmlField(call.text, name));
  const expiresAt = Date.parse(expiration ?? "");
  if (!accessKeyId || !secretAccessKey || !sessionToken || Number.isNaN(expiresAt)) {
    // Nothing was changed by the call, so this is not "unknown".
    return unanswered(failure("external", "unreadable_answer", "AssumeRole was answered without usable credentials."));
  }
  return { ok: true, credentials: { accessKeyId, secretAccessKey, sessionToken }, expiresAt };
}

interface SignedRequest {
  url: string;
  service: string;
  region: string;
  credentials: Credentials;
  headers: Record<string, string>;
  /** A string: the signer hashes nothing else. */
  body: string;
  /** Milliseconds since the epoch. */
  deadline: number;
}

async function signed({ url, body, credentials, deadline, ...rest }: SignedRequest): Promise<Call> {
  if (!URL.canParse(url)) {
    return { ok: false, outcome: failure("client", "invalid_url", "The provider's base URL setting is not a URL.") };
  }
  // The signer alone rather than its client: that one sleeps and sends again up to ten times by default.
  // Service and region are given, because it guesses them from the host name, which may be a setting.
  const { headers, url: target } = await new AwsV4Signer({ method: "POST", url, body, ...credentials, ...rest }).sign();
  return callProvider([target.toString(), { method: "POST", headers, body }], { deadlineMs: deadline - Date.now() });
}

/** A JSON 1.1 answer. A success that cannot be read is `unknown`: something other than the service may have spoken. */
function readJson(response: Response, text: string, operation: string): CloudAAnswer {
  // Operations without an output, such as TagResource, are answered with an empty body.
  const body = text === "" && response.ok ? {} : parseObject(text);
  if (response.ok) {
    if (body !== null) return { ok: true, body };
    return unanswered(failure("unknown", "unreadable_answer", `${operation} was answered, but not with JSON.`));
  }
  const named = body?.["__type"] ?? response.headers.get("x-amzn-errortype") ?? "";
  const message = body?.["message"] ?? body?.["Message"];
  return refusal(response, String(named), typeof message === "string" ? message : "", operation);
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : null;
  } catch {
    return null;
  }
}

/**
 * The bare name of an error. On the wire it comes as `Name`, `com.example.service#Name` or `Name:http://…`
 * (restJson1 and awsJson1.1 protocol texts), and with or without the suffix Exception or Error.
 */
function bareType(named: string): string {
  const type = named.replace(/:.*$/s, "").replace(/^.*#/s, "");
  return /^[A-Za-z0-9.]{1,64}$/.test(type) ? type.replace(/(Exception|Error)+$/, "") : "";
}

type Meaning = readonly [outcome: "client" | "external", code: string, text: string];

const authFailed: Meaning = ["client", "auth_failed", "the credentials are not accepted"];
const denied: Meaning = ["client", "permission_denied", "the credentials lack the permission"];
const throttled: Meaning = ["external", "throttled", "too many requests"];
const unavailable: Meaning = ["external", "provider_unavailable", "the provider failed"];
const notSubscribed: Meaning = ["client", "auth_failed", "the account or region is not enabled"];
const encryption: Meaning = ["client", "encryption_failed", "the encryption key cannot be used"];

/** contract/secret-sync.md 4.1, error table; names as in the service descriptions of Secrets Manager and STS. */
const meanings = new Map<string, Meaning>([
  ["Throttling", throttled],
  ["Throttled", throttled],
  ["TooManyRequests", throttled],
  ["RequestLimitExceeded", throttled],
  ["SlowDown", throttled],
  ["InternalService", unavailable],
  ["InternalFailure", unavailable],
  ["InternalServer", unavailable],
  ["ServiceUnavailable", unavailable],
  ["IDPCommunication", unavailable],
  ["AccessDenied", denied],
  ["NotAuthorized", denied],
  ["IDPRejectedClaim", denied],
  ["UnrecognizedClient", authFailed],
  ["InvalidSignature", authFailed],
  ["SignatureDoesNotMatch", authFailed],
  ["IncompleteSignature", authFailed],
  ["MissingAuthenticationToken", authFailed],
  ["InvalidClientTokenId", authFailed],
  ["InvalidIdentityToken", authFailed],
  ["ExpiredToken", authFailed],
  ["RequestExpired", authFailed],
  ["OptInRequired", notSubscribed],
  ["RegionDisabled", notSubscribed],
  ["EncryptionFailure", encryption],
  ["DecryptionFailure", encryption],
  ["LimitExceeded", ["client", "quota_exceeded", "a quota of the account or the secret is used up"]],
  ["ResourceNotFound", ["client", "not_found", "there is no such object"]],
  ["ResourceExists", ["client", "already_exists", "the object or version exists already"]],
  ["InvalidParameter", ["client", "invalid_parameter", "a parameter is not valid"]],
  ["Validation", ["client", "invalid_parameter", "a parameter is not valid"]],
  ["InvalidRequest", ["client", "invalid_request", "the object's state does not allow it"]],
  ["PreconditionNotMet", ["client", "invalid_request", "the object's state does not allow it"]],
  ["MalformedPolicyDocument", ["client", "policy_invalid", "the policy is not valid"]],
]);

function refusal(response: Response, named: string, message: string, operation: string): CloudAFailure {
  const type = bareType(named);
  const [outcome, code, text] = meaningOf(type, message, response.status);
  const requestId = response.headers.get("x-amzn-requestid") ?? "";
  const reference = /^[\w-]{1,64}$/.test(requestId) ? `, request ${requestId}` : "";
  const cause = `${type || "unnamed"}, HTTP ${response.status}${reference}`;
  // This provider names no wait when it throttles, but what stands in front of it may.
  const wait = outcome === "external" ? retryAfterMs(response) : null;
  return {
    ok: false,
    error: { type, message },
    outcome: failure(outcome, code, `${operation} was refused: ${text} (${cause}).`, wait),
  };
}

function meaningOf(type: string, message: string, status: number): Meaning {
  // One name for two things: a rate passes by itself, a count of secrets or versions does not.
  if (type === "LimitExceeded" && /\brate\b|throttl/i.test(message)) return throttled;
  const known = meanings.get(type);
  if (known !== undefined) return known;
  if (status === 429) return throttled;
  if (status >= 500 || status === 408) return unavailable;
  return ["client", "refused", "the provider does not accept the request"];
}

const entities: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

/** The text of the first element `name` in an STS answer: flat elements without attributes, CDATA or nesting. */
function xmlField(xml: string, name: string): string | null {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
  if (text === undefined) return null;
  return text.trim().replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w+));/gi, (whole, decimal, hex, named) => {
    if (named !== undefined) return entities[named] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
