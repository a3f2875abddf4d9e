import {
  AddTagsToResourceCommand,
  DeleteParameterCommand,
  DescribeParametersCommand,
  GetParameterCommand,
  ListTagsForResourceCommand,
  PutParameterCommand,
  RemoveTagsFromResourceCommand,
  SSMClient,
} from "@aws-sdk/client-ssm";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { cloudAPs } from "../../../src/sync/destinations/cloud-a-ps/adapter.ts";
import { MARKER_TAG } from "../../../src/sync/destinations/destination-type.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { type ParameterAccount, type ParameterDouble, startParameterStore } from "./server.ts";

// The vendor's own client signs calls that the double verifies, takes its answers and errors, and reads what the adapter
// has written: neither is only a misreading of the protocol of this repository.

let double: ParameterDouble;
let account: ParameterAccount;
let client: SSMClient;

beforeAll(async () => {
  double = await startParameterStore();
});
afterAll(() => double.close());
beforeEach(() => {
  client?.destroy();
  account = double.open();
  client = clientWith(account.key);
});

const clientWith = (credentials: ParameterAccount["key"]) =>
  new SSMClient({ region: "eu-west-1", endpoint: double.url, maxAttempts: 1, credentials });

describe("the vendor's client with the double", () => {
  const Name = "/app/db";

  it("creates, tags, updates, lists, reads and deletes a parameter", async () => {
    const Tags = [{ Key: "team", Value: "a" }];
    const created = await client.send(new PutParameterCommand({ Name, Value: "one", Type: "SecureString", Tags }));
    expect(created).toMatchObject({ Version: 1, Tier: "Standard" });
    const change = { Name, Value: "two", Type: "SecureString", Overwrite: true } as const;
    expect(await client.send(new PutParameterCommand(change))).toMatchObject({ Version: 2 });
    const of = { ResourceType: "Parameter", ResourceId: Name } as const;
    await client.send(new AddTagsToResourceCommand({ ...of, Tags: [{ Key: "empty", Value: "" }] }));
    await client.send(new RemoveTagsFromResourceCommand({ ...of, TagKeys: ["team"] }));
    const { TagList } = await client.send(new ListTagsForResourceCommand(of));
    expect(TagList).toEqual([{ Key: "empty", Value: "" }]);
    const { Parameter } = await client.send(new GetParameterCommand({ Name, WithDecryption: true }));
    expect(Parameter).toMatchObject({ Name, Value: "two", Version: 2, Type: "SecureString", DataType: "text" });
    expect(Parameter?.LastModifiedDate).toBeInstanceOf(Date);
    const hidden = await client.send(new GetParameterCommand({ Name }));
    expect(hidden.Parameter?.Value).not.toBe("two");
    await client.send(new PutParameterCommand({ Name: "other", Value: "x", Type: "String" }));
    const page = await client.send(new DescribeParametersCommand({ MaxResults: 1 }));
    expect([page.Parameters?.length, typeof page.NextToken]).toEqual([1, "string"]);
    await client.send(new DeleteParameterCommand({ Name }));
    await expect(client.send(new GetParameterCommand({ Name }))).rejects.toMatchObject({ name: "ParameterNotFound" });
  });

  it.each([
    ["ParameterAlreadyExists", { Name, Value: "x", Type: "SecureString" }],
    [
      "ValidationException",
      { Name, Value: "x", Type: "SecureString", Overwrite: true, Tags: [{ Key: "a", Value: "b" }] },
    ],
    ["HierarchyTypeMismatchException", { Name, Value: "x", Type: "String", Overwrite: true }],
    ["ValidationException", { Name: "/aws/x", Value: "x", Type: "String" }],
  ] as const)("is refused with %s", async (name, input) => {
    await client.send(new PutParameterCommand({ Name, Value: "one", Type: "SecureString" }));
    const refusal = client.send(new PutParameterCommand(input as ConstructorParameters<typeof PutParameterCommand>[0]));
    await expect(refusal).rejects.toMatchObject({ name, $metadata: { httpStatusCode: 400 } });
  });

  it("is refused with another key, or without the right", async () => {
    const wrong = clientWith({ ...account.key, secretAccessKey: "wrong" });
    await expect(wrong.send(new GetParameterCommand({ Name }))).rejects.toMatchObject({
      name: "InvalidSignatureException",
    });
    wrong.destroy();
    account.denied.add("GetParameter");
    await expect(client.send(new GetParameterCommand({ Name }))).rejects.toMatchObject({
      name: "AccessDeniedException",
    });
    account.fail("throttled", 1);
    const put = new PutParameterCommand({ Name, Value: "x", Type: "String" });
    await expect(client.send(put)).rejects.toMatchObject({ name: "ThrottlingException" });
  });
});

it("reads with the vendor's client what the adapter has pushed", async () => {
  const at = driverOf(
    cloudAPs,
    () => double,
    () => ({
      access_key_id: account.key.accessKeyId,
      secret_access_key: account.key.secretAccessKey,
      region: "eu-west-1",
    }),
    () => ({ CLOUD_A_PS_URL: double.url, CLOUD_A_STS_URL: double.url }),
  );
  expect(await at.put({ tags: { [MARKER_TAG]: "", team: "a" } })).toMatchObject({ outcome: "ok" });
  const { Parameter } = await client.send(new GetParameterCommand({ Name: at.name, WithDecryption: true }));
  expect(Parameter).toMatchObject({ Value: "hunter2-hunter2", Type: "SecureString" });
  const of = { ResourceType: "Parameter", ResourceId: at.name } as const;
  const { TagList = [] } = await client.send(new ListTagsForResourceCommand(of));
  expect(TagList.map(({ Key }) => Key).sort()).toEqual([MARKER_TAG, "team"].sort());
  expect(await at.remove()).toEqual({ outcome: "ok" });
  await expect(client.send(new GetParameterCommand({ Name: at.name }))).rejects.toMatchObject({
    name: "ParameterNotFound",
  });
});
