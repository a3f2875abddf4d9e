import * as z from "zod";
import { loginUrl, redeemedClaims } from "../auth/cluster-oidc.ts";
import { isAllowedRedirect } from "../auth/oidc/redirects.ts";
import type { AuthMethod } from "../contracts/cluster-auth-method.ts";
import { badRequest, RequestError, unwrap } from "../platform/http/errors.ts";
import { caseless } from "../platform/http/fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { clusterJson } from "./server/respond.ts";
import { type Call, open } from "./server/route.ts";

/** Logins in a browser (https://developer.hashicorp.com/nomad/api-docs/acl/sso). */

const text = (most = 256) => z.string().max(most).default("");
const begin = { AuthMethodName: text(), RedirectURI: text(1_024), ClientNonce: text() };
const AuthUrlBody = caseless(z.object(begin));
const CompleteBody = caseless(z.object({ ...begin, State: text(), Code: text(4_096), Iss: text(1_024) }));

/** Fields in the order in which upstream misses them. */
const MISSING: readonly (readonly [keyof z.output<typeof CompleteBody>, string])[] = [
  ["AuthMethodName", "missing auth method name"],
  ["ClientNonce", "missing client nonce"],
  ["State", "missing state"],
  ["Code", "missing code"],
  ["RedirectURI", "missing redirect URI"],
];

function expectFields(request: string, body: Readonly<Record<string, string>>): void {
  const missing = MISSING.find(([field]) => body[field] === "");
  if (missing) throw badRequest(`invalid OIDC ${request} request: ${missing[1]}`);
}

/** The method of a login whose redirect it allows. @throws RequestError 400 */
async function methodOf(call: Call, name: string, redirectUri: string): Promise<AuthMethod> {
  const method = unwrap(await accessControl(call.env).readAuthMethod(name));
  if (!method) throw badRequest(`auth-method ${JSON.stringify(name)} not found`);
  if (method.Type !== "OIDC") throw badRequest(`unsupported auth-method type: ${method.Type}`);
  if (!isAllowedRedirect(redirectUri, method.Config.AllowedRedirectURIs)) {
    throw badRequest("RedirectURI: unauthorized redirect URI");
  }
  return method;
}

const requestOf = ({ Name: method, version }: AuthMethod, nonce: string, redirectUri: string) => ({
  method,
  version,
  nonce,
  redirectUri,
});

async function authUrl(call: Call, body: z.output<typeof AuthUrlBody>): Promise<Response> {
  expectFields("auth-url", body);
  const { ClientNonce: nonce, RedirectURI: redirectUri } = body;
  const method = await methodOf(call, body.AuthMethodName, redirectUri);
  const begun = unwrap(await accessControl(call.env).beginOidc(requestOf(method, nonce, redirectUri)));
  const url = await loginUrl(method, { ...begun, nonce, redirectUri });
  if (!url.ok) throw new RequestError(502, `failed to generate auth URL: ${url.message}`);
  return clusterJson(call, { AuthURL: url.value });
}

async function completeAuth(call: Call, body: z.output<typeof CompleteBody>): Promise<Response> {
  expectFields("complete-auth", body);
  const { ClientNonce: nonce, RedirectURI: redirectUri } = body;
  const method = await methodOf(call, body.AuthMethodName, redirectUri);
  const access = accessControl(call.env);
  const verifier = unwrap(await access.completeOidc(requestOf(method, nonce, redirectUri), body.State));
  const redirect = { code: body.Code, issuer: body.Iss };
  const claims = await redeemedClaims(method, redirect, { redirectUri, nonce, verifier });
  if (!claims.ok) throw new RequestError(401, `failed to exchange token with provider: ${claims.message}`);
  const login = { method: method.Name, version: method.version, claims: claims.value };
  const token = unwrap(await access.clusterLogin(login));
  return clusterJson(call, token, { index: token.ModifyIndex });
}

export const aclOidcRoutes = [
  open("POST /acl/oidc/auth-url", { body: AuthUrlBody }, authUrl),
  open("POST /acl/oidc/complete-auth", { body: CompleteBody }, completeAuth),
];
