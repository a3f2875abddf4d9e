import type { CloudFailure } from "../../../contracts/cloud-calls.ts";
import { type Decision, isTransient, isWorthRetrying, retry, retryUnanswered } from "../../runner/saga.ts";
import { type CloudSaga, type CloudStep, resultOf, step } from "./calls.ts";
import type { NewApplication } from "./directory.ts";
import { isNotYetThere } from "./lag.ts";
import { nothing, type Removal, searchFor } from "./removal.ts";

/**
 * State of a right. `tried`: the call was sent, so the right may exist. `unwanted`: to be removed, if it exists.
 * Persisted in jobs and roles.
 *
 *     wanted ──call sent──► tried ──answered──► given
 *                             └────────┬──────────┘
 *                                      ▼
 *                                  unwanted ──► removed
 */
type GrantState = "wanted" | "tried" | "given" | "unwanted";

/** A role on a scope. The assignment's id is chosen in advance, so that a repeated call creates nothing new. */
export interface Grant {
  readonly assignmentId: string;
  readonly scope: string;
  readonly roleId: string;
  readonly standing: GrantState;
}

export interface Membership {
  readonly groupId: string;
  readonly standing: GrantState;
}

/** An application with its principal and rights: actual and desired state. Persisted in jobs and roles. */
export interface Provision {
  readonly application: NewApplication;
  /** Null until the application is known to exist. `at`: creation time, ms since 1970. */
  readonly made: { readonly objectId: string; readonly clientId: string; readonly at: number } | null;
  /** The create call was sent; its outcome is unknown. */
  readonly creating: boolean;
  /** A create call stayed unanswered: a second application of this name may appear. */
  readonly strays: boolean;
  /** Number of unanswered create calls; older rows lack it. */
  readonly unanswered?: number;
  /** The application's tags or audience differ from the desired ones. */
  readonly outdated: boolean;
  readonly principal: string | null;
  /** The provider reports an existing principal with an id not read yet. */
  readonly principalExists: boolean;
  readonly grants: readonly Grant[];
  readonly memberships: readonly Membership[];
  /** Time of the last change, ms since 1970. */
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

/** Full id of an assignment. */
export const assignmentPath = ({ scope, assignmentId }: Pick<Grant, "scope" | "assignmentId">): string =>
  `/${scope.replace(/^\/+|\/+$/g, "")}/providers/Microsoft.Authorization/roleAssignments/${assignmentId}`;

/** For this long, "permission denied" may mean "not replicated yet"; after it, the refusal is returned to the caller. */
const DENIED_MS = 20_000;

const pending = (standing: GrantState): boolean => standing === "wanted" || standing === "tried";

/**
 * Creates an application with its principal, grants its rights, and removes unwanted ones.
 *
 *     createApplication ──► createServicePrincipal ──► updateApplication ──► grants, memberships ──► removals ──► done
 *       │ outcome unknown ▲
 *       ▼                 │ not listed (orphan possible)
 *     findApplicationsByName
 */
export const provisionSaga: CloudSaga<Provision> = {
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

  beforeCall(state, { call, args }) {
    if (call === "createApplication") return { ...state, creating: true };
    if (call === "createRoleAssignment") return withGrant(state, args[0].assignmentId, "tried");
    if (call === "addGroupMember") return withMembership(state, args[0], "tried");
    return state;
  },

  onSuccess(before, { call, args }, value, now) {
    const state = { ...before, touched: now };
    switch (call) {
      case "createApplication": {
        const { objectId, clientId } = resultOf(call, value);
        return { ...state, creating: false, made: { objectId, clientId, at: now } };
      }
      case "findApplicationsByName": {
        const [found] = resultOf(call, value);
        if (!found) return { ...state, creating: false, strays: true };
        return { ...state, creating: false, made: { objectId: found.objectId, clientId: found.clientId, at: now } };
      }
      case "createServicePrincipal":
        return { ...state, principal: resultOf(call, value).objectId };
      case "findServicePrincipals":
        return { ...state, principal: resultOf(call, value)[0]?.objectId ?? null, principalExists: false };
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

  onError(state, step, failure, now, tries) {
    const { call } = step;
    const { code } = failure;
    if (!state.made && isTransient(failure) && !isWorthRetrying(failure, tries)) return { kind: "failed" };
    const onSuccess = (): Decision<Provision> => ({
      kind: "done",
      state: provisionSaga.onSuccess(state, step, undefined, now),
    });
    if (call === "createApplication") {
      // Only an unanswered call may have been applied; a refused one was not.
      if (failure.outcome === "unknown") return retryUnanswered(state, failure);
      const free = { ...state, creating: false };
      return isTransient(failure) ? retry(failure, free) : { kind: "failed" };
    }
    if (call === "createServicePrincipal" && code === "already_exists") {
      return retry({ ...failure, retryAfterMs: 0 }, { ...state, principalExists: true });
    }
    if ((call === "createRoleAssignment" || call === "addGroupMember") && code === "already_exists") return onSuccess();
    if ((call === "deleteRoleAssignment" || call === "removeGroupMember") && code === "not_found") return onSuccess();
    return isTransient(failure) || isNew(state.made?.at ?? 0, step, failure, now) ? retry(failure) : { kind: "failed" };
  },
};

/** Undoes `provisionSaga`: removes everything that a provision created or may have created. */
export function undoOfProvision(provision: Provision, now: number): Removal {
  const { made, principal, grants, memberships, application } = provision;
  const tried = <T extends { standing: string }>(rights: readonly T[]) =>
    principal === null ? [] : rights.filter(({ standing }) => standing !== "wanted");
  return {
    ...nothing,
    items: [
      ...tried(grants).map((grant) => ({ kind: "assignment", id: assignmentPath(grant) }) as const),
      ...tried(memberships).map(
        ({ groupId }) => ({ kind: "membership", group: groupId, principal: principal ?? "" }) as const,
      ),
      ...(principal === null ? [] : [{ kind: "principal", id: principal } as const]),
      ...(made === null || principal !== null ? [] : [{ kind: "principals-of", clientId: made.clientId } as const]),
      ...(made === null ? [] : [{ kind: "application", id: made.objectId } as const]),
    ],
    search: provision.creating || provision.strays ? searchFor(application.displayName, null, null, now) : null,
    madeAt: provision.touched,
  };
}

/** Removes other applications of a name: orphans of unanswered create calls. */
export const applicationSearch = (name: string, except: string, now: number): Removal => ({
  ...nothing,
  search: searchFor(name, null, except, now),
  madeAt: now,
});

/** Whether a refusal may only mean that an application created at `madeAt` is not replicated yet. */
export function isNew(madeAt: number, { call }: CloudStep, failure: CloudFailure, now: number): boolean {
  const age = now - madeAt;
  return isNotYetThere(call, failure, age) && (failure.code !== "permission_denied" || age < DENIED_MS);
}

const withGrant = (state: Provision, id: string, standing: GrantState): Provision => ({
  ...state,
  grants: state.grants.map((grant) => (grant.assignmentId === id ? { ...grant, standing } : grant)),
});

const withMembership = (state: Provision, id: string, standing: GrantState): Provision => ({
  ...state,
  memberships: state.memberships.map((each) => (each.groupId === id ? { ...each, standing } : each)),
});
