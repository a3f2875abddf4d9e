import * as z from "zod";
import { type Call, type Failure, failure, retryAfterMs, type Send } from "./outcome.ts";
import { type Issued, TokenCache } from "./token-cache.ts";

/** One of the provider's separate clouds. They share no tenants, hosts or tokens. */
export interface Cloud {
  readonly name: string;
  /** Where tokens are issued, without a trailing slash. */
  readonly loginUrl: string;
  /** The audience of Key Vault. */
  readonly vaultResource: string;
  /** Of the host of every vault, without the leading dot. */
  readonly vaultSuffix: string;
}

const cloud = (name: string, login: string, vault: string): Cloud => ({
  name,
  loginUrl: `https://${login}`,
  vaultResource: `https://${vault}`,
  vaultSuffix: vault,
});

/** The clouds by the name under which they are stored; the first is the default. */
export const clouds: readonly [Cloud, ...Cloud[]] = [
  cloud("AzurePublicCloud", "login.microsoftonline.com", "vault.azure.net"),
  cloud("AzureUSGovernmentCloud", "login.microsoftonline.us", "vault.usgovcloudapi.net"),
  cloud("AzureChinaCloud", "login.chinacloudapi.cn", "vault.azure.cn"),
  cloud("AzureGermanCloud", "login.microsoftonline.de", "vault.microsoftazure.de"),
];

/**
 * The cloud that `given` names, in any case: its name, or the name without "Azure", without "Cloud" or without both.
 * "AzureCloud" is the public one. Null when it names none.
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

/** What an access token is asked for with. */
export interface TokenRequest {
  /** Without a trailing slash. */
  loginUrl: string;
  /** The tenant's id or one of its domain names. */
  tenantId: string;
  clientId: string;
  clientSecret: string;
  /** The audience, such as https://vault.azure.net. */
  resource: string;
}

interface AccessToken extends Issued {
  value: string;
}

const tokens = new TokenCache<AccessToken>();

/**
 * Sends a request with an access token of `account`. A token that this isolate held and that is refused with 401 is
 * replaced once. Without a token nothing was sent, so such a failure is never `unknown`.
 */
export async function sendAuthorized(
  account: TokenRequest,
  [url, init]: readonly [url: string, init: RequestInit],
  send: Send,
): Promise<Call> {
  const attempt = async (): Promise<{ call: Call; fresh: boolean }> => {
    let fresh = false;
    const token = await tokens.get(account, () => {
      fresh = true;
      return issue(account, send);
    });
    if (!token.ok) return { call: token, fresh };
    const headers = new Headers(init.headers);
    headers.set("authorization", `Bearer ${token.token.value}`);
    return { call: await send([url, { ...init, headers }]), fresh };
  };
  const { call, fresh } = await attempt();
  if (!call.ok || call.response.status !== 401) return call;
  tokens.forget(account);
  return fresh ? call : (await attempt()).call;
}

const Issuance = z.object({
  token_type: z.string().regex(/^bearer$/i),
  // It becomes a header's value.
  access_token: z.string().regex(/^[\x21-\x7e]+$/),
  expires_in: z.coerce.number().positive(),
});

/** The client credentials grant of the identity platform, version 2.0 (RFC 6749, 4.4, with the secret in the form). */
async function issue(
  { loginUrl, tenantId, clientId, clientSecret, resource }: TokenRequest,
  send: Send,
): Promise<{ ok: true; token: AccessToken } | { ok: false; outcome: Failure }> {
  const form = new URLSearchParams({
    grant_type: "client_credentials",
    client_id: clientId,
    client_secret: clientSecret,
    scope: `${resource}/.default`,
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
    return { ok: false, outcome: outcome.outcome === "unknown" ? { ...outcome, outcome: "external" } : outcome };
  }
  const body = parseJson(call.text);
  if (!call.response.ok) return { ok: false, outcome: tokenRefused(call.response, body) };
  const parsed = Issuance.safeParse(body);
  if (!parsed.success) {
    const message = "The token request was answered, but not with a token.";
    return { ok: false, outcome: failure("external", "unreadable_answer", message) };
  }
  const { access_token: value, expires_in: seconds } = parsed.data;
  return { ok: true, token: { value, expiresAt: Date.now() + seconds * 1000 } };
}

const TokenError = z.object({ error: z.string(), error_codes: z.array(z.number()).optional() });

/**
 * What the numbers of the identity platform's reference of error codes say. They may change, so they only make a message
 * more exact: every one of them is refused credentials anyway.
 */
const tokenProblems = new Map<number, string>([
  [7000215, "client_secret is not a secret of this application"],
  [7000222, "client_secret has expired"],
  [7000112, "the application is disabled in this tenant"],
  [700016, "the tenant has no application with this client_id"],
  [90002, "there is no tenant with this tenant_id"],
  [900023, "there is no tenant with this tenant_id"],
  [500011, "the tenant does not know the service that the token is for"],
]);

const tokenErrors = new Map<string, string>([
  ["invalid_client", "client_id or client_secret is not accepted"],
  ["unauthorized_client", "the tenant does not let this client_id obtain tokens"],
  ["invalid_request", "tenant_id, client_id or client_secret is not accepted"],
]);

function tokenRefused(response: Response, body: unknown): Failure {
  const parsed = TokenError.safeParse(body);
  const error = word(parsed.data?.error);
  const number = parsed.data?.error_codes?.[0];
  const cause = [error || "unnamed", ...(number === undefined ? [] : [`AADSTS${number}`]), `HTTP ${response.status}`];
  const because = (text: string) => `No access token was given: ${text} (${cause.join(", ")}).`;
  if (response.status === 429) {
    return failure("external", "throttled", because("too many requests"), retryAfterMs(response));
  }
  const passing = error === "temporarily_unavailable" || error === "server_error";
  if (passing || response.status >= 500 || response.status === 408) {
    return failure("external", "provider_unavailable", because("the provider failed"), retryAfterMs(response));
  }
  const text = tokenProblems.get(number ?? 0) ?? tokenErrors.get(error) ?? "the credentials are not accepted";
  return failure("client", "auth_failed", because(text));
}

/** A code word of the provider's, or "" when it is none that may be shown. */
export const word = (given: unknown): string =>
  typeof given === "string" && /^[A-Za-z0-9_]{1,64}$/.test(given) ? given : "";

/** The value of a JSON text; undefined when it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
