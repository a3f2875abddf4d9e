import { refuse } from "../../../lib/result.ts";
import { mapDecision } from "../../runner/saga.ts";
import type { EngineType } from "../engine-type.ts";
import { azureCalls, type CloudSaga, type CloudStep, performStep, step } from "./calls.ts";
import { configRules, type EngineConfig } from "./config.ts";
import { description } from "./description.ts";
import type { CloudAccount, TokenAnswer } from "./directory.ts";
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
import {
  ImportBody,
  isStatic,
  isStaticName,
  StaticBody,
  type StaticRole,
  staticView,
  TokenBody,
} from "./static-role.ts";
import {
  beginStatic,
  beginStaticRotation,
  isUntouched,
  outcomeOfStatic,
  type StaticWrite,
  staticData,
  staticSaga,
  undoOfStatic,
  undoOfStaticRole,
} from "./static-write.ts";

/** Seconds after which principals of a pool are replaced, by default. */
const POOL_TTL = 86_400;

type Write = RoleWrite | StaticWrite;

const isStaticWrite = (write: Write): write is StaticWrite => "adopts" in write;

/** Either kind of write, each by its saga. */
const writeSaga: CloudSaga<Write> = {
  next: (write, now) => (isStaticWrite(write) ? staticSaga.next(write, now) : roleSaga.next(write, now)),
  beforeCall: (write, each) =>
    (isStaticWrite(write) ? staticSaga.beforeCall?.(write, each) : roleSaga.beforeCall?.(write, each)) ?? write,
  onSuccess: (write, each, value, now) =>
    isStaticWrite(write) ? staticSaga.onSuccess(write, each, value, now) : roleSaga.onSuccess(write, each, value, now),
  onError: (write, each, failure, now, tries) =>
    isStaticWrite(write)
      ? mapDecision(staticSaga.onError(write, each, failure, now, tries), (state): Write => state)
      : mapDecision(roleSaga.onError(write, each, failure, now, tries), (state): Write => state),
};

/** Static roles have no leases. */
const NO_TTLS = { ttl: 0, max_ttl: 0, explicit_max_ttl: 0 };

interface AzureStates {
  readonly config: EngineConfig;
  readonly role: Role | StaticRole;
  readonly account: CloudAccount;
  readonly issue: Issue;
  readonly write: Write;
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
  config: configRules,
  roles: {
    ...writeSaga,
    body: RoleBody,
    kinds: { "/static-roles": StaticBody, "/static-roles/:name/import": ImportBody },
    nameOf(text) {
      const name = text.toLowerCase();
      return ROLE_NAME.test(name) ? name : null;
    },
    view: (role) => (isStatic(role) ? staticView(role) : roleView(role)),
    translate: translateRole,
    ttls: (role) => (isStatic(role) ? NO_TTLS : role),
    sharePercent: (role) => (isStatic(role) ? 0 : (role.share_until ?? 0)),
    metadata: ({ metadata }) => metadata ?? null,
    begin(name, before, body, context) {
      if (isStaticName(name)) {
        return beginStatic(name, before && isStatic(before) ? before : null, body as StaticBody, context);
      }
      return beginRoleWrite(name, before && !isStatic(before) ? before : null, body as RoleBody, context);
    },
    rotate: (name, role, at, context) =>
      isStatic(role)
        ? beginStaticRotation(name, role, at, context)
        : refuse("invalid", "the role keeps no credentials"),
    kept: {
      subjectOf: (write) => (isStaticWrite(write) ? write.role.application_object_id.toLowerCase() : null),
      taken: (_subject, other) =>
        `application_object_id: the static role ${JSON.stringify(other)} has this application`,
      data: (role, secret, now, account) =>
        isStatic(role) ? staticData(role, secret, now, account) : refuse("missing"),
      login: {
        body: TokenBody,
        step: (data, body) =>
          step("obtainToken", String(data["client_id"]), String(data["client_secret"]), (body as TokenBody).scope),
        data: (value) => ({ ...(value as TokenAnswer) }),
      },
    },
    isReplaceable: (write) => (isStaticWrite(write) ? isUntouched(write) : isReplaceable(write)),
    outcome(write, before, now) {
      if (isStaticWrite(write)) return outcomeOfStatic(write, before && isStatic(before) ? before : null, now);
      return outcomeOfWrite(write, before && !isStatic(before) ? before : null, now);
    },
    undo(write, stored, now) {
      if (isStaticWrite(write)) return undoOfStatic(write, now);
      return undoOfWrite(write, stored && !isStatic(stored) ? stored : null, now);
    },
    undoOfRole: (role, now) => (isStatic(role) ? undoOfStaticRole(role) : undoOfRole(role, now)),
  },
  issue: {
    ...issueSaga,
    begin: (role, context) => (isStatic(role) ? refuse("missing") : newIssue(role, context)),
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
    of: (role) =>
      isStatic(role)
        ? { size: 0, ttl: POOL_TTL, content: [] }
        : {
            size: role.pool_size ?? 0,
            ttl: role.pool_ttl || POOL_TTL,
            content: [role.cloud_roles, role.cloud_groups, role.permanently_delete, role.sign_in_audience, role.tags],
          },
  },
  calls: azureCalls,
  async client(account, { settings, send, assertion }) {
    const { cloudB } = await import("./client.ts");
    const cloud = cloudB(account, settings, send, assertion);
    return (call) => performStep(cloud, call as CloudStep);
  },
};
