import { type RemovalState, removalSagaOf, searchFrom } from "../../runner/removal.ts";
import { type ProducerStep, resultOf, step } from "./calls.ts";
import { type Captured, type Held, type Marked, sameObject } from "./cloud.ts";

/** An object to revoke. */
interface Item {
  readonly held: Held;
  readonly notBefore?: number;
}

/** A search for the objects of a marker. */
interface Search extends Marked {
  /** Values of the object to keep; null: none is kept. */
  readonly except: Captured | null;
  readonly lag: number;
  readonly until: number;
  readonly next: number;
}

export type Removal = RemovalState<Item, Search>;

const NOTHING: Removal = { items: [], stuck: [], search: null, madeAt: 0 };

export const removalSaga = removalSagaOf<Item, Search, Removal>({
  stepOf: ({ held }) => step("revoke", JSON.stringify(held)),
  searchStep: ({ marker, vars, root }) => step("find", { marker, vars, ...(root && { root }) }),
  found({ marker, vars, root, lag, except }, { call }, value) {
    if (call !== "find") return [];
    const found = resultOf(call, value).filter((ids) => except === null || !sameObject(ids, except));
    return found.map((ids) => ({ held: { ids, marker, vars, lag, ...(root && { root }) } }));
  },
  isNotYetThere(each, _failure, ageMs) {
    const { call, args } = each as ProducerStep;
    return call === "revoke" && ageMs < (JSON.parse(args[0]) as Held).lag * 1000;
  },
});

/** @param search the objects of this marker are searched for, too */
export const removalOf = (
  held: readonly Held[],
  search: (Marked & { readonly lag: number; readonly except: Captured | null }) | null,
  madeAt: number,
): Removal => ({
  ...NOTHING,
  items: held.map((each) => ({ held: each })),
  search: search && { ...search, ...searchWithin(search.lag, madeAt) },
  madeAt,
});

/** The times of a search that goes on until the provider lists what an unanswered call has made last. */
function searchWithin(lag: number, madeAt: number): ReturnType<typeof searchFrom> {
  const { until, next } = searchFrom(madeAt);
  return { until: until + lag * 1000, next };
}

/** Removes what an earlier secret of the engine belongs to, when calls with that have ended. */
export const rootRemoval = (held: Held, notBefore: number): Removal => ({
  ...NOTHING,
  items: [{ held, notBefore }],
  madeAt: notBefore,
});

/** Behind a lease. Null: the object ends by itself. */
export interface LeaseResources {
  readonly held: Held | null;
}

/** @param issued ms since 1970 */
export const revocationOf = ({ held }: LeaseResources, issued: number): Removal =>
  held ? { ...NOTHING, items: [{ held }], madeAt: issued } : NOTHING;
