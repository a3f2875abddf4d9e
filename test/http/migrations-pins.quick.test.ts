import { expect, it } from "vitest";
import { broken, digestOf, pinned, stepsOfSources } from "../../scripts/pin-migrations.ts";

it("every released migration step is pinned and unchanged", async () => {
  const [pins, steps] = [pinned(), await stepsOfSources()];
  expect(broken(pins, steps)).toEqual([]);
  const unpinned = Object.entries(steps).filter(([list, { length }]) => (pins[list]?.length ?? 0) < length);
  expect(
    unpinned.map(([list]) => `${list}: pin its new steps with npm run pin-migrations`),
    "steps that are not pinned",
  ).toEqual([]);
  expect(Object.keys(steps).length).toBeGreaterThan(15);
});

it("detects a step that is edited, moved or removed, and accepts an added one", () => {
  const pins = { list: [digestOf("a"), digestOf("b")] };
  expect(broken(pins, { list: ["a", "b", "c"] })).toEqual([]);
  expect(broken(pins, { list: ["a", "B"] })).toEqual(["list: step 2 was changed; add a new one instead"]);
  expect(broken(pins, { list: ["b", "a"] })).toHaveLength(2);
  expect(broken(pins, { list: ["a"] })).toEqual(["list: step 2 is gone"]);
  expect(broken(pins, {})).toHaveLength(2);
});
