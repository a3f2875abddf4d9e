import { expect, it } from "vitest";
import { del, get, put } from "./client.ts";

/* Undocumented requests of real clients, found by driving the service with them. */

it("null in a body means an absent field, as some clients send every field", async () => {
  const mount = { type: "kv-v2", description: null, local: null, seal_wrap: null, options: null, config: null };
  expect((await put("/v1/sys/mounts/kv", mount)).status).toBe(204);
  const token = { ttl: null, period: null, num_uses: null, renewable: null, display_name: null, type: null, id: null };
  const created = await put("/v1/auth/token/create", { ...token, policies: ["p"] });
  expect([created.status, created.body.auth.policies]).toEqual([200, ["default", "p"]]);
  expect(
    (await put("/v1/sys/sync/destinations/in-mem/d", { secret_name_template: null, granularity: null })).status,
  ).toBe(200);
  expect((await put("/v1/acl/policy/x", { Name: null, Description: null, Rules: 'path "a" {}' })).status).toBe(200);
});

it("a required field that is null is missing", async () => {
  const refused = await put("/v1/sys/policies/acl/p", { policy: null });
  expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("policy")]);
});

it("numbers and flags in a map of texts are converted to text", async () => {
  expect((await put("/v1/sys/mounts/kv", { type: "kv", options: { version: 2 } })).status).toBe(204);
  expect((await get("/v1/sys/mounts/kv")).body.data.options).toEqual({ version: "2" });
  const created = await put("/v1/auth/token/create", { policies: ["p"], meta: { n: 1, on: true } });
  expect(created.body.auth.metadata).toEqual({ n: "1", on: "true" });
});

it("a namespace with sync destinations cannot be deleted, because a later one would inherit their credentials", async () => {
  const inside = { headers: { "X-Orch-Namespace": "tenant" } };
  await put("/v1/sys/namespaces/tenant", {});
  await put("/v1/sys/sync/destinations/in-mem/prod", {}, inside);
  const refused = await del("/v1/sys/namespaces/tenant");
  expect([refused.status, refused.body.errors[0]]).toEqual([
    400,
    'sync destinations exist in namespace "tenant/", cannot remove: in-mem/prod',
  ]);
  expect((await del("/v1/sys/sync/destinations/in-mem/prod", inside)).status).toBe(204);
  expect((await del("/v1/sys/namespaces/tenant")).status).toBe(204);
});

it("a root destination does not block a namespace with the name of its type", async () => {
  await put("/v1/sys/sync/destinations/in-mem/d", {});
  expect((await put("/v1/sys/namespaces/in-mem", {})).status).toBe(200);
  expect((await del("/v1/sys/namespaces/in-mem")).status).toBe(204);
});

it("the index of a list never decreases, also when its newest row is deleted", async () => {
  const index = async (path: string) => Number((await get(path)).headers.get("X-Orch-Index"));
  await put("/v1/acl/policy/a", { Rules: 'path "a" {}' });
  await put("/v1/acl/policy/b", { Rules: 'path "a" {}' });
  await put("/v1/namespace", { Name: "tmp" });
  const before = { policies: await index("/v1/acl/policies"), namespaces: await index("/v1/namespaces") };
  await del("/v1/acl/policy/b");
  await del("/v1/namespace/tmp");
  expect(await index("/v1/acl/policies")).toBeGreaterThan(before.policies);
  expect(await index("/v1/namespaces")).toBeGreaterThanOrEqual(before.namespaces);
});

it("an initialised deployment refuses initialisation", async () => {
  const refused = await put("/v1/sys/init", { secret_shares: 1 }, { token: null });
  expect([refused.status, refused.body.errors[0]]).toEqual([400, "Vault is already initialized"]);
});

it("an issuer that is cleared answers as upstream, without the warning that one comes with", async () => {
  const set = await put("/v1/identity/oidc/config", { issuer: "https://issuer.example" });
  expect(set.body.warnings).toHaveLength(1);
  const cleared = await put("/v1/identity/oidc/config", { issuer: "" });
  expect([cleared.status, cleared.text]).toEqual([204, ""]);
});

it("the backup of a rekey is refused with what to do instead of one", async () => {
  const refused = await get("/v1/sys/rekey/backup");
  expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("there are no key shares")]);
});
