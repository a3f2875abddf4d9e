import { isTransient, retry } from "../../runner/saga.ts";
import type { EngineType } from "../engine-type.ts";
import { type ProducerSaga, type ProducerStep, performStep, producerCalls, step } from "./calls.ts";
import type { Account, Held, Vars } from "./cloud.ts";
import { configRules, type EngineConfig } from "./config.ts";
import { description } from "./description.ts";
import { DryRunBody, dryRun } from "./dry-run.ts";
import { type Issue, issueSaga, newIssue, orphansOfIssue, outcomeOfIssue, type Secret, undoOfIssue } from "./issue.ts";
import { type LeaseResources, type Removal, removalSaga, revocationOf } from "./removal.ts";
import { beginRoleWrite, outcomeOfWrite, ROLE_NAME, type Role, RoleBody, type RoleWrite, roleSaga } from "./role.ts";
import { beginRotation, outcomeOfRotation, type Rotation, rotationSaga, undoOfRotation } from "./rotation.ts";

/** The end of an object being moved with its lease. */
interface Renewal {
  readonly held: Held;
  readonly expires: number;
  readonly done: boolean;
}

const renewalSaga: ProducerSaga<Renewal> = {
  next: ({ held, expires, done }) => (done ? null : step("renew", held, expires)),
  onSuccess: (state) => ({ ...state, done: true }),
  onError: (_state, _step, failure) => (isTransient(failure) ? retry(failure) : { kind: "failed" }),
};

const RENEWAL_MARGIN_MS = 60_000;

interface ProducerStates {
  readonly config: EngineConfig;
  readonly role: Role;
  readonly account: Account & { readonly vars: Vars };
  readonly issue: Issue;
  readonly write: RoleWrite;
  readonly renewal: Renewal;
  readonly rotation: Rotation;
  readonly removal: Removal;
  readonly resources: LeaseResources;
  readonly secret: Secret;
}

/** Credentials of any HTTPS API, by a definition of its calls in the configuration (docs/guides/https-producer.md). */
export const httpsProducer: EngineType<ProducerStates> = {
  type: description.type,
  description,
  config: configRules,
  roles: {
    ...roleSaga,
    body: RoleBody,
    nameOf: (text) => (ROLE_NAME.test(text) ? text : null),
    view: (role) => ({ ...role }),
    translate: (_dialect, view) => ({ ...view }),
    ttls: ({ ttl, max_ttl }) => ({ ttl, max_ttl, explicit_max_ttl: 0 }),
    sharePercent: ({ share_until = 0 }) => share_until,
    begin: beginRoleWrite,
    isReplaceable: () => true,
    outcome: outcomeOfWrite,
    undo: () => null,
    undoOfRole: () => null,
  },
  issue: {
    ...issueSaga,
    begin: newIssue,
    outcome: outcomeOfIssue,
    undo: undoOfIssue,
    orphans: orphansOfIssue,
    data: ({ data }) => ({ ...data }),
    verify: (data) => step("verify", data as Vars),
  },
  renewal: {
    ...renewalSaga,
    begin: ({ held }, endsAt) => ({
      held: held ?? { ids: {}, marker: "", vars: {}, lag: 0 },
      expires: endsAt + RENEWAL_MARGIN_MS,
      done: held === null,
    }),
  },
  rotation: { ...rotationSaga, begin: beginRotation, outcome: outcomeOfRotation, undo: undoOfRotation },
  removal: { ...removalSaga, ofLease: revocationOf },
  dryRun: { body: DryRunBody, run: (stored, body, role) => dryRun(stored, body, (role?.["vars"] ?? {}) as Vars) },
  calls: producerCalls,
  async client(account, { sendTo }) {
    const { producer } = await import("./client.ts");
    const calls = producer(account, sendTo);
    return (call) => performStep(calls, call as ProducerStep);
  },
};
