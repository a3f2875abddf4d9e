import { describe, expect, it } from "vitest";
import { mapLimit } from "./map-limit.ts";

/** Resolves in a later microtask for greater numbers, so that results arrive in another order. */
async function settled(ticks: number): Promise<void> {
  for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
}

describe("mapLimit", () => {
  it("returns results in the order of the items, with no more calls at a time than the limit", async () => {
    let running = 0;
    let most = 0;
    const results = await mapLimit([9, 1, 7, 2, 5, 3], 3, async (ticks) => {
      most = Math.max(most, ++running);
      await settled(ticks);
      running--;
      return ticks * 10;
    });
    expect(results).toEqual([90, 10, 70, 20, 50, 30]);
    expect(most).toBe(3);
  });

  it("takes items of an iterator as they are needed", async () => {
    const taken: number[] = [];
    function* numbers() {
      for (let number = 0; number < 4; number++) {
        taken.push(number);
        yield number;
      }
    }
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const mapped = mapLimit(numbers(), 2, () => held);
    await settled(10);
    expect(taken).toEqual([0, 1]);
    release();
    await mapped;
    expect(taken).toEqual([0, 1, 2, 3]);
  });

  it("begins no further item once it may not go on, and returns those begun", async () => {
    const begun: number[] = [];
    const results = await mapLimit(
      [1, 2, 3, 4],
      1,
      async (item) => {
        begun.push(item);
        return item;
      },
      () => begun.length < 2,
    );
    expect(results).toEqual([1, 2]);
  });

  it("rejects with the first failure once all items that were begun have ended, and begins no further one", async () => {
    const begun: number[] = [];
    const ended: number[] = [];
    const mapped = mapLimit([1, 8, 3, 4, 5], 2, async (item) => {
      begun.push(item);
      await settled(item);
      ended.push(item);
      throw new Error(`broken at ${item}`);
    });
    await expect(mapped).rejects.toThrow("broken at 1");
    expect(ended).toEqual([1, 8]);
    await settled(20);
    expect(begun).toEqual([1, 8]);
  });
});
