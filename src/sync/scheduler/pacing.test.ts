import { describe, expect, it } from "vitest";
import { repoHost } from "../destinations/repo-host/adapter.ts";
import { Pacing } from "./pacing.ts";

const pace = { atOnce: 2, burst: 10, perMinute: 60 };

describe("the pace of a destination", () => {
  it("allows a burst, then one write per refilled token", () => {
    const pacing = new Pacing();
    expect(pacing.room(pace, 0)).toBe(10);
    pacing.spend(pace, 10, 0);
    expect([pacing.room(pace, 0), pacing.nextAt(pace, 0)]).toEqual([0, 1_000]);
    expect(pacing.room(pace, 999)).toBe(0);
    expect([pacing.room(pace, 1_000), pacing.nextAt(pace, 1_000)]).toEqual([1, 0]);
  });

  it("never accumulates more than a burst", () => {
    const pacing = new Pacing();
    pacing.spend(pace, 10, 0);
    expect(pacing.room(pace, 24 * 3_600_000)).toBe(10);
  });

  it("charges unforeseen writes and returns unused ones", () => {
    const pacing = new Pacing();
    pacing.spend(pace, 15, 0);
    expect([pacing.room(pace, 5_000), pacing.nextAt(pace, 5_000)]).toEqual([0, 6_000]);
    pacing.spend(pace, -3, 5_000);
    expect(pacing.room(pace, 5_000)).toBe(3);
  });

  it("tolerates a clock that is set back", () => {
    const pacing = new Pacing();
    pacing.spend(pace, 10, 10_000);
    expect(pacing.room(pace, 0)).toBe(0);
    expect(pacing.room(pace, 1_000)).toBe(1);
  });

  it("gains no time twice from clocks that stand at different times", () => {
    const pacing = new Pacing();
    pacing.spend(pace, 10, 10_000);
    for (let round = 0; round < 50; round++) for (const now of [10_000, 10_900]) pacing.room(pace, now);
    expect(pacing.room(pace, 10_900)).toBe(0);
    expect(pacing.room(pace, 11_000)).toBe(1);
  });

  it("keeps writes to a repository host below its limit per minute", () => {
    const pacing = new Pacing();
    let written = 0;
    for (let now = 0; now < 10 * 60_000; now += 50) {
      const room = Math.min(repoHost.pace.atOnce, pacing.room(repoHost.pace, now));
      pacing.spend(repoHost.pace, room, now);
      written += room;
    }
    expect(repoHost.pace.atOnce).toBe(1);
    // GitHub, "About secondary rate limits": 80 requests a minute, 500 an hour, that create content.
    expect(written).toBeGreaterThanOrEqual(10 * repoHost.pace.perMinute);
    expect(written).toBeLessThanOrEqual(10 * repoHost.pace.perMinute + repoHost.pace.burst);
    expect(repoHost.pace.burst + repoHost.pace.perMinute).toBeLessThan(100);
  });
});
