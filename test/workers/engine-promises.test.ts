import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { get, put } from "./client.ts";
import { creds, dynamicRole, mountEngine, revoke, succeeded, writeRole } from "./engine-helpers.ts";
import { fresh, openEngine, tenant } from "./engine-world.ts";

beforeEach(() => openEngine());

const config = async () => (await get("/v1/cloud-b/config")).body.data;
const role = async (name: string) => (await get(`/v1/cloud-b/roles/${name}`)).body.data;

describe("an existing application", () => {
  // Proves: A.engine.existing-application, A.role.application_object_id.used
  it("is used instead of a new one, and its credentials are returned", async () => {
    const { object_id, client_id } = tenant.existing_application;
    await writeRole("app", { application_object_id: object_id });
    const issued = succeeded(await creds("app", undefined, "?verify=true"));
    expect(issued.body.data.client_id).toBe(client_id);
    expect(issued.body.warnings, "they can log in").toBeNull();
    const now = await tenant.everything();
    expect(now.applications.map(({ id }) => id)).toEqual(fresh.applications.map(({ id }) => id));
    expect(now.principals).toEqual(fresh.principals);
    expect(now.applications.find(({ id }) => id === object_id)?.passwords).toHaveLength(1);
    succeeded(await revoke(issued.body.lease_id));
    expect(await tenant.everything()).toEqual(fresh);
  });

  // Proves: A.role.application_object_id.roles-ignored
  it("gets none of the roles in the same body", async () => {
    const application_object_id = tenant.existing_application.object_id;
    await writeRole("app", dynamicRole(tenant, { application_object_id, permanently_delete: false }));
    succeeded(await creds("app"));
    const now = await tenant.everything();
    expect([now.assignments, now.memberships]).toEqual([fresh.assignments, fresh.memberships]);
  });
});

describe("the configuration", () => {
  // Proves: A.config.client_id.default
  it("has no client_id before the first write, and calls the provider with the written one", async () => {
    await mountEngine(null, "bare");
    expect((await get("/v1/bare/config")).body.data.client_id).toBe("");
    await writeRole("reader", dynamicRole(tenant));
    expect((await config()).client_id).toBe(tenant.client_id);
    const callers = new Set((await tenant.requests()).flatMap(({ caller }) => (caller === null ? [] : [caller])));
    expect([...callers]).toEqual([tenant.client_id]);
  });

  // Proves: A.config.identity_token_ttl.type
  it.each([
    [7_200, 7_200],
    ["7200", 7_200],
    ["2h", 7_200],
    ["1h30m", 5_400],
  ])("reads identity_token_ttl %j as a duration in seconds", async (given, seconds) => {
    succeeded(await put("/v1/cloud-b/config", { identity_token_ttl: given }));
    expect((await config()).identity_token_ttl).toBe(seconds);
  });

  // Proves: A.config.identity_token_audience.enterprise, A.config.identity_token_ttl.enterprise
  it("offers identity tokens and reports the enterprise edition", async () => {
    expect((await get("/v1/sys/health")).body.version).toMatch(/\+ent$/);
    const federated = {
      client_secret: "",
      identity_token_audience: "api://AzureADTokenExchange",
      identity_token_ttl: "1h",
    };
    succeeded(await put("/v1/cloud-b/config", federated));
    expect(await config()).toMatchObject({
      identity_token_audience: "api://AzureADTokenExchange",
      identity_token_ttl: 3_600,
    });
  });
});

describe("a role", () => {
  // Proves: A.role.permanently_delete.default, A.role.sign_in_audience.default, A.role.tags.default
  it("has no tags, no audience and no permanent deletion by default", async () => {
    const { permanently_delete: _, ...least } = dynamicRole(tenant);
    await writeRole("least", least);
    expect(await role("least")).toMatchObject({ permanently_delete: false, sign_in_audience: "", tags: null });
    const issued = succeeded(await creds("least"));
    const known = new Set(fresh.applications.map(({ id }) => id));
    const made = (await tenant.everything()).applications.filter(({ id }) => !known.has(id));
    expect(made).toMatchObject([{ tags: [] }]);
    succeeded(await revoke(issued.body.lease_id));
    expect((await tenant.everything()).deletedApplications, "it can be brought back").toHaveLength(1);
  });

  // Proves: A.role.tags.default
  it("reads comma-separated tags, and sets them on its applications", async () => {
    await writeRole("tagged", dynamicRole(tenant, { tags: "team:pay, env:prod" }));
    expect((await role("tagged")).tags).toEqual(["team:pay", "env:prod"]);
    succeeded(await creds("tagged"));
    const known = new Set(fresh.applications.map(({ id }) => id));
    const made = (await tenant.everything()).applications.filter(({ id }) => !known.has(id));
    expect(made.map(({ tags }) => [...tags].sort())).toEqual([["env:prod", "team:pay"]]);
  });

  // Proves: A.role.sign_in_audience.values
  it.each([
    ["DirectoryMyOrg", "AzureADMyOrg"],
    ["DirectoryMultipleOrgs", "AzureADMultipleOrgs"],
    ["DirectoryandPersonalAccount", "AzureADandPersonalMicrosoftAccount"],
    ["PersonalAccount", "PersonalMicrosoftAccount"],
  ])("accepts the audience %s, and sets it on its applications", async (audience, outside) => {
    await writeRole("open", dynamicRole(tenant, { sign_in_audience: audience }));
    expect((await role("open")).sign_in_audience).toBe(audience);
    succeeded(await creds("open"));
    const known = new Set(fresh.applications.map(({ id }) => id));
    const made = (await tenant.everything()).applications.filter(({ id }) => !known.has(id));
    expect(made).toMatchObject([{ signInAudience: outside }]);
  });

  // Proves: A.role.sign_in_audience.values
  itRows(["Everybody", "directorymyorg", "DirectoryMyOrg "])(
    "returns 400 with the valid audiences for %j",
    async (given) => {
      const refused = await put("/v1/cloud-b/roles/open", dynamicRole(tenant, { sign_in_audience: given }));
      expect([refused.status, refused.body.errors[0]]).toEqual([
        400,
        expect.stringContaining("DirectoryMyOrg, DirectoryMultipleOrgs, DirectoryandPersonalAccount, PersonalAccount"),
      ]);
      expect((await get("/v1/cloud-b/roles/open")).status).toBe(404);
    },
  );

  // Proves: A.role.max_ttl.format
  it.each([
    [86_400, 86_400],
    ["86400", 86_400],
    ["24h", 86_400],
    ["1d", 86_400],
    ["", 0],
  ])("reads max_ttl %j like ttl", async (given, seconds) => {
    await writeRole("timed", dynamicRole(tenant, { max_ttl: given }));
    await writeRole("other", dynamicRole(tenant, { ttl: given }));
    expect([(await role("timed")).max_ttl, (await role("other")).ttl]).toEqual([seconds, seconds]);
  });

  // Proves: A.creds.name-required
  it("is required in a request for credentials", async () => {
    for (const path of ["/v1/cloud-b/creds", "/v1/cloud-b/creds/"]) {
      const answer = await get(path);
      expect(answer.status, path).toBe(404);
      expect(answer.body.data).toBeUndefined();
    }
    expect((await creds("nobody")).status).toBe(400);
    expect(await tenant.everything()).toEqual(fresh);
  });
});

describe("a role with grants", () => {
  // Proves: E.errors.5.update
  it("returns 400 for an update without grants, and keeps its grants", async () => {
    await writeRole("r", dynamicRole(tenant));
    const before = await role("r");
    const refused = await put("/v1/cloud-b/roles/r", { cloud_roles: [] });
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toContain("either cloud_roles or application_object_id must be provided");
    expect(await role("r")).toEqual(before);
  });
});
