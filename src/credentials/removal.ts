import type { Step } from "../contracts/credential-engine.ts";
import { isNotYetThere } from "../providers/cloud-b-azure/lag.ts";
import type { KeyAdd } from "./key-add.ts";
import { assignmentPath, type Provision } from "./provision.ts";
import { again, answerOf, type Program, passes, step } from "./step.ts";

/**
 * One thing to be taken away. `purge`: of what was deleted, so that it cannot be restored; `since`, when we deleted it.
 * `notBefore` (ms since 1970): it was not found, which may be too early to believe.
 */
type Item = Thing & { readonly notBefore?: number };
type Thing =
  | { readonly kind: "assignment"; readonly id: string }
  | { readonly kind: "membership"; readonly group: string; readonly principal: string }
  | { readonly kind: "principal"; readonly id: string }
  /** Of an application by its client id: one may have been made without our hearing of it. */
  | { readonly kind: "principals-of"; readonly clientId: string }
  | { readonly kind: "application"; readonly id: string }
  | { readonly kind: "purge"; readonly id: string; readonly since: number | null }
  | { readonly kind: "password"; readonly application: string; readonly keyId: string };

/** What may exist without our knowing its id: found by the name that was planned for it. */
interface Search {
  /** The display name of an application, or of a password of `application`. */
  readonly name: string;
  readonly application: string | null;
  /** The application of that name, or the key of the password, that is to stay. */
  readonly except: string | null;
  /** The provider may show late what it has made: looking goes on until then (ms since 1970). */
  readonly until: number;
  readonly next: number;
}

export interface Removal {
  readonly items: readonly Item[];
  /** What could not be removed; the rest goes on, so that one lock does not keep a credential alive. */
  readonly stuck: readonly Item[];
  readonly search: Search | null;
  readonly permanently: boolean;
  /** When the last of it was made, ms since 1970: what is new and not found may only not be known everywhere. */
  readonly madeAt: number;
}

/** How long an unanswered creation is looked for: our longest call, and the provider's replication. */
const SEARCH_MS = 3 * 60_000;
const SEARCH_EVERY_MS = 30_000;
/** The first look again at what was not found; each one after it waits twice as long. */
const LOOK_AGAIN_MS = 2_000;
const TRIES = 3;

const nothing: Removal = { items: [], stuck: [], search: null, permanently: true, madeAt: 0 };

/** What a dynamic lease's end takes away. */
export interface Principal {
  readonly application: string;
  readonly principal: string;
  /** Full ids. */
  readonly assignments: readonly string[];
  readonly groups: readonly string[];
}

/** Takes away an application with everything that it was given: rights first, as they do not go with it. */
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

/** Takes away whatever an unfinished provision has left, or may have left. */
export function undoOf(provision: Provision, now: number): Removal {
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

/** Takes away applications of a name but one: those that unanswered creations may have left. */
export const straysOf = (name: string, except: string, now: number): Removal => ({
  ...nothing,
  search: searchFor(name, null, except, now),
  madeAt: now,
});

/** Takes away one password of an application. */
export const passwordRemoval = (application: string, keyId: string, madeAt: number): Removal => ({
  ...nothing,
  madeAt,
  items: [{ kind: "password", application, keyId }],
});

/** Takes away passwords of a name but one: those that unanswered additions may have left. */
export const passwordSearch = (application: string, name: string, except: string | null, now: number): Removal => ({
  ...nothing,
  search: searchFor(name, application, except, now),
  madeAt: now,
});

/** Takes away what an addition has left, or may have left. */
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

/** What is stuck is tried again in another round. */
export const retried = (state: Removal): Removal => ({
  ...state,
  items: [...state.items, ...state.stuck],
  stuck: [],
});

/** Removes things so that repeating it is harmless: what is gone already counts as removed. */
export const removing: Program<Removal> = {
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

  took(state, step, value, now) {
    if (step.call === "findApplicationsByName") {
      const found = answerOf(step.call, value).filter(({ objectId }) => objectId !== state.search?.except);
      return searched(
        state,
        found.map(({ objectId }) => ({ kind: "application", id: objectId })),
        now,
      );
    }
    if (step.call === "getApplication") {
      const { objectId, passwords } = answerOf(step.call, value);
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
      const found = answerOf(step.call, value).map(({ objectId }) => ({ kind: "principal", id: objectId }) as const);
      return { ...state, items: [...found, ...state.items.filter((each) => each !== item)] };
    }
    return item ? without(state, item, now) : state;
  },

  refused(state, step, failure, now, tries) {
    const item = itemOf(state, step);
    if (!item) {
      // The application is gone, and its passwords with it.
      const gone = step.call === "getApplication" && failure.code === "not_found";
      if (gone) return { kind: "took", state: searched(state, [], now) };
      return passes(failure) && tries < TRIES ? again(failure) : { kind: "failed" };
    }
    if (failure.code === "not_found") {
      const since = item.kind === "purge" ? (item.since ?? 0) : state.madeAt;
      if (isNotYetThere(step.call, failure, now - since)) {
        const later = { ...item, notBefore: now + Math.max(LOOK_AGAIN_MS, now - since) };
        return { kind: "took", state: { ...state, items: state.items.map((each) => (each === item ? later : each)) } };
      }
      // Deleted by somebody else, it can be restored all the same.
      return { kind: "took", state: without(state, item, null) };
    }
    if (passes(failure) && tries < TRIES) return again(failure);
    const items = state.items.filter((each) => each !== item);
    return { kind: "took", state: { ...state, items, stuck: [...state.stuck, item] } };
  },
};

const itemOf = ({ items }: Removal, { call, args }: Step): Item | undefined =>
  items.find((item) => {
    const own = stepOf(item);
    return own.call === call && own.args.join(" ") === args.join(" ");
  });

/** @param since when we deleted it; null: it was gone already */
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
