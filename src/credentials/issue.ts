import { addingKey, type KeyAdd } from "./key-add.ts";
import { assignmentPath, isNew, type Provision, provisioning } from "./provision.ts";
import { passwordRemoval, passwordSearch, type Removal, removalOf, straysOf, undoOf, undoOfKey } from "./removal.ts";
import { again, answerOf, lifted, type Program, passes, step } from "./step.ts";

/** The ids by which a lease's credentials are taken away; on disk for as long as the lease is. */
export type Holding =
  | {
      readonly kind: "principal";
      readonly application: string;
      readonly principal: string;
      readonly assignments: readonly string[];
      readonly groups: readonly string[];
      readonly permanently: boolean;
    }
  | { readonly kind: "password"; readonly application: string; readonly keyId: string };

/** Credentials in the making: a principal of their own, or a password of an application that exists. */
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
 * Makes credentials. The password comes last, so that its text is never kept for the sake of a step that follows, and what
 * it opens has had the longest time to be known everywhere.
 */
export const issuing: Program<Issue> = {
  next(state, now) {
    if (state.kind === "password") return addingKey.next(state.add, now);
    const made = provisioning.next(state.provision, now);
    if (made !== null) return made;
    if (state.key !== null || state.provision.principal === null) return null;
    return step("addPrincipalPassword", state.provision.principal, { startsAt: now, endsAt: now + state.lifeMs });
  },

  leaving(state, step) {
    if (state.kind === "password") return { ...state, add: addingKey.leaving?.(state.add, step) ?? state.add };
    return { ...state, provision: provisioning.leaving?.(state.provision, step) ?? state.provision };
  },

  took(state, step, value, now) {
    if (state.kind === "password") return { ...state, add: addingKey.took(state.add, step, value, now) };
    if (step.call === "addPrincipalPassword") {
      return { ...state, key: { endsAt: answerOf(step.call, value).endsAt } };
    }
    return { ...state, provision: provisioning.took(state.provision, step, value, now) };
  },

  refused(state, step, failure, now, tries) {
    if (state.kind === "password") {
      return lifted(addingKey.refused(state.add, step, failure, now, tries), (add) => ({ ...state, add }));
    }
    if (step.call === "addPrincipalPassword") {
      // Whatever an unanswered try has added is unknown to everybody, and goes with the principal.
      const madeAt = state.provision.made?.at ?? 0;
      return passes(failure) || isNew(madeAt, step, failure, now) ? again(failure) : { kind: "failed" };
    }
    const verdict = provisioning.refused(state.provision, step, failure, now, tries);
    return lifted(verdict, (provision) => ({ ...state, provision }));
  },
};

/** What the lease of finished credentials holds. Throws when they are not finished. */
export function holdingOf(issue: Issue): { holding: Holding; clientId: string; endsAt: number } {
  if (issue.kind === "password") {
    const { add, clientId } = issue;
    if (!add.key) throw new Error("no password was added");
    const holding = { kind: "password", application: add.application, keyId: add.key.keyId } as const;
    return { holding, clientId, endsAt: add.key.endsAt };
  }
  const { provision, key, permanently } = issue;
  const { made, principal, grants, memberships } = provision;
  if (!made || principal === null || !key) throw new Error("no principal was made");
  return {
    holding: {
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

/** What ends a lease. @param issued ms since 1970 */
export const endOf = (holding: Holding, issued: number): Removal =>
  holding.kind === "password"
    ? passwordRemoval(holding.application, holding.keyId, issued)
    : removalOf(holding, holding.permanently, issued);

/** Takes away what unfinished credentials have left, or may have left. */
export function undoOfIssue(issue: Issue, now: number): Removal {
  return issue.kind === "principal" ? undoOf(issue.provision, now) : undoOfKey(issue.add, now);
}

/** Takes away what unanswered calls have left beside finished credentials; null when every call was answered. */
export function straysOfIssue(issue: Issue, now: number): Removal | null {
  if (issue.kind === "password") {
    const { application, name, key, strays } = issue.add;
    return strays ? passwordSearch(application, name, key?.keyId ?? null, now) : null;
  }
  const { application, made, strays } = issue.provision;
  return strays ? straysOf(application.displayName, made?.objectId ?? "", now) : null;
}

/** The object id of the application whose passwords one job at a time may change. */
export const lockOf = (issue: Issue): string | null =>
  issue.kind === "password" ? `application ${issue.add.application}` : null;
