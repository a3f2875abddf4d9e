import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { cloudAPs } from "../../src/sync/destinations/cloud-a-ps/adapter.ts";
import type { ParameterConnection } from "../../src/sync/destinations/cloud-a-ps/connection.ts";
import type { ExternalObject } from "../../src/sync/destinations/destination-type.ts";
import { type ParameterAccount, type ParameterDouble, startParameterStore } from "../doubles/cloud-a-ps/server.ts";
import { marker, objectOf } from "./cloud-a-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

const name = "/app/db";
let double: ParameterDouble;
let account: ParameterAccount;

beforeAll(async () => {
  double = await startParameterStore();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const context = () => ({
  settings: { CLOUD_A_PS_URL: double.url, CLOUD_A_STS_URL: double.url },
  send: sender({ deadlineMs: 5000 }),
});
const connection = (changed: Partial<ParameterConnection> = {}): ParameterConnection => ({
  access_key_id: account.key.accessKeyId,
  secret_access_key: account.key.secretAccessKey,
  region: "eu-west-1",
  ...changed,
});
const put = (changed: Partial<ExternalObject> = {}, more: Partial<ParameterConnection> = {}) =>
  cloudAPs.put(objectOf({ name, ...changed }), connection(more), context());
const known = { knownToExist: true, previousTagKeys: ["hashicorp:vault"] };
const tags = () => Object.fromEntries(account.parameters.get(name)?.tags ?? []);

describe("put", () => {
  it("creates a SecureString with its tags in one call, and returns its version", async () => {
    expect(await put({ tags: { ...marker, team: "a" } })).toEqual({ outcome: "ok", reference: "1" });
    expect(account.parameters.get(name)).toMatchObject({ type: "SecureString", tier: "Standard", version: 1 });
    expect(tags()).toEqual({ ...marker, team: "a" });
    expect(account.writes).toBe(1);
  });

  it("changes tags of its own only, and none when the last push wrote them", async () => {
    await put({ tags: { ...marker, old: "1" } });
    account.call("AddTagsToResource", {
      ResourceType: "Parameter",
      ResourceId: name,
      Tags: [{ Key: "foreign", Value: "" }],
    });
    const second = { ...known, previousTagKeys: ["hashicorp:vault", "old"], tags: { ...marker, team: "a" } };
    expect(await put(second)).toEqual({ outcome: "ok", reference: "2" });
    expect(tags()).toEqual({ ...marker, team: "a", foreign: "" });
    const before = account.writes;
    expect(await put({ ...second, tagsWritten: true })).toEqual({ outcome: "ok", reference: "3" });
    expect(account.writes).toBe(before + 1);
  });

  it("tags a parameter that was deleted since the last push", async () => {
    await put();
    account.call("DeleteParameter", { Name: name });
    expect(await put({ ...known, tagsWritten: true })).toEqual({ outcome: "ok", reference: "1" });
    expect(tags()).toEqual(marker);
  });

  it("encrypts with the connection's key", async () => {
    await put({}, { kms_key_id: "alias/app" });
    expect(account.parameters.get(name)).toMatchObject({ keyId: "alias/app" });
  });

  it.each([
    ["replace", { knownToExist: true }],
    ["owned-only", {}],
  ] as const)("refuses a parameter of another type by %s", async (updatePolicy, changed) => {
    account.call("PutParameter", { Name: name, Value: "v", Type: "String" });
    account.parameters.get(name)?.tags.set("hashicorp:vault", "");
    expect(await put({ updatePolicy, ...changed })).toMatchObject({ outcome: "client", code: "wrong_type" });
    expect(account.parameters.get(name)).toMatchObject({ value: "v" });
  });

  it("refuses a value of the advanced tier in the standard one, by setting and by the provider", async () => {
    const value = "v".repeat(4097);
    expect(await put({ value }, { tier: "Standard" })).toMatchObject({ outcome: "client", code: "value_too_large" });
    expect(account.writes).toBe(0);
    expect(await put({ value })).toMatchObject({ outcome: "client", code: "value_too_large" });
    expect(await put({ value }, { tier: "Advanced" })).toMatchObject({ outcome: "ok" });
  });

  it("reports a full region", async () => {
    account.maxParameters = 0;
    expect(await put()).toMatchObject({ outcome: "client", code: "quota_exceeded" });
  });

  it.each(["/aws/db", "SSM-db", "awsome", "/a//b", "a/b", "/a/", `/${"a/".repeat(15)}b`])(
    "refuses the name %s",
    async (given) => {
      expect(await put({ name: given })).toMatchObject({ outcome: "client", code: "name_invalid" });
      expect(account.writes).toBe(0);
    },
  );
});

describe("probe", () => {
  it("proves the right to change with a parameter that cannot exist", async () => {
    account.denied.add("GetParameter");
    expect(await cloudAPs.probe(connection(), context())).toEqual({ outcome: "ok" });
    account.denied.add("RemoveTagsFromResource");
    expect(await cloudAPs.probe(connection(), context())).toMatchObject({ code: "permission_denied" });
    expect(account.parameters.size).toBe(0);
  });
});

describe("the connection", () => {
  it.each([
    [{ tier: "Cheap" }, "tier"],
    [{ kms_key_id: "a b" }, "kms_key_id"],
    [{ access_key_id: "A" }, "secret_access_key"],
    [{ identity_token_audience: "aws" }, "role_arn"],
  ])("refuses %j", (given, field) => {
    const { error } = cloudAPs.connection.safeParse({ region: "eu-west-1", ...given });
    expect(error?.issues.map(({ path }) => path.join("."))).toEqual([field]);
  });
});
