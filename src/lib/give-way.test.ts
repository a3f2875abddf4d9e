import { expect, it } from "vitest";
import { giveWay } from "./give-way.ts";

/** The pauses of a task whose thread is late by `lateMs` each time. */
async function pauses(workedMs: number, lateMs: number): Promise<number[]> {
  let now = 0;
  const waits: number[] = [];
  await giveWay(workedMs, {
    now: () => now,
    wait: async (ms) => {
      waits.push(ms);
      now += ms + lateMs;
    },
  });
  return waits;
}

it.each([
  ["alone hardly pauses", 40, 1, [1]],
  ["beside other work rests twice as long as it worked", 40, 8, [1, 80]],
  ["rests half a second at most", 4_000, 8, [1, 500]],
])("a long task %s", async (_, workedMs, lateMs, expected) => {
  expect(await pauses(workedMs, lateMs)).toEqual(expected);
});
