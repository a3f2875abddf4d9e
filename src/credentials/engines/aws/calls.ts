import type { JobRef, StepResult } from "../../../contracts/credential-engine.ts";
import type { Saga } from "../../runner/saga.ts";
import type { CallRules } from "../engine-type.ts";
import type { Cloud } from "./cloud.ts";

/** One call of IAM or STS as a value. */
export type CloudStep = { [K in keyof Cloud]: { readonly call: K; readonly args: Parameters<Cloud[K]> } }[keyof Cloud];

export type CloudSaga<S> = Saga<S, CloudStep>;

export const step = <K extends keyof Cloud>(call: K, ...args: Parameters<Cloud[K]>): CloudStep =>
  ({ call, args }) as unknown as CloudStep;

type ValueOf<K extends keyof Cloud> = Extract<Awaited<ReturnType<Cloud[K]>>, { ok: true }>["value"];
/** Casts a step's result to the type of its call; the only such cast. */
export const resultOf = <K extends keyof Cloud>(_call: K, value: unknown): ValueOf<K> => value as ValueOf<K>;

export function performStep(cloud: Cloud, { call, args }: CloudStep): Promise<StepResult> {
  return (cloud[call] as (...parameters: unknown[]) => Promise<StepResult>).apply(cloud, [...args]);
}

const calls = (...names: readonly (keyof Cloud)[]): ReadonlySet<string> => new Set(names);

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
  describe: (call) => DESCRIPTIONS[call as keyof Cloud] ?? "error removing credentials",
  searchedFor(kind: JobRef["kind"], call: string) {
    if (kind === "issue") return call === "getUser" ? "createUser" : call === "listKeys" ? "createKey" : null;
    return kind === "rotation" && call === "listKeys" ? "createKey" : null;
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
  self: "error calling GetUser",
  identify: "the new key cannot be used",
};
