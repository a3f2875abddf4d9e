import type { JobRef, Step, StepResult } from "../../../contracts/credential-engine.ts";
import type { Saga } from "../../runner/saga.ts";
import type { CallRules } from "../engine-type.ts";
import type { Cloud } from "./cloud.ts";

/** One call at Google as a value. */
export type CloudStep = { [K in keyof Cloud]: { readonly call: K; readonly args: Parameters<Cloud[K]> } }[keyof Cloud];

export type CloudSaga<S> = Saga<S, CloudStep>;

export const step = <K extends keyof Cloud>(call: K, ...args: Parameters<Cloud[K]>): CloudStep =>
  ({ call, args }) as unknown as CloudStep;

type ValueOf<K extends keyof Cloud> = Extract<Awaited<ReturnType<Cloud[K]>>, { ok: true }>["value"];
/** Casts a step's result to the type of its call; the only such cast. */
export const resultOf = <K extends keyof Cloud>(_call: K, value: unknown): ValueOf<K> => value as ValueOf<K>;

export function performStep(cloud: Cloud, { call, args }: Step): Promise<StepResult> {
  return (cloud[call as keyof Cloud] as (...parameters: readonly unknown[]) => Promise<StepResult>)(...args);
}

const calls = (...names: readonly (keyof Cloud)[]): ReadonlySet<string> => new Set(names);

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
