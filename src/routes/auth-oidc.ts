import * as z from "zod";
import { claimsOfCode, loginUrl, providerOfConfig } from "../auth/jwt/oidc-flow.ts";
import { hashed, newState, openState, sealState } from "../auth/jwt/oidc-state.ts";
import { isAllowedRedirect } from "../auth/oidc/redirects.ts";
import { isWithinNetworks } from "../lib/networks.ts";
import { badRequest, denied, unwrap } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { configOf, issued, roleOf } from "./auth-jwt.ts";
import { addressOf } from "./server/auth-call.ts";
import { envelope } from "./server/respond.ts";
import { type Asked, type MethodCall, openInMethod } from "./server/route.ts";
import { refuseHead } from "./server/unsent.ts";

/**
 * Logins of people in a browser, at an OpenID provider (https://developer.hashicorp.com/vault/api-docs/auth/jwt).
 *
 *     auth_url ──person logs in at the provider──► callback ──code and verifier──► token
 */

const MAX_CODE_CHARACTERS = 8_192;
/** Errors that a provider may report (RFC 6749, 4.1.2.1; OpenID Connect Core 1.0, 3.1.2.6). */
const REPORTED = new Set([
  "invalid_request",
  "unauthorized_client",
  "access_denied",
  "unsupported_response_type",
  "invalid_scope",
  "server_error",
  "temporarily_unavailable",
  "interaction_required",
  "login_required",
  "consent_required",
]);

const AuthUrlBody = z.object({
  role: z.string().max(128).optional(),
  redirect_uri: z.string().max(2048).optional(),
  client_nonce: z.string().max(1024).optional(),
});

/** The address for the browser. Empty, without a reason, when the redirect URI is not one of the role's. */
async function begin(call: MethodCall, body: z.infer<typeof AuthUrlBody>): Promise<Response> {
  const mount = call.authMount;
  const answer = (url: string) => envelope(call, { data: { auth_url: url }, mountType: mount.type });
  const { config } = await configOf(call);
  if (config.oidc_client_id === "") throw badRequest("OIDC login is not configured for this mount");
  const { redirect_uri: redirectUri = "", client_nonce: clientNonce = "" } = body;
  if (!body.role && config.default_role === "") throw badRequest("missing role");
  if (redirectUri === "") throw badRequest("missing redirect_uri");
  const { name, role } = await roleOf(call, body.role, config);
  if (role.role_type !== "oidc" || !isAllowedRedirect(redirectUri, role.allowed_redirect_uris)) return answer("");
  const provider = await providerOfConfig(config);
  if (!provider.ok) return answer("");
  const state = newState(name, redirectUri, clientNonce, Date.now());
  const sealed = sealState(state, config.state_key, mount.uuid);
  return answer(loginUrl(provider.value, config, role, state, sealed));
}

/** Fields of a provider in a form (https://openid.net/specs/oauth-v2-form-post-response-mode-1_0.html). */
const FormBody = z.object({
  state: z.string().max(8_192).default(""),
  code: z.string().max(MAX_CODE_CHARACTERS).default(""),
  iss: z.string().max(1_024).default(""),
  error: z.string().max(256).default(""),
});

const PAGE_HEADERS = {
  "Content-Type": "text/html; charset=utf-8",
  "Cache-Control": "no-store",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/**
 * A page with which the person completes a login whose code came in a form. The form alone completes nothing: command
 * line clients post it too, and then ask for the token with their nonce.
 */
async function receiveForm(call: MethodCall, body: z.infer<typeof FormBody>): Promise<Response> {
  const { config } = await configOf(call);
  if (config.oidc_response_mode !== "form_post") throw badRequest("oidc_response_mode is not form_post");
  if (openState(body.state, config.state_key, call.authMount.uuid, Date.now()) === null) {
    throw badRequest("Vault login failed. Expired or missing OAuth state.");
  }
  const fields = Object.entries(body).filter(([, value]) => value !== "");
  const inputs = fields.map(([name, value]) => `<input type="hidden" name="${name}" value="${escaped(value)}">`);
  const form = `<form method="get">${inputs.join("")}<button>Continue</button></form>`;
  const page = `<!doctype html><html lang="en"><title>Log in</title><body>${form}</body></html>`;
  return new Response(page, { headers: PAGE_HEADERS });
}

const CallbackQuery = z.object({
  state: query.text(),
  code: query.text(),
  client_nonce: query.text(),
  iss: query.text(),
  error: query.text(),
});

/** Exchanges the code of a login at the provider, and issues the token. */
async function complete(call: MethodCall & Asked<typeof CallbackQuery>): Promise<Response> {
  refuseHead(call);
  const { state: sealed, client_nonce: clientNonce, error, code, iss: issuer } = call.asked;
  const { config, seen } = await configOf(call);
  const state = openState(sealed, config.state_key, call.authMount.uuid, Date.now());
  if (state === null) throw badRequest("Vault login failed. Expired or missing OAuth state.");
  if (state.client !== "" && hashed(clientNonce) !== state.client) throw badRequest("invalid client_nonce");
  if (error !== "") {
    const known = REPORTED.has(error) ? `: ${error}` : "";
    throw badRequest(`Vault login failed. The provider reported an error${known}.`);
  }
  if (code === "" || code.length > MAX_CODE_CHARACTERS) throw badRequest("Vault login failed. No code received.");
  const { name, role, seen: seenRole } = await roleOf(call, state.role, config);
  if (role.role_type !== "oidc" || !isAllowedRedirect(state.redirectUri, role.allowed_redirect_uris)) {
    throw badRequest("Vault login failed. The role no longer allows this login.");
  }
  // Before the exchange: a caller from elsewhere costs no request to the provider.
  if (!isWithinNetworks(addressOf(call), role.token_bound_cidrs)) throw denied();
  const provider = unwrap(await providerOfConfig(config));
  // RFC 9207, before the code is sent: that of another provider must not reach this one.
  if (issuer !== "" && issuer !== provider.issuer) {
    throw badRequest("Vault login failed. The redirect is from another issuer.");
  }
  const claims = unwrap(await claimsOfCode(code, provider, config, role, state));
  const { id, expires } = state;
  const once = { id, expires };
  return issued(call, claims, { name, role, seen: [seen, seenRole], path: "oidc/callback", once });
}

export const oidcRoutes = [
  openInMethod("POST /oidc/auth_url", { body: AuthUrlBody }, begin),
  openInMethod("GET /oidc/callback", { query: CallbackQuery }, complete),
  openInMethod("POST /oidc/callback", { body: FormBody }, receiveForm),
];
