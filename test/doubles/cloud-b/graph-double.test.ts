import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type AzureDouble, startAzure } from "./azure.ts";
import { armResource, type Driver, graphResource, memberOf, openAccount, read, refusal } from "./azure-driver.ts";

// Behaviour of the double of Microsoft Graph, tested with plain requests. Each test fails for a more lenient double.

let now = Date.now();
let double: AzureDouble;
let one: Driver;

beforeAll(async () => {
  double = await startAzure({ now: () => now });
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  one = openAccount(double);
});

const denied = [403, "Authorization_RequestDenied"];
const missing = [404, "Request_ResourceNotFound"];
const bad = [400, "Request_BadRequest"];
const invalidToken = [401, "InvalidAuthenticationToken"];

const createApplication = () => one.createApplication();
const createPrincipal = () => one.createPrincipal();

describe("tokens", () => {
  it("are required, for Graph, of the directory, and not revoked", async () => {
    const get = (token: string | null) => one.graph("GET /groups", undefined, { token });
    expect(refusal(await get(null))).toEqual(invalidToken);
    expect(refusal(await get("made.up.token"))).toEqual(invalidToken);
    expect(refusal(await get(await one.tokenFor(armResource)))).toEqual(invalidToken);
    const token = await one.tokenFor(graphResource);
    expect((await get(token)).status).toBe(200);
    const forged = token.replace(/\.[^.]+$/, `.${"A".repeat(43)}`);
    expect(refusal(await get(forged))).toEqual(invalidToken);
    one.call({ change: "RevokeTokens" });
    expect(refusal(await get(token))).toEqual(invalidToken);
    expect((await get(await one.tokenFor(graphResource))).status).toBe(200);
    now += 3_600_000;
    expect(refusal(await get(token))).toEqual(invalidToken);
  });

  it("give no access to another tenant", async () => {
    const other = openAccount(double);
    const { object_id } = other.details.existing_application;
    expect(refusal(await one.graph(`GET /applications/${object_id}`))).toEqual(missing);
    expect((await other.graph(`GET /applications/${object_id}`)).status).toBe(200);
  });
});

describe("permissions", () => {
  const open = (...permissions: string[]) => openAccount(double, { permissions });

  it("are required for every operation, with the messages of Graph", async () => {
    const none = open();
    const answer = await none.graph("POST /applications", { displayName: "new" });
    expect(answer).toMatchObject({
      status: 403,
      body: {
        error: {
          code: "Authorization_RequestDenied",
          message: "Insufficient privileges to complete the operation.",
          innerError: { "request-id": expect.any(String), date: expect.any(String) },
        },
      },
    });
    const id = none.details.existing_application.object_id;
    for (const request of [
      "GET /groups",
      "GET /applications",
      `GET /applications/${id}`,
      `DELETE /applications/${id}`,
    ]) {
      expect(refusal(await none.graph(request))).toEqual(denied);
    }
  });

  it("allow OwnedBy all operations on its own objects, and none on others", async () => {
    const by = open("Application.ReadWrite.OwnedBy");
    const { application, principal } = await by.createPrincipal();
    const password = await by.graph(`POST /servicePrincipals/${principal.id}/addPassword`, {});
    expect(password.status).toBe(200);
    expect((await by.graph(`GET /applications/${application.id}`)).status).toBe(200);
    for (const path of [`servicePrincipals/${principal.id}`, `applications/${application.id}`]) {
      expect((await by.graph(`DELETE /${path}`)).status).toBe(204);
    }
    for (const { id } of [principal, application]) {
      expect((await by.graph(`DELETE /directory/deletedItems/${id}`)).status).toBe(204);
    }
    const { object_id, principal_id } = by.details.existing_application;
    const path = `/applications/${object_id}`;
    for (const request of [`GET ${path}`, `DELETE ${path}`, `DELETE /servicePrincipals/${principal_id}`]) {
      expect(refusal(await by.graph(request))).toEqual(denied);
    }
    expect(refusal(await by.graph(`POST ${path}/addPassword`, {}))).toEqual(denied);
    expect((await by.graph("GET /applications")).status).toBe(200);
    expect(refusal(await by.graph("GET /groups"))).toEqual(denied);
  });

  it("allow OwnedBy its own application only as its owner", async () => {
    for (const rootOwnsItself of [false, true]) {
      const by = openAccount(double, { permissions: ["Application.ReadWrite.OwnedBy"], rootOwnsItself });
      const answer = await by.graph(`POST /applications/${by.details.root.object_id}/addPassword`, {});
      expect(answer.status).toBe(rootOwnsItself ? 200 : 403);
    }
  });

  it("allow changes of members only with GroupMember.ReadWrite.All", async () => {
    const by = open("Application.ReadWrite.All", "GroupMember.Read.All");
    const { principal_id } = by.details.existing_application;
    const path = `/groups/${by.group("developers")}/members`;
    expect(refusal(await by.graph(`POST ${path}/$ref`, memberOf(principal_id)))).toEqual(denied);
    expect(refusal(await by.graph(`DELETE ${path}/${principal_id}/$ref`))).toEqual(denied);
    expect((await by.graph(`GET ${path}`)).body.value).toEqual([]);
  });
});

describe("the body of a request", () => {
  const application = "POST /applications";
  const password = "POST /applications/ID/addPassword";
  const reference = "POST /groups/GROUP/members/$ref";
  it.each<[string, string, unknown]>([
    ["an application without a name", application, {}],
    ["an empty name", application, { displayName: "" }],
    ["an unknown field", application, { displayName: "a", colour: "red" }],
    ["a tag with white space", application, { displayName: "a", tags: ["a b"] }],
    ["an empty tag", application, { displayName: "a", tags: [""] }],
    ["a long tag", application, { displayName: "a", tags: ["x".repeat(257)] }],
    ["a tag twice", application, { displayName: "a", tags: ["x", "x"] }],
    ["an unknown audience", application, { displayName: "a", signInAudience: "" }],
    ["a password's fields outside", password, { endDateTime: "2099-01-01T00:00:00Z" }],
    ["a secret of one's own", password, { passwordCredential: { secretText: "mine" } }],
    ["a time without a zone", password, { passwordCredential: { endDateTime: "2099-01-01T00:00:00" } }],
    ["an end in the past", password, { passwordCredential: { endDateTime: "2020-01-01T00:00:00Z" } }],
    ["a key that is not a GUID", "POST /applications/ID/removePassword", { keyId: "k" }],
    ["a key that is not there", "POST /applications/ID/removePassword", { keyId: crypto.randomUUID() }],
    ["a principal for no guid", "POST /servicePrincipals", { appId: "x" }],
    ["a principal with more fields", "POST /servicePrincipals", { appId: crypto.randomUUID(), tags: [] }],
    ["a member without a reference", reference, { id: "x" }],
    ["a member at another host", reference, memberOf(crypto.randomUUID(), "https://graph.microsoft.us")],
    ["an application as a member", reference, memberOf("OBJECT")],
  ])("is refused with %s", async (_what, request, body) => {
    const { object_id } = one.details.existing_application;
    const target = request.replace("ID", object_id).replace("GROUP", one.group("developers"));
    const given = JSON.parse(JSON.stringify(body).replace("OBJECT", object_id));
    expect(refusal(await one.graph(target, given))).toEqual(bad);
  });

  it("is JSON with its content type and known query options", async () => {
    const headers = { "content-type": "text/plain" };
    expect(refusal(await one.graph(application, { displayName: "a" }, { headers }))).toEqual([
      415,
      "UnsupportedMediaType",
    ]);
    expect(refusal(await one.graph(application, undefined, { text: "{" }))).toEqual(bad);
    expect(refusal(await one.graph("POST /applications?$select=id", { displayName: "a" }))).toEqual(bad);
    expect(refusal(await one.graph("GET /groups?$orderby=displayName"))).toEqual(bad);
    expect(refusal(await one.graph("GET /groups?$select=colour"))).toEqual(bad);
    expect(refusal(await one.graph("DELETE /applications/x"))).toEqual(bad);
    const { object_id } = one.details.existing_application;
    expect(refusal(await one.graph(`DELETE /applications/${object_id}`, {}))).toEqual(bad);
    expect(refusal(await one.graph("GET /users"))).toEqual([400, "BadRequest"]);
    const beta = fetch(`${double.graphUrl}/beta/groups`, {
      headers: { authorization: `Bearer ${await one.tokenFor(graphResource)}` },
    });
    expect(refusal(await read(beta))).toEqual([400, "BadRequest"]);
  });
});

describe("lists", () => {
  const filter = (text: string) => one.graph(`GET /groups?$filter=${encodeURIComponent(text)}`);

  it("are filtered by a name with doubled quotes, and by no other filter", async () => {
    const names = async (text: string) =>
      (await filter(text)).body.value.map((one: { displayName: string }) => one.displayName);
    expect(await names("displayName eq 'O''Brien & Söhne'")).toEqual(["O'Brien & Söhne"]);
    expect(await names("displayName eq 'DEVELOPERS'")).toEqual(["developers"]);
    expect(await names("displayName eq 'twins'")).toEqual(["twins", "twins"]);
    expect(await names("displayName eq 'nobody'")).toEqual([]);
    for (const text of ["displayName eq 'O'Brien'", "displayName eq 'x' or true", "id eq 'x'", "displayName eq x"]) {
      expect(refusal(await filter(text))).toEqual([400, "BadRequest"]);
    }
  });

  it("are paged before they are filtered", async () => {
    one = openAccount(double, { pageSize: 2 });
    const first = await filter("displayName eq 'dynamic'");
    expect(first.body.value).toEqual([]);
    const next = async (link: string) => {
      expect(link).toContain(`${double.graphUrl}/v1.0/groups?`);
      return one.graph(`GET ${link.slice(`${double.graphUrl}/v1.0`.length)}`);
    };
    const second = await next(first.body["@odata.nextLink"]);
    const third = await next(second.body["@odata.nextLink"]);
    expect(third.body).toMatchObject({ value: [{ displayName: "dynamic" }] });
    expect(third.body["@odata.nextLink"]).toBeUndefined();
    expect(refusal(await one.graph("GET /groups?$skiptoken=x"))).toEqual([400, "Directory_ExpiredPageToken"]);
  });
});

describe("applications and principals", () => {
  it("have the given fields, and are changed by PATCH", async () => {
    const given = { displayName: "a", tags: ["x", "y"], signInAudience: "AzureADMultipleOrgs" };
    const { status, body } = await one.graph("POST /applications", given);
    expect({ status, body }).toMatchObject({ status: 201, body: { ...given, passwordCredentials: [] } });
    expect((await one.graph(`PATCH /applications/${body.id}`, { tags: ["z"] })).status).toBe(204);
    const read = await one.graph(`GET /applications/${body.id.toUpperCase()}?$select=displayName,tags`);
    expect(read.body).toEqual({ displayName: "a", tags: ["z"] });
  });

  it("have one principal per existing application", async () => {
    const { application } = await createPrincipal();
    expect(refusal(await one.graph("POST /servicePrincipals", { appId: application.appId }))).toEqual([
      409,
      "Request_MultipleObjectsWithSameKeyValue",
    ]);
    const appId = crypto.randomUUID();
    expect(refusal(await one.graph("POST /servicePrincipals", { appId }))).toEqual([400, "NoBackingApplicationObject"]);
  });

  it("go to the deleted items first, the principal with its application, the assignments with neither", async () => {
    const before = one.everything();
    const { application, principal } = await createPrincipal();
    const group = one.group("developers");
    await one.graph(`POST /groups/${group}/members/$ref`, memberOf(principal.id));
    const assignment = `${one.details.resource_group}/providers/Microsoft.Authorization/roleAssignments/${crypto.randomUUID()}`;
    const properties = { roleDefinitionId: one.role("Reader"), principalId: principal.id };
    await one.arm(`PUT ${assignment}?api-version=2022-04-01`, { properties });
    expect(one.everything().memberships).toEqual([{ groupId: group, memberId: principal.id }]);

    expect(refusal(await one.graph(`DELETE /directory/deletedItems/${application.id}`))).toEqual(missing);
    expect((await one.graph(`DELETE /applications/${application.id}`)).status).toBe(204);
    expect(refusal(await one.graph(`DELETE /applications/${application.id}`))).toEqual(missing);
    expect(refusal(await one.graph(`GET /servicePrincipals/${principal.id}`))).toEqual(missing);
    expect(one.everything()).toMatchObject({
      applications: before.applications,
      principals: before.principals,
      memberships: [],
      deletedApplications: [{ id: application.id, displayName: "new" }],
      deletedPrincipals: [{ id: principal.id, appId: application.appId }],
      assignments: [...before.assignments, { id: assignment, principalId: principal.id }],
    });
    const deleted = await one.graph("GET /directory/deletedItems/microsoft.graph.application?$select=id");
    expect(deleted.body.value).toEqual([{ id: application.id }]);
    for (const { id } of [application, principal]) {
      expect((await one.graph(`DELETE /directory/deletedItems/${id}`)).status).toBe(204);
      expect(refusal(await one.graph(`DELETE /directory/deletedItems/${id}`))).toEqual(missing);
    }
    one.call({ change: "DeleteRoleAssignment", id: assignment });
    expect(one.everything()).toEqual(before);
  });

  it("are limited per tenant", async () => {
    one = openAccount(double, { maxPasswords: 1, maxPasswordDays: 30, objectQuota: 1 });
    const { id } = await createApplication();
    const add = (endDateTime: string) =>
      one.graph(`POST /applications/${id}/addPassword`, { passwordCredential: { endDateTime } });
    const inDays = (days: number) => new Date(now + days * 86_400_000).toISOString();
    expect(refusal(await add(inDays(31)))).toEqual([400, "CredentialInvalidLifetimeAsPerAppPolicy"]);
    expect((await add(inDays(30))).status).toBe(200);
    const full = await add(inDays(30));
    expect(refusal(full)).toEqual([403, "Directory_ResourceSizeExceeded"]);
    expect(full.body.error.message).toContain("size of the object has exceeded its limit");
    const more = () => one.graph("POST /applications", { displayName: "more" });
    expect(refusal(await more())).toEqual([403, "Directory_QuotaExceeded"]);
    await one.graph(`DELETE /applications/${id}`);
    expect(refusal(await more())).toEqual([403, "Directory_QuotaExceeded"]);
    await one.graph(`DELETE /directory/deletedItems/${id}`);
    expect((await more()).status).toBe(201);
  });

  it("show a password's text once, and never in the double's log", async () => {
    const path = `/applications/${one.details.existing_application.object_id}`;
    const given = { passwordCredential: { displayName: "mine", endDateTime: "2030-01-02T03:04:05Z" } };
    const { body } = await one.graph(`POST ${path}/addPassword`, given);
    expect(body).toMatchObject({ endDateTime: "2030-01-02T03:04:05.0000000Z", hint: body.secretText.slice(0, 3) });
    const [shown] = (await one.graph(`GET ${path}`)).body.passwordCredentials;
    expect(shown).toMatchObject({ keyId: body.keyId, displayName: "mine", hint: body.hint, secretText: null });
    const told = JSON.stringify([one.everything(), one.account.log]);
    expect(told).toContain(body.keyId);
    expect(told).not.toContain(body.secretText);
  });
});

describe("groups", () => {
  it("accept and lose a principal once; dynamic ones accept none", async () => {
    const { principal_id } = one.details.existing_application;
    const path = `/groups/${one.group("developers")}/members`;
    const add = () => one.graph(`POST ${path}/$ref`, memberOf(principal_id));
    const remove = () => one.graph(`DELETE ${path}/${principal_id}/$ref`);
    expect(refusal(await remove())).toEqual(missing);
    expect((await add()).status).toBe(204);
    const again = await add();
    expect(refusal(again)).toEqual(bad);
    expect(again.body.error.message).toContain("added object references already exist");
    expect((await one.graph(`GET ${path}`)).body.value).toMatchObject([{ id: principal_id }]);
    expect((await remove()).status).toBe(204);
    expect(refusal(await one.graph(`POST ${path}/$ref`, memberOf(crypto.randomUUID())))).toEqual(missing);
    const dynamic = `/groups/${one.group("dynamic")}/members/$ref`;
    expect(refusal(await one.graph(`POST ${dynamic}`, memberOf(principal_id)))).toEqual(denied);
    expect((await one.graph(`POST ${path}/$ref`, memberOf(principal_id, double.graphUrl))).status).toBe(204);
  });

  it("are absent after a deletion by another writer", async () => {
    const id = one.group("auditors");
    expect((await one.graph(`GET /groups/${id}?$select=id,displayName`)).body).toEqual({ id, displayName: "auditors" });
    one.call({ change: "DeleteGroup", id });
    expect(refusal(await one.graph(`GET /groups/${id}`))).toEqual(missing);
    const { principal_id } = one.details.existing_application;
    expect(refusal(await one.graph(`DELETE /groups/${id}/members/${principal_id}/$ref`))).toEqual(missing);
    expect(() => one.call({ change: "DeleteGroup", id })).toThrow();
  });
});
