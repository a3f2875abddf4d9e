import { importPKCS8, SignJWT } from "jose";
import * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { tryParseObject } from "../../lib/json.ts";
import { memo } from "../../lib/memo.ts";
import { type ClientAssertion, signed } from "../identity-token.ts";
import { failure, type Send, withoutEffect } from "../outcome.ts";
import { type Issued, TokenCache } from "../token-cache.ts";
import type { CloudCConnection, CloudCSettings } from "./connection.ts";
import { refusal, tokenRefusal } from "./errors.ts";
import type { ServiceAccountKey } from "./key.ts";

/** Access tokens of a connection, cached per isolate: by the service account's key, or by identity tokens. */

interface AccessToken extends Issued {
  value: string;
}

type Token = Awaited<ReturnType<TokenCache<AccessToken>["get"]>>;

const scope = "https://www.googleapis.com/auth/cloud-platform";
const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/** The lifetime of an assertion, seconds; Google's maximum. */
const assertionSeconds = 3600;

const tokens = new TokenCache<AccessToken>();

export interface Caller {
  readonly settings: CloudCSettings;
  readonly send: Send;
  readonly identity?: ClientAssertion | undefined;
}

/** The tokens of one connection. */
export function tokensOf(connection: CloudCConnection, { settings, send, identity }: Caller) {
  const { credentials: key, service_account_email: account = "" } = connection;
  // JSON drops the function of `identity` from the cache's key.
  const held = [settings.CLOUD_C_TOKEN_URL || key?.token_uri, key, account, settings.CLOUD_C_STS_URL, identity];
  const issue = (): Promise<Token> => {
    if (key !== undefined) return tokenOfKey(key, settings, send);
    return identity ? tokenOfIdentity(identity, account, settings, send) : Promise.resolve(NO_CREDENTIALS);
  };
  return {
    get: (issued: () => void): Promise<Token> =>
      tokens.get(held, () => {
        issued();
        return issue();
      }),
    forget: () => tokens.forget(held),
  };
}

const failed = (outcome: Failure) => ({ ok: false as const, outcome });
const NO_CREDENTIALS = failed(failure("client", "credentials_missing", "credentials must be given."));

/** A token of the token exchange has up to 12 KiB, and Google reserves the right to raise that (Security Token Service API v1). */
const TOKEN = /^[\x21-\x7e]{1,16384}$/;

/** STS and service account credentials answer (RFC 8693, 2.2.1; IAM Service Account Credentials API v1). */
const Exchanged = memo(() => z.object({ access_token: z.string().regex(TOKEN) }));
const Generated = memo(() =>
  z.object({
    accessToken: z.string().regex(TOKEN),
    expireTime: z.iso.datetime({ offset: true }),
  }),
);

/**
 * Exchanges an identity token for a federated token, and that for one of the service account
 * (https://cloud.google.com/iam/docs/workload-identity-federation-with-other-providers).
 */
async function tokenOfIdentity(
  identity: ClientAssertion,
  account: string,
  settings: CloudCSettings,
  send: Send,
): Promise<Token> {
  const subjectToken = await signed(identity);
  if (subjectToken === null) {
    return failed(failure("external", "provider_unavailable", "No identity token could be signed to log in with."));
  }
  const post = async (operation: string, url: string, body: object, authorization?: string) => {
    const headers = {
      accept: "application/json",
      "content-type": "application/json",
      ...(authorization && { authorization }),
    };
    const call = await send([url, { method: "POST", headers, body: JSON.stringify(body) }]);
    if (!call.ok) return failed(withoutEffect(call.outcome));
    if (call.response.ok) return { ok: true as const, body: tryParseObject(call.text) };
    const isOauth = operation === "The exchange of the identity token";
    return failed(
      isOauth ? exchangeRefusal(call.response.status, call.text) : refusal(call.response, call.text, operation).outcome,
    );
  };
  const sts = baseOf(settings.CLOUD_C_STS_URL, "https://sts.googleapis.com");
  const exchanged = await post("The exchange of the identity token", `${sts}/v1/token`, {
    grantType: "urn:ietf:params:oauth:grant-type:token-exchange",
    // The name of the provider is its audience without the scheme.
    audience: identity.audience.replace(/^https:/, ""),
    scope,
    requestedTokenType: "urn:ietf:params:oauth:token-type:access_token",
    subjectToken,
    subjectTokenType: "urn:ietf:params:oauth:token-type:jwt",
  });
  if (!exchanged.ok) return exchanged;
  const federated = Exchanged().safeParse(exchanged.body);
  if (!federated.success) return failed(unreadableToken("The exchange of the identity token"));
  const iam = baseOf(settings.CLOUD_C_IAM_URL, "https://iamcredentials.googleapis.com");
  const url = `${iam}/v1/projects/-/serviceAccounts/${encodeURIComponent(account)}:generateAccessToken`;
  const lifetime = `${assertionSeconds}s`;
  const bearer = `Bearer ${federated.data.access_token}`;
  const generated = await post("GenerateAccessToken", url, { scope: [scope], lifetime }, bearer);
  if (!generated.ok) return generated;
  const answer = Generated().safeParse(generated.body);
  if (!answer.success) return failed(unreadableToken("GenerateAccessToken"));
  const { accessToken: value, expireTime } = answer.data;
  return { ok: true, token: { value, expiresAt: Date.parse(expireTime) } };
}

const baseOf = (setting: string | undefined, usual: string): string => (setting || usual).replace(/\/+$/, "");

const unreadableToken = (operation: string): Failure =>
  failure("external", "unreadable_answer", `${operation} was answered, but not as the service answers.`);

/** The failure of a refused exchange. Its description may quote claims of the token, so only the error's name is shown. */
function exchangeRefusal(status: number, text: string): Failure {
  const { error } = tryParseObject(text) ?? {};
  const word = typeof error === "string" && /^[a-z_]{1,40}$/.test(error) ? error : "unnamed";
  const isPassing = status === 429 || status === 408 || status >= 500;
  const why = isPassing
    ? "the provider failed"
    : "the workload identity provider in identity_token_audience does not accept its issuer, subject or audience";
  const message = `The identity token was not exchanged: ${why} (${word}, HTTP ${status}).`;
  return isPassing ? failure("external", "provider_unavailable", message) : failure("client", "auth_failed", message);
}

/** RFC 7519 NumericDate and lifetimes are seconds. */
const TokenAnswer = memo(() =>
  z.object({
    access_token: z.string().regex(TOKEN),
    expires_in: z.number().positive().max(86_400),
    token_type: z.string().regex(/^bearer$/i),
  }),
);

/**
 * Exchanges an assertion for an access token (RFC 7523, "Using OAuth 2.0 for Server to Server Applications").
 *
 * The audience is the key file's `token_uri`, even when CLOUD_C_TOKEN_URL replaces the address: a replacement checks
 * assertions against Google's own address (Google's client libraries do the same).
 */
export async function tokenOfKey(key: ServiceAccountKey, settings: CloudCSettings, send: Send): Promise<Token> {
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
  const answer = TokenAnswer().safeParse(tryParseObject(call.text));
  if (!answer.success) return { ok: false, outcome: unreadableToken("The request for an access token") };
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
