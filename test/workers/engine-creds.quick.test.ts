import { beforeEach, describe, expect, it } from "vitest";
import type { LagKind } from "../doubles/cloud-b/azure-types.ts";
import { accessObject, holderOf, path } from "./access.ts";
import { get, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import {
  byItself,
  creds,
  dynamicRole,
  lookup,
  revoke,
  rows,
  skippingWaits,
  succeeded,
  writeRole,
} from "./engine-helpers.ts";
import { fresh, openEngine, tenant, uuid, writeExisting } from "./engine-world.ts";

clock.moves = true;

beforeEach(() => openEngine());

describe("credentials with their own principal", () => {
  // Proves: A.config.used, A.config.write, A.creds.read, A.engine.credentials-stored, A.engine.principal-created,
  // A.role.cloud_groups.joined, A.role.cloud_roles.assigned, A.role.permanently_delete.applied, A.role.tags.attached,
  // A.role.ttl.applied, E.auth.1.client-credentials
  it("have a lease and the role's rights, and leave no resource after revocation", async () => {
    await writeRole("web", dynamicRole(tenant, { ttl: "1h", tags: "b,a" }));
    const issued = await creds("web");
    expect(issued.status, issued.text).toBe(200);
    expect(issued.body).toMatchObject({
      lease_id: expect.stringMatching(/^cloud-b\/creds\/web\/[0-9A-Za-z]{24}$/),
      renewable: true,
      lease_duration: 3600,
      data: { client_id: expect.any(String), client_secret: expect.any(String) },
      mount_type: "cloud-b",
      warnings: null,
    });
    const made = await tenant.everything();
    const application = made.applications.find(({ appId }) => appId === issued.body.data.client_id);
    expect(application).toMatchObject({
      displayName: expect.stringMatching(/^vault-[0-9a-f-]{36}$/),
      tags: ["b", "a"],
    });
    expect(made.assignments).toHaveLength(fresh.assignments.length + 1);
    expect(made.memberships).toHaveLength(1);
    expect((await lookup(issued.body.lease_id)).body.data).toMatchObject({ id: issued.body.lease_id, renewable: true });
    const revoked = await revoke(issued.body.lease_id);
    expect(revoked.status, revoked.text).toBe(204);
    expect(await tenant.everything()).toEqual(fresh);
    expect((await lookup(issued.body.lease_id)).body.errors).toEqual(["invalid lease"]);
  });

  it("stay restorable if the role does not delete them permanently", async () => {
    await writeRole("web", dynamicRole(tenant, { permanently_delete: false }));
    const { body } = await creds("web");
    expect((await revoke(body.lease_id)).status).toBe(204);
    const left = await tenant.everything();
    expect(left.applications).toEqual(fresh.applications);
    expect(left.deletedApplications).toMatchObject([{ appId: body.data.client_id }]);
    expect(left.assignments).toEqual(fresh.assignments);
  });

  it("are deleted as the role specified at creation", async () => {
    await writeRole("web", dynamicRole(tenant));
    const { body } = await creds("web");
    await writeRole("web", { permanently_delete: false });
    expect((await revoke(body.lease_id)).status).toBe(204);
    expect(await tenant.everything()).toEqual(fresh);
  });

  it("return 400 for an unknown role, which clients do not retry", async () => {
    const refused = await creds("none");
    expect([refused.status, refused.body.errors]).toEqual([400, ["role 'none' does not exist"]]);
  });
});

describe("the metadata of credentials", () => {
  const metadata = async (query = "") => (await get(`/v1/cloud-b/creds/web${query}`)).body.data.metadata;

  it("is that of the role, before that of the request, and absent without any", async () => {
    await writeRole("web", dynamicRole(tenant));
    expect((await get("/v1/cloud-b/roles/web")).body.data).not.toHaveProperty("metadata");
    expect(await metadata()).toBeUndefined();
    expect(await metadata("?metadata=job=7&metadata=team=x=y")).toEqual({ job: "7", team: "x=y" });
    await writeRole("web", dynamicRole(tenant, { metadata: ["team=a", "env=prod"] }));
    expect((await get("/v1/cloud-b/roles/web")).body.data.metadata).toEqual({ team: "a", env: "prod" });
    expect(await metadata("?metadata=job=7&metadata=team=b")).toEqual({ job: "7", team: "a", env: "prod" });
    await writeRole("web", dynamicRole(tenant, { ttl: "1h" }));
    expect(await metadata()).toEqual({ team: "a", env: "prod" });
    await writeRole("web", dynamicRole(tenant, { metadata: {} }));
    expect(await metadata()).toBeUndefined();
  });

  it("is refused in another form, before anything is created", async () => {
    await writeRole("web", dynamicRole(tenant));
    for (const given of ["team", "=x", `${"k".repeat(129)}=x`, `k=${"x".repeat(513)}`]) {
      const { status, body } = await get(`/v1/cloud-b/creds/web?metadata=${given}`);
      expect([status, body.errors[0]], given).toEqual([400, expect.stringMatching(/^metadata: /)]);
    }
    const role = await put("/v1/cloud-b/roles/web", { metadata: "team" });
    expect([role.status, role.text]).toEqual([400, expect.stringContaining("metadata")]);
    expect((await tenant.everything()).applications).toEqual(fresh.applications);
  });
});

it("creates nothing for a HEAD request", async () => {
  await writeRole("web", dynamicRole(tenant));
  expect((await send("HEAD", "/v1/cloud-b/creds/web")).status).toBe(405);
  expect(await tenant.everything()).toEqual(fresh);
});

describe("credentials of an existing application", () => {
  it("add one password per lease to the application and keep its rights", async () => {
    const { object_id: id, client_id: clientId } = tenant.existing_application;
    await writeRole("app", { application_object_id: id, cloud_groups: [{ group_name: "developers" }] });
    const issued = await Promise.all([creds("app"), creds("app"), creds("app")]);
    expect(issued.map(({ body }) => body.data.client_id)).toEqual([clientId, clientId, clientId]);
    expect(new Set(issued.map(({ body }) => body.data.client_secret)).size).toBe(3);
    const made = await tenant.everything();
    expect(made.applications.find((one) => one.id === id)?.passwords).toHaveLength(3);
    expect({ ...made, applications: [] }).toEqual({ ...fresh, applications: [] });
    for (const { body } of issued) expect((await revoke(body.lease_id)).status).toBe(204);
    expect(await tenant.everything()).toEqual(fresh);
  });

  it("return the reason when the application has its maximum of passwords", async () => {
    await openEngine({ maxPasswords: 1 });
    await writeExisting();
    succeeded(await creds("app"));
    const refused = await creds("app");
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toMatch(/^error updating credentials: /);
    expect(await rows(uuid, "leases")).toHaveLength(1);
  });

  it("are revoked after the application was deleted", async () => {
    await writeExisting();
    const { lease_id: lease } = (await creds("app")).body;
    await tenant.call({ change: "DeleteApplication", id: tenant.existing_application.object_id, permanently: true });
    const answer = await skippingWaits(() => revoke(lease));
    expect([answer.status, answer.body.warnings?.length]).toEqual([200, 1]);
    await byItself(uuid, async () => expect((await lookup(lease)).status).toBe(400));
  });
});

describe("a provider with slow replication", () => {
  const all = (requests: number) =>
    Object.fromEntries(
      (["application", "principal", "principalInArm", "deletedItem", "passwordInGraph"] satisfies LagKind[]).map(
        (kind) => [kind, { requests }],
      ),
    );

  it("issues credentials and revokes them completely", async () => {
    await openEngine({ lags: all(2) });
    await writeRole("web", dynamicRole(tenant));
    const issued = await skippingWaits(() => creds("web"), 250);
    expect(issued.status, issued.text).toBe(200);
    const made = await tenant.everything();
    expect(made.applications).toHaveLength(fresh.applications.length + 1);
    expect((await skippingWaits(() => revoke(issued.body.lease_id), 250)).status).toBe(204);
    await byItself(uuid, async () => expect(await tenant.everything()).toEqual(fresh));
  });

  it("removes the resources of a failed request that were first reported missing", async () => {
    await openEngine({ lags: { application: { requests: 1 }, principal: { requests: 1 } } });
    await writeRole("web", dynamicRole(tenant));
    await tenant.fault({
      operation: "CreateServicePrincipal",
      fault: "error",
      status: 400,
      code: "Directory_QuotaExceeded",
      count: 9,
    });
    expect((await creds("web")).status).toBe(400);
    await byItself(
      uuid,
      async () => {
        expect(await tenant.everything()).toEqual(fresh);
        expect(await rows(uuid, "jobs")).toEqual([]);
      },
      3_000,
    );
  });
});

it("succeeds after the delay that a throttled call asks for", async () => {
  await writeRole("web", dynamicRole(tenant));
  for (const operation of ["CreateApplication", "CreateRoleAssignment"] as const) {
    await tenant.fault({
      operation,
      fault: "error",
      status: 429,
      code: "TooManyRequests",
      headers: { "retry-after": "1" },
    });
  }
  succeeded(await creds("web"));
});

describe("writes to the engine", () => {
  it("return 403 for a token that was just revoked in another isolate", async () => {
    const { client_token: token } = await holderOf(path("cloud-b/*", "read", "update", "create", "delete"));
    expect((await put("/v1/cloud-b/config", {}, { token })).status).toBe(204);
    await accessObject().revokeToken({ own: token });
    expect((await put("/v1/cloud-b/config", {}, { token })).status).toBe(403);
    expect((await put("/v1/cloud-b/rotate-root", {}, { token })).status).toBe(403);
    expect((await creds("web", { token })).status).toBe(403);
  });
});

describe("a mount in a namespace", () => {
  it("lists its leases in its namespace only", async () => {
    const inside = { headers: { "X-Orch-Namespace": "team" } };
    succeeded(await put("/v1/sys/namespaces/team", {}));
    succeeded(await put("/v1/sys/mounts/cloud-b", { type: "cloud-b" }, inside));
    succeeded(await put("/v1/cloud-b/config", tenant.config, inside));
    succeeded(
      await put("/v1/team/cloud-b/roles/app", { application_object_id: tenant.existing_application.object_id }),
    );
    const { lease_id: lease } = succeeded(await get("/v1/cloud-b/creds/app", inside)).body;
    expect((await lookup(lease)).status).toBe(400);
    const found = await put("/v1/sys/leases/lookup", { lease_id: lease }, inside);
    expect(found.body.data).toMatchObject({ id: lease, namespace_path: "team/" });
    expect((await put("/v1/sys/leases/revoke", { lease_id: lease }, inside)).status).toBe(204);
    expect(await tenant.everything()).toEqual(fresh);
  });
});

it("reads its secrets after a rotation of the keys", async () => {
  await writeExisting();
  const key = { "Idempotency-Key": "once" };
  const before = await creds("app", { headers: key });
  expect((await put("/v1/sys/rotate", {})).status).toBe(204);
  expect((await creds("app", { headers: key })).body.data).toEqual(before.body.data);
  expect((await creds("app")).status).toBe(200);
});
