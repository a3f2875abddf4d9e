import type { EngineType } from "../engine-type.ts";
import { type CloudStep, gcpCalls, performStep } from "./calls.ts";
import type { CloudAccount } from "./cloud.ts";
import { configRules, type EngineConfig } from "./config.ts";
import { description } from "./description.ts";
import {
  dataOf,
  type Issue,
  IssueRequest,
  issueSaga,
  lockOf,
  newIssue,
  orphansOfIssue,
  outcomeOfIssue,
  type Secret,
  undoOfIssue,
  verifyOf,
} from "./issue.ts";
import { type LeaseResources, type Removal, removalSaga, revocationOf } from "./removal.ts";
import { beginRenewal, type Renewal, renewalSaga } from "./renewal.ts";
import {
  ImpersonatedBody,
  missingRole,
  ROLE_NAME,
  type Role,
  type RoleBody,
  RolesetBody,
  roleView,
  StaticBody,
  ttlsOf,
} from "./role.ts";
import {
  beginRotation as beginRoleRotation,
  beginRoleWrite,
  isReplaceable,
  outcomeOfWrite,
  type RoleWrite,
  roleSaga,
  undoOfRole,
  undoOfWrite,
} from "./role-write.ts";
import {
  beginRotation,
  lockOfRotation,
  outcomeOfRotation,
  type Rotation,
  rotationSaga,
  undoOfRotation,
} from "./rotation.ts";

interface GcpStates {
  readonly config: EngineConfig;
  readonly role: Role;
  readonly account: CloudAccount;
  readonly issue: Issue;
  readonly write: RoleWrite;
  readonly renewal: Renewal;
  readonly rotation: Rotation;
  readonly removal: Removal;
  readonly resources: LeaseResources;
  readonly secret: Secret;
}

/**
 * Access tokens and keys of service accounts of Google Cloud
 * (https://developer.hashicorp.com/vault/api-docs/secret/gcp).
 */
export const gcp: EngineType<GcpStates> = {
  type: description.type,
  description,
  config: configRules,
  roles: {
    ...roleSaga,
    body: RolesetBody,
    kinds: { "/static-account": StaticBody, "/impersonated-account": ImpersonatedBody },
    nameOf: (text) => (ROLE_NAME.test(text) ? text : null),
    view: roleView,
    translate: (_dialect, view) => ({ ...view }),
    ttls: (role, config) => ttlsOf(role, config()),
    sharePercent: ({ share_until = 0 }) => share_until,
    missing: missingRole,
    begin: (name, before, body, context) => beginRoleWrite(name, before, body as RoleBody, context),
    rotate: beginRoleRotation,
    isReplaceable,
    outcome: outcomeOfWrite,
    undo: undoOfWrite,
    undoOfRole,
  },
  issue: {
    ...issueSaga,
    request: IssueRequest,
    ttlOf: ({ ttl }) => (typeof ttl === "number" ? ttl : 0),
    begin: newIssue,
    lock: lockOf,
    outcome: outcomeOfIssue,
    undo: undoOfIssue,
    endsByItself: ({ kind }) => kind === "token",
    orphans: orphansOfIssue,
    data: dataOf,
    verify: verifyOf,
  },
  renewal: { ...renewalSaga, begin: beginRenewal },
  rotation: {
    ...rotationSaga,
    begin: beginRotation,
    outcome: outcomeOfRotation,
    undo: undoOfRotation,
    lock: lockOfRotation,
  },
  removal: { ...removalSaga, ofLease: revocationOf },
  calls: gcpCalls,
  async client(account, { settings, send, assertion }) {
    const { cloudC } = await import("./client.ts");
    const cloud = cloudC(account, { settings, send, identity: assertion });
    return (call) => performStep(cloud, call as CloudStep);
  },
};
