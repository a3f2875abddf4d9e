import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { MayRun } from "../contracts/sync-control.ts";
import { forgetGateLeases, GateLease } from "./gate-lease.ts";

/** How long the next answers take on their way; the last holds for all that follow. */
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

it("counts a permission from the question, and asks again the moment that it has run out", async () => {
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

it("asks for longer when an answer has run out on its way, five times at most", async () => {
  delays = [100, 0];
  expect(await new GateLease(ask).holds()).toBe(true);
  expect(asked).toEqual([0, 400]);
  forgetGateLeases();
  [delays, asked] = [[1_600], []];
  expect(await new GateLease(ask).holds()).toBe(false);
  expect(asked).toEqual([0, 400, 800, 1_600, 3_200]);
});

it("says no while syncing is paused, without asking twice", async () => {
  running = false;
  expect(await new GateLease(ask).holds()).toBe(false);
  expect(asked).toEqual([0]);
  running = true;
  expect(await new GateLease(ask).holds()).toBe(true);
});

it("asks once for all that wait, and anew after that", async () => {
  const gateLease = new GateLease(ask);
  expect(await Promise.all([gateLease.holds(), gateLease.holds()])).toEqual([true, true]);
  expect(asked).toEqual([0]);
  at(1_000);
  expect(await gateLease.holds()).toBe(true);
  expect(asked).toEqual([0, 0]);
});

it("repeats a question that failed, and says no when all fail", async () => {
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

it("takes what a turn permits from the time of its question, and nothing from one that permits nothing", async () => {
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

it("does not believe a permission that a clock set back has made longer than any", async () => {
  await new GateLease(ask).holds();
  at(-10_000);
  await new GateLease(ask).holds();
  expect(asked).toEqual([0, 0]);
});
