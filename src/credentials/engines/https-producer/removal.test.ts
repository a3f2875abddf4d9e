import { expect, it } from "vitest";
import { removalOf, removalSaga } from "./removal.ts";

const MINUTE = 60_000;

/** The minute of the last of the searches, each of which finds nothing. */
function lastSearch(lag: number): number {
  let state = removalOf([], { marker: "sp-m", vars: {}, lag, except: null }, 0);
  for (let now = 0; ; ) {
    const step = removalSaga.next(state, now);
    if (step === null) return Math.floor(now / MINUTE);
    if ("wait" in step) now += step.wait;
    else state = removalSaga.onSuccess(state, step, [], now);
  }
}

it("searches for objects of lost answers as long as the provider may not list them", () => {
  expect([0, 60, 1_800].map(lastSearch)).toEqual([3, 4, 33]);
});
