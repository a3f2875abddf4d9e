import { expect, it, vi } from "vitest";
import { Waiters } from "./waiters.ts";

const LONG_MS = 60_000;

it("answers every waiting query with the change, up to the maximum; a further one returns null at once", async () => {
  let index = 5;
  const waiters = new Waiters(() => index);
  const answers: (number | null)[] = [];
  for (let count = 0; count < 20_000; count++) {
    void waiters.changed(["Job"], 5, LONG_MS).then((newest) => answers.push(newest));
  }
  expect(await waiters.changed(["Job"], 5, LONG_MS)).toBe(null);
  expect(await waiters.changed(["Job"], 4, LONG_MS)).toBe(5);
  index = 6;
  waiters.wake(["Job"]);
  await vi.waitFor(() => expect(answers).toHaveLength(20_000));
  expect(new Set(answers)).toEqual(new Set([6]));
  expect(waiters.count).toBe(0);
});

it("keeps queries waiting that need a higher index or another table", async () => {
  const indexes: Record<string, number> = { Job: 5, Node: 5 };
  const waiters = new Waiters((table) => indexes[table] ?? 0);
  void waiters.changed(["Job"], 7, LONG_MS);
  void waiters.changed(["Node"], 5, LONG_MS);
  const both = waiters.changed(["Job", "Node"], 5, LONG_MS);
  indexes["Job"] = 6;
  waiters.wake(["Job"]);
  expect(await both).toBe(6);
  expect(waiters.count).toBe(2);
});
