import { vi } from "vitest";
import type { PollResult } from "../../src/contracts/credential-engine.ts";
import { SagaRunner } from "../../src/credentials/runner/saga-runner.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";

type Method = (this: { ctx: DurableObjectState }, ...parameters: unknown[]) => unknown;

/** Cuts every batch of calls short, also the first one, which leaves with the beginning of a job. */
function cutBatches(calls: number): { mockRestore(): void } {
  const cut = (given: PollResult): PollResult =>
    given.kind === "steps" ? { ...given, steps: given.steps.slice(0, calls) } : given;
  const { poll, startNew } = SagaRunner.prototype;
  const spies = [
    vi.spyOn(SagaRunner.prototype, "poll").mockImplementation(function (this: SagaRunner, ...parameters) {
      return cut(poll.apply(this, parameters));
    }),
    vi.spyOn(SagaRunner.prototype, "startNew").mockImplementation(function (this: SagaRunner, ...parameters) {
      const { wanted, polled } = startNew.apply(this, parameters);
      return { wanted, polled: polled && cut(polled) };
    }),
  ];
  return { mockRestore: () => spies.forEach((spy) => void spy.mockRestore()) };
}

/**
 * Kills the Worker at the `nth` poll of the next job, before or after the object receives the report.
 * @param calls maximum number of calls before the death, to kill the Worker between the calls of one poll
 */
export function dieAt(nth: number, when: "before" | "after", calls: number): () => boolean {
  const original = CredentialEngine.prototype.poll as unknown as Method;
  cutBatches(calls);
  let polls = 0;
  let dead = false;
  vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (this: unknown, ...parameters) {
    const polled = () => original.apply(this as ThisParameterType<Method>, parameters) as PollResult;
    const report = parameters[1];
    if (dead || report === null || ++polls < nth) return polled();
    dead = true;
    if (when === "after") polled();
    // The Worker gets two failed calls of the object, then stops.
    vi.mocked(CredentialEngine.prototype.poll).mockImplementationOnce(() => {
      throw new Error("killed");
    });
    throw new Error("killed");
  });
  return () => dead;
}

/** Counts the polls with a report of the next jobs, one call each. The result ends the count. */
export function countPolls(): () => number {
  const batches = cutBatches(1);
  let polls = 0;
  const original = CredentialEngine.prototype.poll as unknown as Method;
  const spy = vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (this: unknown, ...parameters) {
    if (parameters[1] !== null) polls++;
    return original.apply(this as ThisParameterType<Method>, parameters) as never;
  });
  return () => {
    spy.mockRestore();
    batches.mockRestore();
    return polls;
  };
}

/** Every moment at which a Worker can die within `polls` polls. */
export const deaths = (polls: number, calls: number) =>
  Array.from({ length: polls }, (_, index) => index + 1).flatMap((nth) => [
    [nth, "before", calls] as const,
    [nth, "after", calls] as const,
  ]);
