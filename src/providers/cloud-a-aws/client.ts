import type { Failure } from "../../contracts/failure.ts";
import { tryParseObject } from "../../lib/json.ts";
import { type ClientAssertion, signed } from "../identity-token.ts";
import { failure, type Send, withoutEffect } from "../outcome.ts";
import { type Issued, TokenCache } from "../token-cache.ts";
import { type CloudAConnection, type CloudASettings, type Credentials, resolveAccount } from "./connection.ts";
import { type CloudAFailure, type CloudAService, refusal, unanswered } from "./errors.ts";
import { endpoint, queryCall, signedPost } from "./signing.ts";
import { parseXml, textNamed, type XmlElement } from "./xml.ts";

export type CloudAAnswer = { ok: true; body: Record<string, unknown> } | CloudAFailure;

/** A service of the JSON protocol 1.1. */
export interface JsonService {
  /** Its name in signatures, permissions and host names. */
  readonly name: Exclude<CloudAService, "sts" | "iam">;
  /** Prefix of the operation in `X-Amz-Target`. */
  readonly target: string;
  /** The setting with a base URL that replaces the regional one. */
  readonly url: "CLOUD_A_SM_URL" | "CLOUD_A_PS_URL";
  /** Operations that change no state. */
  readonly reads: ReadonlySet<string>;
}

export interface CloudAClient {
  /** Calls one operation, such as "CreateSecret", with its JSON parameters. Sent once; the caller retries. */
  call(operation: string, body: Record<string, unknown>): Promise<CloudAAnswer>;
  /**
   * Identifies the credentials with STS (GetCallerIdentity), which no policy can deny. Assumes the role again, because
   * a cached session would hide that the next one is refused.
   */
  identify(): Promise<{ ok: true } | { ok: false; outcome: Failure }>;
}

interface Session extends Issued {
  readonly credentials: Credentials;
}

const sessionSeconds = 3600;

/** Cache of assumed roles. */
const sessions = new TokenCache<Session>();

/**
 * A client of one service for one operation of an adapter.
 *
 * Signs with the connection's keys, else with the deployment's default keys, and as `role_arn` when that is set. With an
 * identity the role is assumed with a token instead of keys.
 */
export function cloudAClient(
  connection: CloudAConnection,
  { settings, send, identity }: { settings: CloudASettings; send: Send; identity?: ClientAssertion },
  service: JsonService,
): CloudAClient {
  const reached = resolveAccount(connection, settings);
  if (!reached.ok) {
    const refused = async () => unanswered(reached.outcome);
    return { call: refused, identify: refused };
  }
  const { region, keys } = reached.account;
  const { role_arn: roleArn, external_id: externalId } = connection;
  const stsUrl = settings.CLOUD_A_STS_URL || endpoint("sts", region);
  const { issuer, subject, audience } = identity ?? {};
  const sessionKey = [stsUrl, region, keys, roleArn, externalId, issuer, subject, audience];

  /** Calls STS, whose actions change no state. */
  async function sts(
    action: string,
    parameters: Record<string, string>,
    credentials: Credentials | null,
  ): Promise<StsAnswer> {
    const sent = await queryCall(send, { url: stsUrl, service: "sts", region, action, parameters, credentials });
    if (!sent.ok) return { ok: false, outcome: withoutEffect(sent.outcome) };
    const { response, text } = sent;
    const xml = parseXml(text);
    if (response.ok) return { ok: true, xml };
    const refused = refusal(response, textNamed(xml, "Code") ?? "", textNamed(xml, "Message") ?? "", "sts", action);
    return { ok: false, outcome: withoutEffect(refused.outcome) };
  }

  async function assumeRole(role: string): Promise<{ ok: true; token: Session } | { ok: false; outcome: Failure }> {
    const action = keys === null ? "AssumeRoleWithWebIdentity" : "AssumeRole";
    const token = keys === null ? await (identity && signed(identity)) : undefined;
    if (keys === null && !token) {
      const message = "No identity token could be signed to log in with.";
      return { ok: false, outcome: failure("external", "provider_unavailable", message) };
    }
    const parameters = {
      RoleArn: role,
      RoleSessionName: "sallyport",
      DurationSeconds: String(sessionSeconds),
      ...(token && { WebIdentityToken: token }),
      ...(externalId !== undefined && keys !== null && { ExternalId: externalId }),
    };
    const answer = await sts(action, parameters, keys);
    if (!answer.ok) return answer;
    const session = sessionOf(answer.xml);
    return session === null ? notUnderstood(action) : { ok: true, token: session };
  }

  /** The signing credentials: the role's session, cached or new, or the keys themselves. */
  async function signer(): Promise<{ ok: true; credentials: Credentials } | { ok: false; outcome: Failure }> {
    if (roleArn === undefined) {
      return keys === null ? { ok: false, outcome: NO_ROLE } : { ok: true, credentials: keys };
    }
    const session = await sessions.get(sessionKey, () => assumeRole(roleArn));
    return session.ok ? { ok: true, credentials: session.token.credentials } : session;
  }

  async function attempt(operation: string, body: string): Promise<CloudAAnswer> {
    const signing = await signer();
    // Without the service's error: a denied role is no statement about the secret.
    if (!signing.ok) return unanswered(signing.outcome);
    const sent = await signedPost(send, {
      url: settings[service.url] || endpoint(service.name, region),
      service: service.name,
      region,
      credentials: signing.credentials,
      headers: { "content-type": "application/x-amz-json-1.1", "x-amz-target": `${service.target}.${operation}` },
      body,
    });
    return sent.ok ? readJson(sent.response, sent.text, service.name, operation) : unanswered(sent.outcome);
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
      if (answer.ok || !service.reads.has(operation)) return answer;
      return { ...answer, outcome: withoutEffect(answer.outcome) };
    },

    async identify() {
      sessions.forget(sessionKey);
      const signing = await signer();
      if (!signing.ok) return signing;
      const answer = await sts("GetCallerIdentity", {}, signing.credentials);
      if (!answer.ok) return answer;
      return textNamed(answer.xml, "Arn") === null ? notUnderstood("GetCallerIdentity") : { ok: true };
    },
  };
}

const NO_ROLE = failure("client", "credentials_missing", "role_arn must be given to log in with identity tokens.");

type StsAnswer = { ok: true; xml: XmlElement | null } | { ok: false; outcome: Failure };

const sessionEndings: ReadonlySet<string> = new Set(["ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId"]);

const notUnderstood = (action: string) => ({
  ok: false as const,
  outcome: failure("external", "unreadable_answer", `${action} was answered, but not as STS answers it.`),
});

/** Reads a JSON 1.1 answer. An unreadable success is `unknown`: it may come from another server than the service. */
function readJson(response: Response, text: string, service: CloudAService, operation: string): CloudAAnswer {
  // Operations without an output, such as TagResource, have an empty body.
  const body = text === "" && response.ok ? {} : tryParseObject(text);
  if (response.ok) {
    if (body !== null) return { ok: true, body };
    return unanswered(failure("unknown", "unreadable_answer", `${operation} was answered, but not with JSON.`));
  }
  const named = body?.["__type"] ?? response.headers.get("x-amzn-errortype") ?? "";
  const message = body?.["message"] ?? body?.["Message"];
  return refusal(response, String(named), typeof message === "string" ? message : "", service, operation);
}

/** The credentials in an answer of STS; null when it has none. */
export function sessionOf(xml: XmlElement | null): Session | null {
  const [accessKeyId, secretAccessKey, sessionToken, expiration] = [
    "AccessKeyId",
    "SecretAccessKey",
    "SessionToken",
    "Expiration",
  ].map((name) => textNamed(xml, name));
  const expiresAt = Date.parse(expiration ?? "");
  if (!accessKeyId || !secretAccessKey || !sessionToken || Number.isNaN(expiresAt)) return null;
  return { credentials: { accessKeyId, secretAccessKey, sessionToken }, expiresAt };
}
