import { type RemovalState, removalSagaOf, searchFrom } from "../../runner/removal.ts";
import { type CloudStep, resultOf, step } from "./calls.ts";
import { isNotYetThere } from "./lag.ts";

/**
 * A resource to remove. `purge`: permanent deletion of a deleted object; `since`: time of our deletion. `notBefore` (ms
 * since 1970): retry time after "not found", which is unreliable for a new resource.
 */
type Item = Thing & { readonly notBefore?: number };
type Thing =
  | { readonly kind: "assignment"; readonly id: string }
  | { readonly kind: "membership"; readonly group: string; readonly principal: string }
  | { readonly kind: "principal"; readonly id: string }
  /** All principals of an application by its client id, for a principal whose creation was never answered. */
  | { readonly kind: "principals-of"; readonly clientId: string }
  | { readonly kind: "application"; readonly id: string }
  | { readonly kind: "purge"; readonly id: string; readonly since: number | null }
  | { readonly kind: "password"; readonly application: string; readonly keyId: string };

/** Search for resources with unknown ids, by their planned name. */
interface Search {
  /** Display name of an application, or of a password of `application`. */
  readonly name: string;
  readonly application: string | null;
  /** The application or key of that name to keep. */
  readonly except: string | null;
  readonly until: number;
  readonly next: number;
}

export interface Removal extends RemovalState<Item, Search> {
  readonly permanently: boolean;
}

export const nothing: Removal = { items: [], stuck: [], search: null, permanently: true, madeAt: 0 };

/** A search from now on. @param application null: for an application, otherwise for a password of it */
export const searchFor = (name: string, application: string | null, except: string | null, now: number): Search => ({
  name,
  application,
  except,
  ...searchFrom(now),
});

/** Removes resources of the directory; a principal or application that is removed for good is purged afterwards. */
export const removalSaga = removalSagaOf<Item, Search, Removal>({
  stepOf,

  searchStep: ({ name, application }) =>
    application === null ? step("findApplicationsByName", name) : step("getApplication", application),

  found({ name, except }, { call }, value) {
    if (call === "findApplicationsByName") {
      const found = resultOf(call, value).filter(({ objectId }) => objectId !== except);
      return found.map(({ objectId }) => ({ kind: "application", id: objectId }));
    }
    const { objectId, passwords } = resultOf("getApplication", value);
    const found = passwords.filter(({ displayName, keyId }) => displayName === name && keyId !== except);
    return found.map(({ keyId }) => ({ kind: "password", application: objectId, keyId }));
  },

  // The application is gone, and its passwords with it.
  isNothingLeft: ({ call }, failure) => call === "getApplication" && failure.code === "not_found",

  isNotYetThere: ({ call }, failure, ageMs) => isNotYetThere(call as CloudStep["call"], failure, ageMs),

  ageFrom: (item) => (item.kind === "purge" ? (item.since ?? 0) : null),

  after(others, item, { permanently }, value, at) {
    if (item.kind === "principals-of") {
      const found = value === undefined ? [] : resultOf("findServicePrincipals", value);
      return [...found.map(({ objectId }) => ({ kind: "principal", id: objectId }) as const), ...others];
    }
    // An object deleted by others can still be restored, so it is purged as well.
    const isPurged = permanently && (item.kind === "principal" || item.kind === "application");
    return isPurged ? [...others, { kind: "purge", id: item.id, since: at }] : others;
  },
});

/** Ids of the resources behind a lease. Revocation needs them, so they are stored for the life of the lease. */
export type LeaseResources =
  | {
      readonly kind: "principal";
      readonly application: string;
      readonly principal: string;
      /** Full ids. */
      readonly assignments: readonly string[];
      readonly groups: readonly string[];
      readonly permanently: boolean;
    }
  | { readonly kind: "password"; readonly application: string; readonly keyId: string };

/**
 * The removal that revokes a lease. Rights come first, because the provider does not delete them with a principal.
 * @param issued ms since 1970
 */
export function revocationOf(resources: LeaseResources, issued: number): Removal {
  if (resources.kind === "password") {
    const { application, keyId } = resources;
    return { ...nothing, madeAt: issued, items: [{ kind: "password", application, keyId }] };
  }
  const { application, principal, assignments, groups, permanently } = resources;
  return {
    ...nothing,
    permanently,
    madeAt: issued,
    items: [
      ...assignments.map((id) => ({ kind: "assignment", id }) as const),
      ...groups.map((group) => ({ kind: "membership", group, principal }) as const),
      { kind: "principal", id: principal },
      { kind: "application", id: application },
    ],
  };
}

function stepOf(item: Item): CloudStep {
  switch (item.kind) {
    case "assignment":
      return step("deleteRoleAssignment", item.id);
    case "membership":
      return step("removeGroupMember", item.group, item.principal);
    case "principal":
      return step("deleteServicePrincipal", item.id);
    case "principals-of":
      return step("findServicePrincipals", item.clientId);
    case "application":
      return step("deleteApplication", item.id);
    case "purge":
      return step("purgeDeleted", item.id);
    case "password":
      return step("removeApplicationPassword", item.application, item.keyId);
  }
}
