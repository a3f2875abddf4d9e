import { beforeEach, describe, expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import type { ObjectResult, SyncResult, Trouble } from "../../contracts/sync-tasks.ts";
import { destinationMigrations } from "../schema.ts";
import { Breaker } from "./breaker.ts";

type Copy = Pick<ObjectResult, "state" | "uncalled"> & { trouble?: Trouble };
const ended = (id: string, ...copies: Copy[]): SyncResult => ({
  lease: { id, generation: 1, lease: "l", leaseUntil: 0 },
  version: 1,
  tagKeys: [],
  unfinished: false,
  copies: copies.map((copy, at) => ({ subKey: String(at), name: `n${at}`, ...copy })),
});
const failure = (outcome: Trouble["outcome"], code: string): Copy => ({
  state: "failed",
  trouble: { outcome, code, message: "m" } as Trouble,
});
const DOWN = failure("external", "provider_unavailable");
const FINE: Copy = { state: "pushed" };

let breaker: Breaker;
let now = 0;
beforeEach(() => {
  breaker = new Breaker(memorySql(destinationMigrations));
  now = 0;
});

const openUntil = () => breaker.view()?.openUntil ?? 0;

/** Fails the associations one after the other, each as soon as a trial is allowed. @returns the pauses between them */
const fail = (ids: readonly string[], copy = DOWN): number[] =>
  ids.map((id) => {
    breaker.record(ended(id, copy), now);
    const wait = Math.max(0, openUntil() - now);
    now += wait;
    return wait;
  });
const names = (count: number, prefix = "s"): string[] => Array.from({ length: count }, (_, at) => `${prefix}${at}`);
const succeed = (id: string) => breaker.record(ended(id, FINE), now);

describe("the circuit breaker", () => {
  it("stays closed for any number of failures of four associations", () => {
    for (let round = 0; round < 20; round++) fail(names(4));
    expect([breaker.view(), breaker.limit(6, now)]).toEqual([null, 6]);
  });

  it("opens with the fifth association, then allows one trial at a time", () => {
    fail(names(4));
    breaker.record(ended("s4", DOWN), now);
    const until = openUntil();
    expect(until).toBeGreaterThan(now);
    expect(until).toBeLessThanOrEqual(now + 1_000);
    expect([breaker.limit(6, until - 1), breaker.limit(6, until)]).toEqual([0, 1]);
  });

  it("doubles the pause with each failure, up to five minutes", () => {
    for (let round = 0; round < 20; round++) fail(names(4));
    const waits = fail(names(16, "t"));
    expect(waits[0], "failures before it opened count for nothing").toBeLessThanOrEqual(1_000);
    expect(waits[6]).toBeGreaterThan(20_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(300_000);
    expect(waits.at(-1)).toBeGreaterThanOrEqual(150_000);
  });

  it("pauses at most 30 s after a success, and longer once five more associations fail", () => {
    fail(names(8));
    succeed("healthy");
    const waits = fail([...names(8), ...names(8), ...names(8)]);
    expect(waits.slice(0, 4)).toEqual([0, 0, 0, 0]);
    expect(Math.max(...waits)).toBeLessThanOrEqual(30_000);
    expect(waits.at(-1)).toBeGreaterThanOrEqual(15_000);
    expect(fail(names(5, "fresh")).at(-1)).toBeGreaterThan(30_000);
  });

  it("restarts the count of an association after its own success", () => {
    fail(names(8));
    for (const id of names(8)) succeed(id);
    expect(Math.max(...fail([...names(8), ...names(8)]))).toBeGreaterThan(30_000);
  });

  it.each(["pushed", "left", "absent"] as const)(
    "closes when the provider was called and the object is %s",
    (state) => {
      fail(names(9));
      breaker.record(ended("other", { state }), now);
      expect([breaker.view(), breaker.limit(6, now)]).toEqual([null, 6]);
      fail(names(4));
      expect(breaker.view()).toBeNull();
    },
  );

  it("counts a partly failed task as a success and a failure", () => {
    fail(names(9));
    breaker.record(ended("mixed", FINE, DOWN), now);
    expect(breaker.view()).toBeNull();
    fail(names(3));
    expect(breaker.view()).toBeNull();
    fail(["s3"]);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it.each(["kept", "untouched", "retained"] as const)("stays open when the object is %s without a call", (state) => {
    fail(names(5));
    breaker.record(ended("other", { state }), now);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it("stays open when an object is removed that was known to be absent", () => {
    fail(names(5));
    breaker.record(ended("other", { state: "absent", uncalled: true }), now);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it("counts failures of the whole destination only", () => {
    const rows = [
      ["external", "provider_unavailable", true],
      ["external", "network_error", true],
      ["unknown", "network_error", true],
      ["unknown", "deadline_exceeded", true],
      ["external", "unreadable_answer", true],
      ["unknown", "answer_too_large", true],
      ["client", "auth_failed", true],
      ["external", "contended", false],
      ["external", "name_held", false],
      ["external", "conflict", false],
      ["external", "already_exists", false],
      ["client", "already_exists", false],
      ["client", "permission_denied", false],
      ["client", "value_too_large", false],
      ["external", "throttled", false],
      ["external", "paused", false],
      ["internal", "internal", false],
    ] as const;
    for (const [outcome, code, opens] of rows) {
      breaker.close();
      fail(names(9), failure(outcome, code));
      expect(breaker.view() !== null, `${outcome} ${code}`).toBe(opens);
    }
  });

  it("stays open after a refusal of one secret", () => {
    fail(names(5));
    breaker.record(ended("s0", failure("client", "value_too_large")), now);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it("clears all failures when it is closed", () => {
    fail(names(9));
    breaker.close();
    fail(names(4));
    expect(breaker.view()).toBeNull();
    expect(fail(["s4"])[0]).toBeLessThanOrEqual(1_000);
  });
});
