import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { cloudB } from "../../src/credentials/engines/azure/client.ts";
import type { Cloud, CloudAccount } from "../../src/credentials/engines/azure/directory.ts";
import { sender } from "../../src/providers/outcome.ts";
import { type AzureDouble, startAzure } from "../doubles/cloud-b/azure.ts";
import type { AzureOptions, OperationName } from "../doubles/cloud-b/azure-types.ts";

// The engine's provider calls against the double: the effect and the refusals of each call.

let double: AzureDouble;
let opened: ReturnType<AzureDouble["openAccount"]>;
let cloud: Cloud;

beforeAll(async () => {
  double = await startAzure();
});
afterAll(() => double.close());
beforeEach(() => open());

function open(options: AzureOptions = {}): void {
  opened = double.openAccount(options);
  cloud = client();
}

const urls = () => ({
  CLOUD_B_LOGIN_URL: double.loginUrl,
  CLOUD_B_GRAPH_URL: `${double.graphUrl}/`,
  CLOUD_B_ARM_URL: double.armUrl,
});
const identity = (changed: Partial<CloudAccount> = {}): CloudAccount => {
  const { tenant_id, subscription_id, client_id, client_secret, environment } = opened.details;
  return {
    tenantId: tenant_id,
    subscriptionId: subscription_id,
    clientId: client_id,
    clientSecret: client_secret,
    environment,
    ...changed,
  };
};
const client = (changed: Partial<CloudAccount> = {}) => cloudB(identity(changed), urls(), sender({ deadlineMs: 5000 }));
const everything = () => opened.account.everything();
const operations = () => opened.account.log.map(({ operation }) => operation);
const asked = (operation: OperationName) => operations().filter((one) => one === operation).length;

/** The value of a call that must succeed. */
async function value<T>(call: Promise<{ ok: true; value: T } | { ok: false; failure: unknown }>): Promise<T> {
  const result = await call;
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  return result.value;
}

const done = { ok: true, value: null };
const failed = (failure: Record<string, unknown>) => ({ ok: false, failure: expect.objectContaining(failure) });
const nobody = "00000000-aaaa-bbbb-cccc-000000000000";
const hour = 3_600_000;

const newApplication = (displayName = `sallyport-${crypto.randomUUID()}`) =>
  value(cloud.createApplication({ displayName, tags: ["team:payments"], signInAudience: "" }));
async function newPrincipal() {
  const application = await newApplication();
  return { application, principal: await value(cloud.createServicePrincipal(application.clientId)) };
}
const definition = (roleName = "Reader") => {
  const found = opened.details.role_definitions.find((one) => one.roleName === roleName);
  if (found === undefined) throw new Error(`no ${roleName}`);
  return found;
};
const group = (displayName = "developers") => {
  const found = opened.details.groups.find((one) => one.displayName === displayName);
  if (found === undefined) throw new Error(`no ${displayName}`);
  return found;
};

describe("an application", () => {
  it("is created, found by its name and client id, changed, deleted and purged", async () => {
    const before = everything();
    const displayName = "sallyport-it's one";
    const created = await newApplication(displayName);
    const same = { objectId: created.objectId, clientId: created.clientId, displayName, passwords: [] };
    expect(created).toEqual(same);
    expect(await cloud.getApplication(created.objectId)).toEqual({ ok: true, value: same });
    expect(await cloud.findApplicationsByName(displayName)).toEqual({ ok: true, value: [same] });
    expect(await cloud.findApplicationsByClientId(created.clientId)).toEqual({ ok: true, value: [same] });
    const found = () => everything().applications.find(({ id }) => id === created.objectId);
    expect(found()).toMatchObject({ tags: ["team:payments"], signInAudience: "AzureADMyOrg" });

    const audience = "AzureADMultipleOrgs";
    expect(await cloud.updateApplication(created.objectId, { tags: [], signInAudience: audience })).toEqual(done);
    expect(found()).toMatchObject({ displayName, tags: [], signInAudience: audience });
    expect(await cloud.updateApplication(created.objectId, { tags: ["b"], signInAudience: "" })).toEqual(done);
    expect(found()).toMatchObject({ tags: ["b"], signInAudience: audience });

    expect(await cloud.deleteApplication(created.objectId)).toEqual(done);
    expect(everything().deletedApplications).toMatchObject([{ id: created.objectId }]);
    expect(await cloud.purgeDeleted(created.objectId)).toEqual(done);
    expect(everything()).toEqual(before);
  });

  it("of another owner with a similar name is not found", async () => {
    await newApplication("o'brien");
    expect(await value(cloud.findApplicationsByName("x' or displayName eq 'o''brien"))).toEqual([]);
    expect(await value(cloud.findApplicationsByName("o'brien & co #1?"))).toEqual([]);
  });

  it("is found on any page", async () => {
    open({ pageSize: 1 });
    const made = [await newApplication("same"), await newApplication("other"), await newApplication("same")];
    const found = await value(cloud.findApplicationsByName("same"));
    expect(found.map(({ objectId }) => objectId)).toEqual([made[0]?.objectId, made[2]?.objectId]);
    expect(asked("ListApplications")).toBeGreaterThan(2);
  });

  it("that is deleted is not found by any call", async () => {
    const notFound = failed({ outcome: "client", code: "not_found", status: 404 });
    expect(await cloud.getApplication(nobody)).toEqual(notFound);
    expect(await cloud.updateApplication(nobody, { tags: [], signInAudience: "" })).toEqual(notFound);
    expect(await cloud.deleteApplication(nobody)).toEqual(notFound);
    expect(await cloud.purgeDeleted(nobody)).toEqual(notFound);
    expect(await cloud.addApplicationPassword(nobody, { displayName: "p", endsAt: Date.now() + hour })).toEqual(
      notFound,
    );
    expect(await cloud.removeApplicationPassword(nobody, nobody)).toEqual(notFound);
  });

  it("is found by its name after a lost response, and not created twice", async () => {
    opened.account.fault({ fault: "apply-then-drop", operation: "CreateApplication" });
    const lost = await cloud.createApplication({ displayName: "sallyport-1", tags: [], signInAudience: "" });
    expect(lost).toEqual(failed({ outcome: "unknown", code: "network_error", status: null }));
    expect(await value(cloud.findApplicationsByName("sallyport-1"))).toHaveLength(1);
    expect(asked("CreateApplication")).toBe(1);
  });
});

describe("a password", () => {
  it("of an application is added, listed without its text, and removed", async () => {
    const { object_id: objectId, client_id: clientId } = opened.details.existing_application;
    const endsAt = Date.now() + 24 * hour;
    const added = await value(cloud.addApplicationPassword(objectId, { displayName: "sallyport-7", endsAt }));
    expect(added.endsAt).toBe(endsAt);
    const { passwords } = await value(cloud.getApplication(objectId));
    const listed = { keyId: added.keyId, displayName: "sallyport-7", endsAt, hint: added.secretText.slice(0, 3) };
    expect(passwords).toEqual([listed]);
    expect(await cloud.login(clientId, added.secretText)).toEqual(done);
    expect(await cloud.removeApplicationPassword(objectId, added.keyId)).toEqual(done);
    const again = await cloud.removeApplicationPassword(objectId, added.keyId);
    expect(again).toEqual(failed({ outcome: "client", code: "not_found", status: 400 }));
    const refused = { outcome: "client", code: "auth_failed", providerCode: "AADSTS7000215", status: 401 };
    expect(await cloud.login(clientId, added.secretText)).toEqual(failed(refused));
  });

  it("of a principal is added with the requested lifetime", async () => {
    const { application, principal } = await newPrincipal();
    const [startsAt, endsAt] = [Date.now() - 1000, Date.now() + hour];
    const added = await value(cloud.addPrincipalPassword(principal.objectId, { startsAt, endsAt }));
    const kept = everything().principals.find(({ id }) => id === principal.objectId)?.passwords[0];
    expect(kept).toMatchObject({ keyId: added.keyId, displayName: null });
    expect([kept?.startDateTime, kept?.endDateTime].map((text) => Date.parse(text ?? ""))).toEqual([startsAt, endsAt]);
    expect(await cloud.login(application.clientId, added.secretText)).toEqual(done);
  });

  it("above the limit of passwords or lifetime is refused", async () => {
    open({ maxPasswords: 1, maxPasswordDays: 200 });
    const { object_id: objectId } = opened.details.existing_application;
    const add = (endsAt: number) => cloud.addApplicationPassword(objectId, { displayName: "p", endsAt });
    const tooLong = await add(Date.now() + 201 * 24 * hour);
    const policy = { code: "refused", providerCode: "CredentialInvalidLifetimeAsPerAppPolicy" };
    expect(tooLong).toEqual(failed({ ...policy, message: expect.stringContaining("smaller explicit_max_ttl") }));
    await value(add(Date.now() + hour));
    expect(await add(Date.now() + hour)).toEqual(failed({ outcome: "client", code: "limit_reached" }));
  });
});

describe("a service principal", () => {
  it("is created once, found by its client id, and deleted", async () => {
    const { application, principal } = await newPrincipal();
    const second = await cloud.createServicePrincipal(application.clientId);
    expect(second).toEqual(failed({ outcome: "client", code: "already_exists", status: 409 }));
    expect(await cloud.findServicePrincipals(application.clientId)).toEqual({ ok: true, value: [principal] });
    expect(await cloud.deleteServicePrincipal(principal.objectId)).toEqual(done);
    expect(await cloud.deleteServicePrincipal(principal.objectId)).toEqual(failed({ code: "not_found" }));
    expect(await cloud.findServicePrincipals(application.clientId)).toEqual({ ok: true, value: [] });
    expect(await cloud.purgeDeleted(principal.objectId)).toEqual(done);
  });

  it.each([
    ["Application.ReadWrite.All", 400, "NoBackingApplicationObject"],
    ["Application.ReadWrite.OwnedBy", 403, "Authorization_RequestDenied"],
  ])("of an application that is not replicated yet, with %s, is created later", async (permission, status, code) => {
    open({ permissions: [permission], lags: { application: { requests: 1 } } });
    const application = await newApplication();
    const early = await cloud.createServicePrincipal(application.clientId);
    expect(early).toEqual(failed({ outcome: "client", code: "not_replicated", status, providerCode: code }));
    await value(cloud.createServicePrincipal(application.clientId));
  });

  it("is not found before it is replicated", async () => {
    open({ lags: { principal: { requests: 2 }, principalInArm: { requests: 1 } } });
    const { principal } = await newPrincipal();
    const password = { startsAt: Date.now(), endsAt: Date.now() + hour };
    expect(await cloud.addPrincipalPassword(principal.objectId, password)).toEqual(failed({ code: "not_found" }));
    expect(await cloud.addGroupMember(group().id, principal.objectId)).toEqual(failed({ code: "not_found" }));
    const assignment = { scope: `/subscriptions/${opened.details.subscription_id}`, assignmentId: crypto.randomUUID() };
    const grant = { ...assignment, roleDefinitionId: definition().id, principalId: principal.objectId };
    const early = { outcome: "client", code: "not_replicated", providerCode: "PrincipalNotFound" };
    expect(await cloud.createRoleAssignment(grant)).toEqual(failed(early));
    await value(cloud.createRoleAssignment(grant));
  });
});

describe("a group", () => {
  it("is read by its id and found by its name, with quotes and any letters", async () => {
    const { id, displayName } = group("O'Brien & Söhne");
    const found = { objectId: id, name: displayName };
    expect(await cloud.getGroup(id)).toEqual({ ok: true, value: found });
    expect(await cloud.findGroups(displayName)).toEqual({ ok: true, value: [found] });
    expect(await value(cloud.findGroups("twins"))).toHaveLength(2);
    expect(await value(cloud.findGroups("nobody"))).toEqual([]);
    expect(await cloud.getGroup(nobody)).toEqual(failed({ code: "not_found", status: 404 }));
  });

  it.each(["AzurePublicCloud", "AzureChinaCloud", "AzureUSGovernmentCloud"] as const)(
    "gets and loses a member, in %s",
    async (environment) => {
      open({ environment });
      const { principal } = await newPrincipal();
      const membership = [group().id, principal.objectId] as const;
      expect(await cloud.addGroupMember(...membership)).toEqual(done);
      expect(everything().memberships).toEqual([{ groupId: membership[0], memberId: membership[1] }]);
      expect(await cloud.addGroupMember(...membership)).toEqual(failed({ code: "already_exists", status: 400 }));
      expect(await cloud.removeGroupMember(...membership)).toEqual(done);
      expect(everything().memberships).toEqual([]);
      expect(await cloud.removeGroupMember(...membership)).toEqual(failed({ code: "not_found" }));
      expect(everything().principals.map(({ id }) => id)).toContain(principal.objectId);
    },
  );

  it("with dynamic membership accepts no member", async () => {
    const { principal } = await newPrincipal();
    const refused = await cloud.addGroupMember(group("dynamic").id, principal.objectId);
    expect(refused).toEqual(failed({ code: "permission_denied", message: expect.stringContaining("from a rule") }));
  });
});

describe("a role", () => {
  it("is read by its full id or its last part, and found by its name on any page", async () => {
    open({ pageSize: 1 });
    const { id, name, roleName } = definition("Bob's role");
    const found = { id, name: roleName };
    expect(await cloud.getRoleDefinition(id)).toEqual({ ok: true, value: found });
    expect(await cloud.getRoleDefinition(id.slice(1))).toEqual({ ok: true, value: found });
    expect(await cloud.getRoleDefinition(name)).toEqual({ ok: true, value: found });
    expect(await cloud.findRoleDefinitions(roleName)).toEqual({ ok: true, value: [found] });
    expect(await value(cloud.findRoleDefinitions("Twin role"))).toHaveLength(2);
    expect(await value(cloud.findRoleDefinitions("x' or roleName eq 'Reader"))).toEqual([]);
    const missing = failed({ outcome: "client", code: "not_found", providerCode: "RoleDefinitionDoesNotExist" });
    expect(await cloud.getRoleDefinition(id.replace(name, nobody))).toEqual(missing);
  });

  it.each(["subscription", "resource group", "subscription without a slash"])(
    "is assigned on a %s once, and removed",
    async (kind) => {
      const { principal } = await newPrincipal();
      const subscription = `/subscriptions/${opened.details.subscription_id}`;
      const scope = kind === "resource group" ? opened.details.resource_group : subscription;
      const grant = {
        scope: kind.endsWith("slash") ? scope.slice(1) : scope,
        assignmentId: crypto.randomUUID(),
        roleDefinitionId: definition().id,
        principalId: principal.objectId,
      };
      const { id } = await value(cloud.createRoleAssignment(grant));
      expect(id).toBe(`${scope}/providers/Microsoft.Authorization/roleAssignments/${grant.assignmentId}`);
      const given = () => everything().assignments.filter(({ principalId }) => principalId === principal.objectId);
      expect(given()).toEqual([{ id, scope, roleDefinitionId: definition().id, principalId: principal.objectId }]);
      const twice = await cloud.createRoleAssignment(grant);
      expect(twice.ok || twice.failure.code).toBe(twice.ok || "already_exists");
      const other = await cloud.createRoleAssignment({ ...grant, assignmentId: crypto.randomUUID() });
      expect(other).toEqual(failed({ code: "already_exists", status: 409, providerCode: "RoleAssignmentExists" }));
      expect(given()).toHaveLength(1);
      expect(await cloud.deleteRoleAssignment(id)).toEqual(done);
      expect(given()).toEqual([]);
      expect(await cloud.deleteRoleAssignment(id)).toEqual(done);
    },
  );

  it("cannot be assigned on an unknown scope or above the limit, or removed under a lock", async () => {
    open({ assignmentLimit: 2 });
    const { principal } = await newPrincipal();
    const scope = `/subscriptions/${opened.details.subscription_id}`;
    const grant = (changed: object) => ({
      scope,
      roleDefinitionId: definition().id,
      principalId: principal.objectId,
      assignmentId: crypto.randomUUID(),
      ...changed,
    });
    const nowhere = { ...grant({}), scope: `${scope}/resourceGroups/nowhere` };
    expect(await cloud.createRoleAssignment(nowhere)).toEqual(failed({ outcome: "client", code: "not_found" }));
    const { id } = await value(cloud.createRoleAssignment(grant({})));
    const more = grant({ roleDefinitionId: definition("Bob's role").id });
    expect(await cloud.createRoleAssignment(more)).toEqual(failed({ code: "limit_reached", outcome: "client" }));
    opened.account.call({ change: "LockScope", scope });
    const locked = { outcome: "client", code: "locked", providerCode: "ScopeLocked", status: 409 };
    expect(await cloud.deleteRoleAssignment(id)).toEqual(failed(locked));
  });
});

describe("a refusal names the missing right or resource", () => {
  it.each<[string, AzureOptions, () => Promise<unknown>, string]>([
    [
      "to create an application",
      { permissions: [] },
      () => cloud.createApplication({ displayName: "x", tags: [], signInAudience: "" }),
      "Application.ReadWrite.OwnedBy",
    ],
    [
      "to change an application of somebody else's",
      { permissions: ["Application.ReadWrite.OwnedBy"] },
      () =>
        cloud.addApplicationPassword(opened.details.existing_application.object_id, {
          displayName: "x",
          endsAt: Date.now() + hour,
        }),
      "Application.ReadWrite.All, or make it an owner",
    ],
    [
      "to read groups",
      { permissions: ["Application.ReadWrite.OwnedBy"] },
      () => cloud.findGroups("x"),
      "GroupMember.ReadWrite.All",
    ],
    ["to read roles", { armRole: null }, () => cloud.findRoleDefinitions("Reader"), "Reader on the subscription"],
    [
      "to assign roles",
      { armRole: "Reader" },
      () =>
        cloud.createRoleAssignment({
          scope: opened.details.resource_group,
          assignmentId: nobody,
          roleDefinitionId: definition().id,
          principalId: opened.details.root.principal_id,
        }),
      "User Access Administrator or Owner on /subscriptions/",
    ],
  ])("%s", async (_what, options, call, grant) => {
    open(options);
    const message = expect.stringMatching(/: grant .*HTTP 403/);
    const refused = await call();
    expect(refused).toEqual(failed({ outcome: "client", code: "permission_denied", status: 403, message }));
    expect(refused).toEqual(failed({ message: expect.stringContaining(grant) }));
  });

  it("when the quota of objects is exhausted", async () => {
    open({ objectQuota: 0 });
    const refused = await cloud.createApplication({ displayName: "x", tags: [], signInAudience: "" });
    expect(refused).toEqual(failed({ code: "limit_reached", providerCode: "Directory_QuotaExceeded" }));
  });

  it("when the subscription belongs to another tenant", async () => {
    const { subscription_id: subscriptionId } = double.openAccount().details;
    const refused = await client({ subscriptionId }).findRoleDefinitions("Reader");
    expect(refused).toEqual(failed({ code: "auth_failed", message: expect.stringContaining("another tenant") }));
  });
});
