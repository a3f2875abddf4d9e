import { expect, it } from "vitest";
import { FrameBudget } from "./frame-budget.ts";

const taken = (budget: FrameBudget, bytes: number, now: number): number => {
  let count = 0;
  while (count < 10_000 && budget.spend(bytes, now)) count += 1;
  return count;
};

it("an agent may tell at once all the results that it may hold back", () => {
  expect(taken(new FrameBudget(), 100, 1_000)).toBeGreaterThan(1_500);
});

it("large frames cost more than small ones", () => {
  expect(taken(new FrameBudget(), 1024 * 1024, 1_000)).toBeLessThan(40);
});

it("what is spent comes back with time, and never more than there was", () => {
  const budget = new FrameBudget();
  const first = taken(budget, 0, 1_000);
  expect(taken(budget, 0, 1_000)).toBe(0);
  expect(taken(budget, 0, 2_000)).toBe(50);
  expect(taken(budget, 0, 10_000_000)).toBe(first);
});

it("a clock that goes back gives and takes nothing", () => {
  const budget = new FrameBudget();
  taken(budget, 0, 5_000);
  expect(budget.spend(0, 1_000)).toBe(false);
});

it("is not used up by what it is asked for, however much that is", () => {
  const budget = new FrameBudget();
  for (let asked = 0; asked < 5_000; asked++) {
    for (let said = 0; said < 3; said++) expect(budget.spend(0, 1_000)).toBe(true);
    budget.giveBack();
  }
});
