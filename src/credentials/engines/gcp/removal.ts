import { type RemovalState, removalSagaOf } from "../../runner/removal.ts";
import { type CloudStep, resultOf, step } from "./calls.ts";
import type { AccountKey } from "./cloud.ts";
import { isNotYetThere } from "./lag.ts";

/** A resource to remove. `notBefore` (ms since 1970): retry time after "not found", which is unreliable for a new one. */
type Item = Thing & { readonly notBefore?: number };
type Thing =
  /** Grants of a resource's policy; see `grantOf`. */
  | { readonly kind: "grants"; readonly resource: string; readonly grants: readonly string[] }
  | { readonly kind: "account"; readonly email: string }
  /** `foreign`: the account is not the engine's, so a key that may be another's is disabled. */
  | { readonly kind: "key"; readonly email: string; readonly id: string; readonly foreign?: boolean };

/** A search for keys of unanswered calls: Google chooses their ids. */
interface Search extends KeyWindow {
  readonly email: string;
  readonly foreign: boolean;
  readonly until: number;
  readonly next: number;
}

/** How a key of an unanswered call is told from others. */
export interface KeyWindow {
  /** Ids of the keys before the first call. */
  readonly before: readonly string[];
  /** The keys were made after this time of Google's clock, ms since 1970. */
  readonly since: number;
  /** Id of the key to keep. */
  readonly except: string | null;
}

export interface Removal extends RemovalState<Item, Search> {
  /** Held until the end of a search: a key that another job makes meanwhile could not be told from a lost one. */
  readonly lock?: string | null;
}

export const nothing: Removal = { items: [], stuck: [], search: null, madeAt: 0 };

/** The longest call, and the delay of lists. */
const SEARCH_MS = 50_000;

/** Keys of a list that unanswered calls have made. Times of keys have whole seconds. */
export const lostKeys = (keys: readonly AccountKey[], { before, since, except }: KeyWindow): AccountKey[] =>
  keys.filter(
    ({ id, validAfter }) => !before.includes(id) && id !== except && validAfter >= Math.floor(since / 1000) * 1000,
  );

/** Name of a lock: one job at a time makes keys of an account. */
export const lockOfKeys = (email: string): string => `keys ${email}`;

/** Searches for keys of unanswered calls. */
export const keySearch = (email: string, foreign: boolean, window: KeyWindow, now: number): Removal => ({
  ...nothing,
  search: { email, foreign, ...window, until: now + SEARCH_MS, next: now },
  madeAt: now,
  lock: lockOfKeys(email),
});

/** Removes one key. @param madeAt ms since 1970 */
export const keyRemoval = (email: string, id: string, madeAt: number): Removal => ({
  ...nothing,
  madeAt,
  items: [{ kind: "key", email, id }],
});

/** Removes grants, then keys, then accounts. */
export const removalSaga = removalSagaOf<Item, Search, Removal>({
  stepOf,
  searchStep: ({ email }) => step("listKeys", email),
  found: (search, _step, value) =>
    lostKeys(resultOf("listKeys", value).keys, search).map(({ id }) => ({
      kind: "key",
      email: search.email,
      id,
      foreign: search.foreign,
    })),
  // The account is gone, and its keys with it.
  isNothingLeft: ({ call }, failure) => call === "listKeys" && failure.code === "not_found",
  isNotYetThere: ({ call }, failure, ageMs) => isNotYetThere(call, failure, ageMs),
});

/** Ids of the resources behind a lease. A token has no lease, and no resources. */
export type LeaseResources =
  | { readonly kind: "token" }
  | { readonly kind: "key"; readonly email: string; readonly id: string };

/** The removal that revokes a lease. @param issued ms since 1970 */
export const revocationOf = (resources: LeaseResources, issued: number): Removal =>
  resources.kind === "token" ? nothing : keyRemoval(resources.email, resources.id, issued);

function stepOf(item: Item): CloudStep {
  switch (item.kind) {
    case "grants":
      return step("changePolicy", item.resource, [], item.grants);
    case "account":
      return step("deleteServiceAccount", item.email);
    case "key":
      return item.foreign ? step("disableKey", item.email, item.id) : step("deleteKey", item.email, item.id);
  }
}
