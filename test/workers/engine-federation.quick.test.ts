import { beforeEach, describe, expect, it } from "vitest";
import { get, put } from "./client.ts";
import { clock } from "./clock.ts";
import {
  byItself,
  creds,
  dynamicRole,
  lookup,
  mountEngine,
  openTenant,
  revoke,
  rows,
  succeeded,
  type Tenant,
  writeRole,
} from "./engine-helpers.ts";

clock.moves = true;

/** An engine that logs in with identity tokens; its application at the provider has no secret. */

const audience = "api://AzureADTokenExchange";
let tenant: Tenant;

beforeEach(async () => {
  tenant = await openTenant();
  const { object_id: id, key_id: keyId } = tenant.root;
  await tenant.call({ change: "RemovePassword", id, keyId });
});

const federated = () => ({ ...tenant.config, client_secret: "", identity_token_audience: audience });

/**
 * Registers the mount at a path with the provider. The published documents are copied, because the provider cannot
 * fetch them here.
 */
async function trust(path = "cloud-b", { namespace = "", id = "root" } = {}): Promise<string> {
  const { accessor } = (await get(`/v1/${namespace}sys/mounts/${path}`)).body.data;
  const documents = `/v1/${namespace}identity/oidc/plugins/.well-known`;
  const configuration = (await get(`${documents}/openid-configuration`, { token: null })).body;
  const keys = (await get(`${documents}/keys`, { token: null })).body;
  const { issuer } = configuration;
  const subject = `plugin-identity:${id}:secret:${accessor}`;
  await tenant.call({ change: "PublishIssuer", issuer, configuration, keys });
  await tenant.call({ change: "AddFederatedCredential", id: tenant.root.object_id, issuer, subject, audience });
  return subject;
}

const logins = async () => (await tenant.requests()).filter(({ operation }) => operation === "Token");

describe("a federated engine", () => {
  // Proves: A.config.client_secret.default, E.auth.1.federation
  it("issues and revokes credentials without a client secret", async () => {
    const uuid = await mountEngine(null);
    succeeded(await put("/v1/cloud-b/config", federated()));
    await trust();
    const before = await tenant.everything();
    await writeRole("app", dynamicRole(tenant));
    const issued = succeeded(await creds("app")).body;
    expect((await tenant.everything()).applications).toHaveLength(before.applications.length + 1);
    succeeded(await revoke(issued.lease_id));
    expect(await tenant.everything()).toEqual(before);
    expect(await rows(uuid, "jobs")).toEqual([]);

    const own = await logins();
    expect(own.length).toBeGreaterThan(0);
    for (const { fields, status } of own) {
      expect(status).toBe(200);
      expect(fields).toContain("client_assertion");
      expect(fields).not.toContain("client_secret");
    }
  });

  it("revokes expired leases with tokens of the issuer from its configuration", async () => {
    const uuid = await mountEngine(null);
    succeeded(await put("/v1/cloud-b/config", federated()));
    await trust();
    await writeRole("app", dynamicRole(tenant, { ttl: 60 }));
    const before = await tenant.everything();
    const { lease_id: lease } = succeeded(await creds("app")).body;
    await byItself(uuid, async () => expect((await lookup(lease)).status).toBe(400));
    expect(await tenant.everything()).toEqual(before);
  });

  it("sends tokens for its own mount and namespace only", async () => {
    await put("/v1/sys/namespaces/team", {});
    const { id } = (await get("/v1/sys/namespaces/team")).body.data;
    for (const at of ["", "team/"]) {
      succeeded(await put(`/v1/${at}sys/mounts/cloud-b`, { type: "cloud-b" }));
      succeeded(await put(`/v1/${at}cloud-b/config`, federated()));
    }
    await trust("cloud-b", { namespace: "team/", id });
    succeeded(await put("/v1/team/cloud-b/roles/app", dynamicRole(tenant)));
    const refused = await put("/v1/cloud-b/roles/app", dynamicRole(tenant));
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("AADSTS700211")]);
    expect(refused.text).toContain(
      "no federated credential of the application has the identity token's issuer; add one",
    );
  });

  // Proves: A.config.identity_token_audience.match
  it("returns the missing federated credential when its application does not allow the audience", async () => {
    await mountEngine(null);
    succeeded(await put("/v1/cloud-b/config", { ...federated(), identity_token_audience: "api://another" }));
    await trust();
    const refused = await put("/v1/cloud-b/roles/app", dynamicRole(tenant));
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("AADSTS700212")]);
    expect(refused.text).toContain("has the identity token's audience; add one");
    succeeded(await put("/v1/cloud-b/config", { identity_token_audience: audience }));
    await writeRole("app", dynamicRole(tenant));
  });

  it("returns 400 for rotate-root, because it has no secret", async () => {
    await mountEngine(null);
    succeeded(await put("/v1/cloud-b/config", federated()));
    const refused = await put("/v1/cloud-b/rotate-root", {});
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ["there is no client_secret to rotate: the engine logs in with identity tokens"],
    ]);
  });

  // Proves: A.config.client_secret.exclusive, A.config.identity_token_audience.exclusive, E.auth.1.exclusive
  it("switches to a secret and back to federation with one write each", async () => {
    const uuid = await mountEngine(null);
    succeeded(await put("/v1/cloud-b/config", federated()));
    await trust();
    const { object_id: id } = tenant.root;
    const { secretText } = (await tenant.call({ change: "AddPassword", id })) as { secretText: string };
    const both = await put("/v1/cloud-b/config", { client_secret: secretText });
    expect(both.status).toBe(400);
    succeeded(await put("/v1/cloud-b/config", { client_secret: secretText, identity_token_audience: "" }));
    await writeRole("app", dynamicRole(tenant));
    expect((await logins()).at(-1)?.fields).toContain("client_secret");
    succeeded(await put("/v1/cloud-b/config", { client_secret: "", identity_token_audience: audience }));
    await writeRole("app", dynamicRole(tenant));
    expect((await logins()).at(-1)?.fields).toContain("client_assertion");
    expect(await rows(uuid, "jobs")).toEqual([]);
  });
});

it("returns errors about its identity token, not about a client_secret", async () => {
  await mountEngine(null);
  succeeded(await put("/v1/cloud-b/config", federated()));
  await trust();
  for (const [code, number] of [
    ["invalid_client", 7_000_215],
    ["invalid_client", 7_000_222],
    ["invalid_client", 1],
    ["invalid_request", 1],
  ] as const) {
    const what = `${code} ${number}`;
    await tenant.fault({ service: "login", operation: "Token", fault: "error", status: 401, code, number });
    const refused = await put("/v1/cloud-b/roles/app", dynamicRole(tenant));
    expect(refused.status, what).toBe(400);
    expect(refused.body.errors.join(), what).toContain("identity token is not accepted");
    expect(refused.body.errors.join(), what).not.toContain("client_secret");
  }
});
