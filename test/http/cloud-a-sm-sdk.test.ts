import {
  CreateSecretCommand,
  DeleteSecretCommand,
  DescribeSecretCommand,
  GetSecretValueCommand,
  ListSecretsCommand,
  PutSecretValueCommand,
  RestoreSecretCommand,
  SecretsManagerClient,
  TagResourceCommand,
  UntagResourceCommand,
  UpdateSecretCommand,
} from "@aws-sdk/client-secrets-manager";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { cloudASm } from "../../src/sync/destinations/cloud-a-sm.ts";
import { type CloudADouble, defaultKey, startCloudA } from "../doubles/cloud-a-sm.ts";
import { contextAt, keys, objectOf, region } from "./cloud-a-driver.ts";

// The vendor's own client accepts the double's answers and errors, and reads what our adapter wrote: so neither the
// double nor the adapter is only our own misreading of the protocol.

let double: CloudADouble;
let client: SecretsManagerClient;

beforeAll(async () => {
  double = await startCloudA();
  client = clientWith(defaultKey.secretAccessKey);
});
afterAll(async () => {
  client.destroy();
  await double.close();
});
beforeEach(() => double.reset());

const clientWith = (secretAccessKey: string) =>
  new SecretsManagerClient({
    region,
    endpoint: double.url,
    maxAttempts: 1,
    credentials: { accessKeyId: defaultKey.accessKeyId, secretAccessKey },
  });

describe("the vendor's client against the double", () => {
  it("goes through the life of a secret", async () => {
    const SecretId = "app/db";
    const created = await client.send(
      new CreateSecretCommand({ Name: SecretId, SecretString: "one", Tags: [{ Key: "a", Value: "1" }] }),
    );
    expect(created.ARN).toContain(":secret:app/db-");
    await client.send(new UpdateSecretCommand({ SecretId, SecretString: "two" }));
    const put = await client.send(new PutSecretValueCommand({ SecretId, SecretString: "three" }));
    expect(put.VersionStages).toEqual(["AWSCURRENT"]);
    await client.send(new TagResourceCommand({ SecretId, Tags: [{ Key: "b", Value: "2" }] }));
    await client.send(new UntagResourceCommand({ SecretId, TagKeys: ["a"] }));
    expect(await client.send(new DescribeSecretCommand({ SecretId }))).toMatchObject({
      Tags: [{ Key: "b", Value: "2" }],
    });
    expect(await client.send(new GetSecretValueCommand({ SecretId: created.ARN }))).toMatchObject({
      SecretString: "three",
    });
    const deleted = await client.send(new DeleteSecretCommand({ SecretId }));
    expect(deleted.DeletionDate).toBeInstanceOf(Date);
    await client.send(new RestoreSecretCommand({ SecretId }));
    await client.send(new DeleteSecretCommand({ SecretId, ForceDeleteWithoutRecovery: true }));
    expect(double.secrets()).toEqual([]);
  });

  it("recognises the errors by name", async () => {
    const create = new CreateSecretCommand({ Name: "s", SecretString: "v" });
    await expect(client.send(new DescribeSecretCommand({ SecretId: "s" }))).rejects.toMatchObject({
      name: "ResourceNotFoundException",
    });
    await client.send(create);
    await expect(client.send(new CreateSecretCommand({ Name: "s", SecretString: "w" }))).rejects.toMatchObject({
      name: "ResourceExistsException",
    });
    await expect(clientWith("wrong").send(create)).rejects.toMatchObject({ name: "InvalidSignatureException" });
    await expect(client.send(new ListSecretsCommand({}))).rejects.toMatchObject({ name: "UnknownOperationException" });
    double.fault({ fault: "error", type: "ThrottlingException" });
    await expect(client.send(create)).rejects.toMatchObject({ name: "ThrottlingException" });
  });
});

describe("our adapter beside the vendor's client", () => {
  const put = (value: string, knownToExist: boolean) =>
    cloudASm.put(objectOf({ value, knownToExist }), keys, contextAt(double.url));

  it("the client reads what the adapter wrote, and the adapter takes over what the client wrote", async () => {
    const value = '{"password":"é😀\\n"}';
    const created = await put(value, false);
    const read = await client.send(new GetSecretValueCommand({ SecretId: "app/db" }));
    expect(read.SecretString).toBe(value);
    expect(created).toEqual({ outcome: "ok", reference: read.VersionId });
    await client.send(new UpdateSecretCommand({ SecretId: "app/db", SecretString: "theirs" }));
    expect(await put(value, true)).toMatchObject({ outcome: "ok" });
    expect(await client.send(new GetSecretValueCommand({ SecretId: "app/db" }))).toMatchObject({ SecretString: value });
    const obsolete = { name: "app/db", reference: null, ownedOnly: false };
    expect(await cloudASm.remove(obsolete, keys, contextAt(double.url))).toEqual({ outcome: "ok" });
    await expect(client.send(new GetSecretValueCommand({ SecretId: "app/db" }))).rejects.toMatchObject({
      name: "ResourceNotFoundException",
    });
  });
});
