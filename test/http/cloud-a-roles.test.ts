import { beforeEach, describe, expect, it } from "vitest";
import type { CloudAConnection } from "../../src/providers/cloud-a-aws/connection.ts";
import { cloudASm } from "../../src/sync/destinations/cloud-a-sm/adapter.ts";
import { type CloudADouble, defaultKey, startCloudA } from "../doubles/cloud-a-sm/server.ts";
import { contextOf, keys, objectOf } from "./cloud-a-driver.ts";

const role = "arn:aws:iam::123456789012:role/sync";
/** In another account than that of the keys, 123456789012. */
const elsewhere = "arn:aws:iam::999999999999:role/sync";
const distrustful = "arn:aws:iam::999999999999:role/other";
let double: CloudADouble;

// A new double for each test has a new URL, and therefore a separate session cache.
beforeEach(async () => {
  const trustedAccessKeyIds = [defaultKey.accessKeyId];
  const roles = [
    { arn: role, externalId: "ext-1", trustedAccessKeyIds },
    { arn: elsewhere, trustedAccessKeyIds },
    { arn: distrustful, trustedAccessKeyIds: [] },
  ];
  double = await startCloudA({ roles });
  return () => double.close();
});

const connection: CloudAConnection = { ...keys, role_arn: role, external_id: "ext-1" };
const remove = (changed: CloudAConnection = {}, stsUrl = double.url) =>
  cloudASm.remove(
    { name: "s", reference: null, ownedOnly: false },
    { ...connection, ...changed },
    contextOf({ CLOUD_A_SM_URL: double.url, CLOUD_A_STS_URL: stsUrl }),
  );
const seen = () => double.requests().map(({ operation, status }) => `${operation} ${status}`);

describe("assuming a role", () => {
  // Proves: B.cloud-a-sm.external_id, B.cloud-a-sm.role_arn, B.cloud-a-sm.role_arn.session
  it("signs with the role's session, and caches it for the next call", async () => {
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(seen()).toEqual(["AssumeRole 200", "DeleteSecret 200", "DeleteSecret 200"]);
    const [assumed, first, second] = double.requests();
    expect(assumed).toMatchObject({ accessKeyId: defaultKey.accessKeyId, subject: role });
    expect(first?.accessKeyId).toMatch(/^ASIA/);
    expect(second?.accessKeyId).toBe(first?.accessKeyId);
  });

  // Proves: B.cloud-a-sm.role_arn.other-account
  it("accepts a role in another account that trusts the keys", async () => {
    const there: CloudAConnection = { ...keys, role_arn: elsewhere };
    const context = contextOf({ CLOUD_A_SM_URL: double.url, CLOUD_A_STS_URL: double.url });
    expect(await cloudASm.put(objectOf(), there, context)).toMatchObject({ outcome: "ok" });
    expect(double.secrets()).toMatchObject([{ name: objectOf().name, value: objectOf().value }]);
    const [assumed, created] = double.requests();
    expect(assumed).toMatchObject({ operation: "AssumeRole", subject: elsewhere, status: 200 });
    expect(created).toMatchObject({ operation: "CreateSecret", accessKeyId: expect.stringMatching(/^ASIA/) });
    const refused = await cloudASm.put(objectOf(), { ...there, role_arn: distrustful }, context);
    expect(refused).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(seen().slice(2)).toEqual(["AssumeRole 403"]);
  });

  // Proves: B.cloud-a-sm.external_id, B.cloud-a-sm.external_id.own
  it("does not share a session between external ids or secrets", async () => {
    await remove();
    expect(await remove({ external_id: "ext-2" })).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(await remove({ secret_access_key: "guessed" })).toMatchObject({ outcome: "client", code: "auth_failed" });
    expect(seen()).toEqual(["AssumeRole 200", "DeleteSecret 200", "AssumeRole 403", "AssumeRole 403"]);
  });

  it("requests a new session once when the cached one ended early", async () => {
    await remove();
    double.expireSessions();
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(seen().slice(2)).toEqual(["DeleteSecret 400", "AssumeRole 200", "DeleteSecret 200"]);
    double.fault({ fault: "error", type: "ExpiredTokenException", service: "secretsmanager", count: 2 });
    expect(await remove()).toMatchObject({ outcome: "client", code: "auth_failed" });
  });

  it.each([
    ["AccessDenied", 403, "client", "permission_denied"],
    ["ExpiredToken", 400, "client", "auth_failed"],
    ["RegionDisabledException", 403, "client", "auth_failed"],
    ["IDPCommunicationError", 400, "external", "provider_unavailable"],
    ["Throttling", 400, "external", "throttled"],
    ["InternalFailure", 500, "external", "provider_unavailable"],
  ])("STS's %s (HTTP %i) is %s %s, and no request is sent without the role", async (type, status, outcome, code) => {
    double.fault({ fault: "error", service: "sts", type, status });
    expect(await remove()).toMatchObject({ outcome, code });
    expect(seen()).toEqual([`AssumeRole ${status}`]);
  });

  it("is not 'unknown' without an answer of STS, because nothing was changed", async () => {
    double.fault({ fault: "drop", service: "sts" });
    expect(await remove()).toMatchObject({ outcome: "external", code: "network_error" });
    double.fault({ fault: "raw", service: "sts", status: 200, body: "<Credentials/>" });
    expect(await remove()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    expect(await remove({}, "not a url")).toMatchObject({ outcome: "client", code: "invalid_url" });
  });
});

describe("settings of the deployment", () => {
  const check = (details: CloudAConnection, settings = {}) => cloudASm.checkSettings?.(details, settings);
  const defaults = { CLOUD_A_ACCESS_KEY_ID: "A", CLOUD_A_SECRET_ACCESS_KEY: "B", CLOUD_A_REGION: "eu-west-1" };

  it("are optional for a connection with keys and region, and fill in missing fields", () => {
    expect(check(keys)).toBeNull();
    expect(check({}, defaults)).toBeNull();
    expect(check({ region: "eu-west-1" }, { ...defaults, CLOUD_A_REGION: undefined })).toBeNull();
  });

  it.each<[string, CloudAConnection, object, RegExp]>([
    ["no region", { ...keys, region: "" }, {}, /^region must be given.*CLOUD_A_REGION/],
    ["an invalid default region", {}, { ...defaults, CLOUD_A_REGION: "Frankfurt" }, /CLOUD_A_REGION/],
    ["no keys", { region: "eu-west-1" }, {}, /^access_key_id and secret_access_key.*CLOUD_A_ACCESS_KEY_ID/],
    ["half of the default keys", {}, { ...defaults, CLOUD_A_SECRET_ACCESS_KEY: "" }, /CLOUD_A_SECRET_ACCESS_KEY/],
  ])("%s is an error that names the field and the setting", (_what, details, settings, sentence) => {
    expect(check(details, settings)).toMatch(sentence);
  });
});

describe("connection details", () => {
  const parse = (body: unknown) => cloudASm.connection.safeParse(body);

  // Proves: B.cloud-a-sm.access_key_id, B.cloud-a-sm.external_id, B.cloud-a-sm.region, B.cloud-a-sm.role_arn,
  // B.cloud-a-sm.secret_access_key
  it("keep given fields, drop empty and unknown ones, and accept numbers as text", () => {
    expect(parse({ ...connection, name: "x", custom_tags: {} })).toMatchObject({ success: true, data: connection });
    expect(parse({ access_key_id: "", secret_access_key: "", role_arn: "", region: "" })).toEqual({
      success: true,
      data: {},
    });
    expect(parse({ external_id: 4711 })).toEqual({ success: true, data: { external_id: "4711" } });
  });

  it.each([
    ["access_key_id", { access_key_id: "AK IA", secret_access_key: "s" }],
    ["secret_access_key", { access_key_id: "AKIA" }],
    ["access_key_id", { secret_access_key: "s" }],
    ["region", { region: "evil.example.com#" }],
    ["region", { region: "eu-west-1.evil" }],
    ["region", { region: "euwest1" }],
    ["role_arn", { role_arn: "arn:aws:iam::12:role/x" }],
    ["role_arn", { role_arn: "arn:aws:iam::123456789012:user/x" }],
    ["external_id", { external_id: "x" }],
    ["external_id", { external_id: "with space" }],
    ["external_id", { external_id: { a: 1 } }],
  ])("name the field %s in %j", (field, body) => {
    const parsed = parse(body);
    expect(parsed.success).toBe(false);
    expect(parsed.error?.issues.map(({ path }) => path.join("."))).toEqual([field]);
  });

  it("allow a new role in the same account only", () => {
    const other = { role_arn: "arn:aws:iam::210987654321:role/sync" };
    expect(cloudASm.checkChange?.(connection, other)).toContain("123456789012");
    expect(cloudASm.checkChange?.(connection, { role_arn: `${role}2` })).toBeNull();
    expect(cloudASm.checkChange?.(connection, {})).toBeNull();
  });
});

describe("custom tags", () => {
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, ""]));
  it.each<[string, Record<string, string>, RegExp | null]>([
    ["50 tags", many(50), null],
    ["51 tags", many(51), /51 tags/],
    ["a key of 128 characters", { ["ü".repeat(128)]: "" }, null],
    ["a key of 129 characters", { ["k".repeat(129)]: "" }, /1 to 128/],
    ["an empty key", { "": "x" }, /1 to 128/],
    ["a value of 256 characters", { k: "v".repeat(256) }, null],
    ["a value of 257 characters", { k: "v".repeat(257) }, /at most 256/],
    ["a reserved key", { "AWS:x": "" }, /aws:/],
    ["a forbidden character", { k: "a;b" }, /letters, digits/],
    ["every permitted character", { "a b_.:/=+-@": "é 1" }, null],
  ])("%s", (_what, tags, problem) => {
    const found = cloudASm.checkTags?.(tags) ?? null;
    if (problem === null) expect(found).toBeNull();
    else expect(found).toMatch(problem);
  });
});
