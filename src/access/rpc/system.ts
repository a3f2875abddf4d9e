import type { KeysApi } from "../../contracts/access-control.ts";
import type { MountsApi } from "../../contracts/mount.ts";
import type { NamespacesApi } from "../../contracts/namespaces.ts";
import type { PoliciesApi } from "../../contracts/policies.ts";
import type { QuotasApi } from "../../contracts/quotas.ts";
import { ok, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import { destinationKeyOf } from "../../rpc/destination-name.ts";
import type { AccessParts } from "../access-parts.ts";
import { visibleNamespaces } from "../paths/resultant-acl.ts";
import { governs } from "../policies/volume-rules.ts";

/** RPC methods about data keys and the objects that hold them. */
export const keyMethods: MethodTable<KeysApi, AccessParts> = {
  keyStatus: ({ keyRotation }) => keyRotation.status(),
  // Resolves after one attempt to inform every other object.
  rotateKeys: async ({ keyRotation, outbox }) => {
    const rotated = refuseIfSealed(() => keyRotation.rotate(Date.now()));
    if (rotated.ok) await outbox.drain("rekey");
    return rotated;
  },
  holdsKeys: ({ keyRotation }, kind, name, holds) => keyRotation.register(kind, name, holds),
  admitDestination: ({ namespaceTree, keyRotation }, name) => {
    const admitted = namespaceTree.admit(destinationKeyOf(name).namespace);
    if (admitted.ok) keyRotation.register("sync-destination", name, true);
    return admitted;
  },
};

/** Resolves once no isolate uses a cached grant for a mount that left this path. */
async function vacated({ remounts }: AccessParts, namespace: string, path: string): Promise<void> {
  const until = remounts.vacatedUntil(namespace, path);
  if (until > 0) await scheduler.wait(until - Date.now());
}

/** RPC methods about mounts. Changes resolve after one attempt to inform the mount's object. */
export const mountMethods: MethodTable<MountsApi, AccessParts> = {
  listMounts: ({ mountViews }, namespace) => mountViews.list(namespace),
  visibleMounts: ({ mountViews, holders }, accessor, namespace) =>
    mountViews.visible(accessor === null ? null : holders.viewer(accessor), namespace),
  visibleMount: ({ mountViews, holders }, accessor, namespace, path) => {
    const viewer = holders.viewer(accessor);
    return viewer && mountViews.visibleAt(viewer, namespace, path);
  },
  visibleAuthMounts: ({ mountViews, holders }, accessor, namespace) =>
    mountViews.visibleAuth(accessor === null ? null : holders.viewer(accessor), namespace),
  visibleAuthMount: ({ mountViews, holders }, accessor, namespace, path) => {
    const viewer = holders.viewer(accessor);
    return viewer && mountViews.visibleAuthAt(viewer, namespace, path);
  },
  searchableMounts: ({ mountViews, holders }, accessor, namespace, after, limit) => {
    const viewer = holders.viewer(accessor);
    return viewer ? mountViews.searchable(viewer, namespace, after, limit) : [];
  },
  readMount: ({ mountViews }, namespace, path) => mountViews.readListed(namespace, path),
  findMount: ({ mounts }, namespace, path) => mounts.resolve(namespace, path),
  mountPlace: ({ mountViews }, uuid) => mountViews.place(uuid),
  everyMount: ({ mountViews }, limit) => mountViews.every(limit),
  enableMount: async (parts, namespace, path, request) => {
    await vacated(parts, namespace, path);
    const enabled = parts.mountAdmin.enable(namespace, path, request);
    if (parts.outbox.holds("published")) await parts.outbox.drain("published");
    return enabled;
  },
  publishSecrets: ({ publishedSecrets }, epoch, on) => publishedSecrets.set(epoch, on),
  tuneMount: async ({ mountAdmin, outbox }, namespace, path, request) => {
    const tuned = mountAdmin.tune(namespace, path, request);
    await outbox.drain("upgrade");
    return tuned;
  },
  remount: async (parts, from, to) => {
    await vacated(parts, to.namespace, to.path);
    const moved = parts.remounts.move(from, to);
    if (moved.ok) await parts.outbox.drain("moved");
    return moved;
  },
  remountStatus: ({ remounts }, namespace, id) => remounts.status(namespace, id),
  mountsOfLease: ({ remounts }, namespace, id) => remounts.ofLease(namespace, id),
  disableMount: async ({ mountAdmin, outbox }, namespace, path) => {
    const disabled = mountAdmin.disable(namespace, path);
    if (!disabled.ok) return disabled;
    if (disabled.value) await outbox.drain("unmount");
    return ok(null);
  },
};

/** RPC methods about namespaces: the tree of the secrets API, and the flat ones of the cluster API. */
export const namespaceMethods: MethodTable<NamespacesApi, AccessParts> = {
  listNamespaces: ({ namespaceTree }, parent, deep = false) => namespaceTree.children(parent, deep),
  visibleNamespaces: ({ namespaceTree, holders }, accessor, parent) => {
    const viewer = holders.viewer(accessor);
    return viewer ? visibleNamespaces(viewer, namespaceTree.children(parent)) : [];
  },
  readNamespace: ({ namespaceTree }, path) => {
    const namespace = namespaceTree.get(path);
    return namespace ? ok(namespace) : refuse("missing");
  },
  putNamespace: ({ namespaces }, ...given) => namespaces.put(...given),
  patchNamespace: ({ namespaces }, path, changes) => namespaces.patch(path, changes),
  deleteNamespace: ({ namespaces }, path) => namespaces.delete(path),
  listClusterNamespaces: ({ clusterNamespaces }, prefix) => clusterNamespaces.list(prefix),
  readClusterNamespace: ({ clusterNamespaces }, name) => clusterNamespaces.read(name),
  putClusterNamespace: ({ clusterNamespaces }, ...given) => clusterNamespaces.put(...given),
  clusterNamespaceId: ({ clusterNamespaces }, name) => clusterNamespaces.identity(name),
  deleteClusterNamespace: ({ clusterNamespaces }, name) => clusterNamespaces.delete(name),
};

/** RPC methods about policies of both APIs. */
export const policyMethods: MethodTable<PoliciesApi, AccessParts> = {
  putPolicy: ({ policyAdmin }, ...given) => policyAdmin.put(...given),
  tryPolicy: ({ policyTrials }, trial) => policyTrials.run(trial),
  readPolicy: ({ policyAdmin }, namespace, name) => policyAdmin.read(namespace, name),
  policyNames: ({ policies }, namespace) => policies.names(namespace),
  clusterPolicies: ({ policyAdmin }, names, prefix) => policyAdmin.cluster(names, prefix),
  volumeRules: ({ policies }) => policies.volumeRules(),
  volumeNamespace: ({ policies, clusterNamespaces }, name) => {
    const id = clusterNamespaces.identity(name);
    if (!id.ok) return id;
    return ok({ id: id.value, rules: policies.volumeRules().filter((rule) => governs(rule, name)) });
  },
  deletePolicy: ({ policyAdmin }, namespace, name) => policyAdmin.delete(namespace, name),
};

/** RPC methods about quotas. */
export const quotaMethods: MethodTable<QuotasApi, AccessParts> = {
  rateLimitQuotas: ({ rateLimits }) => rateLimits.list(),
  rateLimitQuota: ({ rateLimits }, name) => rateLimits.read(name),
  putRateLimitQuota: ({ rateLimits }, name, body) => rateLimits.put(name, body),
  deleteRateLimitQuota: ({ rateLimits }, name) => rateLimits.delete(name),
  quotasConfig: ({ rateLimits }) => rateLimits.config(),
  setQuotasConfig: ({ rateLimits }, changes) => rateLimits.setConfig(changes),
  countRequest: ({ rateLimits }, request) => rateLimits.take(request, Date.now()),
  leaseQuotaNames: ({ leaseQuotas }) => leaseQuotas.names(),
  leaseQuota: ({ leaseQuotas }, name) => leaseQuotas.read(name),
  putLeaseQuota: ({ leaseQuotas }, name, body) => leaseQuotas.put(name, body),
  deleteLeaseQuota: ({ leaseQuotas }, name) => leaseQuotas.delete(name),
  admitLease: ({ leaseQuotas, rights }, mount, id, accessor) =>
    leaseQuotas.admitLease(mount, id, rights.grants(accessor)?.root === true),
};
