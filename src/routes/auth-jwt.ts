import * as z from "zod";
import { boundClaimsProblem, callerOf } from "../auth/jwt/claims.ts";
import {
  type JwtConfig,
  JwtConfigBody,
  jwtConfigOf,
  jwtConfigProblem,
  keysOfConfig,
  shownConfig,
  storedConfig,
} from "../auth/jwt/config.ts";
import { GROUPS_SEPARATORS } from "../auth/jwt/provider-config.ts";
import { type JwtRole, JwtRoleBody, jwtRoleProblem, jwtRoleWith } from "../auth/jwt/roles.ts";
import { audiencesOf, type Claims, verifyToken } from "../auth/jwt/verify.ts";
import { tokenSettingsOf } from "../auth/token-settings.ts";
import type { Login, SeenEntry } from "../contracts/auth.ts";
import { isWithinNetworks } from "../lib/networks.ts";
import { badRequest, denied } from "../platform/http/errors.ts";
import { changeRole, ROLE, refuseProblem, roleRoutes } from "./auth-roles.ts";
import { addressOf, foundEntry, isRoleName, loggedIn, readEntry, writeEntry } from "./server/auth-call.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type AuthorisedMethodCall, inMethod, type MethodCall, openInMethod } from "./server/route.ts";

/** Logins by signed tokens of other systems (https://developer.hashicorp.com/vault/api-docs/auth/jwt). */

const CONFIG = "config";
/** The header in which Cloudflare Access states the caller of a request that passed it. */
const ACCESS_HEADER = "Cf-Access-Jwt-Assertion";

const LoginBody = z.object({
  role: z.string().max(128).optional(),
  jwt: z.string().max(32_768).optional(),
});

async function configure(call: MethodCall, body: z.infer<typeof JwtConfigBody>): Promise<Response> {
  const config = jwtConfigOf(body);
  refuseProblem(await jwtConfigProblem(config));
  await writeEntry(call, CONFIG, CONFIG, config);
  return noContent();
}

async function putRole(call: AuthorisedMethodCall<"name">, body: z.infer<typeof JwtRoleBody>): Promise<Response> {
  await changeRole<JwtRole>(call, (before) => jwtRoleWith(before, body), jwtRoleProblem);
  return noContent();
}

/** The verified claims of a login's token. @throws RequestError 400 */
async function claimsOf(token: string, config: JwtConfig, role: JwtRole): Promise<Claims> {
  const verified = await verifyToken(token, keysOfConfig(config), {
    issuer: config.bound_issuer,
    subject: role.bound_subject,
    audiences: role.bound_audiences,
    algorithms: config.jwt_supported_algs,
    expirationLeeway: role.expiration_leeway,
    notBeforeLeeway: role.not_before_leeway,
    clockSkewLeeway: role.clock_skew_leeway,
  });
  if (!verified.ok) throw badRequest(`error validating token: ${verified.message}`);
  if (role.bound_audiences.length === 0 && audiencesOf(verified.value).length > 0) {
    throw badRequest("audience claim found in JWT but no audiences bound to the role");
  }
  return verified.value;
}

/** The configuration of the request's auth method. @throws RequestError 400 */
export async function configOf(call: MethodCall): Promise<{ config: JwtConfig; seen: SeenEntry }> {
  const found = await readEntry<JwtConfig>(call, CONFIG, CONFIG);
  if (!found) throw badRequest("could not load configuration");
  return { config: storedConfig(found.entry), seen: found.seen };
}

/** The role that a login names, or the default one. @throws RequestError 400 */
export async function roleOf(
  call: MethodCall,
  named: string | undefined,
  config: JwtConfig,
): Promise<{ name: string; role: JwtRole; seen: SeenEntry }> {
  const name = (named || config.default_role).toLowerCase();
  if (name === "") throw badRequest("missing role");
  const found = await readEntry<JwtRole>(call, ROLE, name);
  if (!found) throw badRequest(isRoleName(name) ? `role "${name}" could not be found` : "role could not be found");
  const { provider } = config.provider_config;
  const separator = provider && { groups_separator: GROUPS_SEPARATORS[provider] };
  return { name, role: { ...found.entry, ...separator }, seen: found.seen };
}

async function login(call: MethodCall, body: z.infer<typeof LoginBody>): Promise<Response> {
  const { config, seen } = await configOf(call);
  const { name, role, seen: seenRole } = await roleOf(call, body.role, config);
  if (role.role_type === "oidc") throw badRequest("role with oidc role_type is not allowed");
  const token = body.jwt || call.request.headers.get(ACCESS_HEADER) || "";
  if (token === "") throw badRequest("missing token");
  // Before the keys are fetched: a caller from elsewhere costs no request to the issuer.
  if (!isWithinNetworks(addressOf(call), role.token_bound_cidrs)) throw denied();
  const claims = await claimsOf(token, config, role);
  return issued(call, claims, { name, role, seen: [seen, seenRole], path: "login" });
}

/** A login of a role by claims that were verified. */
interface VerifiedRole {
  readonly name: string;
  readonly role: JwtRole;
  readonly seen: readonly SeenEntry[];
  /** The path of the login, from the mount. */
  readonly path: string;
  readonly once?: NonNullable<Login["once"]>;
}

/** Issues the token of a login. @throws RequestError 400 when the claims do not have the values that the role requires */
export async function issued(call: MethodCall, claims: Claims, verified: VerifiedRole): Promise<Response> {
  const { name, role, seen, path, once } = verified;
  const caller = callerOf(claims, role, name);
  if (!caller.ok) throw badRequest(caller.message);
  const problem = boundClaimsProblem(claims, role);
  if (problem !== null) throw badRequest(`error validating claims: ${problem}`);
  const { name: alias, metadata, groups } = caller.value;
  return loggedIn(call, path, {
    entry: { mount: call.authMount.uuid, kind: ROLE, name },
    seen,
    alias: { name: alias, metadata },
    groups,
    displayName: alias,
    metadata,
    settings: tokenSettingsOf(role),
    ...(once && { once }),
  });
}

export const jwtRoutes = [
  inMethod("GET /config", { fresh: true }, async (call) => {
    const config = await foundEntry<JwtConfig>(call, CONFIG, CONFIG);
    return envelope(call, { data: shownConfig(config), mountType: call.authMount.type });
  }),
  inMethod("POST /config", { fresh: true, body: JwtConfigBody }, configure),
  ...roleRoutes,
  inMethod("POST /role/:name", { fresh: true, creates: true, body: JwtRoleBody }, putRole),
  openInMethod("POST /login", { body: LoginBody }, login),
];
