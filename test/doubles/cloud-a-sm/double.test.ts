import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { rawClient, type Sending, stamp } from "./raw-client.ts";
import { type CloudADouble, defaultKey, startCloudA } from "./server.ts";

// The double's promises, driven by a signer that it does not use itself. Each test fails if the double were kinder.

const token = (letter: string) => letter.repeat(32);
let now = Date.now();
let double: CloudADouble;
let send: ReturnType<typeof rawClient>["send"];
let call: ReturnType<typeof rawClient>["call"];

beforeAll(async () => {
  double = await startCloudA({
    now: () => now,
    maxVersions: 3,
    nameHeldMs: 5000,
  });
  ({ send, call } = rawClient(double, () => now));
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  double.reset();
});

const refused = (type: string, message = "") => ({ error: type, message: expect.stringContaining(message) });
const create = (Name: string, SecretString = "v", ClientRequestToken = token("a")) =>
  call("CreateSecret", { Name, SecretString, ClientRequestToken });

describe("signatures", () => {
  it("accepts the right secret and refuses a wrong one", async () => {
    expect(await create("s")).toMatchObject({ Name: "s", VersionId: token("a") });
    const wrong = { ...defaultKey, secretAccessKey: "wrong" };
    expect(await call("DescribeSecret", { SecretId: "s" }, { key: wrong })).toEqual(
      refused("InvalidSignatureException"),
    );
    expect(await call("DescribeSecret", { SecretId: "s" }, { key: { ...wrong, accessKeyId: "AKIANOBODY" } })).toEqual(
      refused("UnrecognizedClientException"),
    );
  });

  it.each<[string, Sending, string, string]>([
    ["a body changed on the way", { sent: '{"SecretId":"t"}' }, "InvalidSignatureException", "does not match"],
    ["another service's scope", { service: "sts" }, "InvalidSignatureException", "correct service"],
    ["another region's scope", { region: "us-east-1" }, "InvalidSignatureException", "valid region"],
    ["a clock six minutes slow", { datetime: stamp(Date.now() - 360_000) }, "InvalidSignatureException", "5 minutes"],
    ["a clock six minutes fast", { datetime: stamp(Date.now() + 360_000) }, "InvalidSignatureException", "5 minutes"],
    ["an invalid date", { datetime: "20261321T000000Z" }, "IncompleteSignatureException", ""],
    ["an unsigned x-amz header", { unsigned: { "x-amz-extra": "1" } }, "InvalidSignatureException", "x-amz-extra"],
    [
      "a content hash that is not the body's",
      { headers: { "x-amz-content-sha256": "0".repeat(64) } },
      "InvalidSignatureException",
      "hash of the body",
    ],
    [
      "a session token on a plain key",
      { key: { ...defaultKey, sessionToken: "t" } },
      "UnrecognizedClientException",
      "",
    ],
    [
      "a malformed authorization",
      { unsigned: { authorization: "AWS4-HMAC-SHA256" } },
      "IncompleteSignatureException",
      "",
    ],
  ])("refuses %s", async (_what, options, type, message) => {
    await create("s");
    expect(await call("DescribeSecret", { SecretId: "s" }, options)).toEqual(refused(type, message));
  });

  it("refuses a request without a signature", async () => {
    const headers = { "content-type": "application/x-amz-json-1.1", "x-amz-target": "secretsmanager.DescribeSecret" };
    const response = await fetch(double.url, { method: "POST", headers, body: '{"SecretId":"s"}' });
    expect(await response.json()).toMatchObject({ __type: "MissingAuthenticationTokenException" });
  });
});

describe("envelope", () => {
  it.each<[string, string, Sending]>([
    [
      "a content type with charset",
      "application/x-amz-json-1.1; charset=utf-8",
      { target: "secretsmanager.ListSecrets" },
    ],
    ["plain JSON", "application/json", { target: "secretsmanager.DescribeSecret" }],
    ["an unknown operation", "application/x-amz-json-1.1", { target: "secretsmanager.Constructor" }],
    ["a foreign target", "application/x-amz-json-1.1", { target: "DescribeSecret" }],
    ["another path", "application/x-amz-json-1.1", { target: "secretsmanager.DescribeSecret", path: "/x" }],
    ["another method", "application/x-amz-json-1.1", { target: "secretsmanager.DescribeSecret", method: "PUT" }],
  ])("refuses %s", async (_what, contentType, options) => {
    const { status, text } = await send('{"SecretId":"s"}', contentType, options);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(text).toContain("UnknownOperationException");
  });

  it("refuses bodies that are not a JSON object", async () => {
    expect(await call("DescribeSecret", "{")).toEqual(refused("SerializationException"));
    expect(await call("DescribeSecret", "[]")).toEqual(refused("SerializationException"));
  });
});

describe("parameters", () => {
  const valid = { Name: "s", SecretString: "v", ClientRequestToken: token("a") };
  it.each<[string, string, Record<string, unknown>, string]>([
    ["an unknown parameter", "CreateSecret", { ...valid, Colour: "red" }, "ValidationException"],
    ["one of another operation", "UpdateSecret", { SecretId: "s", Name: "s" }, "ValidationException"],
    ["a missing name", "CreateSecret", { SecretString: "v", ClientRequestToken: token("a") }, "ValidationException"],
    ["a name with a space", "CreateSecret", { ...valid, Name: "a b" }, "ValidationException"],
    ["a name of 513 characters", "CreateSecret", { ...valid, Name: "n".repeat(513) }, "ValidationException"],
    ["an empty value", "CreateSecret", { ...valid, SecretString: "" }, "ValidationException"],
    [
      "65 537 bytes in fewer characters",
      "CreateSecret",
      { ...valid, SecretString: `${"é".repeat(32_768)}x` },
      "ValidationException",
    ],
    ["a value that is a number", "CreateSecret", { ...valid, SecretString: 1 }, "ValidationException"],
    ["a create without token", "CreateSecret", { Name: "s", SecretString: "v" }, "InvalidParameterException"],
    ["an update without token", "UpdateSecret", { SecretId: "s", SecretString: "v" }, "InvalidParameterException"],
    [
      "a token of 31 characters",
      "CreateSecret",
      { ...valid, ClientRequestToken: "t".repeat(31) },
      "ValidationException",
    ],
    [
      "a token of 65 characters",
      "CreateSecret",
      { ...valid, ClientRequestToken: "t".repeat(65) },
      "ValidationException",
    ],
    ["a recovery window of 6 days", "DeleteSecret", { SecretId: "s", RecoveryWindowInDays: 6 }, "ValidationException"],
    ["51 tags", "CreateSecret", { ...valid, Tags: tagsOf(51) }, "InvalidParameterException"],
    [
      "a tag key of 129",
      "CreateSecret",
      { ...valid, Tags: [{ Key: "k".repeat(129), Value: "" }] },
      "ValidationException",
    ],
    [
      "a tag value of 257",
      "CreateSecret",
      { ...valid, Tags: [{ Key: "k", Value: "v".repeat(257) }] },
      "ValidationException",
    ],
    ["a reserved tag", "CreateSecret", { ...valid, Tags: [{ Key: "aws:x", Value: "" }] }, "ValidationException"],
    ["a tag without value", "CreateSecret", { ...valid, Tags: [{ Key: "k" }] }, "ValidationException"],
    ["a tag twice", "CreateSecret", { ...valid, Tags: [...tagsOf(1), ...tagsOf(1)] }, "ValidationException"],
    [
      "a tag with a forbidden character",
      "CreateSecret",
      { ...valid, Tags: [{ Key: "k;", Value: "" }] },
      "ValidationException",
    ],
  ])("refuses %s", async (_what, operation, parameters, type) => {
    expect(await call(operation, parameters)).toEqual(refused(type));
    expect(double.secrets()).toEqual([]);
  });

  it("accepts values at every limit", async () => {
    const limits = {
      Name: `${"n".repeat(506)}/_+=.@`,
      SecretString: "é".repeat(32_768),
      ClientRequestToken: "t".repeat(64),
    };
    expect(await call("CreateSecret", { ...limits, Tags: tagsOf(50) })).toMatchObject({ VersionId: "t".repeat(64) });
  });

  it("quotes a refused value as the real service does, so that clients must not repeat it", async () => {
    expect(await call("CreateSecret", { ...valid, SecretString: 12345 })).toMatchObject({
      message: expect.stringContaining("12345"),
    });
  });

  function tagsOf(count: number) {
    return Array.from({ length: count }, (_, index) => ({ Key: `k${index}`, Value: "v" }));
  }
});

describe("versions and idempotency", () => {
  it("create: the same token and content has no effect, otherwise the secret exists already", async () => {
    const first = await create("s");
    expect(await create("s")).toEqual(first);
    expect(await create("s", "other")).toEqual(refused("ResourceExistsException"));
    expect(await create("s", "v", token("b"))).toEqual(refused("ResourceExistsException"));
  });

  it("a repeated create succeeds without an effect although a later version is current", async () => {
    await create("s", "one");
    await call("UpdateSecret", { SecretId: "s", SecretString: "two", ClientRequestToken: token("b") });
    expect(await create("s", "one")).toMatchObject({ VersionId: token("a") });
    expect(await call("GetSecretValue", { SecretId: "s" })).toMatchObject({ SecretString: "two" });
  });

  it("update: refuses a token that is a version's id, also with the same content", async () => {
    await create("s");
    const again = { SecretId: "s", SecretString: "v", ClientRequestToken: token("a") };
    expect(await call("UpdateSecret", again)).toEqual(refused("ResourceExistsException"));
  });

  it("put value: the same token and content has no effect, other content is refused", async () => {
    await create("s");
    const put = (SecretString: string) =>
      call("PutSecretValue", { SecretId: "s", SecretString, ClientRequestToken: token("b") });
    expect(await put("w")).toMatchObject({ VersionStages: ["AWSCURRENT"] });
    expect(await put("w")).toMatchObject({ VersionId: token("b") });
    expect(await put("x")).toEqual(refused("ResourceExistsException"));
  });

  it("moves the staging labels, and refuses too many versions", async () => {
    await create("s", "1");
    for (const [value, letter] of [
      ["2", "b"],
      ["3", "c"],
    ] as const) {
      await call("UpdateSecret", { SecretId: "s", SecretString: value, ClientRequestToken: token(letter) });
    }
    const { VersionIdsToStages } = await call("DescribeSecret", { SecretId: "s" });
    expect(VersionIdsToStages).toEqual({ [token("b")]: ["AWSPREVIOUS"], [token("c")]: ["AWSCURRENT"] });
    expect(await call("GetSecretValue", { SecretId: "s", VersionId: token("a") })).toMatchObject({ SecretString: "1" });
    const fourth = { SecretId: "s", SecretString: "4", ClientRequestToken: token("d") };
    expect(await call("UpdateSecret", fourth)).toEqual(refused("LimitExceededException"));
  });
});

describe("deletion", () => {
  it("a scheduled deletion blocks every use and the name until the secret is restored", async () => {
    await create("s");
    expect(await call("DeleteSecret", { SecretId: "s" })).toMatchObject({ DeletionDate: expect.any(Number) });
    const update = { SecretId: "s", SecretString: "w", ClientRequestToken: token("b") };
    for (const [operation, parameters] of [
      ["UpdateSecret", update],
      ["PutSecretValue", update],
      ["GetSecretValue", { SecretId: "s" }],
      ["TagResource", { SecretId: "s", Tags: [] }],
      ["UntagResource", { SecretId: "s", TagKeys: [] }],
      ["DeleteSecret", { SecretId: "s" }],
    ] as const) {
      expect(await call(operation, parameters)).toEqual(refused("InvalidRequestException", "marked for deletion"));
    }
    expect(await create("s")).toEqual(refused("InvalidRequestException", "scheduled for deletion"));
    expect(await call("RestoreSecret", { SecretId: "s" })).toMatchObject({ Name: "s" });
    expect(await call("RestoreSecret", { SecretId: "s" })).toEqual(refused("InvalidRequestException"));
    expect(await call("UpdateSecret", update)).toMatchObject({ VersionId: token("b") });
  });

  it("a forced deletion is immediate, also for absent or scheduled secrets, and blocks the name for a while", async () => {
    const force = { SecretId: "s", ForceDeleteWithoutRecovery: true };
    expect(await call("DeleteSecret", force)).toMatchObject({ Name: "s" });
    await create("s");
    await call("DeleteSecret", { SecretId: "s", RecoveryWindowInDays: 7 });
    await call("DeleteSecret", force);
    expect(double.secrets()).toEqual([]);
    expect(await create("s")).toEqual(refused("InvalidRequestException", "scheduled for deletion"));
    expect(await call("RestoreSecret", { SecretId: "s" })).toEqual(refused("ResourceNotFoundException"));
    now += 5001;
    expect(await create("s")).toMatchObject({ Name: "s" });
  });

  it("refuses a recovery window with force, and scheduling, updating or tagging an absent secret", async () => {
    const both = { SecretId: "s", ForceDeleteWithoutRecovery: true, RecoveryWindowInDays: 7 };
    expect(await call("DeleteSecret", both)).toEqual(refused("InvalidParameterException"));
    for (const operation of ["DeleteSecret", "DescribeSecret", "GetSecretValue", "RestoreSecret"]) {
      expect(await call(operation, { SecretId: "s" })).toEqual(refused("ResourceNotFoundException"));
    }
  });
});

describe("describing", () => {
  it("omits empty fields, and works while a secret is scheduled for deletion", async () => {
    await call("CreateSecret", { Name: "s" });
    expect(Object.keys(await call("DescribeSecret", { SecretId: "s" }))).toEqual(["ARN", "Name"]);
    await call("DeleteSecret", { SecretId: "s" });
    expect(await call("DescribeSecret", { SecretId: "s" })).toMatchObject({ DeletedDate: expect.any(Number) });
  });
});

describe("tags", () => {
  it("adds, replaces and removes single tags, answers without a body, and enforces the limit over calls", async () => {
    await create("s");
    const tag = (Tags: unknown) =>
      send(JSON.stringify({ SecretId: "s", Tags }), "application/x-amz-json-1.1", {
        target: "secretsmanager.TagResource",
      });
    expect(
      await tag([
        { Key: "a", Value: "1" },
        { Key: "b", Value: "2" },
      ]),
    ).toEqual({ status: 200, text: "" });
    await tag([{ Key: "a", Value: "3" }]);
    await call("UntagResource", { SecretId: "s", TagKeys: ["b", "never"] });
    expect(double.secrets()[0]?.tags).toEqual({ a: "3" });
    const many = Array.from({ length: 50 }, (_, index) => ({ Key: `k${index}`, Value: "" }));
    expect((await tag(many)).text).toContain("InvalidParameterException");
    expect(double.secrets()[0]?.tags).toEqual({ a: "3" });
  });
});

describe("rates", () => {
  it("refuses calls above a group's rate, but never reads", async () => {
    now = Date.UTC(2030, 0, 1);
    const slow = await startCloudA({ now: () => now, writesPerSecond: 2 });
    const { call: at } = rawClient(slow, () => now);
    const put = (letter: string) =>
      at("PutSecretValue", { SecretId: "s", SecretString: "v", ClientRequestToken: token(letter) });
    expect(await at("CreateSecret", { Name: "s", ClientRequestToken: token("a") })).toMatchObject({ Name: "s" });
    expect(await put("b")).toMatchObject({ Name: "s" });
    expect(await at("UpdateSecret", { SecretId: "s", Description: "d" })).toMatchObject({ Name: "s" });
    expect(await put("c")).toEqual(refused("ThrottlingException", "Rate exceeded"));
    for (let count = 0; count < 5; count++) {
      expect(await at("DescribeSecret", { SecretId: "s" })).toMatchObject({ Name: "s" });
    }
    now += 1000;
    expect(await put("c")).toMatchObject({ Name: "s" });
    await slow.close();
  });
});

describe("control", () => {
  const post = (path: string, body: unknown = null) =>
    fetch(`${double.url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) });

  it("applies a fault to one operation for the given number of times", async () => {
    await post("faults", { fault: "error", type: "ThrottlingException", count: 2, operation: "DescribeSecret" });
    expect(await create("s")).toMatchObject({ Name: "s" });
    const answers = [1, 2, 3].map(() => call("DescribeSecret", { SecretId: "s" }));
    const throttled = (await Promise.all(answers)).filter(({ error }) => error === "ThrottlingException");
    expect(throttled).toHaveLength(2);
  });

  it("drops a connection before or after the request is performed", async () => {
    await post("faults", { fault: "drop" });
    await expect(create("s")).rejects.toThrow();
    expect(double.secrets()).toEqual([]);
    await post("faults", { fault: "apply-then-drop" });
    await expect(create("s")).rejects.toThrow();
    expect(double.secrets()).toHaveLength(1);
  });

  it("shows secrets over HTTP, acts as another writer, resets, and logs no value", async () => {
    await create("s", "hunter2-hunter2");
    await post("call", {
      operation: "UpdateSecret",
      parameters: { SecretId: "s", SecretString: "else", ClientRequestToken: token("e") },
    });
    const secrets = await (await fetch(`${double.url}/_double/secrets`)).json();
    expect(secrets).toMatchObject([{ name: "s", value: "else", versions: [{ id: token("a") }, { id: token("e") }] }]);
    const log = await (await fetch(`${double.url}/_double/requests`)).text();
    expect(JSON.parse(log)).toMatchObject([{ operation: "CreateSecret", subject: "s", valueBytes: 15, status: 200 }]);
    expect(log).not.toMatch(/hunter2|secret\+key/);
    await post("reset");
    expect(double.secrets()).toEqual([]);
    expect(double.requests()).toEqual([]);
  });
});
