import type { CloudFailure } from "../../../contracts/cloud-calls.ts";
import { type RemovalState, removalSagaOf, searchFrom } from "../../runner/removal.ts";
import { type CloudStep, resultOf, step } from "./calls.ts";
import type { Addition, Assumed } from "./cloud.ts";

/** Our tag of a user. */
export const MARKER = "sallyport";
/** Time in which the provider may not know a new user everywhere. */
export const FRESH_MS = 60_000;

/** Whether a user has our tag with the value that was chosen for it. */
export const isOurs = ({ marker }: { readonly marker: string }, tags: Readonly<Record<string, string>>): boolean =>
  tags[MARKER] === marker;

/** Something to remove. `notBefore` (ms since 1970): the time of the next attempt. */
type Item = Thing & { readonly notBefore?: number };
type Thing =
  /** `as`: of a user in an account of others. */
  | { readonly kind: "key"; readonly user: string; readonly id: string; readonly as?: Assumed }
  /** Keys, policies and groups of a user, which are looked up. */
  | { readonly kind: "contents"; readonly user: string }
  | { readonly kind: "attached"; readonly user: string; readonly arn: string }
  | { readonly kind: "inline"; readonly user: string; readonly name: string }
  | { readonly kind: "member"; readonly user: string; readonly group: string }
  /** Additions by others to a user, which are looked up. */
  | { readonly kind: "additions"; readonly user: string }
  | { readonly kind: "addition"; readonly user: string; readonly addition: Addition }
  /** `swept`: everything that may keep it from deletion was looked up in this round. */
  | { readonly kind: "user"; readonly user: string; readonly swept: boolean };

/** Search for a user by name and tag, or for keys of a user without the ones to keep. */
type Search = { readonly until: number; readonly next: number } & (
  | { readonly kind: "user"; readonly name: string; readonly marker: string }
  | { readonly kind: "keys"; readonly name: string; readonly except: readonly string[]; readonly as?: Assumed }
);

export type Removal = RemovalState<Item, Search>;

export const nothing: Removal = { items: [], stuck: [], search: null, madeAt: 0 };

export const userSearch = (name: string, marker: string, now: number): Search => ({
  kind: "user",
  name,
  marker,
  ...searchFrom(now),
});

export const keySearch = (name: string, except: readonly string[], now: number, as?: Assumed): Search => ({
  kind: "keys",
  name,
  except,
  ...(as && { as }),
  ...searchFrom(now),
});

/** Removes a user with everything that it has; its known keys first, because they are in use. */
export const userRemoval = (user: string, keys: readonly string[], madeAt: number): Removal => ({
  ...nothing,
  madeAt,
  items: [...keys.map((id) => ({ kind: "key", user, id }) as const), ...itemsOf(user, false)],
});

/** Removes one key. @param madeAt its latest creation time @param notBefore ms since 1970 */
export const keyRemoval = (user: string, id: string, madeAt: number, notBefore: number): Removal => ({
  ...nothing,
  madeAt,
  items: [{ kind: "key", user, id, notBefore }],
});

const itemsOf = (user: string, swept: boolean): Item[] => [
  { kind: "contents", user },
  ...(swept ? ([{ kind: "additions", user }] as const) : []),
  { kind: "user", user, swept },
];

/**
 * Removes users and keys. The contents of a user are looked up, because others may have added to them; a refused deletion looks
 * up the rest once in each round.
 *
 *     key ──► contents ──► keys, policies, groups ──► user ──DeleteConflict──► contents, additions ──► … ──► user
 */
export const removalSaga = removalSagaOf<Item, Search, Removal>({
  stepOf,

  searchStep: (search) =>
    search.kind === "user"
      ? step("getUser", search.name)
      : step("listKeys", search.name, ...(search.as ? [search.as] : [])),

  found(search, _step, value) {
    if (search.kind === "user") {
      const { name, tags } = resultOf("getUser", value);
      return isOurs(search, tags) ? itemsOf(name, false) : [];
    }
    const { name, except, as } = search;
    const keys = resultOf("listKeys", value).filter(({ id }) => !except.includes(id));
    return keys.map(({ id }) => ({ kind: "key", user: name, id, ...(as && { as }) }));
  },

  isNothingLeft: ({ call }, failure) => (call === "getUser" || call === "listKeys") && isMissing(failure),

  // The deletion of a user, which is its last step, is refused while the user has a key.
  isNotYetThere: ({ call }, _failure, ageMs, { items }) =>
    ageMs < FRESH_MS &&
    (call === "contents" ||
      call === "deleteUser" ||
      (call === "deleteKey" && items.every(({ kind }) => kind === "key"))),

  instead(item, failure) {
    if (item.kind !== "user" || item.swept || failure.providerCode !== "DeleteConflict") return null;
    return itemsOf(item.user, true);
  },

  stuckAs: (item) => (item.kind === "user" ? { ...item, swept: false } : item),

  after(others, { kind, user }, _state, value) {
    if (value === undefined) return others;
    if (kind === "additions") {
      const found = resultOf("additions", value);
      return [...found.map((addition) => ({ kind: "addition", user, addition }) as const), ...others];
    }
    if (kind !== "contents") return others;
    const { keys, attached, inline, groups } = resultOf("contents", value);
    return [
      ...keys.map((id) => ({ kind: "key", user, id }) as const),
      ...attached.map((arn) => ({ kind: "attached", user, arn }) as const),
      ...inline.map((name) => ({ kind: "inline", user, name }) as const),
      ...groups.map((group) => ({ kind: "member", user, group }) as const),
      ...others,
    ];
  },
});

const isMissing = ({ code }: CloudFailure): boolean => code === "not_found" || code === "not_replicated";

/** The resources behind a lease; revocation needs them, so they are stored for the life of the lease. */
export type LeaseResources =
  | { readonly kind: "user"; readonly name: string; readonly key: string }
  /** Ends by itself. */
  | { readonly kind: "session" };

/** The removal that revokes a lease; empty for a session. @param issued ms since 1970 */
export const revocationOf = (resources: LeaseResources, issued: number): Removal =>
  resources.kind === "session" ? nothing : userRemoval(resources.name, [resources.key], issued);

function stepOf(item: Item): CloudStep {
  const { user } = item;
  switch (item.kind) {
    case "key":
      return step("deleteKey", user, item.id, ...(item.as ? [item.as] : []));
    case "contents":
      return step("contents", user);
    case "attached":
      return step("detachPolicy", user, item.arn);
    case "inline":
      return step("deletePolicy", user, item.name);
    case "member":
      return step("removeFromGroup", user, item.group);
    case "additions":
      return step("additions", user);
    case "addition":
      return step("deleteAddition", user, item.addition.kind, item.addition.id);
    case "user":
      return step("deleteUser", user);
  }
}
