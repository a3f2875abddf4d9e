import type { CloudFailure } from "../../contracts/cloud-calls.ts";
import type { Step } from "../../contracts/credential-engine.ts";
import { isTransient, retry, type Saga } from "./saga.ts";

/** A resource to remove. `notBefore` (ms since 1970): retry time after "not found", which is unreliable for a new one. */
interface Item {
  readonly notBefore?: number;
}

/** A search for resources with unknown ids, by their planned name. */
interface Search {
  /** End of the search, ms since 1970: the provider may list new resources late. */
  readonly until: number;
  readonly next: number;
}

/** Resources being removed. Persisted in jobs. */
export interface RemovalState<I extends Item = Item, Q extends Search = Search> {
  readonly items: readonly I[];
  /**
   * Resources that could not be removed. The removal continues past them, so that a locked one does not keep a
   * credential alive.
   */
  readonly stuck: readonly I[];
  readonly search: Q | null;
  /** Creation time of the newest resource, ms since 1970: "not found" may then mean "not replicated yet". */
  readonly madeAt: number;
  /** Name of a lock that the removal holds from its start on; absent: none. */
  readonly lock?: string | null;
}

/** Duration of a search: the longest call plus the provider's replication delay. */
const SEARCH_MS = 3 * 60_000;
const SEARCH_EVERY_MS = 30_000;
/** First interval before "not found" is checked again; it doubles with each check. */
const RECHECK_MS = 2_000;
const TRIES = 3;

/** The times of a search that begins now. */
export const searchFrom = (now: number): Search => ({ until: now + SEARCH_MS, next: now });

/** Moves the stuck resources back, for another round. */
export const retried = <S extends RemovalState>(state: S): S => ({
  ...state,
  items: [...state.items, ...state.stuck],
  stuck: [],
});

/** Whether there is nothing to remove and nothing to search for. */
export const isEmpty = ({ items, search }: RemovalState): boolean => items.length === 0 && !search;

/** The removal that a job leaves: a search holds the job's lock, so that it does not find what the next job makes. */
export const searching = <S extends RemovalState>(
  removal: S | null,
  { lock }: { readonly lock: string | null },
): S | null => (removal?.search && lock !== null ? { ...removal, lock } : removal);

/** The calls of one engine type that remove its resources. */
export interface RemovalRules<I extends Item, Q extends Search, S extends RemovalState<I, Q>> {
  /** The call that removes a resource. Two resources never have an equal call. */
  stepOf(item: I): Step;
  searchStep(search: Q): Step;
  /** The resources that a search found, without the ones to keep. */
  found(search: Q, step: Step, value: unknown): readonly I[];
  /** Whether a failed search proves that nothing is left, such as a parent that is gone. */
  isNothingLeft?(step: Step, failure: CloudFailure): boolean;
  /** Whether "not found" may mean "not replicated yet" at this age, ms. */
  isNotYetThere?(step: Step, failure: CloudFailure, ageMs: number, state: S): boolean;
  /** The time from which the age of a resource counts, ms since 1970; the newest resource's by default. */
  ageFrom?(item: I): number | null;
  /** The items in place of one whose removal was refused; null: it is stuck. */
  instead?(item: I, failure: CloudFailure): readonly I[] | null;
  /** A stuck item as the next round begins with it; by default as it is. */
  stuckAs?(item: I): I;
  /** The items after the removal of one of them. @param at time of our removal; null if it was already gone */
  after?(others: readonly I[], item: I, state: S, value: unknown, at: number | null): readonly I[];
}

/**
 * Removes resources idempotently: an absent resource counts as removed.
 *
 *     item ──removed──► next item ──► search until `until` ──► done
 *      ├──not found and new──► checked again after twice the time
 *      ├──refused──► the items instead of it
 *      └──TRIES failed──► stuck, for the next round
 */
export function removalSagaOf<I extends Item, Q extends Search, S extends RemovalState<I, Q>>(
  rules: RemovalRules<I, Q, S>,
): Saga<S> {
  const itemOf = ({ items }: S, { call, args }: Step): I | undefined =>
    items.find((item) => {
      const own = rules.stepOf(item);
      return own.call === call && own.args.join(" ") === args.join(" ");
    });

  const without = (state: S, item: I, value: unknown, at: number | null): S => {
    const others = state.items.filter((each) => each !== item);
    return { ...state, items: rules.after?.(others, item, state, value, at) ?? others };
  };

  return {
    next({ items, search }, now) {
      const item = items.find(({ notBefore = 0 }) => notBefore <= now);
      if (item) return rules.stepOf(item);
      if (search && search.next <= now) return rules.searchStep(search);
      const times = [...items.map(({ notBefore = 0 }) => notBefore), ...(search ? [search.next] : [])];
      return times.length === 0 ? null : { wait: Math.min(...times) - now };
    },

    onSuccess(state, step, value, now) {
      const item = itemOf(state, step);
      if (item) return without(state, item, value, now);
      return state.search ? searched(state, rules.found(state.search, step, value), now) : state;
    },

    onError(state, step, failure, now, tries) {
      const item = itemOf(state, step);
      if (!item) {
        if (rules.isNothingLeft?.(step, failure)) return { kind: "done", state: searched(state, [], now) };
        return isTransient(failure) && tries < TRIES ? retry(failure) : { kind: "failed" };
      }
      if (failure.code === "not_found") {
        const age = now - (rules.ageFrom?.(item) ?? state.madeAt);
        if (rules.isNotYetThere?.(step, failure, age, state)) {
          const later = { ...item, notBefore: now + Math.max(RECHECK_MS, age) };
          const items = state.items.map((each) => (each === item ? later : each));
          return { kind: "done", state: { ...state, items } };
        }
        return { kind: "done", state: without(state, item, undefined, null) };
      }
      if (isTransient(failure) && tries < TRIES) return retry(failure);
      const items = state.items.filter((each) => each !== item);
      const instead = rules.instead?.(item, failure);
      if (instead) return { kind: "done", state: { ...state, items: [...instead, ...items] } };
      const stuck = [...state.stuck, rules.stuckAs?.(item) ?? item];
      return { kind: "done", state: { ...state, items, stuck } };
    },
  };
}

function searched<S extends RemovalState>(state: S, items: S["items"], now: number): S {
  const search = state.search && now < state.search.until ? { ...state.search, next: now + SEARCH_EVERY_MS } : null;
  return { ...state, items: [...state.items, ...items], search };
}
