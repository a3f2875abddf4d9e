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

// The vendor's own client accepts the double's answers and errors, and reads what our adapter wrote: so neither the
// double nor the adapter is only our own misreading of the protocol.

const region = "eu-west-1";
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
  const connection = { access_key_id: defaultKey.accessKeyId, secret_access_key: defaultKey.secretAccessKey, region };
  const context = () => ({ settings: { CLOUD_A_SM_URL: double.url }, deadlineMs: 5000 });
  const object = { name: "app/db", tags: { "hashicorp:vault": "" }, idempotencyToken: "i", previousTagKeys: [] };

  it("the client reads what the adapter wrote, and the adapter takes over what the client wrote", async () => {
    const value = '{"password":"é😀\\n"}';
    expect(await cloudASm.put({ ...object, value, knownToExist: false }, connection, context())).toEqual({
      outcome: "ok",
    });
    expect(await client.send(new GetSecretValueCommand({ SecretId: "app/db" }))).toMatchObject({ SecretString: value });
    await client.send(new UpdateSecretCommand({ SecretId: "app/db", SecretString: "theirs" }));
    expect(await cloudASm.put({ ...object, value, knownToExist: true }, connection, context())).toEqual({
      outcome: "ok",
    });
    expect(await client.send(new GetSecretValueCommand({ SecretId: "app/db" }))).toMatchObject({ SecretString: value });
    expect(await cloudASm.remove({ name: "app/db" }, connection, context())).toEqual({ outcome: "ok" });
    await expect(client.send(new GetSecretValueCommand({ SecretId: "app/db" }))).rejects.toMatchObject({
      name: "ResourceNotFoundException",
    });
  });
});
