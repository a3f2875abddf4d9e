import { AppConfigurationClient, parseSecretReference } from "@azure/app-configuration";
import { ClientSecretCredential } from "@azure/identity";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { cloudBAc } from "../../../src/sync/destinations/cloud-b-ac/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { type CloudBDouble, startCloudB } from "../cloud-b-kv/server.ts";
import { type ConfigDouble, startConfigStore } from "./server.ts";

// The vendor's client accepts the double's answers and errors, and reads what the adapter wrote: so neither the double
// nor the adapter is only our own misreading of the protocol.

const endpoint = "https://double.azconfig.io";
let cloudB: CloudBDouble;
let store: ConfigDouble;

beforeAll(async () => {
  cloudB = await startCloudB();
  const { tenant_id: tenantId, client_id: clientId } = cloudB.account;
  store = await startConfigStore({ verify: (token) => cloudB.verify(token), tenantId, owners: [clientId] });
});
afterAll(() => Promise.all([store.close(), cloudB.close()]));
beforeEach(() => store.account.items.clear());

type Options = NonNullable<ConstructorParameters<typeof AppConfigurationClient>[2]>;

/** Sends calls of the vendor's hosts to the doubles: the client of the login service insists on https. */
const reroute: NonNullable<Options["additionalPolicies"]>[number] = {
  position: "perRetry",
  policy: {
    name: "reroute",
    async sendRequest(request, next) {
      const { url } = request;
      const asked = new URL(url);
      const at = asked.origin === endpoint || asked.origin === store.url ? store.url : cloudB.url;
      request.headers.set("x-original-host", asked.host);
      Object.assign(request, { url: at + asked.pathname + asked.search, allowInsecureConnection: true });
      const response = await next(request);
      Object.assign(request, { url, allowInsecureConnection: false });
      return response;
    },
  },
};
const options = { additionalPolicies: [reroute], retryOptions: { maxRetries: 0 } };

const byApplication = (secret = cloudB.account.client_secret) => {
  const { tenant_id: tenant, client_id: client } = cloudB.account;
  return new AppConfigurationClient(endpoint, new ClientSecretCredential(tenant, client, secret, options), options);
};

/** The client signs the host that it calls, so it has the double's own. */
const byAccessKey = ({ id, secret } = store.account.accessKey) =>
  new AppConfigurationClient(`Endpoint=${store.url};Id=${id};Secret=${secret}`, options);

const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
};

const { put, inspect, remove, name } = driverOf(
  cloudBAc,
  () => store,
  () => ({ ...cloudB.account, endpoint: store.url }),
  () => ({ CLOUD_B_LOGIN_URL: cloudB.url }),
);
const plain = () => ({
  key_vault_uri: "",
  tenant_id: "",
  client_id: "",
  client_secret: "",
  allow_plaintext: true,
  access_key_id: store.account.accessKey.id,
  access_key_secret: store.account.accessKey.secret,
});

describe.each([
  ["an application", () => byApplication()],
  ["an access key", () => byAccessKey()],
])("the vendor's client with %s and the double", (_, open) => {
  it("creates, changes, reads and deletes a key-value", async () => {
    const client = open();
    const made = await client.addConfigurationSetting({ key: "a/b c", value: "one", tags: { t: "1" } });
    expect(made).toMatchObject({ key: "a/b c", value: "one", tags: { t: "1" }, isReadOnly: false });
    await expect(client.addConfigurationSetting({ key: "a/b c", value: "two" })).rejects.toMatchObject({
      statusCode: 412,
    });
    const changed = await client.setConfigurationSetting({ key: "a/b c", value: "two" }, { onlyIfUnchanged: false });
    expect(changed.tags, "a write replaces the tags").toEqual({});
    await expect(client.setConfigurationSetting(made, { onlyIfUnchanged: true })).rejects.toMatchObject({
      statusCode: 412,
    });
    expect(await client.getConfigurationSetting({ key: "a/b c" })).toMatchObject({ value: "two", etag: changed.etag });
    expect(await client.deleteConfigurationSetting({ key: "a/b c" })).toMatchObject({ statusCode: 200 });
    expect(await client.deleteConfigurationSetting({ key: "a/b c" })).toMatchObject({ statusCode: 204 });
    await expect(client.getConfigurationSetting({ key: "a/b c" })).rejects.toMatchObject({ statusCode: 404 });
  });

  it("has a key-value for each label, and refuses changes of a locked one", async () => {
    const client = open();
    await client.setConfigurationSetting({ key: "k", label: "prod", value: "p" });
    await client.setConfigurationSetting({ key: "k", value: "none" });
    expect(await client.getConfigurationSetting({ key: "k", label: "prod" })).toMatchObject({ value: "p" });
    expect((await collect(client.listConfigurationSettings({ labelFilter: "\0" }))).map(({ value }) => value)).toEqual([
      "none",
    ]);
    await client.setReadOnly({ key: "k" }, true);
    await expect(client.setConfigurationSetting({ key: "k", value: "x" })).rejects.toMatchObject({ statusCode: 409 });
    await client.setReadOnly({ key: "k" }, false);
    await client.setConfigurationSetting({ key: "k", value: "x" });
  });

  it("follows the pages of a list", async () => {
    const client = open();
    for (let n = 0; n < 230; n++) store.account.set(`k${n}`, null, { value: `${n}` });
    const found = await collect(client.listConfigurationSettings({ keyFilter: "k*" }));
    expect(new Set(found.map(({ key }) => key)).size).toBe(230);
  });
});

describe("the vendor's client", () => {
  it("is refused with wrong credentials", async () => {
    await expect(byApplication("wrong").getConfigurationSetting({ key: "k" })).rejects.toThrow("7000215");
    const key = { ...store.account.accessKey, secret: Buffer.from("wrong").toString("base64") };
    await expect(byAccessKey(key).getConfigurationSetting({ key: "k" })).rejects.toMatchObject({ statusCode: 401 });
  });

  it.each([
    ["the newest version", {}, /\/secrets\/vault-kv-1a2b3c4d-app-database-password-[\da-f]{12}$/],
    [
      "a version",
      { pin_version: true },
      /\/secrets\/vault-kv-1a2b3c4d-app-database-password-[\da-f]{12}\/[\da-f]{32}$/,
    ],
  ])("reads a reference of the adapter, to %s", async (_, changed, secretId) => {
    expect(await put({ tags: { "hashicorp:vault": "", team: "web" } }, { label: "prod", ...changed })).toMatchObject({
      outcome: "ok",
    });
    const found = await byApplication().getConfigurationSetting({ key: name, label: "prod" });
    expect(parseSecretReference(found).value.secretId).toMatch(secretId);
    expect(found.tags).toEqual({ "hashicorp:vault": "", team: "web" });
  });

  it("reads a value of the adapter, whose state it changes and removes", async () => {
    const first = await put({}, plain());
    expect(await byAccessKey().getConfigurationSetting({ key: name })).toMatchObject({ value: "hunter2-hunter2" });
    const reference = first.outcome === "ok" ? (first.reference ?? null) : null;
    expect(await inspect(reference, plain())).toMatchObject({ state: "unchanged" });
    await byAccessKey().setConfigurationSetting({ key: name, value: "theirs" });
    expect(await inspect(reference, plain())).toMatchObject({ state: "changed", owned: false });
    await byAccessKey().deleteConfigurationSetting({ key: name });
    expect(await inspect(reference, plain())).toMatchObject({ state: "absent" });
    expect(await remove(plain())).toEqual({ outcome: "ok" });
  });
});
