import { beforeEach, describe, expect, it } from "vitest";
import type { OperationName } from "../doubles/cloud-b/azure-types.ts";
import { del, put } from "./client.ts";
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
import { expectNothingLeft, fresh, openEngineWithRole, tenant, uuid } from "./engine-world.ts";

/** New resources may not be replicated yet: "not found" is checked again before it counts. */

clock.moves = true;

beforeEach(() => openEngineWithRole());

const prefix = (of: "prefix" | "force") => put(`/v1/sys/leases/revoke-${of}/cloud-b/creds/web`, {});
const notFound = { fault: "error", status: 404, code: "Request_ResourceNotFound" } as const;
const issued = async (): Promise<string> => succeeded(await creds("web")).body.lease_id;
/** The provider returns "not found" for the application in the next `requests` requests. */
const hide = (requests: number) => tenant.fault({ operation: "DeleteApplication", ...notFound, count: requests });

describe("revoking credentials whose application is not replicated yet", () => {
  it.each(["lease", "prefix"] as const)("returns 204 once the application is gone (%s)", async (of) => {
    const lease = await issued();
    await hide(2);
    expect((await skippingWaits(() => (of === "lease" ? revoke(lease) : prefix("prefix")))).status).toBe(204);
    await expectNothingLeft();
  });

  it.each(["lease", "prefix"] as const)("returns 200 with a warning while it may still exist (%s)", async (of) => {
    const lease = await issued();
    await hide(100);
    const answer = await skippingWaits(() => (of === "lease" ? revoke(lease) : prefix("prefix")));
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.warnings).toEqual([
      expect.stringMatching(/^the lease ends behind this answer: .*next look is at 20/),
    ]);
    expect((await lookup(lease)).body.data).toMatchObject({ id: lease, renewable: false });
    expect((await lookup(lease)).body.data).not.toHaveProperty("revoke_error");
  });

  it("counts the leases of a prefix that end after the response, and waits for all of them at once", async () => {
    await Promise.all([issued(), issued()]);
    await hide(100);
    const answer = await skippingWaits(() => prefix("prefix"));
    expect([answer.status, answer.body.warnings]).toEqual([200, [expect.stringContaining("2 leases end behind")]]);
  });

  it("continues without its lease after revoke-force", async () => {
    await issued();
    await hide(3);
    expect((await skippingWaits(() => prefix("force"))).status).toBe(204);
    expect(await rows(uuid, "leases")).toEqual([]);
    await byItself(uuid, expectNothingLeft);
  });
});

it("warns about the application of a deleted role that may still exist", async () => {
  await writeRole("kept", dynamicRole(tenant, { persist_app: true }));
  await hide(5);
  const answer = await skippingWaits(() => del("/v1/cloud-b/roles/kept"));
  expect([answer.status, answer.body.warnings?.join()]).toEqual([200, expect.stringContaining("tried again until")]);
  await byItself(uuid, expectNothingLeft);
});

describe("an unreachable provider", () => {
  const asked = async (operation: OperationName) =>
    (await tenant.requests()).filter((request) => request.operation === operation).length;
  const dropped = (operation: OperationName, count: number) => tenant.fault({ operation, fault: "drop", count });
  const page = { fault: "raw", status: 404, body: "<html>not here</html>" } as const;

  it("returns 503 for a role write after a few attempts", async () => {
    await dropped("ListRoleDefinitions", 100);
    const refused = await skippingWaits(() => put("/v1/cloud-b/roles/other", dynamicRole(tenant)));
    expect([refused.status, refused.body.errors.join()]).toEqual([503, expect.stringContaining("connection to")]);
    // The runtime may repeat a read whose connection was closed.
    expect(await asked("ListRoleDefinitions")).toBeLessThan(10);
  });

  it("returns 503 for credentials, and searches for possible orphans", async () => {
    await dropped("CreateApplication", 100);
    const refused = await skippingWaits(() => creds("web"));
    expect(refused.status, refused.text).toBe(503);
    expect(await asked("CreateApplication")).toBeLessThan(10);
    await byItself(uuid, expectNothingLeft);
  });

  it("differs from a provider that reports a missing object", async () => {
    await tenant.fault({ operation: "ListRoleDefinitions", ...page });
    const refused = await put("/v1/cloud-b/roles/other", dynamicRole(tenant));
    expect([refused.status, refused.body.errors.join()]).toEqual([400, expect.stringContaining("check its address")]);
    const lease = await issued();
    await tenant.fault({ operation: "DeleteApplication", ...page });
    expect((await revoke(lease)).body.errors.join()).toContain("check its address");
    expect((await revoke(lease)).status).toBe(204);
    await expectNothingLeft();
  });
});

describe("an orphan of an unanswered create call", () => {
  const lost = (operation: OperationName) => tenant.fault({ operation, fault: "apply-then-drop" });
  const hidden = (operation: OperationName, body: unknown) =>
    tenant.fault({ operation, fault: "raw", status: 200, body: JSON.stringify(body) });
  const bare = ({ object_id, client_id }: { object_id: string; client_id: string }) => ({
    id: object_id,
    appId: client_id,
    displayName: "x",
    passwordCredentials: [],
  });
  const passwordsOf = async (objectId: string) =>
    (await tenant.everything()).applications.find(({ id }) => id === objectId)?.passwords ?? [];

  it("for an application is removed, and the issued credentials stay", async () => {
    await lost("CreateApplication");
    await hidden("ListApplications", { value: [] });
    const lease = await issued();
    expect((await tenant.everything()).applications).toHaveLength(fresh.applications.length + 2);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    expect((await tenant.everything()).applications).toHaveLength(fresh.applications.length + 1);
    succeeded(await skippingWaits(() => revoke(lease)));
    await byItself(uuid, expectNothingLeft);
  });

  it("for a role's application is removed, and the role keeps its own", async () => {
    await lost("CreateApplication");
    await hidden("ListApplications", { value: [] });
    await writeRole("kept", dynamicRole(tenant, { persist_app: true }));
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    expect((await tenant.everything()).applications).toHaveLength(fresh.applications.length + 1);
    succeeded(await creds("kept"));
  });

  it("for a password is removed, and the issued one stays", async () => {
    const { existing_application: app } = tenant;
    await writeRole("app", { application_object_id: app.object_id });
    await lost("AddApplicationPassword");
    await hidden("GetApplication", bare(app));
    const { lease_id: lease } = succeeded(await creds("app")).body;
    expect(await passwordsOf(app.object_id)).toHaveLength(2);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    expect(await passwordsOf(app.object_id)).toHaveLength(1);
    succeeded(await skippingWaits(() => revoke(lease)));
    await byItself(uuid, expectNothingLeft);
  });

  it("for the root secret is removed, and the current one stays", async () => {
    const { root, client_id } = tenant;
    await lost("AddApplicationPassword");
    await hidden("GetApplication", bare({ ...root, client_id }));
    expect((await put("/v1/cloud-b/rotate-root", {})).status).toBe(204);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    expect(await passwordsOf(root.object_id)).toHaveLength(1);
    await tenant.call({ change: "RevokeTokens" });
    await issued();
  });
});
