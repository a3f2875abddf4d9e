import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Subscribers } from "./subscribers.ts";

beforeEach(() => {
  vi.stubGlobal("scheduler", { wait: () => nextTurn() });
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

it("wakes subscriptions of later lines after storage has failed once", async () => {
  let failures = 1;
  const sql = {
    exec: () => {
      if (failures-- > 0) throw new Error("storage failed");
      return { toArray: () => [{ name: "one" }] };
    },
  } as unknown as SqlStorage;
  const woken: number[] = [];
  const subscribers = new Subscribers(sql, async (_name, newest) => void woken.push(newest));
  await subscribers.notify(1);
  expect(woken).toEqual([]);
  await subscribers.notify(2);
  expect(woken).toEqual([2]);
});

it("wakes each subscription once for lines that arrive meanwhile", async () => {
  const sql = { exec: () => ({ toArray: () => [{ name: "one" }] }) } as unknown as SqlStorage;
  const woken: number[] = [];
  const subscribers: Subscribers = new Subscribers(sql, async (_name, newest) => {
    woken.push(newest);
    if (newest === 1) for (const line of [2, 3]) await subscribers.notify(line);
  });
  await subscribers.notify(1);
  expect(woken).toEqual([1, 3]);
});
