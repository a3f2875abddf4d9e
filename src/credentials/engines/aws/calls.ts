import type { JobRef } from "../../../contracts/credential-engine.ts";
import type { Saga } from "../../runner/saga.ts";
import type { CallRules } from "../engine-type.ts";
import { type StepOf, stepsOf } from "../steps.ts";
import type { Cloud } from "./cloud.ts";

/** One call of IAM or STS as a value. */
export type CloudStep = StepOf<Cloud>;

export type CloudSaga<S> = Saga<S, CloudStep>;

const steps = stepsOf<Cloud>();
const { calls } = steps;
export const { step, resultOf, performStep } = steps;

export const awsCalls: CallRules = {
  withoutResult: calls(
    "createUser",
    "attachPolicy",
    "putPolicy",
    "addToGroup",
    "deleteKey",
    "detachPolicy",
    "deletePolicy",
    "removeFromGroup",
    "deleteAddition",
    "deleteUser",
  ),
  // A key is deleted with its user; the others only read.
  last: calls("createKey", "contents", "additions"),
  concurrent: [
    calls("attachPolicy", "putPolicy", "addToGroup"),
    calls("deleteKey", "detachPolicy", "deletePolicy", "removeFromGroup", "deleteAddition"),
  ],
  describe: (call, [about]) =>
    call === "keyHolder"
      ? `unable to validate username ${JSON.stringify(about)}`
      : (DESCRIPTIONS[call as keyof Cloud] ?? "error removing credentials"),
  searchedFor(kind: JobRef["kind"], call: string) {
    if (kind === "issue") return call === "getUser" ? "createUser" : call === "listKeys" ? "createKey" : null;
    return (kind === "rotation" || kind === "role") && call === "listKeys" ? "createKey" : null;
  },
};

/** The words of upstream before the provider's refusal. */
const DESCRIPTIONS: Partial<Record<keyof Cloud, string>> = {
  assumeRole: "Error assuming role",
  getFederationToken: "Error generating STS keys",
  getSessionToken: "Error generating STS keys",
  groupPolicies: "Error reading the policies of a group",
  createUser: "Error creating IAM user",
  getUser: "Error creating IAM user",
  attachPolicy: "Error attaching user policy",
  putPolicy: "Error putting user policy",
  addToGroup: "Error adding user to group",
  createKey: "Error creating access keys",
  listKeys: "Error creating access keys",
  makeRoom: "Error deleting the oldest access key",
  self: "error calling GetUser",
  identify: "the new key cannot be used",
};
