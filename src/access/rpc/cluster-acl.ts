import type {
  ClusterAclIndexApi,
  ClusterLoginsApi,
  ClusterRolesApi,
  ClusterTokensApi,
} from "../../contracts/cluster-acl.ts";
import type { AuthMethod } from "../../contracts/cluster-auth-method.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed, sealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import type { AccessParts } from "../access-parts.ts";

/** RPC methods about the common index of the cluster API's ACL objects. */
export const clusterAclIndexMethods: MethodTable<ClusterAclIndexApi, AccessParts> = {
  clusterAclIndex: ({ aclIndex }) => aclIndex.newest(),
  clusterAclChanged: ({ aclIndex }, since, waitMs) => aclIndex.changed(since, waitMs),
};

/** RPC methods about tokens of the cluster API, one-time tokens included. */
export const clusterTokenMethods: MethodTable<ClusterTokensApi, AccessParts> = {
  bootstrap: sealed(({ bootstrap }, secret) => bootstrap.claim(secret)),
  createClusterToken: async ({ clusterTokens, changes }, request) => {
    const made = await changes.publish(() => clusterTokens.create(request));
    return made.ok ? clusterTokens.withSecret(made.value) : made;
  },
  updateClusterToken: async ({ clusterTokens }, accessor, request, reveal = false) => {
    const updated = await clusterTokens.update(accessor, request);
    return updated.ok && reveal ? refuseIfSealed(() => clusterTokens.read(accessor, true)) : updated;
  },
  readClusterToken: sealed(({ clusterTokens }, accessor, reveal = false) => clusterTokens.read(accessor, reveal)),
  listClusterTokens: ({ clusterTokens }, ...given) => clusterTokens.list(...given),
  deleteClusterToken: async ({ tokens, changes }, accessor) => {
    const revoked = await changes.publish(() => tokens.revoke({ accessor, within: "" }, false));
    return revoked.ok ? revoked : refuse("invalid", `Cannot delete nonexistent tokens: ${accessor}`);
  },
  createOneTimeToken: sealed(({ oneTimeTokens }, token) => oneTimeTokens.create(token, Date.now())),
  exchangeOneTimeToken: sealed(({ oneTimeTokens, clusterTokens }, secret) => {
    const exchanged = oneTimeTokens.exchange(secret, Date.now());
    return exchanged.ok ? clusterTokens.withSecret(exchanged.value) : exchanged;
  }),
};

/** RPC methods about roles of the cluster API. */
export const clusterRoleMethods: MethodTable<ClusterRolesApi, AccessParts> = {
  listClusterRoles: ({ clusterRoles }, prefix) => clusterRoles.list(prefix),
  readClusterRole: ({ clusterRoles }, key) => clusterRoles.read(key),
  putClusterRole: ({ clusterRoles }, id, body) => clusterRoles.put(id, body),
  deleteClusterRole: ({ clusterRoles }, id) => clusterRoles.delete(id),
};

const readAuthMethod = ({ clusterAuthMethods }: AccessParts, name: string): Result<AuthMethod | null> =>
  refuseIfSealed(() => ok(clusterAuthMethods.read(name)));

/** RPC methods about auth methods, binding rules and logins of the cluster API. */
export const clusterLoginMethods: MethodTable<ClusterLoginsApi, AccessParts> = {
  listAuthMethods: ({ clusterAuthMethods }) => clusterAuthMethods.list(),
  readAuthMethod,
  putAuthMethod: async (parts, settings, replaces) => {
    const put = await parts.changes.publish(() => parts.clusterAuthMethods.put(settings, replaces));
    if (!put.ok) return put;
    const written = readAuthMethod(parts, settings.Name);
    if (!written.ok) return written;
    return written.value ? ok(written.value) : refuse("missing", "ACL auth-method not found");
  },
  deleteAuthMethod: async (parts, name) => {
    const method = readAuthMethod(parts, name);
    return method.ok ? parts.clusterAuthMethods.delete(name) : method;
  },
  listBindingRules: ({ bindingRules }) => bindingRules.list(),
  readBindingRule: ({ bindingRules }, id) => bindingRules.read(id),
  putBindingRule: ({ bindingRules }, id, body) => bindingRules.put(id, body),
  deleteBindingRule: ({ bindingRules }, id) => bindingRules.delete(id),
  clusterLogin: async ({ clusterLogins, clusterTokens, changes }, login) => {
    const made = await changes.publish(() => clusterLogins.login(login));
    return made.ok ? clusterTokens.withSecret(made.value) : made;
  },
  beginOidc: sealed(({ clusterLoginStates }, request) => ok(clusterLoginStates.begin(request, Date.now()))),
  completeOidc: sealed(({ clusterLoginStates }, request, state) =>
    clusterLoginStates.complete(request, state, Date.now()),
  ),
};
