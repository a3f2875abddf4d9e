import { expect, it } from "vitest";
import { failure } from "../../../providers/outcome.ts";
import { queryResult } from "./errors.ts";

const ACTION = { service: "iam", name: "CreateUser", reads: false } as const;
const answered = (status: number, code: string) => ({
  ok: true as const,
  response: new Response(null, { status, headers: { "retry-after": "7" } }),
  text: `<ErrorResponse><Error><Code>${code}</Code><Message>m</Message></Error></ErrorResponse>`,
});

it.each([
  [400, "Throttling", "external", 7_000],
  [503, "ServiceUnavailable", "unknown", 7_000],
  [500, "InternalFailure", "unknown", 7_000],
  [400, "InvalidInput", "client", undefined],
] as const)("carries the wait that an answer with %i %s asks for", (status, code, outcome, wait) => {
  const result = queryResult(answered(status, code), ACTION);
  expect(result.ok ? null : [result.failure.outcome, result.failure.retryAfterMs]).toEqual([outcome, wait]);
});

it.each([
  ["redirect_refused", false, "unknown", "unreadable_answer"],
  ["redirect_refused", true, "client", "misconfigured"],
  ["network_not_bound", false, "client", "misconfigured"],
] as const)("without an answer (%s, reads: %s) is %s, %s", (given, reads, outcome, code) => {
  const result = queryResult({ ok: false, outcome: failure("client", given, "m") }, { ...ACTION, reads });
  expect(result).toMatchObject({ failure: { outcome, code } });
});
