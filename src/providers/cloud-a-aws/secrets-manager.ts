import { AwsV4Signer } from "aws4fetch";
import type { Failure } from "../../contracts/failure.ts";
import { type Call, failure, type Send, withoutEffect } from "../outcome.ts";
import { type Issued, TokenCache } from "../token-cache.ts";
import { type CloudAFailure, type CloudAService, refusal, unanswered } from "./errors.ts";

/** A destination's connection to its account. Unset fields are absent, never empty. */
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

export type CloudAAnswer = { ok: true; body: Record<string, unknown> } | CloudAFailure;

export interface SecretsManager {
  /** Calls one operation, such as "CreateSecret", with its JSON parameters. Sent once; the caller retries. */
  call(operation: string, body: Record<string, unknown>): Promise<CloudAAnswer>;
  /**
   * Identifies the credentials with STS (GetCallerIdentity), which no policy can deny. Assumes the role again, because
   * a cached session would hide that the next one is refused.
   */
  identify(): Promise<{ ok: true } | { ok: false; outcome: Failure }>;
}

interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

interface Session extends Issued {
  readonly credentials: Credentials;
}

/** The resolved region and keys of a connection, before any role. */
interface Account {
  region: string;
  keys: Credentials;
}

/** A region's name, such as eu-west-1 or us-gov-east-1. Part of the host name. */
export const regionPattern = /^[a-z]{2,4}(-[a-z]+)+-\d$/;

const sessionSeconds = 3600;

/** Cache of assumed roles. */
const sessions = new TokenCache<Session>();

/**
 * Resolves the region and the keys of a connection: its own, else the deployment's. The failure's message names the
 * fields and settings that are missing.
 */
export function resolveAccount(
  connection: CloudAConnection,
  settings: CloudASettings,
): { ok: true; account: Account } | { ok: false; outcome: Failure } {
  const region = connection.region || settings.CLOUD_A_REGION;
  if (!region || !regionPattern.test(region)) {
    const message = "region must be given, because the deployment's setting CLOUD_A_REGION names none.";
    return { ok: false, outcome: failure("client", "region_missing", message) };
  }
  const own = connection.access_key_id !== undefined;
  const accessKeyId = own ? connection.access_key_id : settings.CLOUD_A_ACCESS_KEY_ID;
  const secretAccessKey = own ? connection.secret_access_key : settings.CLOUD_A_SECRET_ACCESS_KEY;
  if (!accessKeyId || !secretAccessKey) {
    const message =
      "access_key_id and secret_access_key must be given, because the deployment's settings CLOUD_A_ACCESS_KEY_ID and CLOUD_A_SECRET_ACCESS_KEY are not both set.";
    return { ok: false, outcome: failure("client", "credentials_missing", message) };
  }
  return { ok: true, account: { region, keys: { accessKeyId, secretAccessKey } } };
}

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/**
 * The account of an access key, decoded from the key's id (keys since March 2019:
 * https://medium.com/@TalBeerySec/a-short-note-on-aws-key-id-f88cc4317489). Returns the id itself for older keys.
 */
export function accountOfKey(accessKeyId: string): string {
  const isNew = /^A[A-Z]{3}[Q-Z2-7][A-Z2-7]{11,}$/.test(accessKeyId);
  if (!isNew) return accessKeyId;
  // Ten characters hold 50 bits; the account's number is in the 40 bits after the first.
  const bits = [...accessKeyId.slice(4, 14)].reduce((sum, one) => sum * 32n + BigInt(base32.indexOf(one)), 0n);
  return String((bits >> 9n) & 0xff_ffff_ffffn).padStart(12, "0");
}

/**
 * A client of AWS Secrets Manager (JSON protocol 1.1, API version 2017-10-17) for one operation of an adapter.
 *
 * Signs with the connection's keys, else with the deployment's default keys, and as `role_arn` when that is set.
 */
export function secretsManager(
  connection: CloudAConnection,
  { settings, send }: { settings: CloudASettings; send: Send },
): SecretsManager {
  const reached = resolveAccount(connection, settings);
  if (!reached.ok) {
    const refused = async () => unanswered(reached.outcome);
    return { call: refused, identify: refused };
  }
  const { region, keys } = reached.account;
  const { role_arn: roleArn, external_id: externalId } = connection;
  const stsUrl = settings.CLOUD_A_STS_URL || endpoint("sts", region);
  const sessionKey = [stsUrl, region, keys, roleArn, externalId];

  /** Calls STS (query protocol, API version 2011-06-15): form request, XML answer. Its actions change no state. */
  async function sts(action: string, parameters: Record<string, string>, credentials: Credentials): Promise<StsAnswer> {
    const sent = await signedPost(send, {
      url: stsUrl,
      service: "sts",
      region,
      credentials,
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ Action: action, Version: "2011-06-15", ...parameters }).toString(),
    });
    if (!sent.ok) return { ok: false, outcome: withoutEffect(sent.outcome) };
    const { response, text } = sent;
    if (response.ok) return { ok: true, xml: text };
    return refusal(response, xmlField(text, "Code") ?? "", xmlField(text, "Message") ?? "", "sts", action);
  }

  async function assumeRole(role: string): Promise<{ ok: true; token: Session } | { ok: false; outcome: Failure }> {
    const answer = await sts(
      "AssumeRole",
      {
        RoleArn: role,
        RoleSessionName: "sallyport",
        DurationSeconds: String(sessionSeconds),
        ...(externalId === undefined ? {} : { ExternalId: externalId }),
      },
      keys,
    );
    if (!answer.ok) return answer;
    const token = sessionOf(answer.xml);
    return token === null ? notUnderstood("AssumeRole") : { ok: true, token };
  }

  /** The signing credentials: the role's session, cached or new, or the keys themselves. */
  async function signer(): Promise<{ ok: true; credentials: Credentials } | { ok: false; outcome: Failure }> {
    if (roleArn === undefined) return { ok: true, credentials: keys };
    const session = await sessions.get(sessionKey, () => assumeRole(roleArn));
    return session.ok ? { ok: true, credentials: session.token.credentials } : session;
  }

  async function attempt(operation: string, body: string): Promise<CloudAAnswer> {
    const signing = await signer();
    // Without the service's error: a denied role is no statement about the secret.
    if (!signing.ok) return unanswered(signing.outcome);
    const sent = await signedPost(send, {
      url: settings.CLOUD_A_SM_URL || endpoint("secretsmanager", region),
      service: "secretsmanager",
      region,
      credentials: signing.credentials,
      headers: { "content-type": "application/x-amz-json-1.1", "x-amz-target": `secretsmanager.${operation}` },
      body,
    });
    return sent.ok ? readJson(sent.response, sent.text, operation) : unanswered(sent.outcome);
  }

  return {
    async call(operation, parameters) {
      const body = JSON.stringify(parameters);
      let answer = await attempt(operation, body);
      if (!answer.ok && roleArn !== undefined && sessionEndings.has(answer.error?.type ?? "")) {
        // The role's session ended early (it can be revoked), so a new one is requested once.
        sessions.forget(sessionKey);
        answer = await attempt(operation, body);
      }
      if (answer.ok || operation !== "DescribeSecret") return answer;
      return { ...answer, outcome: withoutEffect(answer.outcome) };
    },

    async identify() {
      sessions.forget(sessionKey);
      const signing = await signer();
      if (!signing.ok) return signing;
      const answer = await sts("GetCallerIdentity", {}, signing.credentials);
      if (!answer.ok) return answer;
      return xmlField(answer.xml, "Arn") === null ? notUnderstood("GetCallerIdentity") : { ok: true };
    },
  };
}

type StsAnswer = { ok: true; xml: string } | { ok: false; outcome: Failure };

const sessionEndings: ReadonlySet<string> = new Set(["ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId"]);

const notUnderstood = (action: string) => ({
  ok: false as const,
  outcome: failure("external", "unreadable_answer", `${action} was answered, but not as STS answers it.`),
});

/** The regional endpoint; the partitions' domains are those of the vendor's SDK (partitions.json). */
function endpoint(service: CloudAService, region: string): string {
  const domain = region.startsWith("cn-")
    ? "amazonaws.com.cn"
    : region.startsWith("eusc-")
      ? "amazonaws.eu"
      : "amazonaws.com";
  return `https://${service}.${region}.${domain}`;
}

interface SignedPost {
  url: string;
  service: CloudAService;
  region: string;
  credentials: Credentials;
  headers: Record<string, string>;
  /** A string, because the signer hashes strings only. */
  body: string;
}

/** Cache of signing keys by secret key, day, region and service: the derivation is the main cost of a signature. */
const derived = new Map<string, ArrayBuffer>();
const MAX_DERIVED = 1_000;

function signingKeys(): Map<string, ArrayBuffer> {
  if (derived.size >= MAX_DERIVED) derived.clear();
  return derived;
}

async function signedPost(send: Send, { url, body, credentials, ...rest }: SignedPost): Promise<Call> {
  if (!URL.canParse(url)) {
    return { ok: false, outcome: failure("client", "invalid_url", "The provider's base URL setting is not a URL.") };
  }
  // Only the signer of the library: its client sleeps and retries up to ten times by default.
  // Service and region are given, because the signer would derive them from the host name, which may be a setting.
  const signer = new AwsV4Signer({ method: "POST", url, body, cache: signingKeys(), ...credentials, ...rest });
  const { headers, url: target } = await signer.sign();
  return send([target.toString(), { method: "POST", headers, body }]);
}

/** Reads a JSON 1.1 answer. An unreadable success is `unknown`: it may come from another server than the service. */
function readJson(response: Response, text: string, operation: string): CloudAAnswer {
  // Operations without an output, such as TagResource, have an empty body.
  const body = text === "" && response.ok ? {} : parseObject(text);
  if (response.ok) {
    if (body !== null) return { ok: true, body };
    return unanswered(failure("unknown", "unreadable_answer", `${operation} was answered, but not with JSON.`));
  }
  const named = body?.["__type"] ?? response.headers.get("x-amzn-errortype") ?? "";
  const message = body?.["message"] ?? body?.["Message"];
  return refusal(response, String(named), typeof message === "string" ? message : "", "secretsmanager", operation);
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}

function sessionOf(xml: string): Session | null {
  const [accessKeyId, secretAccessKey, sessionToken, expiration] = [
    "AccessKeyId",
    "SecretAccessKey",
    "SessionToken",
    "Expiration",
  ].map((name) => xmlField(xml, name));
  const expiresAt = Date.parse(expiration ?? "");
  if (!accessKeyId || !secretAccessKey || !sessionToken || Number.isNaN(expiresAt)) return null;
  return { credentials: { accessKeyId, secretAccessKey, sessionToken }, expiresAt };
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
