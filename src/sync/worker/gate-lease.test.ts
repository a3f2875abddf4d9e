import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { MayRun } from "../../contracts/sync-control.ts";
import { forgetGateLeases, GateLease } from "./gate-lease.ts";

/** Delays of the next answers; the last one applies to all further answers. */
let delays: number[] = [];
let running = true;
let asked: number[] = [];
const ask = async (forMs: number): Promise<MayRun> => {
  asked.push(forMs);
  const delay = (delays.length > 1 ? delays.shift() : delays[0]) ?? 0;
  vi.setSystemTime(Date.now() + delay);
  return { running, permitMs: Math.min(Math.max(forMs, 100), 1_600) };
};
const start = 1_000_000;
const at = (ms: number) => vi.setSystemTime(start + ms);

beforeEach(() => {
  vi.useFakeTimers({ now: start });
  vi.stubGlobal("scheduler", { wait: async (ms: number) => void vi.setSystemTime(Date.now() + ms) });
  forgetGateLeases();
  [delays, running, asked] = [[], true, []];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("counts a lease from its request and renews it at its end", async () => {
  delays = [60, 0];
  const gateLease = new GateLease(ask);
  expect(await gateLease.holds()).toBe(true);
  at(99);
  expect(await gateLease.holds()).toBe(true);
  expect(asked).toEqual([0]);
  at(100);
  expect(await gateLease.holds()).toBe(true);
  expect(asked).toEqual([0, 0]);
});

it("requests a longer lease when one expires on the way, at most five times", async () => {
  delays = [100, 0];
  expect(await new GateLease(ask).holds()).toBe(true);
  expect(asked).toEqual([0, 400]);
  forgetGateLeases();
  [delays, asked] = [[1_600], []];
  expect(await new GateLease(ask).holds()).toBe(false);
  expect(asked).toEqual([0, 400, 800, 1_600, 3_200]);
});

it("returns false while syncing is paused, with one request", async () => {
  running = false;
  expect(await new GateLease(ask).holds()).toBe(false);
  expect(asked).toEqual([0]);
  running = true;
  expect(await new GateLease(ask).holds()).toBe(true);
});

it("shares one request among concurrent callers", async () => {
  const gateLease = new GateLease(ask);
  expect(await Promise.all([gateLease.holds(), gateLease.holds()])).toEqual([true, true]);
  expect(asked).toEqual([0]);
  at(1_000);
  expect(await gateLease.holds()).toBe(true);
  expect(asked).toEqual([0, 0]);
});

it("repeats a failed request and returns false when all fail", async () => {
  let failures = 2;
  const failing = async (forMs: number) => {
    if (failures-- > 0) throw new Error("restarted");
    return ask(forMs);
  };
  expect(await new GateLease(failing).holds()).toBe(true);
  expect(Date.now()).toBe(start + 200);
  forgetGateLeases();
  failures = 5;
  expect(await new GateLease(failing).holds()).toBe(false);
});

it("counts a lease from a poll from the poll's start and ignores an empty one", async () => {
  const gateLease = new GateLease(ask);
  gateLease.extend({ running: true, permitMs: 100 }, start - 50);
  at(49);
  expect([await gateLease.holds(), asked]).toEqual([true, []]);
  at(50);
  await gateLease.holds();
  expect(asked).toEqual([0]);
  gateLease.extend({ running: true, permitMs: 0 }, Date.now());
  gateLease.extend({ running: false, permitMs: 5_000 }, Date.now());
  at(149);
  await gateLease.holds();
  expect(asked).toEqual([0]);
  at(150);
  await gateLease.holds();
  expect(asked).toEqual([0, 0]);
});

it("renews a lease that a clock set back makes longer than the maximum", async () => {
  await new GateLease(ask).holds();
  at(-10_000);
  await new GateLease(ask).holds();
  expect(asked).toEqual([0, 0]);
});
