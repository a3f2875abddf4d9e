import { expect, it } from "vitest";
import type { ObjectResult, SyncResult, Trouble } from "../../contracts/sync-tasks.ts";
import { worst } from "../sync-status.ts";
import { completionOf, isUnsure } from "./retry-policy.ts";

const trouble = (outcome: Trouble["outcome"], code: string, retryAfterMs?: number): Trouble => ({
  ...({ outcome, code, message: "m" } as Trouble),
  ...(retryAfterMs !== undefined && { retryAfterMs }),
});

/** A task whose objects have these failures, null for none. */
const result = (copies: readonly (Trouble | null)[], changes: Partial<SyncResult> = {}): SyncResult => ({
  lease: { id: "a", generation: 1, lease: "l", leaseUntil: 0 },
  version: 1,
  tagKeys: [],
  unfinished: false,
  copies: copies.map((one, at): ObjectResult => {
    const base = { subKey: String(at), name: `n${at}` };
    return one === null ? { ...base, state: "pushed" } : { ...base, state: "failed", trouble: one };
  }),
  ...changes,
});

const DOWN = trouble("external", "provider_unavailable");
const REFUSED = trouble("client", "value_too_large");

it("completes a task by its worst failure and the longest requested wait", () => {
  const rows: [string, SyncResult, ReturnType<typeof completionOf>][] = [
    ["success", result([null, null]), { kind: "done" }],
    ["no time", result([null], { unfinished: true }), { kind: "again" }],
    ["a refusal", result([null, REFUSED]), { kind: "park" }],
    ["no time for the rest after a refusal", result([REFUSED], { unfinished: true }), { kind: "again" }],
    ["an outage", result([REFUSED, DOWN]), { kind: "retry" }],
    ["an unknown outcome", result([trouble("unknown", "deadline_exceeded")]), { kind: "retry" }],
    ["our own failure", result([], { trouble: trouble("internal", "internal") }), { kind: "retry" }],
    ["a pause", result([DOWN, trouble("external", "paused")]), { kind: "again" }],
    [
      "waits that concern one name each",
      result([trouble("external", "name_held", 10_000), trouble("external", "contended", 3_000), DOWN]),
      { kind: "retry", afterMs: 10_000, all: false },
    ],
    [
      "a rate limit",
      result([trouble("external", "throttled", 5_000), trouble("external", "name_held", 1_000)]),
      { kind: "retry", afterMs: 5_000, all: true },
    ],
    ["no wait", result([trouble("external", "throttled", 0)]), { kind: "retry", afterMs: 0, all: true }],
  ];
  for (const [what, given, ending] of rows) expect(completionOf(given, false), what).toEqual(ending);
});

it("retries refusals of fresh rights with short waits, and no other refusal", () => {
  const denied = trouble("client", "permission_denied");
  const rows: [string, SyncResult, ReturnType<typeof completionOf>][] = [
    ["a missing right", result([null, denied]), { kind: "retry", capMs: 30_000 }],
    [
      "refused credentials",
      result([], { trouble: trouble("client", "auth_failed") }),
      { kind: "retry", capMs: 30_000 },
    ],
    ["no time for the rest", result([denied], { unfinished: true }), { kind: "retry", capMs: 30_000 }],
    ["a hidden target", result([trouble("client", "not_found")]), { kind: "retry", capMs: 30_000 }],
    ["an outage as well", result([denied, DOWN]), { kind: "retry" }],
    ["a refused value", result([REFUSED]), { kind: "park" }],
    ["success", result([null]), { kind: "done" }],
  ];
  for (const [what, given, ending] of rows) expect(completionOf(given, true), what).toEqual(ending);
});

it("treats a push as possibly applied after a missing answer or an unsure one", () => {
  expect(isUnsure(trouble("unknown", "network_error"))).toBe(true);
  expect(isUnsure({ ...DOWN, unsure: true } as Trouble)).toBe(true);
  for (const one of [DOWN, REFUSED, trouble("internal", "internal")]) expect(isUnsure(one)).toBe(false);
});

it("returns the worst of several statuses", () => {
  expect(worst(["SYNCED", "PENDING", "EXTERNAL_SERVICE_ERROR", "CLIENT_SIDE_ERROR", "UNKNOWN"])).toBe(
    "CLIENT_SIDE_ERROR",
  );
  expect(worst(["SYNCED", "UNKNOWN", "EXTERNAL_SERVICE_ERROR"])).toBe("UNKNOWN");
  expect(worst([])).toBeUndefined();
});
