import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, get, list, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself, creds, dynamicRole, groupOf, revoke, rows, succeeded, writeRole } from "./engine-helpers.ts";
import { fresh, openEngine, tenant, uuid } from "./engine-world.ts";

clock.moves = true;

beforeEach(() => openEngine());

const role = async (name = "r") => (await get(`/v1/cloud-b/roles/${name}`)).body.data;
const write = (body: Record<string, unknown>, name = "r", options?: Parameters<typeof put>[2]) =>
  put(`/v1/cloud-b/roles/${name}`, body, options);
const upstream = { token: null, headers: { "X-Vault-Token": "root" } };
const definition = (name: string) => tenant.role_definitions.find(({ roleName }) => roleName === name);

describe("a role", () => {
  // Proves: A.engine.roles-stored, A.role.application_object_id.default, A.role.cloud_groups.type,
  // A.role.cloud_roles.type, A.role.persist_app.default, A.role.ttl.format, A.roles.create
  it("is resolved on write, and returned with the provider's names and ids", async () => {
    const scope = tenant.resource_group;
    const reader = definition("Reader")?.id ?? "";
    succeeded(
      await write({
        cloud_roles: JSON.stringify([
          { role_name: "Reader", scope, note: "unknown members are ignored" },
          { role_id: reader, role_name: "wrong", scope: `${scope}/x` },
        ]),
        cloud_groups: JSON.stringify([
          { group_name: "developers", note: "" },
          { object_id: groupOf(tenant, "auditors") },
        ]),
        ttl: "90s",
        max_ttl: 120,
        tags: "b, a,b",
        sign_in_audience: "DirectoryMyOrg",
        permanently_delete: "true",
      }),
    );
    expect(await role()).toEqual({
      cloud_roles: [
        { role_name: "Reader", role_id: reader, scope },
        { role_name: "Reader", role_id: reader, scope: `${scope}/x` },
      ],
      cloud_groups: [
        { group_name: "developers", object_id: groupOf(tenant) },
        { group_name: "auditors", object_id: groupOf(tenant, "auditors") },
      ],
      application_object_id: "",
      persist_app: false,
      ttl: 90,
      max_ttl: 120,
      explicit_max_ttl: 0,
      permanently_delete: true,
      sign_in_audience: "DirectoryMyOrg",
      tags: ["b", "a"],
    });
  });

  // Proves: A.role.ttl.format, A.roles.update
  it("keeps fields absent from a later write, and clears a list written empty", async () => {
    await writeRole("r", dynamicRole(tenant, { ttl: 60 }));
    succeeded(await write({ max_ttl: 100 }));
    expect(await role()).toMatchObject({
      ttl: 60,
      max_ttl: 100,
      permanently_delete: true,
      cloud_groups: [{ group_name: "developers" }],
    });
    succeeded(await write({ cloud_groups: [] }));
    expect((await role()).cloud_groups).toEqual([]);
  });

  it("accepts an array and its text, and names with quotes", async () => {
    succeeded(
      await write({
        cloud_roles: [{ role_name: "Bob's role", scope: tenant.resource_group }],
        cloud_groups: [{ group_name: "O'Brien & Söhne" }],
      }),
    );
    expect(await role()).toMatchObject({
      cloud_roles: [{ role_name: "Bob's role" }],
      cloud_groups: [{ group_name: "O'Brien & Söhne" }],
    });
  });

  // Proves: A.engine.roles-stored, A.role.named, A.roles.delete, A.roles.delete.missing, A.roles.list, E.errors.1
  it("has a case-insensitive name, is listed in order, and returns 404 for a second deletion", async () => {
    await writeRole("Beta", dynamicRole(tenant));
    await writeRole("alpha", dynamicRole(tenant));
    expect((await list("/v1/cloud-b/roles")).body.data).toEqual({ keys: ["alpha", "beta"] });
    expect((await get("/v1/cloud-b/roles/BETA")).status).toBe(200);
    expect((await del("/v1/cloud-b/roles/beta")).status).toBe(204);
    const gone = await del("/v1/cloud-b/roles/beta");
    expect([gone.status, gone.text]).toEqual([404, '{"errors":[]}']);
    expect((await get("/v1/cloud-b/roles/beta")).status).toBe(404);
  });

  it("uses upstream names for upstream clients, and accepts groups alone from them", async () => {
    const body = { azure_groups: JSON.stringify([{ group_name: "developers" }]), sign_in_audience: "AzureADMyOrg" };
    expect((await write({ cloud_groups: body.azure_groups })).status).toBe(400);
    succeeded(await write(body, "r", upstream));
    const { data } = (await get("/v1/cloud-b/roles/r", upstream)).body;
    expect(data).toMatchObject({
      azure_groups: [{ group_name: "developers", object_id: groupOf(tenant) }],
      azure_roles: null,
      sign_in_audience: "AzureADMyOrg",
    });
    expect(data).not.toHaveProperty("cloud_groups");
    expect(await role()).toMatchObject({ sign_in_audience: "DirectoryMyOrg" });
  });

  it("is refused with the field names of the request", async () => {
    const scope = tenant.resource_group;
    const refusal = async (body: object, options?: typeof upstream) =>
      (await write(body as Record<string, unknown>, "r", options)).body.errors[0] as string;
    expect(await refusal({ cloud_roles: "{" })).toMatch(/^cloud_roles: /);
    expect(await refusal({ azure_roles: "{" }, upstream)).toMatch(/^azure_roles: /);
    expect(await refusal({ azure_groups: [{}] }, upstream)).toMatch(/^azure_groups: /);
    const body = { cloud_roles: [{ role_name: "Reader", scope }], sign_in_audience: "Everybody" };
    expect(await refusal(body)).toMatch(/Valid values are: DirectoryMyOrg, .*, PersonalAccount$/);
    expect(await refusal(body, upstream)).toMatch(/Valid values are: AzureADMyOrg, .*, PersonalMicrosoftAccount$/);
  });

  const scope = "/subscriptions/x";
  // Proves: A.role.cloud_groups.type, A.role.cloud_roles.type, A.role.one-of, A.role.referenced-exists,
  // A.role.ttl.format, E.errors.5.create
  itRows<[string, Record<string, unknown>, RegExp]>([
    ["no grants", {}, /either cloud_roles or application_object_id must be provided/],
    ["groups alone", { cloud_groups: [{ group_name: "developers" }] }, /must be provided/],
    ["malformed JSON", { cloud_roles: "[{" }, /cloud_roles: must be a JSON array/],
    ["an element that is null", { cloud_roles: "[null]" }, /cloud_roles/],
    ["an element without a scope", { cloud_roles: [{ role_name: "Reader" }] }, /scope/],
    ["an element without a name", { cloud_roles: [{ scope }] }, /role_name or role_id/],
    ["an unknown role", { cloud_roles: [{ role_name: "Nobody", scope }] }, /no role found for role_name: 'Nobody'/],
    ["an ambiguous role", { cloud_roles: [{ role_name: "Twin role", scope }] }, /multiple matches found for role_name/],
    [
      "a role twice",
      {
        cloud_roles: [
          { role_name: "Reader", scope },
          { role_name: "Reader", scope: "subscriptions/X/" },
        ],
      },
      /duplicate role_id and scope/,
    ],
    [
      "an unknown group",
      { cloud_groups: [{ group_name: "none" }], cloud_roles: [{ role_name: "Reader", scope }] },
      /no group found for group_name: 'none'/,
    ],
    [
      "an unknown group's id",
      { cloud_groups: [{ object_id: crypto.randomUUID() }], cloud_roles: [{ role_name: "Reader", scope }] },
      /no group found for object_id/,
    ],
    ["an unknown application", { application_object_id: crypto.randomUUID() }, /error loading Application/],
    ["ttl beyond max_ttl", { ttl: 101, max_ttl: 100 }, /ttl cannot be greater than max_ttl/],
    ["ttl beyond explicit_max_ttl", { ttl: 10, explicit_max_ttl: 5 }, /ttl cannot be greater than explicit_max_ttl/],
    [
      "max_ttl beyond explicit_max_ttl",
      { max_ttl: 10, explicit_max_ttl: 5 },
      /max_ttl cannot be greater than explicit_max_ttl/,
    ],
    ["an invalid audience", { sign_in_audience: "everybody" }, /Invalid value for sign_in_audience/],
    ["a tag that is too long", { tags: "x".repeat(257) }, /between 1 and 256/],
    ["a tag with a space", { tags: "a b" }, /whitespaces are not allowed/],
    ["an invalid duration", { ttl: "soon" }, /ttl/],
  ])("returns 400 for %s and stores nothing", async (_what, body, because) => {
    const refused = await write(body);
    expect(refused.status, refused.text).toBe(400);
    expect(refused.body.errors.join()).toMatch(because);
    expect((await get("/v1/cloud-b/roles/r")).status).toBe(404);
    expect(await rows(uuid, "jobs")).toEqual([]);
  });

  // Proves: A.role.cloud_groups.type, A.role.cloud_roles.type, A.role.permanently_delete.exclusive,
  // E.errors.5.permanently_delete
  it("returns 400 for permanent deletion or the engine's own application", async () => {
    const existing = tenant.existing_application.object_id;
    const deleting = await write({ application_object_id: existing, permanently_delete: true });
    expect(deleting.body.errors.join()).toContain(
      "permanently_delete must be false if application_object_id is provided",
    );
    const own = await write({ application_object_id: tenant.root.object_id });
    expect([own.status, own.body.errors.join()]).toEqual([400, expect.stringContaining("the engine itself")]);
    succeeded(await write({ application_object_id: existing }));
    expect((await role()).application_object_id).toBe(existing);
  });

  it("returns the provider's refusal and the missing permission", async () => {
    await tenant.fault({ operation: "ListRoleDefinitions", fault: "error", status: 403, code: "AuthorizationFailed" });
    const refused = await write(dynamicRole(tenant));
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toMatch(/unable to lookup role by name: .*AuthorizationFailed/);
  });

  it("is written after a throttled call", async () => {
    await tenant.fault({
      operation: "ListGroups",
      fault: "error",
      status: 429,
      code: "TooManyRequests",
      headers: { "retry-after": "1" },
    });
    succeeded(await write(dynamicRole(tenant)));
  });
});

describe("a role with persist_app", () => {
  const kept = (more: Record<string, unknown> = {}) => dynamicRole(tenant, { persist_app: true, ...more });
  const application = async () => {
    const { application_object_id: id } = await role();
    return (await tenant.everything()).applications.find((one) => one.id === id);
  };

  // Proves: A.role.persist_app.kept
  it("creates its application once, shows its id, and adds a password per lease", async () => {
    await writeRole("r", kept());
    const made = await application();
    expect(made).toMatchObject({ displayName: expect.stringMatching(/^vault-r-/) });
    const [first, second] = [await creds("r"), await creds("r")];
    expect(first.body.data.client_id).toBe(made?.appId);
    expect(second.body.data.client_secret).not.toBe(first.body.data.client_secret);
    expect((await application())?.passwords).toHaveLength(2);
    expect((await revoke(first.body.lease_id)).status).toBe(204);
    expect((await application())?.passwords).toHaveLength(1);
  });

  // Proves: A.role.cloud_roles.assigned, A.role.tags.attached
  it("changes only the differences, and keeps common rights throughout", async () => {
    await writeRole("r", kept());
    const before = await tenant.everything();
    const asked = (await tenant.requests()).length;
    succeeded(await write({ ttl: 60, persist_app: true, application_object_id: (await role()).application_object_id }));
    expect(await tenant.everything()).toEqual(before);
    expect(
      (await tenant.requests()).slice(asked).filter(({ method }) => method !== "GET" && method !== "POST"),
    ).toEqual([]);
    const contributor = { role_name: "Contributor", scope: tenant.resource_group };
    succeeded(await write({ cloud_roles: [contributor], cloud_groups: [], tags: "new" }));
    const changed = await tenant.everything();
    expect(changed.memberships).toEqual(fresh.memberships);
    expect(changed.assignments).toHaveLength(fresh.assignments.length + 1);
    expect(changed.assignments.at(-1)?.roleDefinitionId).toBe(definition("Contributor")?.id);
    expect(await application()).toMatchObject({ tags: ["new"] });
    const log = (await tenant.requests()).map(({ operation }) => operation);
    expect(log.lastIndexOf("CreateRoleAssignment")).toBeLessThan(log.lastIndexOf("DeleteRoleAssignment"));
  });

  // Proves: A.role.persist_app.kept
  it("removes the application when it is deleted, or no longer has persist_app", async () => {
    await writeRole("r", kept());
    expect((await del("/v1/cloud-b/roles/r")).status).toBe(204);
    expect(await tenant.everything()).toEqual(fresh);
    await writeRole("r", kept());
    succeeded(await write({ persist_app: false }));
    expect((await role()).application_object_id).toBe("");
    await byItself(uuid, async () => expect(await tenant.everything()).toEqual(fresh));
  });

  it("leaves no resource when it cannot be created", async () => {
    await tenant.fault({
      operation: "AddGroupMember",
      fault: "error",
      status: 403,
      code: "Authorization_RequestDenied",
      count: 9,
    });
    const refused = await write(kept());
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toContain("Authorization_RequestDenied");
    expect((await get("/v1/cloud-b/roles/r")).status).toBe(404);
    await byItself(uuid, async () => expect(await tenant.everything()).toEqual(fresh));
  });

  it("keeps a record of its resources after a failed change", async () => {
    await writeRole("r", kept());
    await tenant.fault({
      operation: "CreateRoleAssignment",
      fault: "apply-then-error",
      status: 403,
      code: "AuthorizationFailed",
    });
    const refused = await write({ cloud_roles: [{ role_name: "Contributor", scope: tenant.resource_group }] });
    expect(refused.status).toBe(400);
    expect(await role()).toMatchObject({ cloud_roles: [{ role_name: "Reader" }] });
    expect((await del("/v1/cloud-b/roles/r")).status).toBe(204);
    expect(await tenant.everything()).toEqual(fresh);
  });

  it("returns 400 for a second application", async () => {
    const refused = await write(kept({ application_object_id: tenant.existing_application.object_id }));
    expect([refused.status, refused.body.errors.join()]).toEqual([400, expect.stringContaining("persist_app makes")]);
  });
});
