import { vi } from "vitest";
import type { PollResult } from "../../src/contracts/credential-engine.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";

type Method = (this: { ctx: DurableObjectState }, ...parameters: unknown[]) => unknown;

/**
 * Kills the Worker at the `nth` poll of the next job, before or after the object receives the report.
 * @param calls maximum number of calls before the death, to kill the Worker between the calls of one poll
 */
export function dieAt(nth: number, when: "before" | "after", calls: number): () => boolean {
  const original = CredentialEngine.prototype.poll as unknown as Method;
  let polls = 0;
  let dead = false;
  vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (this: unknown, ...parameters) {
    const polled = () => {
      const given = original.apply(this as ThisParameterType<Method>, parameters) as PollResult;
      return given.kind === "steps" ? { ...given, steps: given.steps.slice(0, calls) } : given;
    };
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

/** Every moment at which a Worker can die within `polls` polls. */
export const deaths = (polls: number, calls: number) =>
  Array.from({ length: polls }, (_, index) => index + 1).flatMap((nth) => [
    [nth, "before", calls] as const,
    [nth, "after", calls] as const,
  ]);
