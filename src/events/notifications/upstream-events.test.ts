import { expect, it } from "vitest";
import { NOTIFICATION_TYPES, notificationOf } from "./upstream-events.ts";

it("names the path of the role or of the request of each engine, also of further kinds of roles", () => {
  const rows = [
    ["cloud-c", "RoleWritten", "g/static-account/app", "gcp/role-update g/static-account/app"],
    ["cloud-c", "RoleDeleted", "g/roleset/app", "gcp/role-delete g/roleset/app"],
    ["cloud-c", "CredentialsIssued", "g/roleset/app/key", "gcp/creds-create g/roleset/app/key"],
    ["cloud-a", "CredentialsIssued", "g/sts/app", "aws/creds-create g/sts/app"],
    ["cloud-b", "CredentialsFailed", "g/creds/app", "azure/creds-create-fail g/creds/app"],
    ["cloud-a", "RoleRotated", "g/static-roles/app", "aws/rotate g/static-roles/app"],
    ["cloud-b", "RoleWritten", "g/roles/app", "azure/role-update g/roles/app"],
    ["cloud-b", "RoleRotated", "g/static-roles/app", "azure/rotate g/static-roles/app"],
    ["cloud-b", "RoleWritten", "g/static-roles/app", "azure/static-role-update g/static-roles/app"],
    // An event of an older release, with another key.
    ["cloud-b", "RoleWritten", "app", "azure/role-update g/roles/app"],
    ["cloud-b", "ConfigWritten", "", "azure/config-write g/config"],
    ["cloud-b", "ConfigDeleted", "", "azure/config-delete g/config"],
    ["cloud-b", "RootRotated", "", "azure/rotate g/rotate-root"],
    ["cloud-b", "RootRotationFailed", "", "azure/rotate-fail g/rotate-root"],
  ] as const;
  for (const [type, event, Key, expected] of rows) {
    const ofRole = Key !== "" && { Role: "app" };
    const Engine = { Namespace: "", Time: "2026-01-01T00:00:00Z", Mount: "g/", MountType: type, ...ofRole };
    const found = notificationOf({ Topic: "Engine", Type: event, Key, Index: 1, Payload: { Engine } } as never);
    expect([found?.type, found?.metadata["path"]].join(" "), `${type} ${event}`).toBe(expected);
    expect(NOTIFICATION_TYPES.Engine).toContain(found?.type);
  }
});
