import { withOlderNames } from "../auth/token-settings.ts";
import type { TokenSettings } from "../contracts/auth.ts";
import { badRequest } from "../platform/http/errors.ts";
import { changeEntry, checkRoleName, deleteEntry, entryNames, foundEntry } from "./server/auth-call.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedMethodCall, inMethod, type MethodCall } from "./server/route.ts";

/** Routes that list, read and delete roles, for auth methods whose roles are entries of the kind `role`. */

export const ROLE = "role";

/** The role that a path names. */
export const roleNameOf = (call: MethodCall<"name">): string => call.params.name.toLowerCase();

/** @throws RequestError 400 with the problem, unless it is null */
export function refuseProblem(problem: string | null): void {
  if (problem !== null) throw badRequest(problem);
}

/** Creates or changes the role of the path. @throws RequestError 400 for a bad name, or with the role's problem */
export function changeRole<Role extends object>(
  call: AuthorisedMethodCall<"name">,
  change: (before: Role | null) => Role,
  problemOf: (role: Role) => string | null,
): Promise<Role> {
  const name = roleNameOf(call);
  checkRoleName(name);
  return changeEntry<Role>(call, ROLE, name, (before) => {
    const role = change(before);
    refuseProblem(problemOf(role));
    return role;
  });
}

const mountType = (call: MethodCall): string => call.authMount.type;

export const roleRoutes = [
  inMethod("LIST /role", { fresh: true }, async (call) =>
    keyList(call, await entryNames(call, ROLE), {}, mountType(call)),
  ),
  inMethod("GET /role/:name", { fresh: true }, async (call) => {
    const data = withOlderNames(await foundEntry<TokenSettings>(call, ROLE, roleNameOf(call)));
    return envelope(call, { data, mountType: mountType(call) });
  }),
  inMethod("DELETE /role/:name", { fresh: true }, async (call) => {
    await deleteEntry(call, ROLE, roleNameOf(call));
    return noContent();
  }),
];
