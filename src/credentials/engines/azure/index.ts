import type { EngineType } from "../engine-type.ts";
import { azureCalls, type CloudStep, performStep, step } from "./calls.ts";
import { accountOf, ConfigBody, changeConfig, changesIdentity, configView, type EngineConfig } from "./config.ts";
import { description } from "./description.ts";
import type { CloudAccount } from "./directory.ts";
import {
  type ClientSecret,
  type Issue,
  issueSaga,
  lockOf,
  newIssue,
  orphansOfIssue,
  outcomeOfIssue,
  undoOfIssue,
} from "./issue.ts";
import { translateRole } from "./names.ts";
import { type LeaseResources, type Removal, removalSaga, revocationOf } from "./removal.ts";
import { ROLE_NAME, type Role, RoleBody, roleView } from "./role.ts";
import {
  beginRoleWrite,
  isReplaceable,
  outcomeOfWrite,
  type RoleWrite,
  roleSaga,
  undoOfRole,
  undoOfWrite,
} from "./role-write.ts";
import { beginRotation, outcomeOfRotation, type Rotation, rotationSaga, undoOfRotation } from "./rotation.ts";

/** Seconds after which principals of a pool are replaced, by default. */
const POOL_TTL = 86_400;
/** An identity without these removes no principals of the former one. */
const POOL_HOME = ["tenant_id", "environment", "client_id"] as const;

interface AzureStates {
  readonly config: EngineConfig;
  readonly role: Role;
  readonly account: CloudAccount;
  readonly issue: Issue;
  readonly write: RoleWrite;
  readonly renewal: never;
  readonly rotation: Rotation;
  readonly removal: Removal;
  readonly resources: LeaseResources;
  readonly secret: ClientSecret;
}

/**
 * Service principals and passwords of applications in a directory of Azure
 * (https://developer.hashicorp.com/vault/api-docs/secret/azure).
 */
export const azure: EngineType<AzureStates> = {
  type: description.type,
  description,
  config: {
    body: ConfigBody,
    change: (before, body, { settings, dialect, home }) =>
      changeConfig(before, body, settings, dialect === "neutral", home),
    view: configView,
    account: accountOf,
    changesIdentity,
    federationOf: ({ federation }) => federation ?? null,
  },
  roles: {
    ...roleSaga,
    body: RoleBody,
    nameOf(text) {
      const name = text.toLowerCase();
      return ROLE_NAME.test(name) ? name : null;
    },
    view: roleView,
    translate: translateRole,
    ttls: (role) => role,
    sharePercent: ({ share_until = 0 }) => share_until,
    metadata: ({ metadata }) => metadata ?? null,
    begin: (name, before, body, context) => beginRoleWrite(name, before, body as RoleBody, context),
    isReplaceable,
    outcome: outcomeOfWrite,
    undo: undoOfWrite,
    undoOfRole,
  },
  issue: {
    ...issueSaga,
    begin: newIssue,
    lock: lockOf,
    outcome: outcomeOfIssue,
    undo: undoOfIssue,
    orphans: orphansOfIssue,
    data: ({ clientId, clientSecret }) => ({ client_id: clientId, client_secret: clientSecret }),
    verify: (data) => step("login", String(data["client_id"]), String(data["client_secret"])),
  },
  rotation: { ...rotationSaga, begin: beginRotation, outcome: outcomeOfRotation, undo: undoOfRotation },
  removal: { ...removalSaga, ofLease: revocationOf },
  pool: {
    of: ({ pool_size: size = 0, pool_ttl: ttl = 0, ...role }) => ({
      size,
      ttl: ttl || POOL_TTL,
      content: [role.cloud_roles, role.cloud_groups, role.permanently_delete, role.sign_in_audience, role.tags],
    }),
    outlives: (before, after) => POOL_HOME.every((field) => before[field] === after[field]),
  },
  calls: azureCalls,
  async client(account, { settings, send, assertion }) {
    const { cloudB } = await import("./client.ts");
    const cloud = cloudB(account, settings, send, assertion);
    return (call) => performStep(cloud, call as CloudStep);
  },
};
