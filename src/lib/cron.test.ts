import { describe, expect, it } from "vitest";
import { parseCron } from "./cron.ts";

const due = (expression: string, at: string): string | null => {
  const next = parseCron(expression)?.after(Date.parse(at)) ?? null;
  return next === null ? null : new Date(next).toISOString().slice(0, 16);
};

describe("the next time of a schedule is", () => {
  it.each([
    ["* * * * *", "2026-11-21T10:00:30Z", "2026-11-21T10:01"],
    ["0 * * * *", "2026-11-21T10:00:00Z", "2026-11-21T11:00"],
    ["*/15 9-17 * * *", "2026-11-21T17:46:00Z", "2026-11-22T09:00"],
    ["30 3 * * SUN", "2026-11-21T10:00:00Z", "2026-11-22T03:30"],
    ["0 0 1 JAN,jul *", "2026-11-21T10:00:00Z", "2027-01-01T00:00"],
    ["0 0 29 2 *", "2026-11-21T10:00:00Z", "2028-02-29T00:00"],
    // Either kind of day will do when both are restricted.
    ["0 0 13 * FRI", "2026-11-21T10:00:00Z", "2026-11-27T00:00"],
    ["5/20 0 * * *", "2026-11-21T00:25:00Z", "2026-11-21T00:45"],
    ["59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59"],
  ])("%s after %s at %s", (expression, at, expected) => {
    expect(due(expression, at)).toBe(expected);
  });

  it("absent when the day does not exist", () => {
    expect(due("0 0 30 2 *", "2026-11-21T10:00:00Z")).toBeNull();
  });
});

it.each([
  "",
  "* * * *",
  "* * * * * *",
  "60 * * * *",
  "* 24 * * *",
  "* * 0 * *",
  "* * * 13 *",
  "* * * * 7",
  "5-1 * * * *",
  "*/0 * * * *",
  "a * * * *",
  "1- * * * *",
  "@daily",
  "1,,2 * * * *",
])("%j is not a valid schedule", (expression) => {
  expect(parseCron(expression)).toBeNull();
});
