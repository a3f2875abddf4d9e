import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { inOrder } from "./limit.ts";

describe("inOrder", () => {
  it("keeps the order of the items, and the bound", async () => {
    let [running, most] = [0, 0];
    const results: number[] = [];
    const work = async (ms: number) => {
      most = Math.max(most, ++running);
      await sleep(ms);
      running -= 1;
      return ms;
    };
    for await (const result of inOrder([30, 1, 20, 2, 10], 2, work)) results.push(result);
    expect([results, most]).toEqual([[30, 1, 20, 2, 10], 2]);
  });

  it("ends with the first failure in order, after the results before it", async () => {
    const results: number[] = [];
    const walk = async () => {
      const work = async (item: number) => {
        if (item > 1) throw new Error(`failed ${item}`);
        return item;
      };
      for await (const result of inOrder([1, 2, 3, 4], 3, work)) results.push(result);
    };
    await expect(walk()).rejects.toThrow("failed 2");
    expect(results).toEqual([1]);
  });
});
