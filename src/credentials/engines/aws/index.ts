import { ok, refuse } from "../../../lib/result.ts";
import { mapDecision } from "../../runner/saga.ts";
import { plainName } from "../description.ts";
import type { EngineType } from "../engine-type.ts";
import { awsCalls, type CloudSaga, type CloudStep, performStep } from "./calls.ts";
import { type CloudAccount, configRules, type EngineConfig } from "./config.ts";
import { description } from "./description.ts";
import {
  dataOf,
  endsByItself,
  type Issue,
  issueSaga,
  newIssue,
  orphansOfIssue,
  outcomeOfIssue,
  type Secret,
  undoOfIssue,
  verification,
} from "./issue.ts";
import { type LeaseResources, type Removal, removalSaga, revocationOf } from "./removal.ts";
import { draftRole, ROLE_NAME, type Role, RoleBody, ttlsOf, userTtls } from "./role.ts";
import { beginRotation, outcomeOfRotation, type Rotation, rotationSaga, undoOfRotation } from "./rotation.ts";
import { IssueParameters } from "./session.ts";
import { isStatic, isStaticName, StaticBody, type StaticRole, staticView, subjectOf } from "./static-role.ts";
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

interface RoleWrite {
  readonly name: string;
  readonly role: Role;
}
type Write = RoleWrite | StaticWrite;

const isStaticWrite = (write: Write): write is StaticWrite => "change" in write;

interface AwsStates {
  readonly config: EngineConfig;
  readonly role: Role | StaticRole;
  readonly account: CloudAccount;
  readonly issue: Issue;
  readonly write: Write;
  readonly renewal: never;
  readonly rotation: Rotation;
  readonly removal: Removal;
  readonly resources: LeaseResources;
  readonly secret: Secret;
}

/**
 * Writes of static roles make a key. Others call nothing: what they name is checked by the provider when credentials are
 * issued, as upstream.
 */
const writeSaga: CloudSaga<Write> = {
  next: (write, now) => (isStaticWrite(write) ? staticSaga.next(write, now) : null),
  beforeCall: (write, each) => (isStaticWrite(write) ? (staticSaga.beforeCall?.(write, each) ?? write) : write),
  onSuccess: (write, each, value, now) =>
    isStaticWrite(write) ? staticSaga.onSuccess(write, each, value, now) : write,
  onError: (write, each, failure, now, tries) =>
    isStaticWrite(write)
      ? mapDecision(staticSaga.onError(write, each, failure, now, tries), (state): Write => state)
      : { kind: "failed" },
};

/** Static roles have no leases. */
const NO_TTLS = { ttl: 0, max_ttl: 0, explicit_max_ttl: 0 };

/** Time for a new key to work everywhere, from the start of its request. */
const VERIFY_MS = 25_000;

/** Sessions and users of AWS (https://developer.hashicorp.com/vault/api-docs/secret/aws). */
export const aws: EngineType<AwsStates> = {
  type: description.type,
  description,
  config: configRules,
  roles: {
    ...writeSaga,
    body: RoleBody,
    kinds: { "/static-roles": StaticBody },
    nameOf: (text) => (ROLE_NAME.test(text) ? text : null),
    view: (role) => (isStatic(role) ? staticView(role) : { ...role }),
    translate: (_dialect, view) => ({ ...view }),
    ttls: (role, config) => (isStatic(role) ? NO_TTLS : ttlsOf(role, config)),
    ttlsOfLease: ({ kind }, config) => (kind === "user" ? userTtls(config()) : null),
    sharePercent: (role) => (isStatic(role) ? 0 : (role.share_until ?? 0)),
    missing: (name) => `Role ${JSON.stringify(plainName(name))} not found`,
    begin(name, before, body, context) {
      if (isStaticName(name)) {
        return beginStatic(name, before && isStatic(before) ? before : null, body as StaticBody, context);
      }
      const { account } = context;
      const stored = before && !isStatic(before) ? before : null;
      const role = draftRole(stored, body as RoleBody, account.ok ? account.value : null);
      return role.ok ? ok({ name, role: role.value }) : role;
    },
    rotate: (name, role, _at, context) =>
      isStatic(role) ? beginStaticRotation(name, role, context) : refuse("invalid", "the role keeps no credentials"),
    kept: {
      subjectOf: (write) => (isStaticWrite(write) ? subjectOf(write.role) : null),
      taken: (_subject, other) => `username: the static role ${JSON.stringify(other)} has this user`,
      data: (role, secret, now) =>
        isStatic(role) && secret.kind === "static" ? ok(staticData(role, secret, now)) : refuse("missing"),
    },
    isReplaceable: (write) => !isStaticWrite(write) || isUntouched(write),
    outcome: (write, _before, now) =>
      isStaticWrite(write) ? outcomeOfStatic(write, now) : { role: write.role, removals: [] },
    undo: (write, _stored, now) => (isStaticWrite(write) ? undoOfStatic(write, now) : null),
    undoOfRole: (role) => (isStatic(role) ? undoOfStaticRole(role) : null),
  },
  issue: {
    ...issueSaga,
    request: IssueParameters,
    ttlOf: ({ ttl }, role) => (!isStatic(role) && role.credential_type !== "iam_user" ? Number(ttl ?? 0) : 0),
    begin: (role, context) => (isStatic(role) ? refuse("missing") : newIssue(role, context)),
    outcome: outcomeOfIssue,
    undo: undoOfIssue,
    endsByItself,
    orphans: orphansOfIssue,
    data: dataOf,
    verify: verification,
    verifyMs: VERIFY_MS,
  },
  rotation: { ...rotationSaga, begin: beginRotation, outcome: outcomeOfRotation, undo: undoOfRotation },
  removal: { ...removalSaga, ofLease: revocationOf },
  calls: awsCalls,
  async client(account, context) {
    const { cloudA } = await import("./client.ts");
    const cloud = cloudA(account, context);
    return (call) => performStep(cloud, call as CloudStep);
  },
};
