import type { Dialect } from "../../../compat/dialect.ts";
import { ok, type Result } from "../../../lib/result.ts";
import { isWorthRetrying, mapDecision, retry } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { CloudAccount, NewApplication } from "./directory.ts";
import { providerAudience } from "./names.ts";
import {
  applicationSearch,
  type Grant,
  type Membership,
  newProvision,
  type Provision,
  provisionSaga,
  undoOfProvision,
} from "./provision.ts";
import type { Removal } from "./removal.ts";
import { draftRole, type GroupRef, type Role, type RoleBody, type RoleRef } from "./role.ts";

/** A role being written: its pending lookups, and its application if it keeps one. Persisted in the job. */
export interface RoleWrite {
  readonly name: string;
  readonly role: Role;
  /** The engine's own client id: a role for that application would grant the engine's own rights. */
  readonly ownClientId: string;
  readonly application: string | null;
  readonly roles: readonly RoleRef[];
  readonly groups: readonly GroupRef[];
  /** Refusal for the caller, if the role cannot be written. */
  readonly problem: string | null;
  /** Null until all lookups are done, and for roles without their own application. */
  readonly provision: Provision | null;
}

/** @param references names in the body to look up; null or empty: none */
export function newRoleWrite(
  name: string,
  role: Role,
  references: { application: string | null; roles: readonly RoleRef[] | null; groups: readonly GroupRef[] | null },
  ownClientId: string,
): RoleWrite {
  const { application, roles, groups } = references;
  return provided({
    name,
    role: { ...role, ...(roles && { cloud_roles: [] }), ...(groups && { cloud_groups: [] }) },
    ownClientId,
    application,
    roles: roles ?? [],
    groups: groups ?? [],
    problem: null,
    provision: null,
  });
}

const isLooking = ({ application, roles, groups }: RoleWrite): boolean =>
  application !== null || roles.length > 0 || groups.length > 0;

/**
 * Looks up the references of a role, then creates or changes its application.
 *
 *     application ──► roles ──► groups ──► provision (persist_app only) ──► done
 *          └────────────┴─────────┴──not found, duplicate──► problem
 */
export const roleSaga: CloudSaga<RoleWrite> = {
  next(state, now) {
    if (state.problem !== null) return null;
    if (state.application !== null) return step("getApplication", state.application);
    const [role] = state.roles;
    if (role) {
      return role.role_id !== ""
        ? step("getRoleDefinition", role.role_id)
        : step("findRoleDefinitions", role.role_name);
    }
    const [group] = state.groups;
    if (group) return group.object_id !== "" ? step("getGroup", group.object_id) : step("findGroups", group.group_name);
    return state.provision && provisionSaga.next(state.provision, now);
  },

  beforeCall: (state, step) =>
    state.provision && !isLooking(state)
      ? { ...state, provision: provisionSaga.beforeCall?.(state.provision, step) ?? state.provision }
      : state,

  onSuccess(state, step, value, now) {
    const [role] = state.roles;
    const [group] = state.groups;
    switch (step.call) {
      case "getApplication": {
        const { objectId, clientId } = resultOf(step.call, value);
        if (clientId.toLowerCase() === state.ownClientId.toLowerCase()) {
          return { ...state, problem: "application_object_id: is the application that the engine itself acts as" };
        }
        const known = { ...state.role, application_object_id: objectId, application_id: clientId };
        return provided({ ...state, application: null, role: known });
      }
      case "getRoleDefinition":
        return role ? withRole(state, { ...role, ...refOf(resultOf(step.call, value)) }) : state;
      case "findRoleDefinitions": {
        const [found, another] = resultOf(step.call, value);
        const name = role?.role_name ?? "";
        if (!found) return { ...state, problem: `no role found for role_name: '${name}'` };
        if (another) {
          return { ...state, problem: `multiple matches found for role_name: '${name}'. Specify role by ID instead.` };
        }
        return role ? withRole(state, { ...role, ...refOf(found) }) : state;
      }
      case "getGroup": {
        const { objectId, name } = resultOf(step.call, value);
        return withGroup(state, { group_name: name, object_id: objectId });
      }
      case "findGroups": {
        const [found, another] = resultOf(step.call, value);
        const name = group?.group_name ?? "";
        if (!found) return { ...state, problem: `no group found for group_name: '${name}'` };
        if (another) {
          const advice = "Specify group by ObjectID instead.";
          return { ...state, problem: `multiple matches found for group_name: '${name}'. ${advice}` };
        }
        return withGroup(state, { group_name: found.name, object_id: found.objectId });
      }
      default:
        return state.provision
          ? { ...state, provision: provisionSaga.onSuccess(state.provision, step, value, now) }
          : state;
    }
  },

  onError(state, step, failure, now, tries) {
    if (state.provision && !isLooking(state)) {
      const decision = provisionSaga.onError(state.provision, step, failure, now, tries);
      return mapDecision(decision, (provision) => ({ ...state, provision }));
    }
    if (failure.code !== "not_found") {
      return isWorthRetrying(failure, tries) ? retry(failure) : { kind: "failed" };
    }
    const [role] = state.roles;
    const [group] = state.groups;
    const problem =
      state.application !== null
        ? `error loading Application: there is none with the object id '${state.application}'`
        : role
          ? `no role found for role_id: '${role.role_id}'`
          : `no group found for object_id: '${group?.object_id ?? ""}'`;
    return { kind: "done", state: { ...state, problem } };
  },
};

const refOf = ({ id, name }: { id: string; name: string }) => ({ role_id: id, role_name: name });

const sameScope = (a: string, b: string): boolean => scopeKey(a) === scopeKey(b);
const scopeKey = (scope: string): string => scope.replace(/^\/+|\/+$/g, "").toLowerCase();
const sameId = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

function withRole(state: RoleWrite, found: RoleRef): RoleWrite {
  const known = state.role.cloud_roles ?? [];
  if (known.some((one) => sameId(one.role_id, found.role_id) && sameScope(one.scope, found.scope))) {
    return { ...state, problem: `duplicate role_id and scope: '${found.role_id}', '${found.scope}'` };
  }
  const role = { ...state.role, cloud_roles: [...known, found] };
  return provided({ ...state, role, roles: state.roles.slice(1) });
}

function withGroup(state: RoleWrite, found: GroupRef): RoleWrite {
  const known = state.role.cloud_groups ?? [];
  if (known.some((one) => sameId(one.object_id, found.object_id))) {
    return { ...state, problem: `duplicate object_id '${found.object_id}'` };
  }
  const role = { ...state.role, cloud_groups: [...known, found] };
  return provided({ ...state, role, groups: state.groups.slice(1) });
}

/** Adds the provision of the role's application after the last lookup. */
function provided(state: RoleWrite): RoleWrite {
  if (!state.role.persist_app || isLooking(state) || state.provision) return state;
  return { ...state, provision: provisionOf(state.name, state.role) };
}

/** The desired application of a role, as differences from the actual one. */
function provisionOf(name: string, role: Role): Provision {
  const rights = { grants: desiredGrants(role), memberships: desiredMemberships(role) };
  const application = applicationOf(`vault-${name.slice(0, 128)}-${crypto.randomUUID()}`, role);
  const { managed } = role;
  if (!managed) return newProvision(application, rights);
  const has = managed.application;
  const outdated =
    has.tags.join() !== application.tags.join() ||
    (application.signInAudience !== "" && has.signInAudience !== application.signInAudience);
  return {
    ...managed,
    application: { ...application, displayName: has.displayName },
    outdated: managed.outdated || outdated,
    grants: merged(managed.grants, rights.grants, sameGrant),
    memberships: merged(managed.memberships, rights.memberships, sameMembership),
  };
}

export const applicationOf = (displayName: string, role: Role): NewApplication => ({
  displayName,
  tags: role.tags ?? [],
  signInAudience: providerAudience(role.sign_in_audience),
});

/** The assignments of a role, each with a new id. */
export const desiredGrants = (role: Role): Grant[] =>
  (role.cloud_roles ?? []).map(({ scope, role_id: roleId }) => ({
    assignmentId: crypto.randomUUID(),
    scope,
    roleId,
    standing: "wanted",
  }));

export const desiredMemberships = (role: Role): Membership[] =>
  (role.cloud_groups ?? []).map(({ object_id: groupId }) => ({ groupId, standing: "wanted" }));

const sameGrant = (a: Grant, b: Grant): boolean => sameId(a.roleId, b.roleId) && sameScope(a.scope, b.scope);
const sameMembership = (a: Membership, b: Membership): boolean => sameId(a.groupId, b.groupId);

/** The rights that lead from those that there are to the desired ones. */
function merged<Right extends Grant | Membership>(
  has: readonly Right[],
  desired: readonly Right[],
  same: (a: Right, b: Right) => boolean,
): Right[] {
  const kept = has.map((right): Right => {
    if (!desired.some((each) => same(each, right))) return { ...right, standing: "unwanted" };
    return right.standing === "unwanted" ? { ...right, standing: "tried" } : right;
  });
  return [...kept, ...desired.filter((each) => !has.some((right) => same(each, right)))];
}

/** Begins a write: references in the body are looked up, and the application of `persist_app` is made or changed. */
export function beginRoleWrite(
  name: string,
  before: Role | null,
  body: RoleBody,
  { dialect, account }: { readonly dialect: Dialect; readonly account: Result<CloudAccount> },
): Result<RoleWrite> {
  if (!account.ok) return account;
  const draft = draftRole(before, body, dialect);
  if (!draft.ok) return draft;
  const role = draft.value;
  const named = role.persist_app ? "" : (body.application_object_id ?? "");
  const asked = {
    application: named !== "" && role.application_object_id !== "" ? named : null,
    roles: body.cloud_roles ?? null,
    groups: body.cloud_groups ?? null,
  };
  return ok(newRoleWrite(name, role, asked, account.value.clientId));
}

/** Whether a write only looks up references so far. */
export const isReplaceable = ({ provision, role }: RoleWrite): boolean => !provision && !role.persist_app;

/** The role as stored, and what was made for it before or by lost calls, to be removed. */
export function outcomeOfWrite({ role, provision, problem }: RoleWrite, before: Role | null, now: number) {
  if (problem !== null) return { problem };
  const managed = before?.managed ?? null;
  const stored = provision
    ? {
        ...role,
        managed: { ...provision, strays: false },
        application_object_id: provision.made?.objectId ?? "",
        application_id: provision.made?.clientId ?? "",
      }
    : { ...role, managed: null };
  const removals: { of: string; removal: Removal; because: string; former?: true }[] = [];
  if (provision?.strays) {
    const { application, made } = provision;
    const removal = applicationSearch(application.displayName, made?.objectId ?? "", now);
    removals.push({ of: "strays", removal, because: "strays" });
  }
  // From now on the role creates a principal for each lease.
  if (managed && !provision) {
    removals.push({
      of: "kept",
      removal: undoOfProvision(managed, now),
      because: "application of a role",
      former: true,
    });
  }
  return { role: stored, removals };
}

/** Undoes `roleSaga`. A role that is stored keeps a record of its application; otherwise all that was made goes. */
export function undoOfWrite({ provision }: RoleWrite, stored: Role | null, now: number) {
  if (!provision) return null;
  if (stored?.managed) return { role: { ...stored, managed: provision } };
  return { removal: undoOfProvision(provision, now) };
}

/** Removal of the application that belongs to a role, for a deleted role. Null if the role has none. */
export const undoOfRole = (role: Role, now: number): Removal | null =>
  role.managed && { ...undoOfProvision(role.managed, now), permanently: role.permanently_delete };
