import { isTransient, mapDecision, resultOf, retry, type Saga, step } from "../../runner/saga.ts";
import { type KeyAdd, keySaga } from "./key-add.ts";
import { assignmentPath, isNew, type Provision, provisionSaga } from "./provision.ts";
import {
  applicationSearch,
  passwordRemoval,
  passwordSearch,
  type Removal,
  removalOf,
  undoOfKey,
  undoOfProvision,
} from "./removal.ts";

/** Ids of the resources behind a lease. Revocation needs them, so they are stored for the life of the lease. */
export type LeaseResources =
  | {
      readonly kind: "principal";
      readonly application: string;
      readonly principal: string;
      readonly assignments: readonly string[];
      readonly groups: readonly string[];
      readonly permanently: boolean;
    }
  | { readonly kind: "password"; readonly application: string; readonly keyId: string };

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
export const issueSaga: Saga<Issue> = {
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

/** The removal that revokes a lease. @param issued ms since 1970 */
export const revocationOf = (resources: LeaseResources, issued: number): Removal =>
  resources.kind === "password"
    ? passwordRemoval(resources.application, resources.keyId, issued)
    : removalOf(resources, resources.permanently, issued);

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
