import { cubbyhole } from "../../routes/cubbyhole/openapi.ts";
import { kv } from "../../routes/kv/openapi.ts";
import { leaseCountQuotas } from "../../routes/lease-count-quotas/openapi.ts";
import { syncImport } from "../../routes/sync-import/openapi.ts";
import { sysNotifications } from "../../routes/sys-notifications/openapi.ts";
import { sysPolicyTest } from "../../routes/sys-policy-test/openapi.ts";
import { sysSearch } from "../../routes/sys-search/openapi.ts";
import type { Group } from "../operation.ts";
import { approle } from "./auth-approle.ts";
import { authKubernetes } from "./auth-kubernetes.ts";
import { authMethods } from "./auth-methods.ts";
import { backup } from "./backup.ts";
import { clusterAccess } from "./cluster-access.ts";
import { clusterAcl } from "./cluster-acl.ts";
import { clusterOperator } from "./cluster-operator.ts";
import { credentials } from "./credentials.ts";
import { awsCredentials } from "./credentials-aws.ts";
import { gcpCredentials } from "./credentials-gcp.ts";
import { producerCredentials } from "./credentials-producer.ts";
import { events } from "./events.ts";
import { identityEntities } from "./identity-entities.ts";
import { leases } from "./leases.ts";
import { nodes } from "./nodes.ts";
import { operability } from "./operability.ts";
import { policies } from "./policies.ts";
import { reported } from "./reported.ts";
import { sync } from "./sync.ts";
import { associations } from "./sync-associations.ts";
import { syncRules } from "./sync-rules.ts";
import { system } from "./system.ts";
import { systemInfo } from "./system-info.ts";
import { tokens } from "./tokens.ts";
import { csiVolumes } from "./volumes-csi.ts";
import { hostVolumes } from "./volumes-host.ts";
import { wrapping } from "./wrapping.ts";

/** Descriptions of all routes, in document order. */
export const groups: readonly Group[] = [
  credentials,
  awsCredentials,
  gcpCredentials,
  producerCredentials,
  leases,
  sync,
  associations,
  syncRules,
  syncImport,
  events,
  hostVolumes,
  csiVolumes,
  nodes,
  reported,
  clusterOperator,
  kv,
  cubbyhole,
  wrapping,
  tokens,
  authMethods,
  approle,
  authKubernetes,
  identityEntities,
  policies,
  sysPolicyTest,
  clusterAccess,
  clusterAcl,
  system,
  systemInfo,
  leaseCountQuotas,
  sysNotifications,
  sysSearch,
  operability,
  backup,
];
