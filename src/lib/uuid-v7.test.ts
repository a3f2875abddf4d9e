import { expect, it } from "vitest";
import { uuidV7 } from "./uuid-v7.ts";

it("generates unique version 7 ids that sort by time", () => {
  const ids = [1, 2 ** 40, Date.UTC(2026, 0, 1), Date.UTC(2500, 0, 1)].map((time) => uuidV7(time));
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(Array.from({ length: 1_000 }, () => uuidV7(5))).size).toBe(1_000);
});
