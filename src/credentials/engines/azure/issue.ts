import { ok, type Result, refuse } from "../../../lib/result.ts";
import { isTransient, mapDecision, retry } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { CloudAccount, NewPassword } from "./directory.ts";
import { type KeyAdd, keySaga, newKeyAdd, passwordSearch, undoOfKey } from "./key-add.ts";
import {
  applicationSearch,
  assignmentPath,
  isNew,
  newProvision,
  type Provision,
  provisionSaga,
  undoOfProvision,
} from "./provision.ts";
import type { LeaseResources, Removal } from "./removal.ts";
import type { Role } from "./role.ts";
import { applicationOf, desiredGrants, desiredMemberships } from "./role-write.ts";

/** Credentials being created: a new principal, or a password of an existing application. */
export type Issue =
  | {
      readonly kind: "principal";
      readonly provision: Provision;
      readonly lifeMs: number;
      readonly permanently: boolean;
      readonly key: { readonly endsAt: number } | null;
    }
  | { readonly kind: "password"; readonly clientId: string; readonly add: KeyAdd };

/**
 * Creates credentials.
 *
 *     principal:  provision (application, principal, rights) ──► addPrincipalPassword ──► done
 *     password:   key-add ──► done
 *
 * The password comes last: its text is never stored for a later step, and the rights have had the longest time to
 * replicate.
 */
export const issueSaga: CloudSaga<Issue> = {
  next(state, now) {
    if (state.kind === "password") return keySaga.next(state.add, now);
    const made = provisionSaga.next(state.provision, now);
    if (made !== null) return made;
    if (state.key !== null || state.provision.principal === null) return null;
    return step("addPrincipalPassword", state.provision.principal, { startsAt: now, endsAt: now + state.lifeMs });
  },

  beforeCall(state, step) {
    if (state.kind === "password") return { ...state, add: keySaga.beforeCall?.(state.add, step) ?? state.add };
    return { ...state, provision: provisionSaga.beforeCall?.(state.provision, step) ?? state.provision };
  },

  onSuccess(state, step, value, now) {
    if (state.kind === "password") return { ...state, add: keySaga.onSuccess(state.add, step, value, now) };
    if (step.call === "addPrincipalPassword") {
      return { ...state, key: { endsAt: resultOf(step.call, value).endsAt } };
    }
    return { ...state, provision: provisionSaga.onSuccess(state.provision, step, value, now) };
  },

  onError(state, step, failure, now, tries) {
    if (state.kind === "password") {
      return mapDecision(keySaga.onError(state.add, step, failure, now, tries), (add) => ({ ...state, add }));
    }
    if (step.call === "addPrincipalPassword") {
      // A password of an unanswered attempt has no known text, and is deleted with the principal.
      const madeAt = state.provision.made?.at ?? 0;
      return isTransient(failure) || isNew(madeAt, step, failure, now) ? retry(failure) : { kind: "failed" };
    }
    const decision = provisionSaga.onError(state.provision, step, failure, now, tries);
    return mapDecision(decision, (provision) => ({ ...state, provision }));
  },
};

/** The credentials as `creds` answers them. */
export interface ClientSecret {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** The lease of finished credentials. @param value the answer to their last step, which has the secret */
export function outcomeOfIssue(issue: Issue, value: unknown) {
  const { resources, clientId, endsAt } = resourcesOf(issue);
  const secret: ClientSecret = { clientId, clientSecret: (value as NewPassword).secretText };
  return { resources, secret, endsAt };
}

/** Resources for the lease of finished credentials. @throws Error for unfinished credentials */
export function resourcesOf(issue: Issue): { resources: LeaseResources; clientId: string; endsAt: number } {
  if (issue.kind === "password") {
    const { add, clientId } = issue;
    if (!add.key) throw new Error("no password was added");
    const resources = { kind: "password", application: add.application, keyId: add.key.keyId } as const;
    return { resources, clientId, endsAt: add.key.endsAt };
  }
  const { provision, key, permanently } = issue;
  const { made, principal, grants, memberships } = provision;
  if (!made || principal === null || !key) throw new Error("no principal was made");
  return {
    resources: {
      kind: "principal",
      application: made.objectId,
      principal,
      assignments: grants.map(assignmentPath),
      groups: memberships.map(({ groupId }) => groupId),
      permanently,
    },
    clientId: made.clientId,
    endsAt: key.endsAt,
  };
}

/** Undoes `issueSaga`: removes everything that unfinished credentials created or may have created. */
export function undoOfIssue(issue: Issue, now: number): Removal {
  return issue.kind === "principal" ? undoOfProvision(issue.provision, now) : undoOfKey(issue.add, now);
}

/** Removes the orphans of unanswered calls beside finished credentials; null when every call was answered. */
export function orphansOfIssue(issue: Issue, now: number): Removal | null {
  if (issue.kind === "password") {
    const { application, name, key, strays } = issue.add;
    return strays ? passwordSearch(application, name, key?.keyId ?? null, now) : null;
  }
  const { application, made, strays } = issue.provision;
  return strays ? applicationSearch(application.displayName, made?.objectId ?? "", now) : null;
}

/** Lock name: only one job at a time changes the passwords of an application. */
export const lockOf = (issue: Issue): string | null =>
  issue.kind === "password" ? `application ${issue.add.application}` : null;

/** The resources to create for a lease of a role. */
export function newIssue(role: Role, { account, lifeMs }: { account: CloudAccount; lifeMs: number }): Result<Issue> {
  if (role.application_id.toLowerCase() === account.clientId.toLowerCase()) {
    return refuse("invalid", "the role is for the application that the engine itself acts as");
  }
  const name = `vault-${crypto.randomUUID()}`;
  if (role.application_object_id !== "") {
    const add = newKeyAdd(role.application_object_id, name, lifeMs, role.managed?.made?.at);
    return ok({ kind: "password", clientId: role.application_id, add });
  }
  const rights = { grants: desiredGrants(role), memberships: desiredMemberships(role) };
  const provision = newProvision(applicationOf(name, role), rights);
  return ok({ kind: "principal", provision, lifeMs, permanently: role.permanently_delete, key: null });
}
