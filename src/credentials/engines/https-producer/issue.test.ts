import { expect, it } from "vitest";
import { refusedWith } from "../../../../test/memory-engine.ts";
import type { CloudFailure } from "../../../contracts/cloud-calls.ts";
import { batchOf } from "../../runner/saga.ts";
import { producerCalls } from "./calls.ts";
import { type Issue, issueSaga } from "./issue.ts";

const LOST: Issue = {
  marker: "sp-m",
  vars: { project: "1" },
  expires: 0,
  endsAt: 0,
  finds: true,
  lag: 0,
  sent: false,
  lost: [{ id: 1 }, { id: 2 }],
  strays: false,
  made: null,
};

function failureOf(code: Parameters<typeof refusedWith>[0]): CloudFailure {
  const result = refusedWith(code);
  if (result.ok) throw new Error("no failure");
  return result.failure;
}

/** The removals of lost objects, which leave together. */
function removals() {
  const first = issueSaga.next(LOST, 0);
  if (first === null || "wait" in first) throw new Error("no step");
  const [one, two] = batchOf(issueSaga, LOST, first, 0, producerCalls).steps;
  if (one?.call !== "revoke" || two?.call !== "revoke") throw new Error("no batch");
  return [one, two] as const;
}

it("keeps the lost object whose removal is refused while another one is removed", () => {
  const [one, two] = removals();
  // Successes of a batch are reported before its failure.
  const after = issueSaga.onSuccess(LOST, two, null, 0);
  expect(after.lost).toEqual([{ id: 1 }]);
  expect(issueSaga.onError(after, one, failureOf("permission_denied"), 0, 0)).toEqual({ kind: "failed" });
  expect(issueSaga.onError(LOST, two, failureOf("not_found"), 0, 0)).toMatchObject({
    kind: "done",
    state: { lost: [{ id: 1 }], strays: true },
  });
});
