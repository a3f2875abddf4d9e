import type { JobRef, StepResult } from "../../../contracts/credential-engine.ts";
import type { Saga } from "../../runner/saga.ts";
import type { CallRules } from "../engine-type.ts";
import type { Cloud } from "./directory.ts";

/** One call of the directory or of the resource manager as a value. */
export type CloudStep = { [K in keyof Cloud]: { readonly call: K; readonly args: Parameters<Cloud[K]> } }[keyof Cloud];

export type CloudSaga<S> = Saga<S, CloudStep>;

export const step = <K extends keyof Cloud>(call: K, ...args: Parameters<Cloud[K]>): CloudStep =>
  ({ call, args }) as unknown as CloudStep;

/** Result of a successful call. */
type ValueOf<K extends keyof Cloud> = Extract<Awaited<ReturnType<Cloud[K]>>, { ok: true }>["value"];
/** Casts a step's result to the type of its call; the only such cast. */
export const resultOf = <K extends keyof Cloud>(_call: K, value: unknown): ValueOf<K> => value as ValueOf<K>;

export function performStep(cloud: Cloud, { call, args }: CloudStep): Promise<StepResult> {
  return (cloud[call] as (...parameters: unknown[]) => Promise<StepResult>).apply(cloud, [...args]);
}

const calls = (...names: readonly (keyof Cloud)[]): ReadonlySet<string> => new Set(names);

export const azureCalls: CallRules = {
  withoutResult: calls(
    "updateApplication",
    "deleteApplication",
    "purgeDeleted",
    "removeApplicationPassword",
    "deleteServicePrincipal",
    "addGroupMember",
    "removeGroupMember",
    "createRoleAssignment",
    "deleteRoleAssignment",
  ),
  // A password is deleted with its principal.
  last: calls("addPrincipalPassword"),
  // Each changes one right of an existing principal.
  concurrent: [calls("createRoleAssignment", "addGroupMember"), calls("deleteRoleAssignment", "removeGroupMember")],
  describe,
  searchedFor,
};

function searchedFor(kind: JobRef["kind"], call: string): string | null {
  if (kind === "removal") return null;
  if (call === "findApplicationsByName") return "createApplication";
  return call === "getApplication" && kind !== "role" ? "addApplicationPassword" : null;
}

function describe(call: string): string {
  switch (call) {
    case "createApplication":
    case "createServicePrincipal":
    case "findServicePrincipals":
    case "addPrincipalPassword":
      return "error creating service principal";
    case "createRoleAssignment":
      return "error while assigning roles";
    case "addGroupMember":
      return "error while adding group membership";
    case "addApplicationPassword":
      return "error updating credentials";
    case "updateApplication":
      return "error updating Application";
    case "getApplication":
    case "findApplicationsByClientId":
    case "findApplicationsByName":
      return "error loading Application";
    case "getRoleDefinition":
      return "unable to lookup role by id";
    case "findRoleDefinitions":
      return "unable to lookup role by name";
    case "getGroup":
    case "findGroups":
      return "unable to lookup group";
    case "login":
      return "the new secret cannot be used";
    default:
      return "error removing credentials";
  }
}
