import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type AzureDouble, startAzure } from "./azure.ts";
import { armResource, type Driver, graphResource, openAccount, refusal } from "./azure-driver.ts";

// Behaviour of the double of Azure Resource Manager, tested with plain requests. Each test fails for a more lenient
// double.

const definitionsVersion = "api-version=2022-05-01-preview";
const version = "api-version=2022-04-01";
const authorization = "providers/Microsoft.Authorization";
let double: AzureDouble;
let one: Driver;

beforeAll(async () => {
  double = await startAzure();
});
afterAll(() => double.close());
beforeEach(() => {
  one = openAccount(double);
});

const subscription = (of = one) => `/subscriptions/${of.details.subscription_id}`;
const idAt = (scope: string, name: string = crypto.randomUUID()) => `${scope}/${authorization}/roleAssignments/${name}`;
const given = (changed: Record<string, unknown> = {}) => ({
  properties: {
    roleDefinitionId: one.role("Reader"),
    principalId: one.details.existing_application.principal_id,
    principalType: "ServicePrincipal",
    ...changed,
  },
});
const put = (id: string, body: unknown = given()) => one.arm(`PUT ${id}?${version}`, body);
const remove = (id: string) => one.arm(`DELETE ${id}?${version}`);

describe("tokens", () => {
  const read = (token: string | null) => one.arm(`GET ${subscription()}?api-version=2022-12-01`, undefined, { token });

  it("are required, for the resource manager and of the subscription's tenant", async () => {
    const invalid = [401, "InvalidAuthenticationToken"];
    expect(refusal(await read(null))).toEqual(invalid);
    expect(refusal(await read(await one.tokenFor(graphResource)))).toEqual(invalid);
    for (const audience of [armResource, "https://management.core.windows.net/"]) {
      expect((await read(await one.tokenFor(audience))).status).toBe(200);
    }
    const other = openAccount(double);
    const theirs = await other.arm(`GET ${subscription()}?api-version=2022-12-01`);
    expect(refusal(theirs)).toEqual([401, "InvalidAuthenticationTokenTenant"]);
    const nobodys = await one.arm(`GET /subscriptions/${crypto.randomUUID()}?api-version=2022-12-01`);
    expect(refusal(nobodys)).toEqual([404, "SubscriptionNotFound"]);
  });
});

describe("requests", () => {
  it("require a supported api-version", async () => {
    expect(refusal(await one.arm(`GET ${one.role("Reader")}`))).toEqual([400, "MissingApiVersionParameter"]);
    expect(refusal(await one.arm(`GET ${one.role("Reader")}?api-version=2015-07-01`))).toEqual([
      400,
      "NoRegisteredProviderFound",
    ]);
    const preview = await one.arm(`PUT ${idAt(subscription())}?${definitionsVersion}`, given());
    expect(refusal(preview)).toEqual([400, "NoRegisteredProviderFound"]);
    expect(refusal(await one.arm(`GET ${one.role("Reader")}?${version}&colour=red`))).toEqual([
      400,
      "InvalidQueryParameter",
    ]);
    expect(refusal(await one.arm(`GET /subscriptions?${version}`))).toEqual([404, "InvalidResourceType"]);
  });
});

describe("role definitions", () => {
  const list = (filter: string) =>
    one.arm(
      `GET ${subscription()}/${authorization}/roleDefinitions?${definitionsVersion}&$filter=${encodeURIComponent(filter)}`,
    );

  it("are read by their id in any case", async () => {
    const id = one.role("Contributor");
    const name = id.split("/").at(-1);
    const properties = { roleName: "Contributor", type: "BuiltInRole" };
    const answer = await one.arm(`GET ${id}?${definitionsVersion}`);
    expect(answer).toMatchObject({ status: 200, body: { id, name, properties } });
    expect((await one.arm(`GET /${id.toUpperCase()}?${definitionsVersion}`)).body).toEqual(answer.body);
    const unscoped = `/${authorization}/roleDefinitions/${name}`;
    expect((await one.arm(`GET ${unscoped}?${definitionsVersion}`)).body).toMatchObject({ id: unscoped, properties });
    const custom = one.role("Bob's role").split("/").at(-1);
    for (const missing of [`/${authorization}/roleDefinitions/${custom}`, id.replace(/.$/, "0")]) {
      expect(refusal(await one.arm(`GET ${missing}?${definitionsVersion}`))).toEqual([
        404,
        "RoleDefinitionDoesNotExist",
      ]);
    }
  });

  it("are found by a name with doubled quotes, and by no other filter", async () => {
    const names = async (text: string) =>
      (await list(`roleName eq '${text}'`)).body.value.map((one: { id: string }) => one.id);
    expect(await names("Bob''s role")).toEqual([one.role("Bob's role")]);
    expect(await names("READER")).toEqual([one.role("Reader")]);
    expect(await names("Twin role")).toHaveLength(2);
    expect(await names("nobody")).toEqual([]);
    expect(refusal(await list("roleName eq 'Bob's role'"))).toEqual([400, "InvalidFilter"]);
    expect(refusal(await list("name eq 'x'"))).toEqual([400, "InvalidFilter"]);
  });

  it("are paged before they are filtered", async () => {
    one = openAccount(double, { pageSize: 5 });
    const first = await list("roleName eq 'Twin role'");
    expect(first.body.value).toEqual([]);
    expect(first.body.nextLink).toMatch(new RegExp(`^${double.armUrl}/subscriptions/`));
    const second = await one.arm(`GET ${first.body.nextLink.slice(double.armUrl.length)}`);
    expect(second.body.value).toHaveLength(2);
    expect(second.body.nextLink).toBeUndefined();
    const broken = await one.arm(
      `GET ${first.body.nextLink.slice(double.armUrl.length).replace(/skiptoken=.*/, "skiptoken=x")}`,
    );
    expect(refusal(broken)).toEqual([400, "InvalidSkipToken"]);
  });

  it("can be created and deleted by another writer", async () => {
    const { id } = one.call({ change: "CreateRoleDefinition", roleName: "Late" }) as { id: string };
    expect((await list("roleName eq 'Late'")).body.value).toMatchObject([{ id }]);
    one.call({ change: "DeleteRoleDefinition", id });
    expect(refusal(await put(idAt(subscription()), given({ roleDefinitionId: id })))).toEqual([
      400,
      "RoleDefinitionDoesNotExist",
    ]);
  });
});

describe("role assignments", () => {
  it("are created once per scope, read, listed and deleted", async () => {
    const before = one.everything();
    const id = idAt(one.details.resource_group);
    const made = await put(id);
    const { roleDefinitionId, principalId, principalType } = given().properties;
    const properties = { roleDefinitionId, principalId, principalType, scope: one.details.resource_group };
    expect(made).toMatchObject({ status: 201, body: { id, properties } });
    expect((await one.arm(`GET ${id}?${version}`)).body).toEqual(made.body);
    const list = `GET ${subscription()}/${authorization}/roleAssignments?${version}&$filter=principalId eq '${principalId}'`;
    expect((await one.arm(list)).body.value).toEqual([made.body]);
    expect(one.everything().assignments.at(-1)).toEqual({
      id,
      scope: one.details.resource_group,
      principalId,
      roleDefinitionId: one.role("Reader"),
    });
    expect((await put(idAt(subscription()))).status).toBe(201);
    expect((await put(idAt(subscription()), given({ roleDefinitionId: one.role("Owner") }))).status).toBe(201);

    expect(await remove(id)).toMatchObject({ status: 200, body: { id } });
    expect(await remove(id)).toMatchObject({ status: 204, body: "" });
    expect(refusal(await one.arm(`GET ${id}?${version}`))).toEqual([404, "RoleAssignmentNotFound"]);
    for (const left of one.everything().assignments.slice(before.assignments.length)) await remove(left.id);
    expect(one.everything()).toEqual(before);
  });

  it("refuse an equal one, and another with the same id", async () => {
    const id = idAt(subscription());
    await put(id);
    const again = await put(id);
    expect(refusal(again)).toEqual([409, "RoleAssignmentExists"]);
    expect(again.body.error.message).toContain(id.split("/").at(-1)?.replaceAll("-", ""));
    expect(refusal(await put(idAt(subscription())))).toEqual([409, "RoleAssignmentExists"]);
    const another = given({ roleDefinitionId: one.role("Owner") });
    expect(refusal(await put(id, another))).toEqual([400, "RoleAssignmentUpdateNotPermitted"]);
  });

  it.each<[string, () => Record<string, unknown>, number, string]>([
    ["an unknown principal", () => ({ principalId: crypto.randomUUID() }), 400, "PrincipalNotFound"],
    ["an application", () => ({ principalId: one.details.root.object_id }), 400, "PrincipalNotFound"],
    ["a principal that is not a GUID", () => ({ principalId: "me" }), 400, "InvalidPrincipalId"],
    ["another type of principal", () => ({ principalType: "User" }), 400, "UnmatchedPrincipalType"],
    ["no type of principal", () => ({ principalType: "Application" }), 400, "InvalidRequestContent"],
    ["a bare role", () => ({ roleDefinitionId: one.role("Reader").split("/").at(-1) }), 400, "BadRequestFormat"],
    [
      "an unknown role",
      () => ({ roleDefinitionId: one.role("Reader").replace(/.$/, "0") }),
      400,
      "RoleDefinitionDoesNotExist",
    ],
    ["an unknown field", () => ({ colour: "red" }), 400, "InvalidRequestContent"],
  ])("refuse %s", async (_what, changed, status, code) => {
    expect(refusal(await put(idAt(subscription()), given(changed())))).toEqual([status, code]);
  });

  it("refuse invalid names, scopes and bodies", async () => {
    expect(refusal(await put(idAt(subscription(), "mine")))).toEqual([400, "InvalidRoleAssignmentId"]);
    expect(refusal(await put(idAt(`${subscription()}/resourceGroups/nowhere`)))).toEqual([
      404,
      "ResourceGroupNotFound",
    ]);
    expect(refusal(await put(idAt(`${subscription()}/rg-one`)))).toEqual([404, "ResourceGroupNotFound"]);
    expect(refusal(await put(idAt(`/subscriptions/${crypto.randomUUID()}`)))).toEqual([404, "SubscriptionNotFound"]);
    expect(refusal(await put(idAt("/resourceGroups/rg-one")))).toEqual([404, "SubscriptionNotFound"]);
    const resource = `${one.details.resource_group}/providers/Microsoft.Storage/storageAccounts/logs`;
    expect((await put(idAt(resource))).status).toBe(201);
    const id = idAt(subscription());
    const text = JSON.stringify(given());
    expect(refusal(await put(id, given().properties))).toEqual([400, "InvalidRequestContent"]);
    const plain = await one.arm(`PUT ${id}?${version}`, undefined, { text, headers: { "content-type": "text/plain" } });
    expect(refusal(plain)).toEqual([415, "UnsupportedMediaType"]);
    expect(refusal(await one.arm(`DELETE ${id}?${version}`, {}))).toEqual([400, "InvalidRequestContent"]);
  });

  it("require a role with write and delete at the scope, of the caller or its group", async () => {
    const denied = [403, "AuthorizationFailed"];
    for (const armRole of [null, "Reader", "Contributor"]) {
      one = openAccount(double, { armRole });
      const refused = await put(idAt(subscription()));
      expect(refusal(refused)).toEqual(denied);
      expect(refused.body.error.message).toContain("Microsoft.Authorization/roleAssignments/write");
      expect(refusal(await remove(idAt(subscription())))).toEqual(denied);
      const read = await one.arm(`GET ${one.role("Reader")}?${definitionsVersion}`);
      expect(read.status).toBe(armRole === null ? 403 : 200);
    }
    one = openAccount(double, { armRole: "Owner" });
    expect((await put(idAt(subscription()))).status).toBe(201);
    expect(refusal(await put(idAt("/providers/Microsoft.Management/managementGroups/top")))).toEqual(denied);

    const { principal_id: principalId, object_id, client_id } = one.details.existing_application;
    const { secretText } = one.call({ change: "AddPassword", id: object_id }) as { secretText: string };
    const token = await one.tokenFor(armResource, client_id, secretText);
    const asThem = () => one.arm(`DELETE ${idAt(one.details.resource_group)}?${version}`, undefined, { token });
    expect(refusal(await asThem())).toEqual(denied);
    const group = one.group("developers");
    const changed = { roleDefinitionId: one.role("Owner"), principalId: group, principalType: "Group" };
    expect((await put(idAt(one.details.resource_group), given(changed))).status).toBe(201);
    expect(refusal(await asThem())).toEqual(denied);
    const reference = { "@odata.id": `${graphResource}/v1.0/directoryObjects/${principalId}` };
    expect((await one.graph(`POST /groups/${group}/members/$ref`, reference)).status).toBe(204);
    expect((await asThem()).status).toBe(204);
  });

  it("are limited per subscription, and refused under a lock", async () => {
    one = openAccount(double, { assignmentLimit: 2 });
    const id = idAt(one.details.resource_group);
    await put(id);
    expect(refusal(await put(idAt(subscription())))).toEqual([400, "RoleAssignmentLimitExceeded"]);
    const lock = { scope: one.details.resource_group };
    one.call({ change: "LockScope", ...lock });
    expect(refusal(await remove(id))).toEqual([409, "ScopeLocked"]);
    one.call({ change: "UnlockScope", ...lock });
    expect((await remove(id)).status).toBe(200);
  });

  it("require a replicated principal, and are listed after a delay", async () => {
    one = openAccount(double, { lags: { principalInArm: { requests: 1 }, assignment: { requests: 1 } } });
    const { appId } = (await one.graph("POST /applications", { displayName: "new" })).body;
    const { id: principalId } = (await one.graph("POST /servicePrincipals", { appId })).body;
    const id = idAt(subscription());
    const refused = await put(id, given({ principalId }));
    expect(refusal(refused)).toEqual([400, "PrincipalNotFound"]);
    expect(refused.body.error.message).toContain(principalId.replaceAll("-", ""));
    expect((await put(id, given({ principalId }))).status).toBe(201);
    const { secretText } = one.call({ change: "AddPassword", id: principalId }) as { secretText: string };
    const token = await one.tokenFor(armResource, appId, secretText);
    const probe = () => one.arm(`GET ${subscription()}?api-version=2022-12-01`, undefined, { token });
    expect(refusal(await probe())).toEqual([403, "AuthorizationFailed"]);
    expect((await probe()).status).toBe(200);
  });
});

describe("faults", () => {
  it("use the resource manager's messages, and can drop responses", async () => {
    const wait = { "retry-after": "3" };
    one.account.fault({ service: "arm", fault: "error", status: 429, code: "TooManyRequests", headers: wait });
    const id = idAt(subscription());
    const throttled = await put(id);
    expect(throttled).toMatchObject({ status: 429, body: { error: { code: "TooManyRequests" } } });
    expect(throttled.headers.get("retry-after")).toBe("3");
    one.account.fault({ operation: "CreateRoleAssignment", fault: "apply-then-drop" });
    await expect(put(id)).rejects.toThrow();
    expect(refusal(await put(id))).toEqual([409, "RoleAssignmentExists"]);
    expect(one.account.log.filter(({ service }) => service === "arm")).toMatchObject([
      { operation: "CreateRoleAssignment", status: 429, errorCode: "TooManyRequests", fields: ["properties"] },
      { operation: "CreateRoleAssignment", status: 201, errorCode: null, caller: one.details.client_id },
      { operation: "CreateRoleAssignment", status: 409, errorCode: "RoleAssignmentExists" },
    ]);
  });
});
