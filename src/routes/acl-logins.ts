import * as z from "zod";
import { verifiedClaims } from "../auth/cluster-method.ts";
import { badRequest, RequestError, unwrap } from "../platform/http/errors.ts";
import { caseless } from "../platform/http/fields.ts";
import { accessControl, eventLog } from "../rpc/stubs.ts";
import { clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, type Call, cluster, open } from "./server/route.ts";

/** Logins of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl/login). */

const LoginBody = caseless(
  z.object({
    AuthMethodName: z.string().max(128).default(""),
    LoginToken: z.string().max(32_768).default(""),
  }),
);

async function login(call: Call, { AuthMethodName: name, LoginToken }: z.output<typeof LoginBody>): Promise<Response> {
  if (name === "") throw badRequest("invalid login request: missing auth method name");
  if (LoginToken === "") throw badRequest("invalid login request: missing login token");
  const access = accessControl(call.env);
  const method = unwrap(await access.readAuthMethod(name));
  if (!method) throw badRequest(`auth-method ${JSON.stringify(name)} not found`);
  if (method.Type !== "JWT") throw badRequest(`unsupported auth-method type: ${method.Type}`);
  const claims = await verifiedClaims(LoginToken, method);
  if (!claims.ok) throw new RequestError(401, `unable to validate provided token: ${claims.message}`);
  const token = unwrap(await access.clusterLogin({ method: name, version: method.version, claims: claims.value }));
  return clusterJson(call, token, { index: token.ModifyIndex });
}

/** One-time tokens leave no event; their index is that of the newest one. */
async function createOneTime(call: AuthorisedCall): Promise<Response> {
  const made = unwrap(await accessControl(call.env).createOneTimeToken(call.token));
  const index = await eventLog(call.env).newest();
  const OneTimeToken = { ...made, CreateIndex: index, ModifyIndex: index };
  return clusterJson(call, { OneTimeToken, Index: index }, { index });
}

const ExchangeBody = caseless(z.object({ OneTimeSecretID: z.string().max(128).default("") }));

async function exchangeOneTime(call: Call, body: z.output<typeof ExchangeBody>): Promise<Response> {
  const token = unwrap(await accessControl(call.env).exchangeOneTimeToken(body.OneTimeSecretID));
  const index = await eventLog(call.env).newest();
  return clusterJson(call, { Token: token, Index: index }, { index });
}

export const aclLoginRoutes = [
  open("POST /acl/login", { body: LoginBody }, login),
  cluster("POST /acl/token/onetime", { rights: "any", fresh: true }, createOneTime),
  open("POST /acl/token/onetime/exchange", { body: ExchangeBody }, exchangeOneTime),
];
