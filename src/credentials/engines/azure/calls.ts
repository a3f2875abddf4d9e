import type { JobRef } from "../../../contracts/credential-engine.ts";
import type { Saga } from "../../runner/saga.ts";
import type { CallRules } from "../engine-type.ts";
import { type StepOf, stepsOf } from "../steps.ts";
import type { Cloud } from "./directory.ts";

/** One call of the directory or of the resource manager as a value. */
export type CloudStep = StepOf<Cloud>;

export type CloudSaga<S> = Saga<S, CloudStep>;

const steps = stepsOf<Cloud>();
const { calls } = steps;
export const { step, resultOf, performStep } = steps;

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
    case "obtainToken":
      return "error obtaining a token";
    case "login":
      return "the new secret cannot be used";
    default:
      return "error removing credentials";
  }
}
