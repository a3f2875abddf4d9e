import { describe, expect, it } from "vitest";
import type { CloudCode, CloudFailure } from "../../../contracts/cloud-calls.ts";
import type { Cloud } from "./directory.ts";
import { isNotYetThere } from "./lag.ts";

const failure = (code: CloudCode, providerCode = ""): CloudFailure => ({
  outcome: "client",
  code,
  message: "It was refused.",
  status: 400,
  providerCode,
});

const second = 1000;

describe("a refusal that may be replication lag", () => {
  it.each<[keyof Cloud, CloudCode, freshFor: number]>([
    ["createServicePrincipal", "not_replicated", 90],
    ["createServicePrincipal", "not_found", 90],
    ["createServicePrincipal", "permission_denied", 90],
    ["addPrincipalPassword", "not_replicated", 90],
    ["addPrincipalPassword", "not_found", 90],
    ["addPrincipalPassword", "permission_denied", 90],
    ["addApplicationPassword", "not_replicated", 90],
    ["addApplicationPassword", "not_found", 90],
    ["addApplicationPassword", "permission_denied", 90],
    ["updateApplication", "not_found", 90],
    ["createRoleAssignment", "not_replicated", 90],
    ["addGroupMember", "not_replicated", 90],
    ["addGroupMember", "not_found", 90],
    ["deleteRoleAssignment", "not_found", 90],
    ["removeGroupMember", "not_found", 90],
    ["deleteServicePrincipal", "not_found", 90],
    ["deleteApplication", "not_found", 90],
    ["removeApplicationPassword", "not_found", 90],
    ["purgeDeleted", "not_found", 60],
  ])("%s %s for %i seconds", (call, code, seconds) => {
    expect(isNotYetThere(call, failure(code), 0)).toBe(true);
    expect(isNotYetThere(call, failure(code), seconds * second - 1)).toBe(true);
    expect(isNotYetThere(call, failure(code), seconds * second)).toBe(false);
    expect(isNotYetThere(call, failure(code), Number.POSITIVE_INFINITY)).toBe(false);
  });

  it.each(["AADSTS7000215", "AADSTS700016", "AADSTS7000229"])("login %s for five minutes", (providerCode) => {
    expect(isNotYetThere("login", failure("auth_failed", providerCode), 300 * second - 1)).toBe(true);
    expect(isNotYetThere("login", failure("auth_failed", providerCode), 300 * second)).toBe(false);
  });
});

describe("a refusal that is final at once", () => {
  it.each<[keyof Cloud, CloudCode, providerCode?: string]>([
    ["createApplication", "permission_denied"],
    ["createApplication", "limit_reached"],
    ["createServicePrincipal", "limit_reached"],
    ["createServicePrincipal", "auth_failed"],
    ["addPrincipalPassword", "refused"],
    ["addApplicationPassword", "limit_reached"],
    ["createRoleAssignment", "permission_denied"],
    ["createRoleAssignment", "not_found"],
    ["createRoleAssignment", "limit_reached"],
    ["addGroupMember", "permission_denied"],
    ["addGroupMember", "refused"],
    ["deleteRoleAssignment", "permission_denied"],
    ["deleteRoleAssignment", "locked"],
    ["removeApplicationPassword", "permission_denied"],
    ["getApplication", "not_found"],
    ["getGroup", "not_found"],
    ["getRoleDefinition", "not_found"],
    ["login", "auth_failed", "AADSTS7000222"],
    ["login", "auth_failed", "AADSTS90002"],
  ])("%s %s %s", (call, code, providerCode = "") => {
    expect(isNotYetThere(call, failure(code, providerCode), 0)).toBe(false);
  });
});
