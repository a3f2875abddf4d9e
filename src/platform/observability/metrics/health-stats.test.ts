import { expect, it } from "vitest";
import { AlarmLag } from "./health-stats.ts";

const NOW = Date.parse("2026-11-21T10:00:00Z");

it("reports the largest alarm lag of five minutes, or the current overdue time", () => {
  const lag = new AlarmLag();
  expect(lag.ms(null, NOW)).toBe(0);
  expect(lag.ms(NOW + 500, NOW)).toBe(0);
  expect(lag.ms(NOW - 500, NOW)).toBe(500);
  lag.recordAlarm(NOW - 3_000, NOW);
  lag.recordAlarm(NOW + 1_000 - 20, NOW + 1_000);
  expect(lag.ms(null, NOW + 299_000)).toBe(3_000);
  expect(lag.ms(NOW, NOW + 299_000)).toBe(299_000);
  expect(lag.ms(null, NOW + 301_000)).toBe(0);
  lag.recordAlarm(NOW + 400_000 - 10, NOW + 400_000);
  expect(lag.ms(null, NOW + 400_000)).toBe(10);
});

it("reports no lag for a deadline that means immediately", () => {
  const lag = new AlarmLag();
  lag.recordAlarm(0, NOW);
  expect(lag.ms(0, NOW)).toBe(0);
});
