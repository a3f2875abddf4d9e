import { ok } from "../../../lib/result.ts";
import { isTransient, type Saga } from "../../runner/saga.ts";
import type { EngineType } from "../engine-type.ts";
import { awsCalls, type CloudStep, performStep } from "./calls.ts";
import {
  accountOf,
  type CloudAccount,
  ConfigBody,
  changeConfig,
  changeLease,
  changesIdentity,
  configView,
  type EngineConfig,
  LeaseBody,
  leaseView,
} from "./config.ts";
import { description } from "./description.ts";
import {
  dataOf,
  type Issue,
  IssueParameters,
  issueSaga,
  newIssue,
  orphansOfIssue,
  outcomeOfIssue,
  type Secret,
  undoOfIssue,
  verification,
} from "./issue.ts";
import { type LeaseResources, type Removal, removalSaga, revocationOf } from "./removal.ts";
import { draftRole, ROLE_NAME, type Role, RoleBody, ttlsOf } from "./role.ts";
import { beginRotation, outcomeOfRotation, type Rotation, rotationSaga, undoOfRotation } from "./rotation.ts";

interface RoleWrite {
  readonly name: string;
  readonly role: Role;
}

interface AwsStates {
  readonly config: EngineConfig;
  readonly role: Role;
  readonly account: CloudAccount;
  readonly issue: Issue;
  readonly write: RoleWrite;
  readonly renewal: never;
  readonly rotation: Rotation;
  readonly removal: Removal;
  readonly resources: LeaseResources;
  readonly secret: Secret;
}

/** Writes of roles call nothing: what they name is checked by the provider when credentials are issued, as upstream. */
const withoutCalls: Saga<RoleWrite> = {
  next: () => null,
  onSuccess: (state) => state,
  onError: (_state, _step, failure) => (isTransient(failure) ? { kind: "retry" } : { kind: "failed" }),
};

/** Time for a new key to work everywhere, from the start of its request. */
const VERIFY_MS = 25_000;

/** Sessions and users of AWS (https://developer.hashicorp.com/vault/api-docs/secret/aws). */
export const aws: EngineType<AwsStates> = {
  type: description.type,
  description,
  config: {
    body: ConfigBody,
    change: (before, body, { home }) => changeConfig(before, body, home),
    view: configView,
    documents: {
      "/config/lease": {
        body: LeaseBody,
        change: (before, body) => changeLease(before, body as EngineConfig["lease"] & object),
        view: leaseView,
      },
    },
    account: accountOf,
    changesIdentity,
    federationOf: ({ federation }) => federation ?? null,
  },
  roles: {
    ...withoutCalls,
    body: RoleBody,
    nameOf: (text) => (ROLE_NAME.test(text) ? text : null),
    view: (role) => ({ ...role }),
    translate: (_dialect, view) => ({ ...view }),
    ttls: ttlsOf,
    missing: (name) => `Role ${JSON.stringify(name)} not found`,
    begin(name, before, body, { account }) {
      const role = draftRole(before, body as RoleBody, account.ok ? account.value : null);
      return role.ok ? ok({ name, role: role.value }) : role;
    },
    isReplaceable: () => true,
    outcome: ({ role }) => ({ role, removals: [] }),
    undo: () => null,
    undoOfRole: () => null,
  },
  issue: {
    ...issueSaga,
    request: IssueParameters,
    begin: newIssue,
    outcome: outcomeOfIssue,
    undo: undoOfIssue,
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
