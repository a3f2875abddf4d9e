import * as z from "zod";
import { verifiedClaims } from "../auth/cluster-method.ts";
import { accessControl } from "../contracts/stubs.ts";
import { badRequest, RequestError, unwrap } from "../platform/http/errors.ts";
import { caseless } from "../platform/http/fields.ts";
import { clusterJson } from "./server/respond.ts";
import { type Call, open } from "./server/route.ts";

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

export const aclLoginRoutes = [open({ verb: "POST", path: "/acl/login", body: LoginBody, handle: login })];
