import * as z from "zod";
import {
  ApproleBody,
  approleProblem,
  approleWith,
  MAX_ROLE_ID,
  MAX_SECRET_ID,
  ROLE_FIELDS,
  type RoleField,
  RoleIdBody,
  shownApprole,
} from "../auth/approle/roles.ts";
import { APPROLE, type Approle } from "../contracts/approle.ts";
import { badRequest, notFound, refusalError, unwrap } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { roleOf, secretIdRoutes } from "./auth-approle-secret-ids.ts";
import { addressOf, checkRoleName, entryNames } from "./server/auth-call.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedMethodCall, inMethod, type MethodCall, openInMethod } from "./server/route.ts";
import { checkWrite } from "./server/write-rights.ts";

/** Logins of machines by role id and secret id (https://developer.hashicorp.com/vault/api-docs/auth/approle). */

/** A change of a role begins again this often when another one comes between. */
const ATTEMPTS = 5;

const LoginBody = z.object({
  role_id: z.string("missing role_id").trim().min(1, "missing role_id").max(MAX_ROLE_ID),
  secret_id: z.string().trim().max(MAX_SECRET_ID).default(""),
});

async function read(call: MethodCall<"name">): Promise<{ role: Approle; text: string } | null> {
  const text = unwrap(await accessControl(call.env).readApprole(roleOf(call)));
  return text === null ? null : { role: JSON.parse(text) as Approle, text };
}

/** @throws RequestError 404 when there is no such role */
async function found(call: MethodCall<"name">): Promise<Approle> {
  const entry = await read(call);
  if (!entry) throw notFound();
  return entry.role;
}

/** Changes a role. @param creates whether an absent role is created @throws RequestError 404 otherwise */
async function change(call: AuthorisedMethodCall<"name">, body: ApproleBody, creates = false): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    const before = await read(call);
    if (!before && !creates) throw notFound();
    checkWrite(call, before !== null);
    const role = approleWith(before?.role ?? null, body);
    const problem = approleProblem(before?.role ?? null, role);
    if (problem !== null) throw badRequest(problem);
    const written = await accessControl(call.env).putApprole(roleOf(call), role, before?.text ?? null);
    if (written.ok) return noContent();
    if (written.reason !== "conflict" || attempt === ATTEMPTS) throw refusalError(written);
  }
}

async function put(call: AuthorisedMethodCall<"name">, body: ApproleBody): Promise<Response> {
  checkRoleName(call.params.name, "role_name");
  return change(call, body, true);
}

async function login(call: MethodCall, body: z.infer<typeof LoginBody>): Promise<Response> {
  const { auth, warnings } = unwrap(
    await accessControl(call.env).approleLogin({
      mount: call.authMount.uuid,
      roleId: body.role_id,
      secretId: body.secret_id,
      address: addressOf(call),
    }),
  );
  return envelope(call, { auth, warnings, mountType: APPROLE });
}

/** The routes of one field of a role. */
const fieldRoutes = ({ path, body, names, show, reset }: RoleField) => [
  inMethod(`GET /role/:name/${path}`, { fresh: true }, async (call) =>
    envelope(call, { data: show(await found(call)), mountType: APPROLE }),
  ),
  inMethod(`POST /role/:name/${path}`, { fresh: true, body }, async (call, given) => {
    if (names.every((name) => given[name] === undefined || given[name] === null)) {
      throw badRequest(`missing ${names[0]}`);
    }
    return change(call, given);
  }),
  inMethod(`DELETE /role/:name/${path}`, { fresh: true }, async (call) =>
    (await read(call)) ? change(call, reset) : noContent(),
  ),
];

export const approleRoutes = [
  inMethod("LIST /role", { fresh: true }, async (call) => keyList(call, await entryNames(call, APPROLE), {}, APPROLE)),
  inMethod("GET /role/:name", { fresh: true }, async (call) =>
    envelope(call, { data: shownApprole(await found(call)), mountType: APPROLE }),
  ),
  inMethod("POST /role/:name", { fresh: true, creates: true, body: ApproleBody }, put),
  inMethod("DELETE /role/:name", { fresh: true }, async (call) => {
    unwrap(await accessControl(call.env).deleteApprole(roleOf(call)));
    return noContent();
  }),
  inMethod("GET /role/:name/role-id", { fresh: true }, async (call) =>
    envelope(call, { data: { role_id: (await found(call)).role_id }, mountType: APPROLE }),
  ),
  inMethod("POST /role/:name/role-id", { fresh: true, body: RoleIdBody }, (call, body) => change(call, body)),
  inMethod("GET /role/:name/local-secret-ids", { fresh: true }, async (call) => {
    const { local_secret_ids } = await found(call);
    return envelope(call, { data: { local_secret_ids }, mountType: APPROLE });
  }),
  ...ROLE_FIELDS.flatMap(fieldRoutes),
  ...secretIdRoutes,
  openInMethod("POST /login", { body: LoginBody }, login),
];
