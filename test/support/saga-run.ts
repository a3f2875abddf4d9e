import type { Step, StepResult } from "../../src/contracts/credential-engine.ts";
import type { CallRules } from "../../src/credentials/engines/engine-type.ts";
import { type RemovalState, retried } from "../../src/credentials/runner/removal.ts";
import { batchOf, type Saga } from "../../src/credentials/runner/saga.ts";
import { failure } from "../fake-cloud.ts";

/** Runs sagas as Workers do. The returned state is the stored one; calls in flight may change the provider after it. */
export class SagaRun {
  now = 1_000_000;
  readonly #call: (step: Step) => Promise<StepResult>;
  readonly #rules: CallRules;
  readonly #random: () => number;

  constructor(call: (step: Step) => Promise<StepResult>, rules: CallRules, random: () => number) {
    this.#call = call;
    this.#rules = rules;
    this.#random = random;
  }

  /** Runs steps until the saga ends, or a Worker dies. @returns the stored state, and the result of the last step */
  async take<S>(saga: Saga<S>, state: S, deadliness: number): Promise<{ state: S; ended: boolean; value: unknown }> {
    let disk = state;
    let value: unknown;
    for (let tries = 0; tries < 200; ) {
      const next = saga.next(disk, this.now);
      if (next === null) return { state: disk, ended: true, value };
      if ("wait" in next) {
        this.now += next.wait;
        continue;
      }
      const { steps, state: beforeCall } = batchOf(saga, disk, next, this.now, this.#rules);
      disk = beforeCall;
      if (this.#random() < deadliness) {
        // The Worker dies before a call, or before its result is stored.
        for (const step of steps.slice(0, this.#random() * (steps.length + 1))) {
          if (!(await this.#call(step)).ok) break;
        }
        return { state: disk, ended: false, value };
      }
      for (const step of steps) {
        const result = await this.#answerTo(step);
        this.now += 1_000;
        if (result.ok) {
          disk = saga.onSuccess(disk, step, result.value, this.now);
          value = result.value;
          tries = 0;
          continue;
        }
        const decision = saga.onError(disk, step, result.failure, this.now, tries++);
        disk = decision.state ?? disk;
        if (decision.kind === "failed") return { state: disk, ended: false, value };
        this.now += decision.kind === "retry" ? (decision.afterMs ?? 1_000) : 0;
        break;
      }
    }
    throw new Error("no end");
  }

  /** Runs a removal in rounds until nothing is left of it; Workers die in the first ones. */
  async remove<S extends RemovalState>(saga: Saga<S>, begin: S): Promise<void> {
    let removal = begin;
    for (let round = 0; round < 50; round++) {
      const taken = await this.take(saga, removal, round < 3 ? 0.2 : 0);
      removal = retried(taken.state);
      if (taken.ended && removal.items.length === 0) return;
      this.now += 60_000;
    }
  }

  /** Injects faults: a throttled call, a lost call, a lost response. */
  async #answerTo(step: Step): Promise<StepResult> {
    const luck = this.#random();
    if (luck < 0.1) return failure("external", "throttled", 429);
    if (luck < 0.2) return failure("unknown", "network_error", null);
    const result = await this.#call(step);
    return luck < 0.3 ? failure("unknown", "deadline_exceeded", null) : result;
  }
}
