import type { CubbyholeApi } from "../../contracts/cubbyhole.ts";
import type { TokenRolesApi, TokensApi } from "../../contracts/tokens.ts";
import type { WrappingApi } from "../../contracts/wrapping.ts";
import { ok } from "../../lib/result.ts";
import { sealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import type { AccessParts } from "../access-parts.ts";
import { resultantAcl } from "../paths/resultant-acl.ts";
import { delivered } from "../published-changes.ts";
import { tokenLease, tokenLeaseNames } from "../tokens/token-leases.ts";

/** RPC methods about tokens of the secrets API. */
export const tokenMethods: MethodTable<TokensApi, AccessParts> = {
  createToken: async ({ issuer, leaseQuotas, rights, changes }, ...given) => {
    const [caller, namespace, path] = given;
    await leaseQuotas.prepare({ namespace, path });
    return changes.deliver(() => {
      const isExempt = rights.grants(caller)?.root === true;
      const counted = isExempt ? ok(null) : leaseQuotas.admit({ namespace, path, role: null });
      return counted.ok ? issuer.create(...given) : counted;
    });
  },
  lookupToken: sealed(({ tokens }, name) => tokens.lookup(name)),
  renewToken: delivered(({ tokens }, name, increment) => tokens.renew(name, increment)),
  revokeToken: delivered(({ tokens }, name, keepChildren = false) => tokens.revoke(name, keepChildren)),
  revokeIssued: delivered(({ tokens }, namespace, path) => tokens.revokeIssued(namespace, path)),
  accessors: ({ tokens }, within, from, limit) => tokens.accessors(within, from, limit),
  tokenLeaseNames: ({ tokenStore }, ...given) => tokenLeaseNames(tokenStore, ...given),
  tokenLease: ({ tokenStore }, namespace, id) => tokenLease(tokenStore, namespace, id),
  countTokens: ({ tokenStore }) => tokenStore.count(),
  capabilities: sealed(({ rights }, name, namespace, paths) => rights.capabilities(name, namespace, paths)),
  resultantAcl: ({ rights }, accessor) => {
    const grants = rights.grants(accessor);
    return grants && resultantAcl(grants);
  },
  mayAlso: ({ rights }, check) => rights.mayAlso(check),
  holdsLeases: ({ leaseHolders }, accessor, mount) => leaseHolders.hold(accessor, mount, Date.now()),
};

/** RPC methods about roles of tokens of the secrets API. */
export const tokenRoleMethods: MethodTable<TokenRolesApi, AccessParts> = {
  tokenRoleNames: ({ tokenRoles }, namespace) => tokenRoles.names(namespace),
  readTokenRole: ({ tokenRoles }, namespace, name) => tokenRoles.get(namespace, name),
  putTokenRole: ({ tokenRoles }, ...given) => tokenRoles.put(...given),
  deleteTokenRole: ({ tokenRoles }, namespace, name) => tokenRoles.delete(namespace, name),
};

/** RPC methods about wrapped answers. */
export const wrappingMethods: MethodTable<WrappingApi, AccessParts> = {
  wrap: sealed(({ wrappings }, request) => wrappings.wrap(request, Date.now())),
  lookupWrapping: sealed(({ wrappings }, token) => wrappings.lookup(token, Date.now())),
  unwrap: sealed(({ wrappings }, token) => wrappings.unwrap(token, Date.now())),
  rewrap: sealed(({ wrappings }, token) => wrappings.rewrap(token, Date.now())),
};

/** RPC methods about private storage of tokens. */
export const cubbyholeMethods: MethodTable<CubbyholeApi, AccessParts> = {
  // A wrapping token reads its answer at `response`, once.
  readCubbyhole: sealed(({ cubbyholes, wrappings }, owner, path) => {
    const unwrapped = path === "response" ? wrappings.unwrapByAccessor(owner.accessor, Date.now()) : null;
    return unwrapped ? ok(JSON.stringify({ response: unwrapped.body })) : cubbyholes.read(owner, path);
  }),
  writeCubbyhole: sealed(({ cubbyholes }, owner, path, text, rights) =>
    cubbyholes.write(owner, path, text, rights, Date.now()),
  ),
  deleteCubbyhole: ({ cubbyholes }, owner, path) => cubbyholes.delete(owner, path),
  listCubbyhole: ({ cubbyholes }, owner, folder) => cubbyholes.list(owner, folder),
};
