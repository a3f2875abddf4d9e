import { beforeEach, describe, expect, it } from "vitest";
import { memorySql } from "../../test/memory-sql.ts";
import type { ObjectResult, SyncResult, Trouble } from "../contracts/sync-tasks.ts";
import { Breaker } from "./breaker.ts";
import { destinationMigrations } from "./schema.ts";

type Copy = Pick<ObjectResult, "state"> & { trouble?: Trouble };
const ended = (id: string, ...copies: Copy[]): SyncResult => ({
  claim: { id, generation: 1, lease: "l", leaseUntil: 0 },
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

/** Lets the associations fail one after the other, each as soon as one is tried. @returns the pauses between them */
const fail = (ids: readonly string[], copy = DOWN): number[] =>
  ids.map((id) => {
    breaker.record(ended(id, copy), now);
    const wait = Math.max(0, openUntil() - now);
    now += wait;
    return wait;
  });
const names = (count: number, prefix = "s"): string[] => Array.from({ length: count }, (_, at) => `${prefix}${at}`);
const succeed = (id: string) => breaker.record(ended(id, FINE), now);

describe("a breaker", () => {
  it("stays closed however often four associations fail", () => {
    for (let round = 0; round < 20; round++) fail(names(4));
    expect([breaker.view(), breaker.limit(6, now)]).toEqual([null, 6]);
  });

  it("opens with the fifth association: nothing is tried for a while, then one at a time", () => {
    fail(names(4));
    breaker.record(ended("s4", DOWN), now);
    const until = openUntil();
    expect(until).toBeGreaterThan(now);
    expect(until).toBeLessThanOrEqual(now + 1_000);
    expect([breaker.limit(6, until - 1), breaker.limit(6, until)]).toEqual([0, 1]);
  });

  it("waits longer with each failure since it opened, and five minutes at most", () => {
    for (let round = 0; round < 20; round++) fail(names(4));
    const waits = fail(names(16, "t"));
    expect(waits[0], "failures before it opened count for nothing").toBeLessThanOrEqual(1_000);
    expect(waits[6]).toBeGreaterThan(20_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(300_000);
    expect(waits.at(-1)).toBeGreaterThanOrEqual(150_000);
  });

  it("waits 30 s at most while a success is younger than the beginning of the failures, and longer once five more fail", () => {
    fail(names(8));
    succeed("healthy");
    const waits = fail([...names(8), ...names(8), ...names(8)]);
    expect(waits.slice(0, 4)).toEqual([0, 0, 0, 0]);
    expect(Math.max(...waits)).toBeLessThanOrEqual(30_000);
    expect(waits.at(-1)).toBeGreaterThanOrEqual(15_000);
    expect(fail(names(5, "fresh")).at(-1)).toBeGreaterThan(30_000);
  });

  it("counts an association anew once its own attempt has succeeded", () => {
    fail(names(8));
    for (const id of names(8)) succeed(id);
    expect(Math.max(...fail([...names(8), ...names(8)]))).toBeGreaterThan(30_000);
  });

  it.each(["pushed", "left", "absent"] as const)("closes when the provider was called and %s", (state) => {
    fail(names(9));
    breaker.record(ended("other", { state }), now);
    expect([breaker.view(), breaker.limit(6, now)]).toEqual([null, 6]);
    fail(names(4));
    expect(breaker.view()).toBeNull();
  });

  it("takes a task that pushed one object and failed with the next for a success and one failure", () => {
    fail(names(9));
    breaker.record(ended("mixed", FINE, DOWN), now);
    expect(breaker.view()).toBeNull();
    fail(names(3));
    expect(breaker.view()).toBeNull();
    fail(["s3"]);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it.each(["kept", "untouched", "retained"] as const)("stays open when %s without a call", (state) => {
    fail(names(5));
    breaker.record(ended("other", { state }), now);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it("counts failures of the whole destination, and none that concerns one name, is ours, or asks for a pause", () => {
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

  it("is not closed by a refusal that concerns one secret", () => {
    fail(names(5));
    breaker.record(ended("s0", failure("client", "value_too_large")), now);
    expect(breaker.view()).toMatchObject({ failures: 5 });
  });

  it("forgets all failures when it is closed", () => {
    fail(names(9));
    breaker.close();
    fail(names(4));
    expect(breaker.view()).toBeNull();
    expect(fail(["s4"])[0]).toBeLessThanOrEqual(1_000);
  });
});
