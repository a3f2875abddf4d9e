import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { accountOf } from "../../src/credentials/engines/azure/config.ts";
import { itRows } from "../support/rows.ts";
import { holderOf, path } from "./access.ts";
import { del, get, list, put } from "./client.ts";
import { creds, dynamicRole, engineObject, mountEngine, openTenant, succeeded, type Tenant } from "./engine-helpers.ts";

let tenant: Tenant;
let uuid: string;
beforeEach(async () => {
  tenant = await openTenant();
  uuid = await mountEngine(null);
});

const config = async () => (await get("/v1/cloud-b/config")).body.data;
const write = (body: Record<string, unknown>) => put("/v1/cloud-b/config", body);

const UNCONFIGURED = {
  subscription_id: "",
  tenant_id: "",
  environment: "",
  client_id: "",
  root_password_ttl: 0,
  identity_token_audience: "",
  identity_token_ttl: 0,
  rotation_schedule: "",
  rotation_window: 0,
  rotation_period: 0,
  rotation_policy: "",
  disable_automated_rotation: false,
};

describe("the configuration", () => {
  // Proves: A.config.delete
  it("is all zeros before the first write and after a deletion", async () => {
    expect(await config()).toEqual(UNCONFIGURED);
    succeeded(await write(tenant.config));
    expect((await del("/v1/cloud-b/config")).status).toBe(204);
    expect((await del("/v1/cloud-b/config")).status).toBe(204);
    expect(await config()).toEqual(UNCONFIGURED);
  });

  // Proves: A.config.client_secret.omitted, A.config.environment.default, A.config.identity_token_audience.default,
  // A.config.identity_token_ttl.default, A.config.read, A.config.root_password_ttl.default, A.config.write,
  // A.engine.credentials-stored, A.rotate-root.private, E.auth.2.config-omits, E.limits.root_password_ttl
  it("is returned without its secret, with the documented defaults", async () => {
    const written = await write(tenant.config);
    expect([written.status, written.text]).toEqual([204, ""]);
    const { client_secret: secret, ...shown } = tenant.config;
    expect(await config()).toEqual({
      ...UNCONFIGURED,
      ...shown,
      root_password_ttl: 15_724_800,
      identity_token_ttl: 3600,
    });
    expect((await get("/v1/cloud-b/config")).text).not.toContain(secret);
  });

  // Proves: A.config.root_password_ttl.type, A.config.single
  it("changes only the fields of a write, and reads durations as seconds", async () => {
    succeeded(await write({ ...tenant.config, environment: "azurechinacloud", root_password_ttl: "1h30m" }));
    succeeded(await write({ root_password_ttl: "182d" }));
    expect(await config()).toMatchObject({
      environment: "azurechinacloud",
      root_password_ttl: 15_724_800,
      client_id: tenant.client_id,
    });
    succeeded(await write({ root_password_ttl: 60 }));
    expect((await config()).root_password_ttl).toBe(60);
    // As upstream, null is an empty text, and absent for a duration.
    succeeded(await write({ client_id: null, root_password_ttl: null }));
    expect(await config()).toMatchObject({ client_id: "", root_password_ttl: 60 });
  });

  // Proves: A.config.client_secret.exclusive, A.config.identity_token_audience.exclusive, E.auth.1.exclusive
  it("accepts an audience instead of a secret, and both if one of them is empty", async () => {
    succeeded(await write(tenant.config));
    const both = await write({ identity_token_audience: "api://x" });
    expect([both.status, both.body.errors]).toEqual([
      400,
      ["only one of 'client_secret' or 'identity_token_audience' can be set"],
    ]);
    succeeded(await write({ identity_token_audience: "api://x", client_secret: "", identity_token_ttl: "10m" }));
    expect(await config()).toMatchObject({ identity_token_audience: "api://x", identity_token_ttl: 600 });
  });

  // Proves: A.config.subscription_id.required, A.config.tenant_id.required
  itRows([
    [{ environment: "AzureGermanCloud" }, /no cloud configuration matching the name/],
    [{ environment: "nowhere" }, /no cloud configuration matching the name/],
    [{ root_password_ttl: "soon" }, /root_password_ttl/],
    [{ root_password_ttl: -5 }, /root_password_ttl/],
    [{ rotation_schedule: "* * *" }, /failed to parse provided rotation_schedule/],
    [{ rotation_schedule: "0 0 * * SAT", rotation_period: 3600 }, /mutually exclusive/],
    [{ rotation_window: 3600, rotation_period: 3600 }, /rotation_window does not apply to period/],
    [{ rotation_window: 3600 }, /cannot use rotation_window without rotation_schedule/],
    [{ rotation_window: 60, rotation_schedule: "0 0 * * SAT" }, /3600 seconds or more/],
    [{ rotation_period: "200d" }, /shorter than root_password_ttl/],
    [{ subscription_id: "" }, /subscription_id is required/],
    [{ tenant_id: "" }, /tenant_id is required/],
    [{ client_id: ["a"] }, /client_id/],
    [{ subscription_id: "production" }, /^subscription_id: must be a UUID$/],
    [{ subscription_id: `${crypto.randomUUID()}/..` }, /^subscription_id: must be a UUID$/],
    [{ tenant_id: "common" }, /^tenant_id: must be a UUID, or a domain name of the tenant$/],
    [{ tenant_id: "a/b.example" }, /^tenant_id: must be a UUID/],
  ])("returns 400 for %j and keeps the configuration", async (change, because) => {
    succeeded(await write(tenant.config));
    const before = await config();
    const refused = await write(change);
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toMatch(because);
    expect(await config()).toEqual(before);
  });

  it("accepts a tenant's domain name, and a write without ids", async () => {
    succeeded(await write({ ...tenant.config, tenant_id: "contoso.onmicrosoft.com" }));
    succeeded(await write({ identity_token_ttl: "2h" }));
    expect(await config()).toMatchObject({ tenant_id: "contoso.onmicrosoft.com", identity_token_ttl: 7200 });
  });

  it("replaces the schedule by a period in one write", async () => {
    succeeded(await write({ ...tenant.config, rotation_schedule: "0 3 * * SUN", rotation_window: "2h" }));
    expect(await config()).toMatchObject({ rotation_schedule: "0 3 * * SUN", rotation_window: 7200 });
    succeeded(await write({ rotation_schedule: "", rotation_window: 0, rotation_period: "24h" }));
    expect(await config()).toMatchObject({ rotation_schedule: "", rotation_window: 0, rotation_period: 86_400 });
  });

  // Proves: A.config.client_id.env, A.config.client_secret.env, A.config.env-override, A.config.environment.env,
  // A.config.subscription_id.env, A.config.tenant_id.env, E.auth.1.env
  it("is overridden by the deployment's settings, which GET config omits", () => {
    const stored = { ...UNCONFIGURED, ...tenant.config, client_secret: "stored", key_id: null, key_ends: null };
    const account = accountOf(stored, {
      CLOUD_B_TENANT_ID: "other-tenant",
      CLOUD_B_SUBSCRIPTION_ID: "other-subscription",
      CLOUD_B_CLIENT_ID: "other-client",
      CLOUD_B_CLIENT_SECRET: "other-secret",
      CLOUD_B_ENVIRONMENT: "AzureUSGovernmentCloud",
    });
    expect(account).toEqual({
      ok: true,
      value: {
        tenantId: "other-tenant",
        subscriptionId: "other-subscription",
        clientId: "other-client",
        clientSecret: "other-secret",
        environment: "AzureUSGovernmentCloud",
      },
    });
  });

  it("is stored sealed", async () => {
    succeeded(await write(tenant.config));
    const stored = await runInDurableObject(engineObject(uuid), (_object, { storage: { sql } }) =>
      sql
        .exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM config")
        .toArray()
        .map(({ sealed }) => Buffer.from(sealed).toString("latin1")),
    );
    expect(stored).toHaveLength(1);
    expect(stored.join()).not.toContain(tenant.config["client_secret"]);
  });
});

describe("an engine without configuration", () => {
  // Proves: A.config.delete
  it("returns 400 for roles and credentials", async () => {
    for (const refused of [await put("/v1/cloud-b/roles/r", dynamicRole(tenant)), await creds("r")]) {
      expect(refused.status).toBe(400);
      expect(refused.body.errors.join()).toContain("config is nil");
    }
    expect((await put("/v1/cloud-b/rotate-root", {})).status).toBe(400);
    expect((await list("/v1/cloud-b/roles")).status).toBe(404);
  });
});

describe("a mount of the engine", () => {
  // Proves: A.config.single, A.engine.mounted, E.conv.mount-path
  it("has type cloud-b by either name, at any path, several times", async () => {
    succeeded(await put("/v1/sys/mounts/deep/er", { type: "azure" }));
    expect((await get("/v1/sys/mounts/deep/er")).body.data).toMatchObject({
      type: "cloud-b",
      accessor: expect.stringMatching(/^cloud-b_[0-9a-f]{8}$/),
      options: {},
    });
    succeeded(await put("/v1/deep/er/config", tenant.config));
    expect(await config()).toEqual(UNCONFIGURED);
  });

  it("requires the capability on each path", async () => {
    const { client_token: token } = await holderOf(path("cloud-b/creds/only", "read"));
    expect((await get("/v1/cloud-b/config", { token })).status).toBe(403);
    expect((await creds("other", { token })).status).toBe(403);
    expect((await creds("only", { token })).status).toBe(400);
  });

  it("takes `create` for a new role or configuration only, and `update` for one that exists only", async () => {
    const rules = (...capabilities: string[]) =>
      path("+/roles/*", ...capabilities) + path("+/config*", ...capabilities);
    const [creator, updater] = [await holderOf(rules("create")), await holderOf(rules("update"))];
    const body = dynamicRole(tenant);
    const tried = async (at: string, content: object) => {
      const write = async ({ client_token: token }: { client_token: string }) =>
        (await put(`/v1/cloud-b/${at}`, content, { token })).status;
      return [await write(updater), await write(creator), await write(creator), await write(updater)];
    };
    expect(await tried("config", tenant.config)).toEqual([403, 204, 403, 204]);
    expect(await tried("roles/r", body)).toEqual([403, 204, 403, 204]);
    succeeded(await del("/v1/cloud-b/config"));
    expect((await put("/v1/cloud-b/config", tenant.config, { token: creator.client_token })).status).toBe(204);
  });

  // AWS keeps the TTLs of users beside the root; Google's configuration has no check of existence.
  itRows([
    ["cloud-a", "config/root", { region: "eu-west-1" }, [403, 204, 403, 204]],
    ["cloud-a", "roles/r", { credential_type: "iam_user" }, [204, 403, 403, 204]],
    ["cloud-c", "config", { ttl: 60 }, [204, 403, 403, 204]],
  ] as const)("of type %s judges a write of %s as upstream", async (type, at, body, statuses) => {
    const mount = `${type}-${crypto.randomUUID()}`;
    succeeded(await put(`/v1/sys/mounts/${mount}`, { type }));
    if (type === "cloud-a") succeeded(await put(`/v1/${mount}/config/lease`, { lease: 60, lease_max: 60 }));
    const rules = (capability: string) => path(`${mount}/*`, capability);
    const [creator, updater] = [await holderOf(rules("create")), await holderOf(rules("update"))];
    const write = async ({ client_token: token }: { client_token: string }) =>
      (await put(`/v1/${mount}/${at}`, body, { token })).status;
    expect([await write(updater), await write(creator), await write(creator), await write(updater)]).toEqual(statuses);
  });

  it("returns 404 or 405 for other paths and verbs", async () => {
    expect((await put("/v1/cloud-b/creds/x", {})).status).toBe(405);
    expect((await get("/v1/cloud-b/nothing")).status).toBe(404);
    expect((await get("/v1/cloud-b/roles/-bad-")).status).toBe(404);
  });
});
