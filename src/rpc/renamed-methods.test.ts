import { describe, expect, it } from "vitest";
import type { PollResult, Started } from "../contracts/credential-engine.ts";
import { firstTaskOf, isMethodMissing, polledOfFormerEngine } from "./renamed-methods.ts";

/* Answers of an engine whose code is of version 0.2.0, which a present Worker calls during a gradual deployment. */

const lease = { id: "j", token: "t" };

describe("polledOfFormerEngine", () => {
  it.each([
    [
      { kind: "steps", claim: lease, seq: 1 },
      { kind: "steps", lease, seq: 1 },
    ],
    [
      { kind: "wait", claim: null, ms: 5 },
      { kind: "wait", lease: null, ms: 5 },
    ],
    [
      { kind: "end", end: { ok: true, issued: { leaseId: "l", ttl: 1, clientId: "i", clientSecret: "s" } } },
      {
        kind: "end",
        end: { ok: true, issued: { leaseId: "l", ttl: 1, data: { client_id: "i", client_secret: "s" } } },
      },
    ],
  ])("has the present names for %j", (former, present) => {
    expect(polledOfFormerEngine(former as unknown as PollResult)).toMatchObject(present);
  });

  it.each([{ kind: "idle" }, { ok: false, reason: "sealed" }, { kind: "steps", lease, type: "aws", seq: 1 }])(
    "leaves %j as it is",
    (answer) => {
      expect(polledOfFormerEngine(answer as unknown as PollResult)).toEqual(answer);
    },
  );
});

it("firstTaskOf reads the task by its present and its former name", () => {
  const task = { kind: "steps", claim: lease };
  expect(firstTaskOf({ turn: task } as unknown as Started)).toMatchObject({ lease });
  expect(firstTaskOf({ polled: null, turn: task } as unknown as Started)).toBeNull();
});

it("isMethodMissing is true for the error of the runtime alone", () => {
  expect(isMethodMissing(new TypeError('The RPC receiver does not implement the method "poll".'))).toBe(true);
  expect(isMethodMissing(new TypeError("x is not a function"))).toBe(false);
});
