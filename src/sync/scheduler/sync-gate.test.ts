import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PAUSE_RECHECK_MS, SyncGate } from "./sync-gate.ts";

/** Delay of each request. */
let delay = 0;
let running = true;
let asked = 0;
let resumed = 0;
let gate: SyncGate;
beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
  [delay, running, asked, resumed] = [0, true, 0, 0];
  const request = async () => {
    asked++;
    vi.setSystemTime(Date.now() + delay);
    return { running, permitMs: 100 };
  };
  gate = new SyncGate(request, () => resumed++);
});
afterEach(() => {
  vi.useRealTimers();
});

it("counts a lease from its request and renews it with less than 20 ms left", async () => {
  delay = 60;
  const sent = Date.now();
  expect(await gate.mayRun()).toBe(true);
  expect([gate.leaseMs(Date.now()), gate.leaseMs(sent + 99), gate.leaseMs(sent + 101)]).toEqual([40, 1, 0]);
  vi.setSystemTime(sent + 80);
  await gate.mayRun();
  expect(asked).toBe(1);
  vi.setSystemTime(sent + 81);
  await gate.mayRun();
  expect(asked).toBe(2);
});

it("has no lease while syncing is paused and checks again a minute after the request", async () => {
  await gate.mayRun();
  running = false;
  delay = 500;
  vi.setSystemTime(Date.now() + 100);
  const sent = Date.now();
  expect(await gate.mayRun()).toBe(false);
  expect([gate.leaseMs(sent), gate.pausedUntil()]).toEqual([0, sent + PAUSE_RECHECK_MS]);
  expect([await gate.mayRun(), asked]).toEqual([false, 3]);
  gate.update({ running: true, permitMs: 100 }, Date.now());
  expect([gate.leaseMs(Date.now()), gate.pausedUntil(), resumed]).toEqual([100, 0, 1]);
  gate.update({ running: true, permitMs: 100 }, Date.now());
  expect(resumed).toBe(1);
});

it.each([1_000_000, 1_000_010])(
  "ignores that syncing was paused for a question of %i, before or beside the newest",
  (sent) => {
    gate.update({ running: true, permitMs: 100 }, 1_000_010);
    gate.update({ running: false, permitMs: 0 }, sent);
    expect([gate.pausedUntil(), gate.leaseMs(1_000_010)]).toEqual([0, 100]);
  },
);

it("takes a lease for a question beside the one that was answered as paused", () => {
  gate.update({ running: false, permitMs: 0 }, 1_000_010);
  gate.update({ running: true, permitMs: 100 }, 1_000_010);
  expect([gate.pausedUntil(), gate.leaseMs(1_000_010)]).toEqual([0, 100]);
});
