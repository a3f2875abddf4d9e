import type { Step } from "../../../contracts/credential-engine.ts";
import { isTransient, resultOf, retry, type Saga, step } from "../../runner/saga.ts";
import type { KeyAdd } from "./key-add.ts";
import { isNotYetThere } from "./lag.ts";
import { assignmentPath, type Provision } from "./provision.ts";

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
  /** End of the search, ms since 1970: the provider may list new resources late. */
  readonly until: number;
  readonly next: number;
}

export interface Removal {
  readonly items: readonly Item[];
  /**
   * Resources that could not be removed. The removal continues past them, so that a locked one does not keep a
   * credential alive.
   */
  readonly stuck: readonly Item[];
  readonly search: Search | null;
  readonly permanently: boolean;
  /** Creation time of the newest resource, ms since 1970: "not found" may then mean "not replicated yet". */
  readonly madeAt: number;
}

/** Duration of a search: the longest call plus the provider's replication delay. */
const SEARCH_MS = 3 * 60_000;
const SEARCH_EVERY_MS = 30_000;
/** First interval before "not found" is checked again; it doubles with each check. */
const RECHECK_MS = 2_000;
const TRIES = 3;

const nothing: Removal = { items: [], stuck: [], search: null, permanently: true, madeAt: 0 };

/** Resources of a lease with its own principal. */
interface Principal {
  readonly application: string;
  readonly principal: string;
  /** Full ids. */
  readonly assignments: readonly string[];
  readonly groups: readonly string[];
}

/** Removes an application with its principal. Rights come first, because the provider does not delete them with it. */
export function removalOf(
  { application, principal, assignments, groups }: Principal,
  permanently: boolean,
  madeAt: number,
): Removal {
  return {
    ...nothing,
    permanently,
    madeAt,
    items: [
      ...assignments.map((id) => ({ kind: "assignment", id }) as const),
      ...groups.map((group) => ({ kind: "membership", group, principal }) as const),
      { kind: "principal", id: principal },
      { kind: "application", id: application },
    ],
  };
}

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

/** Removes one password of an application. */
export const passwordRemoval = (application: string, keyId: string, madeAt: number): Removal => ({
  ...nothing,
  madeAt,
  items: [{ kind: "password", application, keyId }],
});

/** Removes other passwords of a name: orphans of unanswered additions. */
export const passwordSearch = (application: string, name: string, except: string | null, now: number): Removal => ({
  ...nothing,
  search: searchFor(name, application, except, now),
  madeAt: now,
});

/** Undoes `keySaga`: removes everything that an addition created or may have created. */
export const undoOfKey = ({ application, name, key, adding, lost, strays }: KeyAdd, now: number): Removal => ({
  ...nothing,
  madeAt: now,
  items: [...(key ? [key.keyId] : []), ...lost].map((keyId) => ({ kind: "password", application, keyId }) as const),
  search: adding || strays ? searchFor(name, application, null, now) : null,
});

const searchFor = (name: string, application: string | null, except: string | null, now: number): Search => ({
  name,
  application,
  except,
  until: now + SEARCH_MS,
  next: now,
});

/** Moves the stuck resources back, for another round. */
export const retried = (state: Removal): Removal => ({
  ...state,
  items: [...state.items, ...state.stuck],
  stuck: [],
});

/**
 * Removes resources idempotently: an absent resource counts as removed.
 *
 *     item ──removed──► (purge, if permanent) ──► next item ──► search until `until` ──► done
 *      ├──not found and new──► checked again after twice the time
 *      └──TRIES failed──► stuck, for the next round
 */
export const removalSaga: Saga<Removal> = {
  next({ items, search }, now) {
    const item = items.find(({ notBefore = 0 }) => notBefore <= now);
    if (item) return stepOf(item);
    if (search && search.next <= now) {
      return search.application === null
        ? step("findApplicationsByName", search.name)
        : step("getApplication", search.application);
    }
    const times = [...items.map(({ notBefore = 0 }) => notBefore), ...(search ? [search.next] : [])];
    return times.length === 0 ? null : { wait: Math.min(...times) - now };
  },

  onSuccess(state, step, value, now) {
    if (step.call === "findApplicationsByName") {
      const found = resultOf(step.call, value).filter(({ objectId }) => objectId !== state.search?.except);
      return searched(
        state,
        found.map(({ objectId }) => ({ kind: "application", id: objectId })),
        now,
      );
    }
    if (step.call === "getApplication") {
      const { objectId, passwords } = resultOf(step.call, value);
      const { name, except } = state.search ?? { name: "", except: null };
      const found = passwords.filter(({ displayName, keyId }) => displayName === name && keyId !== except);
      return searched(
        state,
        found.map(({ keyId }) => ({ kind: "password", application: objectId, keyId })),
        now,
      );
    }
    const item = itemOf(state, step);
    if (step.call === "findServicePrincipals") {
      const found = resultOf(step.call, value).map(({ objectId }) => ({ kind: "principal", id: objectId }) as const);
      return { ...state, items: [...found, ...state.items.filter((each) => each !== item)] };
    }
    return item ? without(state, item, now) : state;
  },

  onError(state, step, failure, now, tries) {
    const item = itemOf(state, step);
    if (!item) {
      // The application is gone, and its passwords with it.
      const gone = step.call === "getApplication" && failure.code === "not_found";
      if (gone) return { kind: "done", state: searched(state, [], now) };
      return isTransient(failure) && tries < TRIES ? retry(failure) : { kind: "failed" };
    }
    if (failure.code === "not_found") {
      const since = item.kind === "purge" ? (item.since ?? 0) : state.madeAt;
      if (isNotYetThere(step.call, failure, now - since)) {
        const later = { ...item, notBefore: now + Math.max(RECHECK_MS, now - since) };
        return { kind: "done", state: { ...state, items: state.items.map((each) => (each === item ? later : each)) } };
      }
      // An object deleted by others can still be restored, so it is purged as well.
      return { kind: "done", state: without(state, item, null) };
    }
    if (isTransient(failure) && tries < TRIES) return retry(failure);
    const items = state.items.filter((each) => each !== item);
    return { kind: "done", state: { ...state, items, stuck: [...state.stuck, item] } };
  },
};

const itemOf = ({ items }: Removal, { call, args }: Step): Item | undefined =>
  items.find((item) => {
    const own = stepOf(item);
    return own.call === call && own.args.join(" ") === args.join(" ");
  });

/** @param since time of our deletion; null if it was already gone */
function without(state: Removal, item: Item, since: number | null): Removal {
  const items = state.items.filter((each) => each !== item);
  if (!state.permanently || (item.kind !== "principal" && item.kind !== "application")) return { ...state, items };
  return { ...state, items: [...items, { kind: "purge", id: item.id, since }] };
}

function searched(state: Removal, items: readonly Item[], now: number): Removal {
  const search = state.search && now < state.search.until ? { ...state.search, next: now + SEARCH_EVERY_MS } : null;
  return { ...state, items: [...state.items, ...items], search };
}

function stepOf(item: Item): Step {
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
