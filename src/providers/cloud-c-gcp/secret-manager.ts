import { importPKCS8, SignJWT } from "jose";
import * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { failure, isWebPage, type Send, withoutEffect } from "../outcome.ts";
import { type Issued, TokenCache } from "../token-cache.ts";
import { type CloudCAnswer, parseObject, refusal, tokenRefusal, unanswered } from "./errors.ts";
import type { ServiceAccountKey } from "./key.ts";

/** A destination's connection to its project. */
export interface CloudCConnection {
  credentials: ServiceAccountKey;
  /** Replaces the key's own project. */
  project_id?: string;
}

/** Settings that replace Google's URLs. `CLOUD_C_SM_URL` is a base without `/v1`. */
export interface CloudCSettings {
  CLOUD_C_SM_URL?: string | undefined;
  CLOUD_C_TOKEN_URL?: string | undefined;
}

export interface SecretManager {
  /**
   * Sends one request, once; the caller retries.
   * @param operation the RPC's name, for messages
   * @param path below the project, beginning with `secrets`
   */
  call(
    operation: string,
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    body?: Record<string, unknown>,
  ): Promise<CloudCAnswer>;
}

interface AccessToken extends Issued {
  value: string;
}

type Token = Awaited<ReturnType<TokenCache<AccessToken>["get"]>>;

const scope = "https://www.googleapis.com/auth/cloud-platform";
const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/** The lifetime of an assertion, seconds; Google's maximum. */
const assertionSeconds = 3600;

const tokens = new TokenCache<AccessToken>();

/** The connection's project, else the key's; the schema ensures that one is set. */
export const projectOf = ({ project_id, credentials }: CloudCConnection): string =>
  project_id ?? credentials.project_id ?? "";

/** Token endpoints that Google has named in key files over time. */
const googleTokenHosts = ["oauth2.googleapis.com", "www.googleapis.com", "accounts.google.com"];

/**
 * The refusal of a key's token endpoint, one sentence; null when it is allowed. A key file is user input, so without
 * CLOUD_C_TOKEN_URL only Google's hosts are allowed.
 */
export function refuseTokenUri({ token_uri }: ServiceAccountKey, settings: CloudCSettings): string | null {
  if (settings.CLOUD_C_TOKEN_URL) return null;
  const url = URL.parse(token_uri);
  if (url?.protocol === "https:" && url.port === "" && googleTokenHosts.includes(url.hostname)) return null;
  return `credentials: token_uri must be an https address of ${googleTokenHosts.join(", ")}`;
}

/** A client of Google Secret Manager (REST v1) for one operation of an adapter, as the connection's service account. */
export function secretManager(
  connection: CloudCConnection,
  { settings, send }: { settings: CloudCSettings; send: Send },
): SecretManager {
  const { credentials: key } = connection;
  const base = (settings.CLOUD_C_SM_URL || "https://secretmanager.googleapis.com").replace(/\/+$/, "");
  const root = `${base}/v1/projects/${encodeURIComponent(projectOf(connection))}`;
  const held = [settings.CLOUD_C_TOKEN_URL || key.token_uri, key];

  return {
    async call(operation, method, path, body) {
      const refused = refuseTokenUri(key, settings);
      if (refused !== null) return unanswered(failure("client", "token_uri_refused", `${refused}.`));
      let issuedNow = false;
      const issue = () => {
        issuedNow = true;
        return requestToken(key, settings, send);
      };
      const attempt = async (): Promise<CloudCAnswer> => {
        const token = await tokens.get(held, issue);
        if (!token.ok) return unanswered(token.outcome);
        const headers = {
          authorization: `Bearer ${token.token.value}`,
          accept: "application/json",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        };
        const sent = body === undefined ? {} : { body: JSON.stringify(body) };
        const call = await send([`${root}/${path}`, { method, headers, ...sent }]);
        if (!call.ok) return unanswered(method === "GET" ? withoutEffect(call.outcome) : call.outcome);
        if (!call.response.ok) return refusal(call.response, call.text, operation);
        const answer = parseObject(call.text);
        const isDone = answer !== null || (method === "DELETE" && !isWebPage(call.text));
        if (isDone) return { ok: true, body: answer ?? {} };
        return unanswered(unreadable(operation, method === "GET" ? "external" : "unknown"));
      };
      const answer = await attempt();
      if (answer.ok || answer.status !== "UNAUTHENTICATED") return answer;
      tokens.forget(held);
      // A token can end early (account disabled, key deleted); the token endpoint reports the cause.
      return issuedNow ? answer : attempt();
    },
  };
}

/**
 * The failure for an unreadable success. It may come from another server than the service, so a write is `unknown`.
 */
export const unreadable = (operation: string, outcome: "external" | "unknown"): Failure =>
  failure(outcome, "unreadable_answer", `${operation} was answered, but not as the service answers.`);

/** RFC 7519 NumericDate and lifetimes are seconds. */
const TokenAnswer = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]{1,8192}$/),
  expires_in: z.number().positive().max(86_400),
  token_type: z.string().regex(/^bearer$/i),
});

/**
 * Exchanges an assertion for an access token (RFC 7523, "Using OAuth 2.0 for Server to Server Applications").
 *
 * The audience is the key file's `token_uri`, even when CLOUD_C_TOKEN_URL replaces the address: a replacement checks
 * assertions against Google's own address (Google's client libraries do the same).
 */
async function requestToken(key: ServiceAccountKey, settings: CloudCSettings, send: Send): Promise<Token> {
  const assertion = await signAssertion(key);
  if (assertion === null) {
    return { ok: false, outcome: failure("client", "auth_failed", "The private key in credentials cannot be used.") };
  }
  const url = settings.CLOUD_C_TOKEN_URL || key.token_uri;
  const body = new URLSearchParams({ grant_type: grantType, assertion }).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded", accept: "application/json" };
  const call = await send([url, { method: "POST", headers, body }]);
  if (!call.ok) return { ok: false, outcome: withoutEffect(call.outcome) };
  if (!call.response.ok) return { ok: false, outcome: tokenRefusal(call.response, call.text) };
  const answer = TokenAnswer.safeParse(parseObject(call.text));
  if (!answer.success) return { ok: false, outcome: unreadable("The request for an access token", "external") };
  const { access_token, expires_in } = answer.data;
  return { ok: true, token: { value: access_token, expiresAt: Date.now() + expires_in * 1000 } };
}

/** Signs an assertion; null when the key cannot sign. */
async function signAssertion({ private_key, private_key_id, client_email, token_uri }: ServiceAccountKey) {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: client_email, scope, aud: token_uri, iat: now, exp: now + assertionSeconds };
  const kid = private_key_id === undefined ? {} : { kid: private_key_id };
  try {
    const signer = await importPKCS8(private_key, "RS256");
    return await new SignJWT(claims).setProtectedHeader({ alg: "RS256", typ: "JWT", ...kid }).sign(signer);
  } catch {
    return null;
  }
}
