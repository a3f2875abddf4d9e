import type { JobRef } from "../../../contracts/credential-engine.ts";
import type { Saga } from "../../runner/saga.ts";
import type { CallRules } from "../engine-type.ts";
import { type StepOf, stepsOf } from "../steps.ts";
import type { Cloud } from "./cloud.ts";

/** One call at Google as a value. */
export type CloudStep = StepOf<Cloud>;

export type CloudSaga<S> = Saga<S, CloudStep>;

const steps = stepsOf<Cloud>();
const { calls } = steps;
export const { step, resultOf, performStep } = steps;

export const gcpCalls: CallRules = {
  withoutResult: calls("deleteServiceAccount", "deleteKey", "disableKey", "changePolicy"),
  // Each step changes the policy of another resource.
  concurrent: [calls("changePolicy")],
  describe,
  searchedFor: (kind: JobRef["kind"], call) => (kind !== "removal" && call === "listKeys" ? "createKey" : null),
};

function describe(call: string): string {
  switch (call as keyof Cloud) {
    case "generateAccessToken":
      return "unable to generate token - make sure your service account is still valid and the engine may impersonate it";
    case "getServiceAccount":
      return "unable to read the service account";
    case "createServiceAccount":
      return "unable to create service account";
    case "createKey":
    case "listKeys":
      return "unable to create service account key";
    case "getKey":
      return "unable to confirm key is still valid";
    case "changePolicy":
      return "unable to set IAM policy";
    case "login":
      return "the new key cannot be used";
    default:
      return "error removing credentials";
  }
}
