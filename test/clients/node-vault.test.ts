import vault from "node-vault";
import { expect, inject, it } from "vitest";

/** The main flow of node-vault, which sends the verb LIST and takes only 200 and 204 for success. */

const { address, token: root } = inject("service");
const clientOf = (token?: string) => vault({ endpoint: address, ...(token !== undefined && { token }) });
/** Made for each call: creating a token makes a client of node-vault use that token. */
const admin = () => clientOf(root);

it("reads the status of the service", async () => {
  expect(await admin().initialized()).toMatchObject({ initialized: true });
  expect(await admin().status()).toMatchObject({ sealed: false });
  expect(await admin().health()).toMatchObject({ initialized: true, sealed: false });
  expect(await admin().leader()).toHaveProperty("ha_enabled");
});

it("mounts, tunes and unmounts a secrets engine", async () => {
  await admin().mount({ mount_point: "node-kv", type: "kv", options: { version: "2" } });
  expect((await admin().mounts()).data["node-kv/"]).toMatchObject({ type: "kv", options: { version: "2" } });
  await admin().unmount({ mount_point: "node-kv" });
  expect((await admin().mounts()).data).not.toHaveProperty("node-kv/");
});

it("writes, reads, lists and deletes secrets of both versions", async () => {
  await admin().mount({ mount_point: "node-v1", type: "kv", options: { version: "1" } });
  await admin().write("node-v1/app/db", { password: "one" });
  expect((await admin().read("node-v1/app/db")).data).toEqual({ password: "one" });
  expect((await admin().list("node-v1/app")).data.keys).toEqual(["db"]);
  await admin().delete("node-v1/app/db");
  await expect(admin().read("node-v1/app/db")).rejects.toMatchObject({ response: { statusCode: 404 } });

  await admin().mount({ mount_point: "node-v2", type: "kv", options: { version: "2" } });
  await admin().write("node-v2/data/app/db", { data: { password: "one" } });
  await admin().update("node-v2/data/app/db", { data: { user: "app" } });
  expect((await admin().read("node-v2/data/app/db")).data.data).toEqual({ password: "one", user: "app" });
  expect((await admin().list("node-v2/metadata/app")).data.keys).toEqual(["db"]);
});

it("writes policies by the older paths, and removes them", async () => {
  const rules = 'path "node-v2/data/app/*" { capabilities = ["read"] }';
  await admin().addPolicy({ name: "node-reader", rules });
  expect((await admin().getPolicy({ name: "node-reader" })).rules).toBe(rules);
  expect((await admin().policies()).policies).toContain("node-reader");
});

it("creates, looks up, renews and revokes tokens", async () => {
  const { auth } = await admin().tokenCreate({ policies: ["node-reader"], ttl: "1h" });
  const own = clientOf(auth.client_token);
  expect((await own.tokenLookupSelf()).data).toMatchObject({ accessor: auth.accessor, ttl: expect.any(Number) });
  expect((await own.read("node-v2/data/app/db")).data.data).toMatchObject({ user: "app" });
  await expect(own.read("node-v1/app/db")).rejects.toMatchObject({ response: { statusCode: 403 } });
  expect((await own.tokenRenewSelf({ increment: "2h" })).auth.lease_duration).toBe(7200);
  expect((await admin().tokenLookupAccessor({ accessor: auth.accessor })).data.accessor).toBe(auth.accessor);
  expect((await admin().tokenAccessors()).data.keys).toContain(auth.accessor);
  await admin().tokenRevokeAccessor({ accessor: auth.accessor });
  await expect(own.tokenLookupSelf()).rejects.toMatchObject({ response: { statusCode: 403 } });
});

it("enables an auth method and logs in by name and password", async () => {
  await admin().enableAuth({ mount_point: "node-people", type: "userpass" });
  expect((await admin().auths()).data["node-people/"].type).toBe("userpass");
  await admin().write("auth/node-people/users/ann", { password: "p", token_policies: "node-reader" });
  const fresh = clientOf();
  const login = await fresh.userpassLogin({ username: "ann", password: "p", mount_point: "node-people" });
  expect(login.auth.policies).toEqual(["default", "node-reader"]);
  expect((await fresh.read("node-v2/data/app/db")).data.data).toMatchObject({ user: "app" });
  await admin().disableAuth({ mount_point: "node-people" });
  await expect(fresh.tokenLookupSelf()).rejects.toMatchObject({ response: { statusCode: 403 } });
});

it("logs in by role id and secret id, and manages both", async () => {
  const at = { mount_point: "node-machines", role_name: "web" };
  await admin().enableAuth({ mount_point: "node-machines", type: "approle" });
  await admin().addApproleRole({ ...at, policies: "node-reader" });
  expect((await admin().approleRoles({ mount_point: "node-machines" })).data.keys).toEqual(["web"]);
  expect((await admin().getApproleRole(at)).data.token_policies).toEqual(["node-reader"]);
  await admin().updateApproleRoleId({ ...at, role_id: "node-web" });
  expect((await admin().getApproleRoleId(at)).data.role_id).toBe("node-web");
  const { secret_id, secret_id_accessor } = (await admin().getApproleRoleSecret({ ...at })).data;
  const fresh = clientOf();
  const credentials = { role_id: "node-web", secret_id, mount_point: "node-machines" };
  expect((await fresh.approleLogin(credentials)).auth.policies).toEqual(["default", "node-reader"]);
  expect((await fresh.read("node-v2/data/app/db")).data.data).toMatchObject({ user: "app" });
  expect((await admin().approleSecretAccessors(at)).data.keys).toEqual([secret_id_accessor]);
  expect((await admin().approleSecretLookup({ ...at, secret_id })).data).toMatchObject({ secret_id_accessor });
  const named = { ...at, secret_id_accessor };
  expect((await admin().approleSecretAccessorLookup(named)).data).toMatchObject({ secret_id_accessor });
  await admin().approleSecretAccessorDestroy(named);
  await admin().approleSecretDestroy({ ...at, secret_id });
  await expect(clientOf().approleLogin(credentials)).rejects.toThrow("invalid role or secret ID");
  await admin().deleteApproleRole(at);
  await admin().disableAuth({ mount_point: "node-machines" });
});

it("unwraps a wrapped answer once", async () => {
  const wrapped = await admin().tokenCreate({ policies: ["node-reader"], wrap_ttl: "60s" });
  expect(wrapped.auth ?? wrapped.wrap_info).not.toBeNull();
  const info = (await admin().write("sys/wrapping/wrap", { note: "once" }, { headers: { "X-Vault-Wrap-TTL": "60s" } }))
    .wrap_info;
  const fresh = clientOf(info.token);
  expect((await fresh.unwrap()).data).toEqual({ note: "once" });
  await expect(clientOf(info.token).unwrap()).rejects.toThrow(/not valid|does not exist|permission denied/);
});

it("revokes leases by prefix", async () => {
  await admin().revokePrefix({ path_prefix: "cloud-b/creds/none" });
  await expect(admin().revoke({ lease_id: "cloud-b/creds/none/1" })).resolves.toBeDefined();
});
