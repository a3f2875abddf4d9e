import { vi } from "vitest";

type Call = Parameters<typeof fetch>;
/** Whether a test calls a double itself, to look at it or to change it. */
export const isOfTest = ([to]: Call) => String(to instanceof Request ? to.url : to).includes("/_double/");

/**
 * Holds the answer to the first provider call that `picks` selects, so that a test can act during the call, however slow
 * the machine is. The provider has performed the call by then.
 */
export function holdAnswer(picks: (call: Call) => boolean | Promise<boolean>) {
  const fetching = globalThis.fetch;
  let state: "awaited" | "held" | "released" = "awaited";
  vi.spyOn(globalThis, "fetch").mockImplementation(async (...call) => {
    const answer = await fetching(...call);
    if (state !== "awaited" || isOfTest(call) || !(await picks(call))) return answer;
    state = "held";
    // Polled: a promise of another request would not resume this one.
    while (state === "held") await scheduler.wait(10);
    return answer;
  });
  return {
    isHeld: () => state === "held",
    release: () => {
      state = "released";
    },
  };
}
