import { v1 } from "@google-cloud/secret-manager";
import { JWT, OAuth2Client } from "google-auth-library";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { crc32c } from "../../../src/lib/crc32c.ts";
import { cloudCSm } from "../../../src/sync/destinations/cloud-c-sm/adapter.ts";
import { again, connectionOf, contextOf, wanted } from "./fixture.ts";
import { type CloudCDouble, startCloudC } from "./server.ts";

// The vendor's own clients are content with the double, so it is not merely our own misreading of the service.

const scope = "https://www.googleapis.com/auth/cloud-platform";
let double: CloudCDouble;
let client: v1.SecretManagerServiceClient;

/** The vendor's way to an access token. Its token endpoint is a constant, so requests to it are sent here on their way. */
function serviceAccount(): JWT {
  const { client_email: email, private_key: key, private_key_id: keyId } = double.credentials;
  const auth = new JWT({ email, key, keyId, scopes: [scope] });
  auth.transporter.interceptors.request.add({
    resolved: async (request) => {
      if (request.url.href === "https://oauth2.googleapis.com/token") request.url = new URL(double.tokenUrl);
      return request;
    },
  });
  return auth;
}

beforeAll(async () => {
  double = await startCloudC();
  const { hostname, port } = new URL(double.url);
  // Given the key itself, the client would sign its requests instead of asking for a token, which we do not do.
  const authClient = new OAuth2Client();
  authClient.setCredentials((await serviceAccount().refreshAccessToken()).credentials);
  client = new v1.SecretManagerServiceClient({
    projectId: double.projectId,
    fallback: true,
    protocol: "http",
    apiEndpoint: hostname,
    port: Number(port),
    authClient,
  });
});
afterAll(async () => {
  await client.close();
  await double.close();
});
beforeEach(() => double.reset());

const parent = () => `projects/${double.projectId}`;
const name = () => `${parent()}/secrets/app-db`;
const create = () =>
  client.createSecret({
    parent: parent(),
    secretId: "app-db",
    secret: { replication: { automatic: {} }, labels: { team: "payments" } },
  });
const add = (text: string) => {
  const data = Buffer.from(text);
  return client.addSecretVersion({ parent: name(), payload: { data, dataCrc32c: crc32c(data) } });
};

describe("the vendor's client with the double", () => {
  it("gets an access token with the assertion of its own library", async () => {
    const { credentials } = await serviceAccount().refreshAccessToken();
    expect(credentials.access_token).toMatch(/^ya29\./);
    expect(double.requests()).toMatchObject([{ operation: "Token", status: 200 }]);
  });

  it("creates a secret, adds versions, reads them back and destroys one", async () => {
    const [secret] = await create();
    expect(secret).toMatchObject({
      name: `projects/${double.projectNumber}/secrets/app-db`,
      labels: { team: "payments" },
    });
    const [first] = await add("one");
    expect(first).toMatchObject({ name: `${secret.name}/versions/1`, state: "ENABLED" });
    await add("two");
    const [latest] = await client.getSecretVersion({ name: `${name()}/versions/latest` });
    expect(latest).toMatchObject({ name: `${secret.name}/versions/2`, clientSpecifiedPayloadChecksum: true });
    const [access] = await client.accessSecretVersion({ name: `${name()}/versions/2` });
    expect(Buffer.from(access.payload?.data ?? "").toString()).toBe("two");
    const [destroyed] = await client.destroySecretVersion({ name: `${name()}/versions/1`, etag: first.etag ?? "" });
    expect(destroyed).toMatchObject({ state: "DESTROYED" });
    const [versions] = await client.listSecretVersions({ parent: name() });
    expect(versions.map(({ state }) => state)).toEqual(["ENABLED", "DESTROYED"]);
  });

  it("changes labels with an etag, lists and deletes", async () => {
    const [{ etag }] = await create();
    const update = {
      secret: { name: name(), labels: { n: "2" }, etag: etag ?? "" },
      updateMask: { paths: ["labels"] },
    };
    const [updated] = await client.updateSecret(update);
    expect(updated.labels).toEqual({ n: "2" });
    await expect(client.updateSecret(update)).rejects.toMatchObject({ code: 10 });
    const [secrets] = await client.listSecrets({ parent: parent() });
    expect(secrets.map((one) => one.labels)).toEqual([{ n: "2" }]);
    await client.deleteSecret({ name: name() });
    expect(double.secrets()).toEqual([]);
  });

  it("parses errors: code, reason and missing permission", async () => {
    await create();
    await expect(create()).rejects.toMatchObject({ code: 6 });
    await expect(client.getSecret({ name: `${parent()}/secrets/none` })).rejects.toMatchObject({ code: 5 });
    await expect(add("")).rejects.toMatchObject({ code: 3 });
    double.change({ deny: ["secretmanager.secrets.get"] });
    await expect(client.getSecret({ name: name() })).rejects.toMatchObject({
      code: 7,
      reason: "IAM_PERMISSION_DENIED",
      domain: "iam.googleapis.com",
      errorInfoMetadata: { permission: "secretmanager.secrets.get" },
    });
  });
});

describe("the vendor's client and our adapter", () => {
  it("read each other's secrets", async () => {
    const first = await cloudCSm.put(wanted({ value: "déjà" }), connectionOf(double), contextOf(double));
    const reference = first.outcome === "ok" ? first.reference : undefined;
    const [access] = await client.accessSecretVersion({ name: `${name()}/versions/latest` });
    expect(Buffer.from(access.payload?.data ?? "").toString()).toBe("déjà");
    await add("drifted");
    const inspected = await cloudCSm.inspect(
      wanted({ reference: reference ?? null }),
      connectionOf(double),
      contextOf(double),
    );
    expect(inspected).toEqual({ outcome: "ok", state: "changed", owned: true });
    await cloudCSm.put(again(reference), connectionOf(double), contextOf(double));
    const [latest] = await client.accessSecretVersion({ name: `${name()}/versions/latest` });
    expect(Buffer.from(latest.payload?.data ?? "").toString()).toBe("two");
  });

  it("send the same method, path and fields", async () => {
    const wire = () =>
      double
        .requests()
        .filter(({ operation }) => operation !== "Token")
        .map(({ method, target }) => `${method} ${target.replace(/[?&]\$alt=[^&]*/, "")}`);
    await create();
    await add("one");
    await client.deleteSecret({ name: name() });
    const theirs = wire();
    double.reset();
    await cloudCSm.put(wanted(), connectionOf(double), contextOf(double));
    await cloudCSm.remove(
      { name: "app-db", reference: null, ownedOnly: false },
      connectionOf(double),
      contextOf(double),
    );
    expect(wire()).toEqual(theirs);
  });
});
