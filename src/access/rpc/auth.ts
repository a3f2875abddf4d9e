import type { ApproleApi } from "../../contracts/approle.ts";
import type { AuthApi } from "../../contracts/auth.ts";
import type { IdentityApi } from "../../contracts/identity.ts";
import { ok } from "../../lib/result.ts";
import { sealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import type { AccessParts } from "../access-parts.ts";
import { isTokenMethod } from "../auth-methods/token-methods.ts";
import { delivered, done } from "../published-changes.ts";

/** Counts leases where a quota needs them to admit a login at a mount. */
async function countLeases({ authMounts, leaseQuotas }: AccessParts, mount: string): Promise<void> {
  const at = authMounts.byUuid(mount);
  if (at) await leaseQuotas.prepare({ namespace: at.namespace, path: `auth/${at.path}` });
}

/** RPC methods about auth methods of the secrets API, and their logins. */
export const authMethodMethods: MethodTable<AuthApi, AccessParts> = {
  listAuthMounts: ({ authMounts, tokenMethods }, namespace) => [
    ...authMounts.list(namespace),
    tokenMethods.get(namespace),
  ],
  readAuthMount: ({ authMethods, tokenMethods }, namespace, path) =>
    isTokenMethod(path) ? ok(tokenMethods.get(namespace)) : authMethods.read(namespace, path),
  enableAuthMount: ({ authMethods }, namespace, path, body) => authMethods.enable(namespace, path, body),
  tuneAuthMount: ({ authMethods, tokenMethods }, namespace, path, body) =>
    isTokenMethod(path) ? tokenMethods.tune(namespace, body) : authMethods.tune(namespace, path, body),
  disableAuthMount: done(({ authMethods }, namespace, path) => authMethods.disable(namespace, path)),
  locateAuth: ({ authMethods, rateLimits }, namespace, path) => {
    const place = authMethods.locate(namespace, path);
    return place && { ...place, counted: rateLimits.exist };
  },
  authEntry: sealed(({ authEntries }, entry) => ok(authEntries.entry(entry))),
  putAuthEntry: sealed(({ authEntries }, entry, value, before) => authEntries.putEntry(entry, value, before)),
  deleteAuthEntry: ({ authEntries }, entry) => authEntries.deleteEntry(entry),
  authEntryNames: ({ authEntries }, mount, kind) => authEntries.entryNames(mount, kind),
  authAttempt: sealed(({ authEntries }, entry, alias) => authEntries.attempt(entry, alias)),
  authFailed: ({ authEntries }, mount, alias, exists) => authEntries.failed(mount, alias, exists),
  login: async (parts, login) => {
    await countLeases(parts, login.entry.mount);
    return parts.changes.deliver(() => parts.logins.login(login));
  },
};

/** RPC methods about roles and secret ids of the auth method `approle`, and about names locked after failed logins. */
export const approleMethods: MethodTable<ApproleApi, AccessParts> = {
  readApprole: sealed(({ approles }, name) => ok(approles.read(name))),
  putApprole: sealed(({ approles }, name, role, before) => approles.put(name, role, before)),
  deleteApprole: ({ approles }, name) => approles.delete(name),
  issueSecretId: sealed(({ approles }, name, request) => approles.issue(name, request, Date.now())),
  secretIdAccessors: sealed(({ approles }, name) => approles.accessors(name, Date.now())),
  lookupSecretId: sealed(({ approles }, name, secretId) => approles.lookup(name, secretId, Date.now())),
  destroySecretId: sealed(({ approles }, name, secretId) => approles.destroy(name, secretId, Date.now())),
  tidySecretIds: ({ approles }, mount) => approles.tidy(mount, Date.now()),
  approleLogin: async (parts, login) => {
    await countLeases(parts, login.mount);
    return parts.changes.deliver(() => parts.approleLogins.login(login, Date.now()));
  },
  lockedNames: ({ authEntries }, namespace) => authEntries.locked(namespace, Date.now()),
  unlockName: ({ authEntries }, namespace, accessor, name) => authEntries.unlock(namespace, accessor, name),
};

/** RPC methods about entities, groups and their aliases. */
export const identityMethods: MethodTable<IdentityApi, AccessParts> = {
  writeEntity: delivered(({ identities }, namespace, key, change) => identities.writeEntity(namespace, key, change)),
  writeGroup: delivered(({ identities }, namespace, key, change) => identities.writeGroup(namespace, key, change)),
  readEntity: ({ identities }, namespace, query) => identities.readEntity(namespace, query),
  readGroup: ({ identities }, namespace, query) => identities.readGroup(namespace, query),
  listIdentities: ({ identities }, namespace, kind) => identities.list(namespace, kind),
  deleteIdentity: done(({ identities }, namespace, kind, key) => identities.delete(namespace, kind, key)),
  deleteEntities: done(({ identities }, namespace, ids) => identities.deleteEntities(namespace, ids)),
  mergeEntities: delivered(({ merges }, namespace, merge) => merges.merge(namespace, merge)),
  writeIdentityAlias: delivered(({ identities }, namespace, kind, change) =>
    identities.writeAlias(namespace, kind, change),
  ),
  readIdentityAlias: ({ aliases }, namespace, kind, id) => aliases.read(namespace, kind, id),
  listIdentityAliases: ({ aliases }, namespace, kind) => aliases.list(namespace, kind),
  deleteIdentityAlias: done(({ aliases }, namespace, kind, id) => aliases.delete(namespace, kind, id)),
  countEntities: ({ entities }) => entities.count(),
};
