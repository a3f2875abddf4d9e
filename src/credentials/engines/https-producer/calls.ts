import type { Saga } from "../../runner/saga.ts";
import type { CallRules } from "../engine-type.ts";
import { type StepOf, stepsOf } from "../steps.ts";
import type { Producer } from "./cloud.ts";

/** One call of a producer as a value. */
export type ProducerStep = StepOf<Producer>;

export type ProducerSaga<S> = Saga<S, ProducerStep>;

const steps = stepsOf<Producer>();
const { calls } = steps;
export const { step, resultOf, performStep } = steps;

export const producerCalls: CallRules = {
  withoutResult: calls("revoke"),
  concurrent: [calls("revoke")],
  describe: (call) => DESCRIPTIONS[call as keyof Producer] ?? "error calling the provider",
  searchedFor: (kind, call) => (kind === "issue" && call === "find" ? "create" : null),
};

const DESCRIPTIONS: Readonly<Record<keyof Producer, string>> = {
  create: "error creating credentials",
  find: "error searching for credentials by their marker",
  revoke: "error removing credentials",
  renew: "error renewing credentials",
  verify: "the new credentials cannot be used",
  self: "error reading the ids of the engine's credentials",
  use: "the new secrets of the engine cannot be used",
};
