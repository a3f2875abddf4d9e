import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { cloudASm } from "../../src/sync/destinations/cloud-a-sm/adapter.ts";
import type { ExternalObject } from "../../src/sync/destinations/destination-type.ts";
import { type CloudADouble, defaultKey, startCloudA } from "../doubles/cloud-a-sm/server.ts";
import { contextAt, contextOf, keys, marker, objectOf, region } from "./cloud-a-driver.ts";

const { value } = objectOf();
const ok = { outcome: "ok", reference: expect.stringMatching(/^[0-9a-f]{64}$/) };
let now = Date.now();
let double: CloudADouble;

beforeAll(async () => {
  double = await startCloudA({ now: () => now, nameHeldMs: 60_000 });
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  double.reset();
});
afterEach(() => vi.restoreAllMocks());

const context = (deadlineMs?: number) => contextAt(double.url, deadlineMs);
const put = (changed: Partial<ExternalObject> = {}, connection = keys, given = context()) =>
  cloudASm.put(objectOf(changed), connection, given);
const remove = (connection = keys, given = context()) =>
  cloudASm.remove({ name: "app/db", reference: null, ownedOnly: false }, connection, given);
const operations = () => double.requests().map(({ operation }) => operation);
const secret = () => double.secrets()[0];
const asSomebodyElse = (SecretString: string, letter = "e") =>
  double.call("UpdateSecret", { SecretId: "app/db", SecretString, ClientRequestToken: letter.repeat(32) });

describe("put", () => {
  it("creates an unknown secret with its tags in one call", async () => {
    expect(await put({ tags: { ...marker, team: "payments" } })).toEqual(ok);
    expect(operations()).toEqual(["CreateSecret"]);
    expect(secret()).toMatchObject({ name: "app/db", value, tags: { ...marker, team: "payments" } });
  });

  it("updates a known secret, sets its tags and removes only its own old tags", async () => {
    await put({ tags: { ...marker, team: "a", old: "1" } });
    double.call("TagResource", { SecretId: "app/db", Tags: [{ Key: "foreign", Value: "x" }] });
    const second = {
      value: "two",
      tags: { ...marker, team: "b" },
      previousTagKeys: ["hashicorp:vault", "team", "old"],
    };
    expect(await put({ ...second, knownToExist: true, idempotencyToken: "intent-2" })).toEqual(ok);
    expect(operations().slice(1)).toEqual(["UpdateSecret", "UntagResource", "TagResource"]);
    expect(secret()).toMatchObject({ value: "two" });
    expect(secret()?.tags).toEqual({ ...marker, team: "b", foreign: "x" });
  });

  it("sends no tags when the last push wrote the same, unless the secret was deleted since", async () => {
    await put();
    expect(await put({ knownToExist: true, value: "two", tagsWritten: true })).toEqual(ok);
    expect(operations()).toEqual(["CreateSecret", "UpdateSecret"]);
    double.call("DeleteSecret", { SecretId: "app/db" });
    await put({ knownToExist: true, value: "three", tagsWritten: true });
    expect(operations().slice(-4)).toEqual(["UpdateSecret", "RestoreSecret", "UpdateSecret", "TagResource"]);
  });

  it("sends a token of 64 hex digits that depends on the value", async () => {
    await put();
    await put({ knownToExist: true });
    await put({ knownToExist: true, value: "two" });
    const tokens = double.requests().flatMap(({ clientRequestToken }) => clientRequestToken ?? []);
    expect(tokens).toHaveLength(3);
    for (const token of tokens) expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set(tokens).size).toBe(3);
  });

  it("falls back to update when the secret exists, and to create when it is missing", async () => {
    double.call("CreateSecret", { Name: "app/db" });
    expect(await put()).toEqual(ok);
    expect(operations()).toEqual(["CreateSecret", "UpdateSecret", "TagResource"]);
    double.reset();
    expect(await put({ knownToExist: true })).toEqual(ok);
    expect(operations()).toEqual(["UpdateSecret", "CreateSecret"]);
    expect(secret()).toMatchObject({ value, tags: marker });
  });

  it.each([false, true])("restores a secret scheduled for deletion (known to exist: %s)", async (knownToExist) => {
    double.call("CreateSecret", { Name: "app/db" });
    double.call("DeleteSecret", { SecretId: "app/db" });
    expect(await put({ knownToExist })).toEqual(ok);
    expect(operations().slice(1, 2)).toEqual(["RestoreSecret"]);
    expect(secret()).toMatchObject({ value, scheduledForDeletion: false, tags: marker });
  });

  it("removes tags before it adds others, to stay within the limit of 50", async () => {
    const many = (letter: string) =>
      Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`${letter}${index}`, ""]));
    await put({ tags: { ...marker, ...many("a") } });
    const second = { tags: { ...marker, ...many("b") }, previousTagKeys: Object.keys(many("a")), knownToExist: true };
    expect(await put(second)).toEqual(ok);
    expect(secret()?.tags).toEqual({ ...marker, ...many("b") });
  });

  it("creates a missing secret whose update is denied by a tag-based policy", async () => {
    double.fault({ fault: "error", type: "AccessDeniedException", operation: "UpdateSecret" });
    expect(await put({ knownToExist: true })).toEqual(ok);
    expect(operations()).toEqual(["UpdateSecret", "CreateSecret"]);
  });

  it("returns the denied update when the secret exists", async () => {
    double.call("CreateSecret", { Name: "app/db" });
    double.fault({ fault: "error", type: "AccessDeniedException", operation: "UpdateSecret", count: 2 });
    expect(await put({ knownToExist: true })).toMatchObject({
      outcome: "client",
      code: "permission_denied",
      message: expect.stringContaining("secretsmanager:UpdateSecret"),
    });
  });

  it("returns the id of the current version after every path", async () => {
    const current = () => {
      const version = secret()?.versions.find(({ stages }) => stages.includes("AWSCURRENT"));
      return { outcome: "ok", reference: version?.id };
    };
    expect(await put()).toEqual(current());
    const second = { value: "two", knownToExist: true, idempotencyToken: "intent-2" };
    expect(await put(second)).toEqual(current());
    expect(await put(second)).toEqual(current());
    asSomebodyElse("drifted");
    expect(await put(second)).toEqual(current());
    expect(secret()?.value).toBe("two");
  });

  it("returns the missing permission to restore", async () => {
    double.call("CreateSecret", { Name: "app/db" });
    double.call("DeleteSecret", { SecretId: "app/db" });
    double.fault({ fault: "error", type: "AccessDeniedException", operation: "RestoreSecret" });
    expect(await put()).toMatchObject({ outcome: "client", code: "permission_denied" });
  });

  it("retries later while a forced deletion blocks the name", async () => {
    await put();
    await remove();
    expect(await put()).toEqual({
      outcome: "external",
      code: "name_held",
      message: expect.any(String),
      retryAfterMs: 10_000,
    });
  });

  it("returns 'external' when another writer keeps creating and deleting the object", async () => {
    double.fault({ fault: "error", type: "ResourceExistsException", operation: "CreateSecret", count: 9 });
    double.fault({ fault: "error", type: "ResourceNotFoundException", operation: "UpdateSecret", count: 9 });
    expect(await put()).toMatchObject({ outcome: "external", code: "contended" });
    expect(operations()).toHaveLength(8);
  });

  it.each<[string, Partial<ExternalObject>, string]>([
    ["an empty value", { value: "" }, "value_empty"],
    ["65 537 bytes", { value: `${"é".repeat(32_768)}x` }, "value_too_large"],
    ["a name with a space", { name: "a b" }, "name_invalid"],
    ["a name of 513 characters", { name: "n".repeat(513) }, "name_invalid"],
  ])("refuses %s without a call", async (_what, changed, code) => {
    expect(await put(changed)).toMatchObject({ outcome: "client", code });
    expect(operations()).toEqual([]);
  });
});

describe("a repeated push", () => {
  it("after a create with a lost answer ends with one current version", async () => {
    double.fault({ fault: "apply-then-drop" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    expect(await put()).toEqual(ok);
    expect(secret()).toMatchObject({ value, tags: marker });
  });

  it("after an update with a lost answer makes no second version", async () => {
    await put();
    double.fault({ fault: "apply-then-drop", operation: "UpdateSecret" });
    const second = { value: "two", knownToExist: true, idempotencyToken: "intent-2" };
    expect(await put(second)).toMatchObject({ outcome: "unknown" });
    expect(await put(second)).toEqual(ok);
    expect(secret()).toMatchObject({ value: "two", versions: { length: 2 } });
  });

  it("writes again after another writer's version", async () => {
    await put({ knownToExist: true });
    await put({ knownToExist: true, value: "two", idempotencyToken: "intent-2" });
    asSomebodyElse("drifted");
    expect(await put({ knownToExist: true, value: "two", idempotencyToken: "intent-2" })).toEqual(ok);
    expect(secret()).toMatchObject({ value: "two" });
  });

  it("returns to an earlier value whose version exists already", async () => {
    const one = { value: "one", idempotencyToken: "version-1", knownToExist: true };
    await put();
    await put(one);
    await put({ value: "two", idempotencyToken: "version-2", knownToExist: true });
    expect(await put(one)).toEqual(ok);
    expect(secret()).toMatchObject({ value: "one" });
  });

  it("writes as 'not known to exist' when a later version is current", async () => {
    await put();
    asSomebodyElse("drifted");
    expect(await put()).toEqual(ok);
    expect(secret()).toMatchObject({ value });
  });

  it("writes again without the permission to read the current version", async () => {
    await put();
    await put({ knownToExist: true });
    asSomebodyElse("drifted");
    double.fault({ fault: "error", type: "AccessDeniedException", operation: "DescribeSecret" });
    expect(await put({ knownToExist: true })).toEqual(ok);
    expect(secret()).toMatchObject({ value });
  });
});

describe("remove", () => {
  it("deletes at once, and succeeds for an absent or scheduled secret", async () => {
    await put();
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(double.secrets()).toEqual([]);
    expect(await remove()).toEqual({ outcome: "ok" });
    double.fault({ fault: "error", type: "ResourceNotFoundException" });
    expect(await remove()).toEqual({ outcome: "ok" });
    double.reset();
    double.call("CreateSecret", { Name: "app/db" });
    double.call("DeleteSecret", { SecretId: "app/db" });
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(double.secrets()).toEqual([]);
  });

  it("succeeds for an absent secret although a tag-based policy denies the call", async () => {
    double.fault({ fault: "error", type: "AccessDeniedException", operation: "DeleteSecret" });
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(operations()).toEqual(["DeleteSecret", "DescribeSecret"]);
  });

  it("maps errors", async () => {
    await put();
    double.fault({ fault: "error", type: "AccessDeniedException", operation: "DeleteSecret" });
    expect(await remove()).toMatchObject({
      outcome: "client",
      code: "permission_denied",
      message: expect.stringContaining("secretsmanager:DeleteSecret"),
    });
  });
});

describe("errors", () => {
  it.each([
    ["ThrottlingException", 400, "external", "throttled"],
    ["TooManyRequestsException", 429, "external", "throttled"],
    ["InternalServiceError", 500, "external", "provider_unavailable"],
    ["InternalServiceErrorException", 500, "external", "provider_unavailable"],
    ["ServiceUnavailable", 503, "external", "provider_unavailable"],
    ["SomethingNew", 502, "external", "provider_unavailable"],
    ["SomethingNew", 400, "client", "refused"],
    ["AccessDeniedException", 400, "client", "permission_denied"],
    ["UnrecognizedClientException", 400, "client", "auth_failed"],
    ["InvalidSignatureException", 400, "client", "auth_failed"],
    ["ExpiredTokenException", 400, "client", "auth_failed"],
    ["EncryptionFailure", 400, "client", "encryption_failed"],
    ["DecryptionFailure", 400, "client", "encryption_failed"],
    ["InvalidParameterException", 400, "client", "invalid_parameter"],
    ["ValidationException", 400, "client", "invalid_parameter"],
    ["LimitExceededException", 400, "client", "quota_exceeded"],
    ["MalformedPolicyDocumentException", 400, "client", "policy_invalid"],
    ["InvalidRequestException", 400, "client", "invalid_request"],
    ["com.amazonaws.secretsmanager#ThrottlingException", 400, "external", "throttled"],
    ["AccessDeniedException:http://internal.amazon.com/coral/", 400, "client", "permission_denied"],
  ])("%s (HTTP %i) is %s %s", async (type, status, outcome, code) => {
    double.fault({ fault: "error", type, status });
    expect(await put()).toMatchObject({ outcome, code });
  });

  it("a rate limit is temporary, and its requested wait is used", async () => {
    double.fault({ fault: "error", type: "LimitExceededException", message: "Rate exceeded" });
    expect(await put()).toMatchObject({ outcome: "external", code: "throttled" });
    double.fault({ fault: "raw", status: 503, body: "busy", headers: { "retry-after": "7" } });
    expect(await put()).toMatchObject({ outcome: "external", code: "provider_unavailable", retryAfterMs: 7000 });
  });

  it("an answer 200 from another server is 'unknown', never 'ok'", async () => {
    double.fault({ fault: "raw", status: 200, body: "<html>captive portal</html>" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
  });

  it.each(["{}", "[]", '{"VersionId":1}'])("an answer 200 with %s is not the service's either", async (body) => {
    double.fault({ fault: "raw", status: 200, body });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
  });

  it("an unusable encryption key is distinguished from the secret's own errors", async () => {
    double.fault({ fault: "error", type: "AccessDeniedException", message: "Access to KMS is not allowed" });
    expect(await put()).toMatchObject({
      code: "permission_denied",
      message: expect.stringContaining("may not use the secret's encryption key"),
    });
  });

  it("a missing answer is 'unknown', and a late write has happened", async () => {
    double.fault({ fault: "drop" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    double.fault({ fault: "delay", ms: 1_000 });
    expect(await put({}, keys, context(500))).toMatchObject({ outcome: "unknown", code: "deadline_exceeded" });
    await vi.waitFor(() => expect(double.secrets()).toHaveLength(1));
  });

  it("one deadline covers all calls of a push", async () => {
    double.call("CreateSecret", { Name: "app/db" });
    double.fault({ fault: "delay", ms: 120, count: 3 });
    // Each single call is within the limit.
    expect(await put({}, keys, context(200))).toMatchObject({ code: "deadline_exceeded" });
  });

  it("contain no value, key or text of the provider", async () => {
    const wrong = { ...keys, secret_access_key: "wrong-secret-key" };
    const echo = {
      fault: "error",
      type: "ValidationException",
      message: `Value '${value}' at 'secretString'`,
    } as const;
    double.fault(echo);
    const outcomes = [
      await put(),
      await put({}, wrong),
      await put({ value: "" }),
      await put({ value: "v".repeat(65_537) }),
    ];
    for (const type of ["AccessDeniedException", `${value}Exception`, `x#${value}`]) {
      double.fault({ ...echo, type });
      outcomes.push(await put());
    }
    const text = JSON.stringify(outcomes);
    expect(outcomes.every(({ outcome }) => outcome === "client")).toBe(true);
    for (const part of [value, "wrong-secret-key", defaultKey.secretAccessKey, "vvvv"])
      expect(text).not.toContain(part);
  });
});

describe("credentials and region", () => {
  it("a wrong secret is refused", async () => {
    const wrong = { ...keys, secret_access_key: "wrong" };
    expect(await put({}, wrong)).toMatchObject({ outcome: "client", code: "auth_failed" });
    expect(double.secrets()).toEqual([]);
  });

  // Proves: E.auth.2.default-chain
  it("default to the deployment's, and are missing otherwise", async () => {
    const defaults = {
      CLOUD_A_SM_URL: double.url,
      CLOUD_A_ACCESS_KEY_ID: defaultKey.accessKeyId,
      CLOUD_A_SECRET_ACCESS_KEY: defaultKey.secretAccessKey,
      CLOUD_A_REGION: region,
    };
    expect(await put({}, {}, contextOf(defaults))).toEqual(ok);
    expect(await put({}, { region })).toMatchObject({ outcome: "client", code: "credentials_missing" });
    expect(await put({}, { access_key_id: "A", secret_access_key: "B" })).toMatchObject({ code: "region_missing" });
  });

  it.each([
    ["eu-west-1", "eu-west-1.amazonaws.com"],
    ["us-gov-east-1", "us-gov-east-1.amazonaws.com"],
    ["cn-north-1", "cn-north-1.amazonaws.com.cn"],
    ["eusc-de-east-1", "eusc-de-east-1.amazonaws.eu"],
  ])("%s and its STS are at %s by default", async (of, host) => {
    const credentials =
      "<AccessKeyId>A</AccessKeyId><SecretAccessKey>B</SecretAccessKey><SessionToken>C</SessionToken>";
    const session = `<AssumeRoleResponse><AssumeRoleResult><Credentials>${credentials}<Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`;
    const answers = [session, JSON.stringify({ VersionId: "v".repeat(32) })];
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async () => new Response(answers.shift()));
    const connection = { ...keys, region: of, role_arn: "arn:aws:iam::123456789012:role/sync" };
    expect(await put({}, connection, contextOf({}))).toEqual({ outcome: "ok", reference: "v".repeat(32) });
    expect(fetched.mock.calls.map(([to]) => to)).toEqual([`https://sts.${host}/`, `https://secretsmanager.${host}/`]);
    const scopes = fetched.mock.calls.map(([, init]) => new Headers(init?.headers).get("authorization"));
    expect(scopes).toMatchObject(
      [`/${of}/sts/aws4_request`, `/${of}/secretsmanager/aws4_request`].map((scope) => expect.stringContaining(scope)),
    );
  });

  it("credentials are not sent over http beyond loopback", async () => {
    const settings = { CLOUD_A_SM_URL: "http://secrets.example.com" };
    expect(await put({}, keys, contextOf(settings))).toMatchObject({
      outcome: "client",
      code: "insecure_url",
    });
  });
});
