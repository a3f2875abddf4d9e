import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PAUSE_LOOK_MS, Pause } from "./pause.ts";

/** How long each question takes on its way. */
let delay = 0;
let running = true;
let asked = 0;
let pause: Pause;
beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
  [delay, running, asked] = [0, true, 0];
  pause = new Pause(async () => {
    asked++;
    vi.setSystemTime(Date.now() + delay);
    return { running, permitMs: 100 };
  });
});
afterEach(() => {
  vi.useRealTimers();
});

it("counts a permission from the question, and asks again once less than 20 ms of it are left", async () => {
  delay = 60;
  const sent = Date.now();
  expect(await pause.mayRun()).toBe(true);
  expect([pause.permitMs(Date.now()), pause.permitMs(sent + 99), pause.permitMs(sent + 101)]).toEqual([40, 1, 0]);
  vi.setSystemTime(sent + 80);
  await pause.mayRun();
  expect(asked).toBe(1);
  vi.setSystemTime(sent + 81);
  await pause.mayRun();
  expect(asked).toBe(2);
});

it("has no permission while syncing is paused, and looks again a minute after the question", async () => {
  await pause.mayRun();
  running = false;
  delay = 500;
  vi.setSystemTime(Date.now() + 100);
  const sent = Date.now();
  expect(await pause.mayRun()).toBe(false);
  expect([pause.permitMs(sent), pause.until()]).toEqual([0, sent + PAUSE_LOOK_MS]);
  expect([await pause.mayRun(), asked]).toEqual([false, 3]);
  pause.learn({ running: true, permitMs: 100 }, sent);
  expect([pause.permitMs(sent), pause.until()]).toEqual([100, 0]);
});
