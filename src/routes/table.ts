import type { AuthType } from "../contracts/auth.ts";
import { engineType, engineTypes } from "../credentials/engines/index.ts";
import { aclRoutes } from "./acl.ts";
import { aclAuthMethodRoutes } from "./acl-auth-methods.ts";
import { aclBindingRuleRoutes } from "./acl-binding-rules.ts";
import { aclLoginRoutes } from "./acl-logins.ts";
import { aclOidcRoutes } from "./acl-oidc.ts";
import { aclRoleRoutes } from "./acl-roles.ts";
import { activationRoutes } from "./activation.ts";
import { agentSelfRoutes } from "./agent-self.ts";
import { agentRoutes } from "./agents.ts";
import { allocationRoutes } from "./allocations.ts";
import { approleRoutes } from "./auth-approle.ts";
import { jwtRoutes } from "./auth-jwt.ts";
import { kubernetesRoutes } from "./auth-kubernetes.ts";
import { oidcRoutes } from "./auth-oidc.ts";
import { tokenRoutes } from "./auth-token.ts";
import { userpassRoutes } from "./auth-userpass.ts";
import { backupRoutes } from "./backup.ts";
import { claimRoutes } from "./claims.ts";
import { clusterNamespaceRoutes } from "./cluster-namespaces.ts";
import { clusterObjectRoutes } from "./cluster-objects.ts";
import { csiSnapshotRoutes } from "./csi-snapshots.ts";
import { csiVolumeRoutes } from "./csi-volumes.ts";
import { cubbyholeRoutes } from "./cubbyhole/routes.ts";
import { deploymentRoutes } from "./deployments.ts";
import { engineRoutes } from "./engine.ts";
import { evaluationRoutes } from "./evaluations.ts";
import { eventNotificationRoutes } from "./event-notifications.ts";
import { eventStreamRoutes } from "./event-stream.ts";
import { eventSubscriptionRoutes } from "./event-subscriptions.ts";
import { hostVolumeRoutes } from "./host-volumes.ts";
import { identityRoutes } from "./identity.ts";
import { identityEntityRoutes } from "./identity-entities.ts";
import { identityLookupRoutes } from "./identity-lookups.ts";
import { jobWriteRoutes } from "./job-writes.ts";
import { jobRoutes } from "./jobs.ts";
import { kvRoutes } from "./kv/routes.ts";
import { kvV1Routes } from "./kv/routes-v1.ts";
import { leaseCountQuotaRoutes } from "./lease-count-quotas/routes.ts";
import { leaseRoutes } from "./leases.ts";
import { metricsClusterRoutes, metricsRoutes } from "./metrics.ts";
import { nodePoolRoutes } from "./node-pools.ts";
import { nodeRoutes } from "./nodes.ts";
import { documentRoutes } from "./openapi.ts";
import { operatorRoutes } from "./operator.ts";
import { pluginRoutes } from "./plugins.ts";
import { repoHostAppRoutes } from "./repo-host-apps.ts";
import { searchRoutes } from "./search.ts";
import { type ClusterRoute, type OpenRoute, RouteTable, type SecretsRoute } from "./server/route.ts";
import { serviceRoutes } from "./services.ts";
import { associationRoutes } from "./sync-associations.ts";
import { syncConfigRoutes } from "./sync-config.ts";
import { destinationRoutes } from "./sync-destinations.ts";
import { importRoutes } from "./sync-import/routes.ts";
import { ruleRoutes } from "./sync-rules.ts";
import { auditRoutes } from "./sys-audit.ts";
import { authMountRoutes, mountedMethodRoutes } from "./sys-auth.ts";
import { corsRoutes } from "./sys-cors.ts";
import { infoRoutes } from "./sys-info.ts";
import { lockedUserRoutes } from "./sys-locked-users.ts";
import { mountTableRoutes } from "./sys-mounts.ts";
import { namespaceRoutes } from "./sys-namespaces.ts";
import { sysNotificationRoutes } from "./sys-notifications/routes.ts";
import { policyRoutes } from "./sys-policies.ts";
import { sysPolicyTestRoutes } from "./sys-policy-test/routes.ts";
import { quotaRoutes } from "./sys-quotas.ts";
import { remountRoutes } from "./sys-remount.ts";
import { sealRoutes } from "./sys-seal.ts";
import { sysSearchRoutes } from "./sys-search/routes.ts";
import { agentHealthRoutes, statusRoutes } from "./sys-status.ts";
import { toolRoutes } from "./sys-tools.ts";
import { uiRoutes } from "./sys-ui.ts";
import { wrappingRoutes } from "./sys-wrapping.ts";
import { volumeRoutes } from "./volumes.ts";

/** The route table: the secrets API at fixed paths, the routes of each mount type, and the cluster API. */
export const secretsRoutes = new RouteTable<SecretsRoute | OpenRoute>([
  ...statusRoutes,
  ...sealRoutes,
  ...infoRoutes,
  ...toolRoutes,
  ...corsRoutes,
  ...quotaRoutes,
  ...leaseCountQuotaRoutes,
  ...documentRoutes,
  ...metricsRoutes,
  ...eventNotificationRoutes,
  ...auditRoutes,
  ...activationRoutes,
  ...backupRoutes,
  ...tokenRoutes,
  ...policyRoutes,
  ...sysNotificationRoutes,
  ...sysSearchRoutes,
  ...sysPolicyTestRoutes,
  // Before the mounts, whose paths never equal these words.
  ...uiRoutes,
  ...mountedMethodRoutes,
  ...mountTableRoutes,
  ...authMountRoutes,
  ...lockedUserRoutes,
  ...remountRoutes,
  ...leaseRoutes,
  ...cubbyholeRoutes,
  ...wrappingRoutes,
  ...namespaceRoutes,
  ...identityRoutes,
  ...identityEntityRoutes,
  ...identityLookupRoutes,
  ...syncConfigRoutes,
  ...destinationRoutes,
  ...associationRoutes,
  ...ruleRoutes,
  ...importRoutes,
  ...repoHostAppRoutes,
]);

const kvTables = { kv: new RouteTable(kvRoutes), "kv-v1": new RouteTable(kvV1Routes) };
const engineTables: Record<string, RouteTable<SecretsRoute>> = {};

/** The routes of a type of mount, relative to it; those of an engine are built when first used. */
export function mountTable(type: string): RouteTable<SecretsRoute> {
  if (type === "kv" || type === "kv-v1") return kvTables[type];
  const table = engineTables[type] ?? new RouteTable(engineRoutes(engineType(type)));
  engineTables[type] = table;
  return table;
}

/** The tables of all types of mounts. */
export const mountRoutes = {
  ...kvTables,
  ...Object.fromEntries(engineTypes.map(({ type }) => [type, mountTable(type)])),
};

/** Routes of each type of auth method, relative to its mount. */
export const authRoutes: Readonly<Record<AuthType, RouteTable<SecretsRoute | OpenRoute>>> = {
  userpass: new RouteTable(userpassRoutes),
  jwt: new RouteTable([...jwtRoutes, ...oidcRoutes]),
  oidc: new RouteTable([...jwtRoutes, ...oidcRoutes]),
  kubernetes: new RouteTable(kubernetesRoutes),
  approle: new RouteTable(approleRoutes),
};

/** The tables of mounts and auth methods, each by a path at which it can be mounted. */
export const mountedRoutes: Readonly<Record<string, RouteTable<SecretsRoute | OpenRoute>>> = {
  ...mountRoutes,
  ...Object.fromEntries(Object.entries(authRoutes).map(([type, table]) => [`auth/${type}`, table])),
};

export const clusterRoutes = new RouteTable<ClusterRoute | OpenRoute>([
  // Before the tokens, one of whose accessors could be `onetime`.
  ...aclLoginRoutes,
  ...aclOidcRoutes,
  ...aclRoutes,
  ...aclRoleRoutes,
  ...aclAuthMethodRoutes,
  ...aclBindingRuleRoutes,
  ...clusterNamespaceRoutes,
  ...clusterObjectRoutes,
  ...jobRoutes,
  ...jobWriteRoutes,
  ...operatorRoutes,
  ...searchRoutes,
  ...nodePoolRoutes,
  ...nodeRoutes,
  ...allocationRoutes,
  ...serviceRoutes,
  ...evaluationRoutes,
  ...deploymentRoutes,
  ...eventStreamRoutes,
  ...eventSubscriptionRoutes,
  // Before the agent routes, whose ids never equal these words.
  ...agentHealthRoutes,
  ...agentSelfRoutes,
  ...agentRoutes,
  ...volumeRoutes,
  ...pluginRoutes,
  ...csiVolumeRoutes,
  ...csiSnapshotRoutes,
  ...hostVolumeRoutes,
  ...claimRoutes,
  ...metricsClusterRoutes,
]);
