import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import type { Everything } from "../doubles/cloud-b/azure-types.ts";
import { type AwsAccount, mountAws, openAwsAccount } from "./aws-helpers.ts";
import { del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import {
  byItself,
  creds,
  dynamicRole,
  engineObject,
  lookup,
  mountEngine,
  openTenant,
  revoke,
  rows,
  succeeded,
  type Tenant,
  unmount,
  writeRole,
} from "./engine-helpers.ts";
import { openProject } from "./gcp-helpers.ts";

/** Resources are removed by the identity that made them, also after a change of the configuration. */

clock.moves = true;

const noJobs = (uuid: string) => async () => expect(await rows(uuid, "jobs")).toEqual([]);
const noLeases = (uuid: string) => async () => {
  expect(await rows(uuid, "leases")).toEqual([]);
  await noJobs(uuid)();
};
/** Ids of the recorded identities. */
const recorded = (uuid: string) =>
  runInDurableObject(engineObject(uuid), (_object, { storage: { sql } }) =>
    sql
      .exec<{ id: number }>("SELECT id FROM accounts ORDER BY id")
      .toArray()
      .map(({ id }) => id),
  );
const irrevocable = (uuid: string) =>
  byItself(uuid, async () => expect(await rows(uuid, "leases")).toMatchObject([{ state: "irrevocable" }]), 400_000);

describe("an engine of Azure that another tenant is configured for", () => {
  let first: Tenant;
  let second: Tenant;
  let fresh: readonly [Everything, Everything];
  let applications: number;
  let uuid: string;
  const both = async () => [await first.everything(), await second.everything()];
  const nothingIsLeft = async () => {
    await noLeases(uuid)();
    expect(await both()).toEqual(fresh);
  };
  const configure = (tenant: Tenant) => put("/v1/cloud-b/config", tenant.config);
  beforeEach(async () => {
    [first, second] = [await openTenant(), await openTenant()];
    fresh = [await first.everything(), await second.everything()];
    applications = fresh[0].applications.length;
    uuid = await mountEngine(first);
    await writeRole("web", dynamicRole(first, { ttl: 600 }));
  });

  it("revokes each lease in the tenant that it was made in, and then forgets the former one's secret", async () => {
    const earlier = succeeded(await creds("web")).body.lease_id;
    succeeded(await configure(second));
    await writeRole("web", dynamicRole(second));
    const later = succeeded(await creds("web")).body.lease_id;
    expect(await recorded(uuid)).toEqual([0, 1]);
    expect((await revoke(earlier)).status).toBe(204);
    expect(await first.everything()).toEqual(fresh[0]);
    expect((await second.everything()).applications).toHaveLength(applications + 1);
    expect(await recorded(uuid)).toEqual([1]);
    expect((await revoke(later)).status).toBe(204);
    await nothingIsLeft();
  });

  it("revokes leases when they expire, and after the configuration is deleted", async () => {
    succeeded(await creds("web"));
    succeeded(await configure(second));
    succeeded(await del("/v1/cloud-b/config"));
    await byItself(uuid, nothingIsLeft, 400_000);
    expect(await recorded(uuid)).toEqual([1]);
  });

  it("revokes leases of both tenants when it is unmounted", async () => {
    succeeded(await creds("web"));
    succeeded(await configure(second));
    await writeRole("web", dynamicRole(second));
    succeeded(await creds("web"));
    succeeded(await unmount());
    await byItself(uuid, async () => expect(await both()).toEqual(fresh));
    expect(await recorded(uuid)).toEqual([]);
  });

  it("uses the newest secret for a tenant that is configured again", async () => {
    const { lease_id: lease } = succeeded(await creds("web")).body;
    succeeded(await configure(second));
    succeeded(await configure(first));
    succeeded(await put("/v1/cloud-b/rotate-root", {}));
    await byItself(uuid, noJobs(uuid));
    expect(await rows(uuid, "leases")).toMatchObject([{ account: 0 }]);
    expect(await recorded(uuid)).toEqual([]);
    expect((await revoke(lease)).status).toBe(204);
    await noLeases(uuid)();
  });

  it("completes a request in the tenant that it began in", async () => {
    await first.fault({ fault: "delay", ms: 300, operation: "CreateApplication" });
    const asked = creds("web");
    await expect.poll(async () => (await rows(uuid, "jobs")).length).toBe(1);
    succeeded(await configure(second));
    const issued = await asked;
    expect(issued.status, issued.text).toBe(200);
    expect((await revoke(issued.body.lease_id)).status).toBe(204);
    await nothingIsLeft();
  });

  it("shows a lease that the former identity cannot revoke as irrevocable, and never as removed", async () => {
    const { lease_id: lease } = succeeded(await creds("web")).body;
    succeeded(await configure(second));
    const code = "unauthorized_client";
    await first.fault({ fault: "error", operation: "Token", status: 400, code, number: 700016, count: 200 });
    // Workers of one isolate keep tokens of the tenant.
    await first.call({ change: "RevokeTokens" });
    expect((await revoke(lease)).status).toBe(400);
    await irrevocable(uuid);
    expect((await lookup(lease)).body.data.revoke_error).toMatch(/AADSTS700016|application/);
    expect((await first.everything()).applications).toHaveLength(applications + 1);
    expect(await recorded(uuid)).toContain(0);
    succeeded(await put(`/v1/sys/leases/revoke-force/cloud-b`, {}));
    expect(await recorded(uuid)).toEqual([1]);
  });

  it("removes the application of a role in its tenant, and refuses a write that would lose it", async () => {
    await writeRole("kept", dynamicRole(first, { persist_app: true }));
    succeeded(await configure(second));
    const refused = await put("/v1/cloud-b/roles/kept", { ttl: 600 });
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [expect.stringMatching(/out of reach.*delete the role/)],
    ]);
    succeeded(await del("/v1/cloud-b/roles/kept"));
    await byItself(uuid, nothingIsLeft);
    await writeRole("kept", dynamicRole(second, { persist_app: true }));
    succeeded(await del("/v1/cloud-b/roles/kept"));
    await byItself(uuid, nothingIsLeft);
  });

  it("removes the passwords of a static role in its tenant, and refuses to replace them in another", async () => {
    const { object_id: application_object_id } = first.existing_application;
    succeeded(await put("/v1/cloud-b/static-roles/app", { application_object_id, rotation_period: 2_592_000 }));
    succeeded(await configure(second));
    const refused = await put("/v1/cloud-b/rotate-role/app", {});
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringMatching(/out of reach/)]]);
    succeeded(await del("/v1/cloud-b/static-roles/app"));
    await byItself(uuid, nothingIsLeft);
  });

  it.each(deaths(1, 1))(
    "removes everything after a death at poll %i (%s the object, %i calls) of a revocation",
    async (nth, when, calls) => {
      const { lease_id: lease } = succeeded(await creds("web")).body;
      succeeded(await configure(second));
      const died = dieAt(nth, when, calls);
      await revoke(lease);
      expect(died()).toBe(true);
      await byItself(uuid, nothingIsLeft);
    },
  );
});

describe("an engine of Azure with another application of its tenant", () => {
  it("revokes with the former one, which the present one need not replace", async () => {
    const tenant = await openTenant();
    const uuid = await mountEngine(tenant);
    await writeRole("web", dynamicRole(tenant));
    const { lease_id: lease } = succeeded(await creds("web")).body;
    const stranger = await openTenant();
    // The present client is unknown to the tenant: only the former one can revoke.
    const { client_id, client_secret } = stranger.config;
    succeeded(await put("/v1/cloud-b/config", { client_id, client_secret }));
    expect((await revoke(lease)).status).toBe(204);
    await noLeases(uuid)();
  });
});

describe("an engine of AWS that another key is configured for", () => {
  let account: AwsAccount;
  let uuid: string;
  const usersOf = async (of: AwsAccount) => (await of.everything()).map(({ name }) => name);
  beforeEach(async () => {
    account = await openAwsAccount();
    uuid = await mountAws(account);
    succeeded(await put("/v1/aws/roles/app", { credential_type: "iam_user", policy_arns: [account.policy_arn] }));
  });

  it("removes the user of a lease in the account that it was made in", async () => {
    const before = await usersOf(account);
    const { lease_id: lease } = succeeded(await get("/v1/aws/creds/app")).body;
    const other = await openAwsAccount();
    succeeded(await put("/v1/aws/config/root", other.config));
    expect((await revoke(lease)).status).toBe(204);
    expect(await usersOf(account)).toEqual(before);
    await noLeases(uuid)();
  });

  it("never takes 'not found' of another account for a removal", async () => {
    const { lease_id: lease } = succeeded(await get("/v1/aws/creds/app")).body;
    const other = await openAwsAccount();
    succeeded(await put("/v1/aws/config/root", other.config));
    const { access_key: AccessKeyId = "" } = account.config;
    await account.call({ action: "DeleteAccessKey", parameters: { UserName: "sallyport", AccessKeyId } });
    expect((await revoke(lease)).status).toBe(400);
    await irrevocable(uuid);
    expect((await other.requests()).map(({ status }) => status)).toContain(404);
    expect(await usersOf(account)).toHaveLength(2);
  });

  it("removes the user with a new key of the account when the former key is deleted", async () => {
    const before = await usersOf(account);
    const { lease_id: lease } = succeeded(await get("/v1/aws/creds/app")).body;
    const made = await account.call({ action: "CreateAccessKey", parameters: { UserName: "sallyport" } });
    const { AccessKey } = made as { AccessKey: { AccessKeyId: string; SecretAccessKey: string } };
    const [access_key, secret_key] = [AccessKey.AccessKeyId, AccessKey.SecretAccessKey];
    succeeded(await put("/v1/aws/config/root", { ...account.config, access_key, secret_key }));
    const { access_key: AccessKeyId = "" } = account.config;
    await account.call({ action: "DeleteAccessKey", parameters: { UserName: "sallyport", AccessKeyId } });
    await revoke(lease);
    await byItself(uuid, noLeases(uuid), 60_000);
    expect(await usersOf(account)).toEqual(before);
  });

  it("removes the key of a deleted static role in its account", async () => {
    await account.call({ action: "CreateUser", parameters: { UserName: "worker" } });
    succeeded(await put("/v1/aws/static-roles/app", { username: "worker", rotation_period: 3_600 }));
    const other = await openAwsAccount();
    await other.call({ action: "CreateUser", parameters: { UserName: "worker" } });
    succeeded(await put("/v1/aws/config/root", other.config));
    succeeded(await del("/v1/aws/static-roles/app"));
    await byItself(uuid, noJobs(uuid));
    expect((await account.everything()).find(({ name }) => name === "worker")?.keys).toEqual([]);
  });
});

describe("an engine of Google Cloud that another project is configured for", () => {
  it("removes the key of a lease, and the account of a roleset, in the project that they were made in", async () => {
    const [project, other] = [await openProject(), await openProject()];
    const fresh = await project.everything();
    succeeded(await put("/v1/sys/mounts/gcp", { type: "cloud-c" }));
    const { uuid } = (await get("/v1/sys/mounts/gcp")).body.data;
    succeeded(await put("/v1/gcp/config", project.config));
    const set = { project: project.account, bindings: project.bindings, secret_type: "service_account_key" };
    succeeded(await put("/v1/gcp/roleset/build", set));
    const { lease_id: lease } = succeeded(await get("/v1/gcp/roleset/build/key")).body;
    succeeded(await put("/v1/gcp/config", other.config));
    expect((await revoke(lease)).status).toBe(204);
    succeeded(await del("/v1/gcp/roleset/build"));
    await byItself(uuid, noJobs(uuid));
    expect(await project.everything()).toEqual(fresh);
  });
});
