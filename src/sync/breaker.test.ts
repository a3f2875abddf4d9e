import { beforeEach, describe, expect, it } from "vitest";
import { memorySql } from "../../test/memory-sql.ts";
import type { CopyResult, SyncResult, Trouble } from "./association.ts";
import { Breaker } from "./breaker.ts";
import { destinationMigrations } from "./schema.ts";

const claim = { id: "a", generation: 1, lease: "l", leaseUntil: 0 };
const ended = (copy: Pick<CopyResult, "state"> & { trouble?: Trouble }): SyncResult => ({
  claim,
  version: 1,
  tagKeys: [],
  unfinished: false,
  copies: [{ subKey: "", name: "n", ...copy }],
});
const failed = (outcome: Trouble["outcome"], code: string): SyncResult =>
  ended({ state: "failed", trouble: { outcome, code, message: "m" } as Trouble });
const DOWN = failed("external", "provider_unavailable");

let breaker: Breaker;
beforeEach(() => {
  breaker = new Breaker(memorySql(destinationMigrations));
});

/** Lets failures follow each other, each as soon as one is tried. @returns the pauses between them */
function fail(times: number, result = DOWN): number[] {
  let now = 0;
  return Array.from({ length: times }, () => {
    breaker.ended(result, now);
    const wait = Math.max(0, (breaker.view()?.openUntil ?? 0) - now);
    now += wait;
    return wait;
  });
}

describe("a breaker", () => {
  it("stays closed for a few failures in a row", () => {
    fail(4);
    expect([breaker.view(), breaker.limit(6, 0)]).toEqual([null, 6]);
  });

  it("opens with the fifth: nothing is tried for a while, then one at a time", () => {
    fail(5);
    const until = breaker.view()?.openUntil ?? 0;
    expect(until).toBeGreaterThan(0);
    expect([breaker.limit(6, until - 1), breaker.limit(6, until)]).toEqual([0, 1]);
  });

  it("waits longer with each failure, and five minutes at most", () => {
    const waits = fail(20).slice(4);
    expect(waits[0]).toBeLessThanOrEqual(1_000);
    expect(waits[6]).toBeGreaterThan(20_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(300_000);
    expect(waits.at(-1)).toBeGreaterThanOrEqual(150_000);
  });

  it.each(["pushed", "left", "absent"] as const)("closes when the provider has been called and %s", (state) => {
    fail(9);
    breaker.ended(ended({ state }), 1);
    expect([breaker.view(), breaker.limit(6, 1)]).toEqual([null, 6]);
    fail(4);
    expect(breaker.view()).toBeNull();
  });

  it.each(["kept", "untouched", "retained"] as const)("stays open when %s without a call", (state) => {
    fail(5);
    breaker.ended(ended({ state }), 1);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it.each([
    ["external", "provider_unavailable", true],
    ["unknown", "network_error", true],
    ["unknown", "deadline_exceeded", true],
    ["client", "auth_failed", true],
    ["client", "permission_denied", false],
    ["client", "value_too_large", false],
    ["external", "throttled", false],
    ["external", "paused", false],
    ["internal", "internal", false],
  ] as const)("takes %s %s for a failure of the whole destination: %s", (outcome, code, opens) => {
    fail(5, failed(outcome, code));
    expect(breaker.view() !== null).toBe(opens);
  });

  it("is not closed by a refusal that concerns one secret", () => {
    fail(5);
    breaker.ended(failed("client", "value_too_large"), 1);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });
});
