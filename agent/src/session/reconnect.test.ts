import { CLOSE, slowDown } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import { EXIT } from "../exit.ts";
import { type ConnectionEnd, PAUSES, Reconnect } from "./reconnect.ts";

const failed: ConnectionEnd = { type: "failed", message: "ECONNREFUSED" };
const closed = (code: number, healthyMs = 0, reason = ""): ConnectionEnd => ({
  type: "closed",
  code,
  reason,
  healthyMs,
});
const refused = (status: number, retryAfterMs?: number): ConnectionEnd =>
  retryAfterMs === undefined ? { type: "refused", status } : { type: "refused", status, retryAfterMs };

/** The pauses after these ends with a fixed random number. */
function pauses(random: number, ...ends: ConnectionEnd[]): number[] {
  const reconnect = new Reconnect(PAUSES, () => random);
  return ends.map((end) => {
    const next = reconnect.after(end);
    if (next.type === "exit") throw new Error(next.because);
    return next.ms;
  });
}

it("doubles the ceiling from 0.5 s to 30 s with full jitter", () => {
  const ends = Array.from({ length: 9 }, () => failed);
  expect(pauses(1, ...ends)).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  expect(pauses(0, ...ends)).toEqual(ends.map(() => 0));
});

it("resets the back-off after a session of a minute", () => {
  expect(pauses(1, failed, failed, closed(1000, 59_999), closed(1000, 60_000))).toEqual([500, 1000, 2000, 500]);
});

it.each([1001, 1006, 1012])("spreads reconnects over 5 s after close %i", (code) => {
  expect(pauses(1, closed(code, 1000))).toEqual([5000]);
  expect(pauses(0.1, closed(code, 1000))).toEqual([500]);
  // Repeated closes are not a deployment.
  expect(pauses(1, closed(code, 1000), closed(code, 1000), closed(code, 0))).toEqual([5000, 1000, 2000]);
});

it.each([
  ["superseded", CLOSE.superseded, EXIT.superseded],
  ["revoked", CLOSE.revoked, EXIT.revoked],
  ["version unsupported", CLOSE.version, EXIT.version],
])("%s ends the agent, with an exit code of its own", (_, code, exit) => {
  expect(new Reconnect().after(closed(code, 1e6))).toMatchObject({ type: "exit", code: exit });
});

it("waits for the longest pause after a protocol violation of either side", () => {
  for (const random of [0, 1])
    for (const end of [closed(CLOSE.protocol), { type: "protocol", message: "m" } as const]) {
      const [pause = 0] = pauses(random, end);
      expect(pause).toBeGreaterThanOrEqual(20_000);
      expect(pause).toBeLessThanOrEqual(30_000);
    }
});

it("waits for the pause that the service requests", () => {
  expect(pauses(0, closed(CLOSE.slowDown, 0, slowDown(90_000)))).toEqual([90_000]);
  expect(pauses(0, closed(CLOSE.slowDown, 0, "nonsense"))).toEqual([30_000]);
  expect(pauses(0, refused(429, 7000), refused(503, 60_000))).toEqual([7000, 60_000]);
});

it("retries a refused token slowly and other refusals with back-off", () => {
  expect(pauses(0, refused(401), refused(403)).every((pause) => pause >= 20_000)).toBe(true);
  expect(pauses(1, refused(502), refused(404))).toEqual([500, 1000]);
});
