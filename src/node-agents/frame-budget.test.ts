import { expect, it } from "vitest";
import { FrameBudget } from "./frame-budget.ts";

const taken = (budget: FrameBudget, bytes: number, now: number): number => {
  let count = 0;
  while (count < 10_000 && budget.spend(bytes, now)) count += 1;
  return count;
};

it("permits a burst of all results an agent may hold back", () => {
  expect(taken(new FrameBudget(), 100, 1_000)).toBeGreaterThan(1_500);
});

it("charges large frames more than small ones", () => {
  expect(taken(new FrameBudget(), 1024 * 1024, 1_000)).toBeLessThan(40);
});

it("refills over time up to the burst size", () => {
  const budget = new FrameBudget();
  const first = taken(budget, 0, 1_000);
  expect(taken(budget, 0, 1_000)).toBe(0);
  expect(taken(budget, 0, 2_000)).toBe(50);
  expect(taken(budget, 0, 10_000_000)).toBe(first);
});

it("ignores a clock that goes backwards", () => {
  const budget = new FrameBudget();
  taken(budget, 0, 5_000);
  expect(budget.spend(0, 1_000)).toBe(false);
});

it("is not exhausted by results of requested operations", () => {
  const budget = new FrameBudget();
  for (let asked = 0; asked < 5_000; asked++) {
    for (let said = 0; said < 3; said++) expect(budget.spend(0, 1_000)).toBe(true);
    budget.giveBack();
  }
});
