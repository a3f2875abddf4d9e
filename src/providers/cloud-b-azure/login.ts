import * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { tryParseJson } from "../../lib/json.ts";
import { memo } from "../../lib/memo.ts";
import { type ClientAssertion, signed } from "../identity-token.ts";
import { type Call, failure, retryAfterMs, type Send } from "../outcome.ts";
import { type Issued, TokenCache } from "../token-cache.ts";

/** One of the provider's separate clouds. They share no tenants, hosts or tokens. */
export interface Cloud {
  readonly name: string;
  /** The token issuer's address, without a trailing slash. */
  readonly loginUrl: string;
  /** The audience of Key Vault. */
  readonly vaultResource: string;
  /** The host suffix of vaults, without the leading dot. */
  readonly vaultSuffix: string;
  /** Null for a cloud without Microsoft Graph. */
  readonly management: Management | null;
}

/** The management addresses of a cloud's directory and resources. URLs have no trailing slash. */
export interface Management {
  readonly graphUrl: string;
  readonly armUrl: string;
  /** The audience of Resource Manager, with a trailing slash where the vendor's audience has one. */
  readonly armResource: string;
}

const cloud = (name: string, login: string, vault: string, management: Management | null): Cloud => ({
  name,
  loginUrl: `https://${login}`,
  vaultResource: `https://${vault}`,
  vaultSuffix: vault,
  management,
});

const management = (graph: string, arm: string, armAudience: string): Management => ({
  graphUrl: `https://${graph}`,
  armUrl: `https://${arm}`,
  armResource: `https://${armAudience}`,
});

/** The clouds by their stored name; the first is the default. Hosts: the output of `az cloud list`. */
export const clouds: readonly [Cloud, ...Cloud[]] = [
  cloud(
    "AzurePublicCloud",
    "login.microsoftonline.com",
    "vault.azure.net",
    management("graph.microsoft.com", "management.azure.com", "management.core.windows.net/"),
  ),
  cloud(
    "AzureUSGovernmentCloud",
    "login.microsoftonline.us",
    "vault.usgovcloudapi.net",
    management("graph.microsoft.us", "management.usgovcloudapi.net", "management.core.usgovcloudapi.net"),
  ),
  cloud(
    "AzureChinaCloud",
    "login.chinacloudapi.cn",
    "vault.azure.cn",
    management("microsoftgraph.chinacloudapi.cn", "management.chinacloudapi.cn", "management.core.chinacloudapi.cn"),
  ),
  cloud("AzureGermanCloud", "login.microsoftonline.de", "vault.microsoftazure.de", null),
];

/**
 * The cloud named by `given`, in any case: its name, or the name without "Azure", "Cloud" or both. "AzureCloud" is the
 * public cloud. Null for an unknown name.
 */
export function cloudNamed(given: string): Cloud | null {
  const word = bare(given);
  return word === "" && /^azurecloud$/i.test(given)
    ? clouds[0]
    : (clouds.find(({ name }) => bare(name) === word) ?? null);
}

const bare = (name: string) =>
  name
    .toLowerCase()
    .replace(/^azure/, "")
    .replace(/cloud$/, "");

/** The inputs of a token request. */
export type TokenRequest = {
  /** Without a trailing slash. */
  loginUrl: string;
  /** The tenant's id or one of its domain names. */
  tenantId: string;
  clientId: string;
  /** The audience, such as https://vault.azure.net. */
  resource: string;
} & Proof;

/** An application's proof of identity. */
export type Proof = { clientSecret: string } | { assertion: ClientAssertion };

/** The token request of a connection's application. @param loginUrl the setting in place of the cloud's; may be empty */
export const applicationOf = (
  given: { readonly tenant_id?: string; readonly client_id?: string; readonly client_secret?: string | undefined },
  { identity }: { readonly identity?: ClientAssertion | undefined },
  resource: string,
  loginUrl: string | undefined,
  cloud: Cloud = clouds[0],
): TokenRequest => ({
  tenantId: given.tenant_id ?? "",
  clientId: given.client_id ?? "",
  resource,
  ...(identity === undefined ? { clientSecret: given.client_secret ?? "" } : { assertion: identity }),
  loginUrl: loginUrl?.replace(/\/+$/, "") || cloud.loginUrl,
});

/** Sends the requests of another client with an application's token. */
export const authorizedSend =
  (account: TokenRequest, send: Send): Send =>
  ([url, init]) =>
    sendAuthorized(account, [url, { ...init, headers: headersOf(init) }], send);

/** The headers of a request by lower-case name. */
export const headersOf = ({ headers }: RequestInit): Record<string, string> => Object.fromEntries(new Headers(headers));

interface AccessToken extends Issued {
  value: string;
  /** Milliseconds since 1970. */
  issuedAt: number;
  /** Its life as answered, in seconds. */
  life: number;
  /** Its life while the provider fails, in seconds; absent: not answered. */
  extendedLife?: number;
}

/** A refused token request. No call was sent with a token, so the outcome is never `unknown`. */
export interface TokenFailure {
  ok: false;
  outcome: Failure;
  /** The status of the answer; null without one. */
  status: number | null;
  /** The provider's code, such as AADSTS7000215, or the OAuth error, or "". */
  providerCode: string;
}

const tokens = new TokenCache<AccessToken>();

/** The cache time of a token that was denied a call: permissions granted since take effect in the next token. */
const deniedTokenMs = 60_000;

/**
 * Sends a request with an access token of `account`. A cached token that is refused with 401 is replaced once.
 */
export async function sendAuthorized(
  account: TokenRequest,
  [url, init]: readonly [url: string, init: RequestInit & { readonly headers: Readonly<Record<string, string>> }],
  send: Send,
): Promise<Call | TokenFailure> {
  const attempt = async (): Promise<{ call: Call | TokenFailure; issuedAt: number; fresh: boolean }> => {
    let fresh = false;
    // JSON drops the functions of `account` from the key.
    const token = await tokens.get(account, () => {
      fresh = true;
      return requestToken(account, send);
    });
    if (!token.ok) return { call: token, issuedAt: 0, fresh };
    const { value, issuedAt } = token.token;
    const headers = { ...init.headers, authorization: `Bearer ${value}` };
    return { call: await send([url, { ...init, headers }]), issuedAt, fresh };
  };
  const { call, issuedAt, fresh } = await attempt();
  if (!call.ok) return call;
  const { status } = call.response;
  if (status === 401 || (status === 403 && issuedAt + deniedTokenMs < Date.now())) tokens.forget(account);
  return status === 401 && !fresh ? (await attempt()).call : call;
}

const Issuance = memo(() =>
  z.object({
    token_type: z.string().regex(/^bearer$/i),
    // The token is used as a header's value.
    access_token: z.string().regex(/^[\x21-\x7e]+$/),
    expires_in: z.coerce.number().positive(),
    ext_expires_in: z.coerce.number().nonnegative().optional(),
  }),
);

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/**
 * Requests a new token without the cache: the client credentials grant of the Microsoft identity platform, version 2.0
 * (RFC 6749, 4.4, with the secret in the form, or RFC 7523, 2.2).
 * @param scope by default everything that the application may do at the resource
 */
export async function requestToken(
  request: TokenRequest,
  send: Send,
  scope: string = `${request.resource}/.default`,
): Promise<{ ok: true; token: AccessToken } | TokenFailure> {
  const { loginUrl, tenantId, clientId } = request;
  const proof = await proofOf(request);
  if (proof === null) {
    const outcome = failure("external", "provider_unavailable", "No identity token could be signed to log in with.");
    return { ok: false, outcome, status: null, providerCode: "" };
  }
  const form = new URLSearchParams({
    grant_type: "client_credentials",
    client_id: clientId,
    scope,
    ...proof,
  });
  const call = await send([
    `${loginUrl}/${encodeURIComponent(tenantId)}/oauth2/v2.0/token`,
    {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
      body: form.toString(),
    },
  ]);
  if (!call.ok) {
    const { outcome } = call;
    const passing: Failure = outcome.outcome === "unknown" ? { ...outcome, outcome: "external" } : outcome;
    return { ok: false, outcome: passing, status: null, providerCode: "" };
  }
  const body = tryParseJson(call.text);
  if (!call.response.ok) return tokenRefused(call.response, body, "assertion" in request);
  const parsed = Issuance().safeParse(body);
  if (!parsed.success) {
    const message = "The token request was answered, but not with a token.";
    const outcome = failure("external", "unreadable_answer", message);
    return { ok: false, outcome, status: call.response.status, providerCode: "" };
  }
  const { access_token: value, expires_in: life, ext_expires_in: extendedLife } = parsed.data;
  const issuedAt = Date.now();
  const token = { value, issuedAt, expiresAt: issuedAt + life * 1000, life };
  return { ok: true, token: extendedLife === undefined ? token : { ...token, extendedLife } };
}

/** The form fields that authenticate the application. Null when the assertion cannot be signed. */
async function proofOf(proof: Proof): Promise<Record<string, string> | null> {
  if (!("assertion" in proof)) return { client_secret: proof.clientSecret };
  const token = await signed(proof.assertion);
  return token === null ? null : { client_assertion_type: assertionType, client_assertion: token };
}

const TokenError = memo(() => z.object({ error: z.string(), error_codes: z.array(z.number()).optional() }));

/**
 * Messages by number of "Microsoft Entra authentication and authorization error codes". The numbers may change, so they
 * only refine the message of refused credentials.
 */
const tokenProblems = new Map<number, string>([
  [7000112, "the application is disabled in this tenant"],
  [7000229, "the application has no service principal in this tenant; create it there"],
  [
    700016,
    "the tenant has no application with this client_id, or one that was made a moment ago and is not known everywhere yet",
  ],
  [90002, "there is no tenant with this tenant_id"],
  [900023, "there is no tenant with this tenant_id"],
  [500011, "the tenant does not know the service that the token is for"],
  [53003, "a Conditional Access policy of the tenant blocks the application"],
  [70021, "no federated credential of the application matches the identity token; add one with its issuer and subject"],
  [700211, "no federated credential of the application has the identity token's issuer; add one"],
  [700212, "no federated credential of the application has the identity token's audience; add one"],
  [700213, "no federated credential of the application has the identity token's subject; add one"],
  [700024, "the identity token is not valid at this time"],
  [
    700027,
    "the identity token's signature is not accepted; the issuer's keys must be published where the tenant can read them",
  ],
]);

/** Messages for applications with a secret. */
const secretProblems = new Map<number, string>([
  [
    7000215,
    "client_secret is not a secret of this application (its value is needed, not its id), or one that was made a moment ago and is not known everywhere yet",
  ],
  [7000222, "client_secret has expired; make a new one"],
]);

const tokenErrors = new Map<string, (proof: string) => string>([
  ["invalid_client", (proof) => `client_id or ${proof} is not accepted`],
  ["unauthorized_client", () => "the tenant does not let this client_id obtain tokens"],
  ["invalid_scope", () => "the scope must be that of one resource, and end with /.default"],
  ["invalid_resource", () => "the tenant has no application or service with the scope's resource"],
  ["invalid_request", (proof) => `tenant_id, client_id or ${proof} is not accepted`],
]);

/** The message of a refused token request, in terms of the application's kind of proof. */
function tokenProblem(number: number, error: string, federated: boolean): string {
  const known = tokenProblems.get(number);
  if (known !== undefined) return known;
  if (!federated) return secretProblems.get(number) ?? tokenErrors.get(error)?.("client_secret") ?? NOT_ACCEPTED;
  if (secretProblems.has(number))
    return "the identity token is not accepted for this client_id; check its federated credential";
  return tokenErrors.get(error)?.("the identity token") ?? NOT_ACCEPTED;
}

const NOT_ACCEPTED = "the credentials are not accepted";

function tokenRefused(response: Response, body: unknown, federated: boolean): TokenFailure {
  const { status } = response;
  const parsed = TokenError().safeParse(body);
  const error = word(parsed.data?.error);
  const number = parsed.data?.error_codes?.[0];
  const numbered = number === undefined ? "" : `AADSTS${number}`;
  const cause = [error || "unnamed", ...(numbered ? [numbered] : []), `HTTP ${status}`].join(", ");
  const refused = (outcome: "client" | "external", code: string, text: string): TokenFailure => ({
    ok: false,
    outcome: failure(
      outcome,
      code,
      `No access token was given: ${text} (${cause}).`,
      outcome === "external" ? retryAfterMs(response) : null,
    ),
    status,
    providerCode: numbered || error,
  });
  if (status === 429) return refused("external", "throttled", "too many requests");
  const passing = error === "temporarily_unavailable" || error === "server_error";
  if (passing || status >= 500 || status === 408) {
    return refused("external", "provider_unavailable", "the provider failed");
  }
  const isElsewhere = (status === 404 || status === 403) && !parsed.success;
  const text = isElsewhere ? "what answers there is not the login service; check its address" : undefined;
  return refused("client", "auth_failed", text ?? tokenProblem(number ?? 0, error, federated));
}

/** An error code of the provider, or "" when the text is no code and must not be shown. */
export const word = (given: unknown): string =>
  typeof given === "string" && /^[A-Za-z0-9_]{1,64}$/.test(given) ? given : "";
