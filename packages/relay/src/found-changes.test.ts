import { describe, expect, it } from "vitest";
import type { StaleObject } from "./comparison.ts";
import { FoundChanges } from "./found-changes.ts";

const change = (modifyIndex: number): StaleObject => ({ topic: "Job", namespace: "default", id: "a", modifyIndex });

describe("changes found by a comparison", () => {
  it("are settled when the stream has passed their index", () => {
    const found = new FoundChanges();
    found.add([change(5), change(9)], 0);
    expect(found.settled(5, false, 0)).toEqual([]);
    expect(found.settled(6, false, 0)).toEqual([change(5)]);
    expect(found.settled(6, false, 60_000)).toEqual([]);
    expect(found.settled(10, false, 60_000)).toEqual([change(9)]);
    expect(found.isPending).toBe(false);
  });

  it("are settled after a second on a stream without waiting lines", () => {
    const found = new FoundChanges();
    found.add([change(5)], 1_000);
    expect(found.settled(5, true, 1_999)).toEqual([]);
    expect(found.settled(5, false, 2_000)).toEqual([]);
    expect(found.settled(5, true, 2_000)).toEqual([change(5)]);
    expect(found.settled(5, true, 2_000)).toEqual([]);
  });
});
