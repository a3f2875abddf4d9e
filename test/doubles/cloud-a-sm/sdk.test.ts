import {
  CreateSecretCommand,
  DeleteSecretCommand,
  DescribeSecretCommand,
  GetResourcePolicyCommand,
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
import { cloudASm } from "../../../src/sync/destinations/cloud-a-sm/adapter.ts";
import type { CallContext } from "../../../src/sync/destinations/destination-type.ts";
import { contextAt, keys, objectOf, region } from "../../http/cloud-a-driver.ts";
import { type CloudADouble, defaultKey, startCloudA } from "./server.ts";

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

describe("the vendor's client with the double", () => {
  it("creates, updates, reads and deletes a secret", async () => {
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

  it("recognises errors by name", async () => {
    const create = new CreateSecretCommand({ Name: "s", SecretString: "v" });
    await expect(client.send(new DescribeSecretCommand({ SecretId: "s" }))).rejects.toMatchObject({
      name: "ResourceNotFoundException",
    });
    await client.send(create);
    await expect(client.send(new CreateSecretCommand({ Name: "s", SecretString: "w" }))).rejects.toMatchObject({
      name: "ResourceExistsException",
    });
    await expect(clientWith("wrong").send(create)).rejects.toMatchObject({ name: "InvalidSignatureException" });
    expect((await client.send(new ListSecretsCommand({ MaxResults: 1 }))).SecretList).toMatchObject([{ Name: "s" }]);
    const policy = new GetResourcePolicyCommand({ SecretId: "s" });
    await expect(client.send(policy)).rejects.toMatchObject({ name: "UnknownOperationException" });
    double.fault({ fault: "error", type: "ThrottlingException" });
    await expect(client.send(create)).rejects.toMatchObject({ name: "ThrottlingException" });
  });
});

describe("our adapter and the vendor's client", () => {
  const put = (value: string, knownToExist: boolean) =>
    cloudASm.put(objectOf({ value, knownToExist }), keys, contextAt(double.url));

  it("read and update each other's secrets", async () => {
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

describe("our requests and those of the vendor's client", () => {
  const asRole = { ...keys, role_arn: "arn:aws:iam::123456789012:role/sync", external_id: "ext-1" };
  const commands: Record<string, (input: never) => object> = {
    CreateSecret: (input) => new CreateSecretCommand(input),
    UpdateSecret: (input) => new UpdateSecretCommand(input),
    DescribeSecret: (input) => new DescribeSecretCommand(input),
    TagResource: (input) => new TagResourceCommand(input),
    UntagResource: (input) => new UntagResourceCommand(input),
    RestoreSecret: (input) => new RestoreSecretCommand(input),
    DeleteSecret: (input) => new DeleteSecretCommand(input),
  };

  interface Sent {
    method: string;
    path: string;
    contentType: string | null;
    target: string | null;
    body: unknown;
  }

  /** Everything the adapter sends while it does `work`, answered by the double. */
  async function ours(work: (context: CallContext) => Promise<unknown>): Promise<Sent[]> {
    const sent: Sent[] = [];
    const context = contextAt(double.url);
    const send: CallContext["send"] = (request) => {
      const [url, init] = request;
      const headers = new Headers(init.headers);
      const [contentType, target] = [headers.get("content-type"), headers.get("x-amz-target")];
      const body = target === null ? String(init.body) : JSON.parse(String(init.body));
      sent.push({ method: String(init.method), path: new URL(url).pathname, contentType, target, body });
      return context.send(request);
    };
    await work({ ...context, send });
    return sent;
  }

  /** The request of the vendor's client for the same parameters. */
  async function theirs({ target, body }: Sent): Promise<Sent> {
    const captured = Promise.withResolvers<Sent>();
    const recording = clientWith(defaultKey.secretAccessKey);
    recording.middlewareStack.add(
      (next) => async (given) => {
        const request = given.request as {
          method: string;
          path: string;
          headers: Record<string, string>;
          body: string;
        };
        const headers = new Headers(request.headers);
        captured.resolve({
          method: request.method,
          path: request.path,
          contentType: headers.get("content-type"),
          target: headers.get("x-amz-target"),
          body: JSON.parse(request.body),
        });
        return next(given);
      },
      { step: "finalizeRequest", name: "recording" },
    );
    const command = commands[target?.replace("secretsmanager.", "") ?? ""]?.(body as never);
    // Its answer is ignored.
    await recording.send(command as DescribeSecretCommand).catch(() => {});
    recording.destroy();
    return captured.promise;
  }

  it("are equal in method, path, content type, target and parameters for every operation", async () => {
    const sent = await ours(async (context) => {
      await cloudASm.put(objectOf({ tags: { "hashicorp:vault": "", a: "1" } }), keys, context);
      double.call("DeleteSecret", { SecretId: "app/db" });
      await cloudASm.put(objectOf({ knownToExist: true, previousTagKeys: ["a"] }), keys, context);
      await cloudASm.inspect({ name: "app/db", reference: null }, keys, context);
      await cloudASm.remove({ name: "app/db", reference: null, ownedOnly: false }, keys, context);
    });
    const operations = new Set(sent.map(({ target }) => target?.replace("secretsmanager.", "")));
    expect([...operations].sort()).toEqual(Object.keys(commands).sort());
    for (const one of sent) expect(one).toEqual(await theirs(one));
  });

  it("are equal in their form bodies to STS", async () => {
    const [assume] = await ours((context) => cloudASm.inspect({ name: "s", reference: null }, asRole, context));
    const [identify] = await ours((context) => cloudASm.probe(keys, context));
    const form = { method: "POST", path: "/", contentType: "application/x-www-form-urlencoded", target: null };
    const role = "RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fsync";
    expect(assume).toEqual({
      ...form,
      body: `Action=AssumeRole&Version=2011-06-15&${role}&RoleSessionName=sallyport&DurationSeconds=3600&ExternalId=ext-1`,
    });
    expect(identify).toEqual({ ...form, body: "Action=GetCallerIdentity&Version=2011-06-15" });
  });
});
