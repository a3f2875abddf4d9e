import type { CloudFailure, NewApplication } from "../contracts/cloud-directory.ts";
import type { Step } from "../contracts/credential-engine.ts";
import { isNotYetThere } from "../providers/cloud-b-azure/lag.ts";
import {
  again,
  againUnanswered,
  answerOf,
  isWorthRepeating,
  type Program,
  passes,
  step,
  type Verdict,
} from "./step.ts";

/**
 * Where a right stands. `tried`: asked for, so it may be there. `unwanted`: to be taken away, whether or not it is there.
 */
export type Standing = "wanted" | "tried" | "given" | "unwanted";

/** A role on a scope. The id of the assignment is chosen before it is made, so that repeating makes nothing new. */
export interface Grant {
  readonly assignmentId: string;
  readonly scope: string;
  readonly roleId: string;
  readonly standing: Standing;
}

export interface Membership {
  readonly groupId: string;
  readonly standing: Standing;
}

/** An application with its principal and rights: what there is, and what there should be. */
export interface Provision {
  readonly application: NewApplication;
  /** Null until it is known to exist. `at`: when that was, ms since 1970. */
  readonly made: { readonly objectId: string; readonly clientId: string; readonly at: number } | null;
  /** Its creation has left, and no answer has come. */
  readonly creating: boolean;
  /** A creation went unanswered once: another application of this name may turn up. */
  readonly strays: boolean;
  /** How many creations went unanswered; missing in work stored by older versions. */
  readonly unanswered?: number;
  /** The application's tags or audience are others than it has. */
  readonly outdated: boolean;
  readonly principal: string | null;
  /** The provider says that the application has a principal, whose id is not known here. */
  readonly principalExists: boolean;
  readonly grants: readonly Grant[];
  readonly memberships: readonly Membership[];
  /** When anything of it was last made, ms since 1970. */
  readonly touched: number;
}

export const newProvision = (
  application: NewApplication,
  rights: Pick<Provision, "grants" | "memberships">,
): Provision => ({
  application,
  made: null,
  creating: false,
  strays: false,
  outdated: false,
  principal: null,
  principalExists: false,
  touched: 0,
  ...rights,
});

/** The full id of an assignment. */
export const assignmentPath = ({ scope, assignmentId }: Pick<Grant, "scope" | "assignmentId">): string =>
  `/${scope.replace(/^\/+|\/+$/g, "")}/providers/Microsoft.Authorization/roleAssignments/${assignmentId}`;

/** A right that is missing is told soon: only for this long may "denied" mean "not yet known". */
const DENIED_MS = 20_000;

const pending = (standing: Standing): boolean => standing === "wanted" || standing === "tried";

/** Makes an application with its principal, gives it its rights, and takes away those it should not have any more. */
export const provisioning: Program<Provision> = {
  next(state) {
    const { made, principal, application } = state;
    if (!made) {
      return state.creating
        ? step("findApplicationsByName", application.displayName)
        : step("createApplication", application);
    }
    if (principal === null) {
      return state.principalExists
        ? step("findServicePrincipals", made.clientId)
        : step("createServicePrincipal", made.clientId);
    }
    if (state.outdated) {
      const { tags, signInAudience } = application;
      return step("updateApplication", made.objectId, { tags, signInAudience });
    }
    const grant = state.grants.find(({ standing }) => pending(standing));
    if (grant) {
      const { scope, assignmentId, roleId: roleDefinitionId } = grant;
      return step("createRoleAssignment", { scope, assignmentId, roleDefinitionId, principalId: principal });
    }
    const membership = state.memberships.find(({ standing }) => pending(standing));
    if (membership) return step("addGroupMember", membership.groupId, principal);
    const [assignment] = state.grants.filter(({ standing }) => standing === "unwanted");
    if (assignment) return step("deleteRoleAssignment", assignmentPath(assignment));
    const [left] = state.memberships.filter(({ standing }) => standing === "unwanted");
    return left ? step("removeGroupMember", left.groupId, principal) : null;
  },

  leaving(state, { call, args }) {
    if (call === "createApplication") return { ...state, creating: true };
    if (call === "createRoleAssignment") return withGrant(state, args[0].assignmentId, "tried");
    if (call === "addGroupMember") return withMembership(state, args[0], "tried");
    return state;
  },

  took(before, { call, args }, value, now) {
    const state = { ...before, touched: now };
    switch (call) {
      case "createApplication": {
        const { objectId, clientId } = answerOf(call, value);
        return { ...state, creating: false, made: { objectId, clientId, at: now } };
      }
      case "findApplicationsByName": {
        const [found] = answerOf(call, value);
        if (!found) return { ...state, creating: false, strays: true };
        return { ...state, creating: false, made: { objectId: found.objectId, clientId: found.clientId, at: now } };
      }
      case "createServicePrincipal":
        return { ...state, principal: answerOf(call, value).objectId };
      case "findServicePrincipals":
        return { ...state, principal: answerOf(call, value)[0]?.objectId ?? null, principalExists: false };
      case "updateApplication":
        return { ...state, outdated: false };
      case "createRoleAssignment":
        return withGrant(state, args[0].assignmentId, "given");
      case "addGroupMember":
        return withMembership(state, args[0], "given");
      case "deleteRoleAssignment":
        return { ...state, grants: state.grants.filter((grant) => assignmentPath(grant) !== args[0]) };
      case "removeGroupMember":
        return { ...state, memberships: state.memberships.filter(({ groupId }) => groupId !== args[0]) };
      default:
        return state;
    }
  },

  refused(state, step, failure, now, tries) {
    const { call } = step;
    const { code } = failure;
    if (!state.made && passes(failure) && !isWorthRepeating(failure, tries)) return { kind: "failed" };
    const took = (): Verdict<Provision> => ({ kind: "took", state: provisioning.took(state, step, undefined, now) });
    if (call === "createApplication") {
      // Only what went unanswered may have come to pass; what was answered did not.
      if (failure.outcome === "unknown") return againUnanswered(state, failure);
      const free = { ...state, creating: false };
      return passes(failure) ? again(failure, free) : { kind: "failed" };
    }
    if (call === "createServicePrincipal" && code === "already_exists") {
      return again({ ...failure, retryAfterMs: 0 }, { ...state, principalExists: true });
    }
    if ((call === "createRoleAssignment" || call === "addGroupMember") && code === "already_exists") return took();
    if ((call === "deleteRoleAssignment" || call === "removeGroupMember") && code === "not_found") return took();
    return passes(failure) || isNew(state.made?.at ?? 0, step, failure, now) ? again(failure) : { kind: "failed" };
  },
};

/** Whether a refusal may only mean that the provider has not yet heard everywhere of an application made at `madeAt`. */
export function isNew(madeAt: number, { call }: Step, failure: CloudFailure, now: number): boolean {
  const age = now - madeAt;
  return isNotYetThere(call, failure, age) && (failure.code !== "permission_denied" || age < DENIED_MS);
}

const withGrant = (state: Provision, id: string, standing: Standing): Provision => ({
  ...state,
  grants: state.grants.map((grant) => (grant.assignmentId === id ? { ...grant, standing } : grant)),
});

const withMembership = (state: Provision, id: string, standing: Standing): Provision => ({
  ...state,
  memberships: state.memberships.map((each) => (each.groupId === id ? { ...each, standing } : each)),
});
