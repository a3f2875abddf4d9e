import type { Step, StepResult } from "../src/contracts/credential-engine.ts";
import type { Issue } from "../src/credentials/engines/azure/issue.ts";
import { newKeyAdd } from "../src/credentials/engines/azure/key-add.ts";
import { newProvision } from "../src/credentials/engines/azure/provision.ts";
import { type Removal, removalSaga } from "../src/credentials/engines/azure/removal.ts";
import type { Saga } from "../src/credentials/runner/saga.ts";
import { failure } from "./fake-cloud.ts";

export const principalIssue = (): Issue => ({
  kind: "principal",
  provision: newProvision(
    { displayName: "vault-planned", tags: [], signInAudience: "" },
    {
      grants: ["a", "b"].map((assignmentId) => ({
        assignmentId,
        scope: "s",
        roleId: "r",
        standing: "wanted" as const,
      })),
      memberships: [{ groupId: "g", standing: "wanted" }],
    },
  ),
  lifeMs: 1_000,
  permanently: true,
  key: null,
});
export const passwordIssue = (): Issue => ({
  kind: "password",
  clientId: "c",
  add: newKeyAdd("app", "vault-planned", 1_000),
});

/** Runs a removal to its end. @returns its calls, each with its second */
export function removed(removal: Removal, answers: (step: Step, second: number) => StepResult): string[] {
  const calls: string[] = [];
  let state = removal;
  for (let now = 0; calls.length < 100; ) {
    const next = removalSaga.next(state, now);
    if (next === null) return calls;
    if ("wait" in next) {
      now += next.wait;
      continue;
    }
    calls.push(`${now / 1000} ${next.call} ${next.args.join(" ")}`);
    const result = answers(next, now / 1000);
    if (result.ok) state = removalSaga.onSuccess(state, next, result.value, now);
    else {
      const decision = removalSaga.onError(state, next, result.failure, now, 0);
      state = decision.kind === "failed" ? state : (decision.state ?? state);
    }
  }
  throw new Error(`no end: ${calls.join(", ")}`);
}

/** Runs a saga with one result per call. @returns the calls and the final state */
export function walked<S>(
  saga: Saga<S>,
  begin: S,
  answers: readonly StepResult[],
  now = 0,
): { calls: string[]; state: S } {
  const calls: string[] = [];
  let state = begin;
  for (const answer of answers) {
    const next = saga.next(state, now);
    if (next === null || "wait" in next) throw new Error(`no call after ${calls.join(", ")}`);
    calls.push(next.call);
    state = saga.beforeCall?.(state, next) ?? state;
    if (answer.ok) {
      state = saga.onSuccess(state, next, answer.value, now);
      continue;
    }
    const decision = saga.onError(state, next, answer.failure, now, 0);
    if (decision.kind === "failed") return { calls: [...calls, "failed"], state };
    state = decision.state ?? state;
  }
  return { calls, state };
}
export const answered = (value: unknown = null): StepResult => ({ ok: true, value });
export const lostAnswer = failure("unknown", "network_error", null);
