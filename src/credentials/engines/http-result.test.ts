import { describe, expect, it } from "vitest";
import { failure } from "../../providers/outcome.ts";
import { httpResult } from "./http-result.ts";

const answered = (status: number, text = "", headers: Record<string, string> = {}) =>
  ({ ok: true, response: new Response(null, { status, headers }), text }) as const;
const WRITE = { name: "Creating a key", reads: false };
const READ = { ...WRITE, reads: true };
const outcomeOf = (...given: Parameters<typeof httpResult>) => {
  const result = httpResult(...given);
  return result.ok ? result.value : [result.failure.outcome, result.failure.code];
};

describe("the result of a JSON call", () => {
  it.each([
    [answered(201, '{"id":1}'), { id: 1 }, { id: 1 }],
    [answered(204), null, null],
    [answered(200, "<html>"), ["unknown", "unreadable_answer"], ["external", "unreadable_answer"]],
    [answered(400), ["client", "refused"], ["client", "refused"]],
    [answered(401), ["client", "auth_failed"], ["client", "auth_failed"]],
    [answered(403), ["client", "permission_denied"], ["client", "permission_denied"]],
    [answered(404), ["client", "not_found"], ["client", "not_found"]],
    [answered(409), ["client", "already_exists"], ["client", "already_exists"]],
    [answered(429), ["external", "throttled"], ["external", "throttled"]],
    [answered(499), ["unknown", "provider_unavailable"], ["external", "provider_unavailable"]],
    [answered(503), ["unknown", "provider_unavailable"], ["external", "provider_unavailable"]],
  ] as const)("of a write and of a read (row %#)", (call, write, read) => {
    expect([outcomeOf(call, WRITE), outcomeOf(call, READ)]).toEqual([write, read]);
  });

  it.each([
    ["unknown", "deadline_exceeded", ["unknown", "deadline_exceeded"]],
    ["external", "deadline_exceeded", ["external", "deadline_exceeded"]],
    ["unknown", "network_error", ["unknown", "network_error"]],
    ["client", "insecure_url", ["client", "misconfigured"]],
    ["client", "address_refused", ["client", "misconfigured"]],
    ["client", "redirect_refused", ["unknown", "unreadable_answer"]],
  ] as const)("without an answer (%s, %s)", (outcome, code, expected) => {
    expect(outcomeOf({ ok: false, outcome: failure(outcome, code, "m") }, WRITE)).toEqual(expected);
  });

  it("of a read that is redirected is a wrong address", () => {
    const redirected = { ok: false, outcome: failure("client", "redirect_refused", "m") } as const;
    expect(outcomeOf(redirected, READ)).toEqual(["client", "misconfigured"]);
  });

  it("has integers that no number holds as texts, and other numbers as they are", () => {
    const text = '{"id":9007199254740993,"list":[-9007199254740993,9007199254740991,1.50,1e3,-0]}';
    expect(outcomeOf(answered(200, text), READ)).toEqual({
      id: "9007199254740993",
      list: ["-9007199254740993", 9_007_199_254_740_991, 1.5, 1_000, -0],
    });
  });

  it.each([429, 500, 503])(
    "carries the wait that an answer with %i asks for, and no text of the provider",
    (status) => {
      const result = httpResult(answered(status, "secret text", { "retry-after": "7" }), WRITE);
      const message = `Creating a key failed (HTTP ${status}).`;
      expect(result).toMatchObject({ failure: { retryAfterMs: 7_000, message } });
    },
  );
});
