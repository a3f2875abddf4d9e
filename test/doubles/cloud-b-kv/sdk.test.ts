import { ClientSecretCredential } from "@azure/identity";
import { SecretClient } from "@azure/keyvault-secrets";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../../src/providers/outcome.ts";
import { cloudBKv } from "../../../src/sync/destinations/cloud-b-kv/adapter.ts";
import type { ExternalObject } from "../../../src/sync/destinations/destination-type.ts";
import { type CloudBDouble, startCloudB } from "./server.ts";

// The vendor's own clients accept the double's answers and errors, and read what our adapter wrote: so neither the
// double nor the adapter is only our own misreading of the protocol.

const vaultUri = "https://double.vault.azure.net";
let now = Date.now();
let double: CloudBDouble;
let client: SecretClient;

beforeAll(async () => {
  double = await startCloudB({ now: () => now, account: { vaultUri } });
  client = clientWith(double.account.client_secret);
});
afterAll(() => double.close());
beforeEach(() => double.reset());

type Options = NonNullable<ConstructorParameters<typeof SecretClient>[2]>;

/** Sends what is meant for the vendor's hosts to the double: the clients insist on https and on those hosts. */
const reroute: NonNullable<Options["additionalPolicies"]>[number] = {
  position: "perRetry",
  policy: {
    name: "reroute",
    async sendRequest(request, next) {
      const { url } = request;
      const asked = new URL(url);
      const at = asked.origin === vaultUri ? double.account.key_vault_uri : double.url;
      request.headers.set("x-original-host", asked.host);
      Object.assign(request, { url: at + asked.pathname + asked.search, allowInsecureConnection: true });
      const response = await next(request);
      Object.assign(request, { url, allowInsecureConnection: false });
      return response;
    },
  },
};

const clientWith = (clientSecret: string) => {
  const { tenant_id: tenantId, client_id: clientId } = double.account;
  const options = { additionalPolicies: [reroute], retryOptions: { maxRetries: 0 } };
  return new SecretClient(vaultUri, new ClientSecretCredential(tenantId, clientId, clientSecret, options), options);
};

const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
};

describe("the vendor's client with the double", () => {
  it("creates, updates, reads and deletes a secret", async () => {
    const set = await client.setSecret("app-db", "one", { tags: { a: "1" }, contentType: "text/plain" });
    expect(set).toMatchObject({ name: "app-db", value: "one", properties: { tags: { a: "1" }, enabled: true } });
    expect(set.properties.version).toMatch(/^[\da-f]{32}$/);
    await client.setSecret("App-DB", "two");
    expect(await client.getSecret("app-db")).toMatchObject({ value: "two", properties: { recoverableDays: 90 } });
    expect(await client.getSecret("app-db", { version: set.properties.version ?? "" })).toMatchObject({ value: "one" });
    await client.updateSecretProperties("app-db", set.properties.version ?? "", { tags: { b: "2" }, enabled: false });
    const [updated] = (await collect(client.listPropertiesOfSecretVersions("app-db"))).filter(({ tags }) => tags);
    expect(updated).toMatchObject({ tags: { b: "2" }, enabled: false, version: set.properties.version });
    expect((await collect(client.listPropertiesOfSecrets())).map(({ name }) => name)).toEqual(["app-db"]);
  });

  it("deletes, recovers and purges, and waits for each", async () => {
    await client.setSecret("s", "v");
    const deletion = await client.beginDeleteSecret("s", { intervalInMs: 1 });
    expect(await deletion.pollUntilDone()).toMatchObject({ name: "s", recoveryId: `${vaultUri}/deletedsecrets/s` });
    expect((await collect(client.listDeletedSecrets())).map(({ name }) => name)).toEqual(["s"]);
    const recovery = await client.beginRecoverDeletedSecret("s", { intervalInMs: 1 });
    await recovery.pollUntilDone();
    expect(await client.getSecret("s")).toMatchObject({ value: "v" });
    await (await client.beginDeleteSecret("s", { intervalInMs: 1 })).pollUntilDone();
    await client.purgeDeletedSecret("s");
    expect(double.secrets()).toEqual([]);
  });

  it("follows the pages of versions, which are not sorted by time", async () => {
    for (let n = 0; n < 7; n++) await client.setSecret("s", `v${n}`);
    const sizes: number[] = [];
    const ids: (string | undefined)[] = [];
    for await (const page of client.listPropertiesOfSecretVersions("s").byPage({ maxPageSize: 3 })) {
      sizes.push(page.length);
      ids.push(...page.map(({ version }) => version));
    }
    expect(sizes).toEqual([3, 3, 1]);
    expect(ids).toEqual(ids.toSorted());
    expect(await collect(client.listPropertiesOfSecretVersions("nobody"))).toEqual([]);
  });

  it("recognises errors", async () => {
    const refused = (statusCode: number, code: string) => expect.objectContaining({ statusCode, code });
    await expect(client.getSecret("s")).rejects.toEqual(refused(404, "SecretNotFound"));
    await client.setSecret("s", "v");
    await (await client.beginDeleteSecret("s", { intervalInMs: 1 })).pollUntilDone();
    await expect(client.setSecret("s", "w")).rejects.toEqual(refused(409, "Conflict"));
    await expect(client.setSecret("t", "x".repeat(25_601))).rejects.toEqual(refused(400, "BadParameter"));
    await expect(clientWith("wrong").getSecret("s")).rejects.toMatchObject({ name: "AuthenticationRequiredError" });
    double.fault({ fault: "error", type: "Throttled", status: 429, service: "vault" });
    await expect(client.getSecret("s")).rejects.toEqual(refused(429, "Throttled"));
  });
});

describe("our adapter and the vendor's client", () => {
  const object = (changed: Partial<ExternalObject>): ExternalObject => ({
    name: "app-db",
    value: "",
    tags: { "hashicorp:vault": "" },
    reference: null,
    knownToExist: false,
    idempotencyToken: "i",
    previousTagKeys: [],
    contentType: "application/json",
    updatePolicy: "replace",
    ...changed,
  });
  const connection = () => ({ ...double.account, cloud: "AzurePublicCloud" });
  const context = () => ({
    settings: { CLOUD_B_LOGIN_URL: double.url, SYNC_ALLOWED_HOSTS: "127.0.0.1" },
    send: sender({ deadlineMs: 5000 }),
  });

  it("read each other's secrets", async () => {
    const value = '{"password":"é😀\\n"}';
    const put = await cloudBKv.put(object({ value }), connection(), context());
    const read = await client.getSecret("app-db");
    expect(read).toMatchObject({
      value,
      properties: { tags: { "hashicorp:vault": "" }, contentType: "application/json", enabled: true },
    });
    const reference = read.properties.version ?? "";
    expect(put).toEqual({ outcome: "ok", reference });

    const inspect = () => cloudBKv.inspect({ name: "app-db", reference }, connection(), context());
    expect(await inspect()).toEqual({ outcome: "ok", state: "unchanged", owned: true });
    now += 1000;
    await client.setSecret("app-db", "theirs");
    expect(await inspect()).toEqual({ outcome: "ok", state: "changed", owned: false });
    expect(await cloudBKv.remove({ name: "app-db", reference, ownedOnly: false }, connection(), context())).toEqual({
      outcome: "ok",
    });
    await expect(client.getSecret("app-db")).rejects.toMatchObject({ code: "SecretNotFound" });
  });
});
