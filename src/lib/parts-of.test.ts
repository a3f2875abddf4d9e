import { expect, it } from "vitest";
import { partsOf } from "./parts-of.ts";

async function* pieces(...sizes: number[]) {
  let next = 0;
  for (const size of sizes) yield Uint8Array.from({ length: size }, () => next++);
}

it.each([[[]], [[0, 0]], [[1]], [[4]], [[8]], [[3, 3, 3]], [[9, 1]], [[2, 2, 2, 2, 2]], [[1, 12, 1]]])(
  "pieces of %j bytes become parts of 4, and a shorter last one",
  async (sizes) => {
    const parts = await Array.fromAsync(partsOf(pieces(...sizes), 4));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    expect(parts.flatMap((part) => [...part])).toEqual(Array.from({ length: total }, (_, at) => at));
    expect(parts.slice(0, -1).every(({ length }) => length === 4)).toBe(true);
    expect(parts.every(({ length }) => length > 0 && length <= 4)).toBe(true);
  },
);
