import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { rawClient, type Sending } from "../cloud-a-sm/raw-client.ts";
import { type CloudADouble, defaultKey, startCloudA } from "../cloud-a-sm/server.ts";

// The promises of the double's STS, driven by a signer that it does not use itself.

const externalRole = "arn:aws:iam::123456789012:role/external";
const openRole = "arn:aws:iam::123456789012:role/open";
let now = Date.now();
let double: CloudADouble;
let send: ReturnType<typeof rawClient>["send"];
let call: ReturnType<typeof rawClient>["call"];

beforeAll(async () => {
  double = await startCloudA({
    now: () => now,
    roles: [
      { arn: externalRole, externalId: "ext-1", trustedAccessKeyIds: [defaultKey.accessKeyId] },
      { arn: openRole, trustedAccessKeyIds: [defaultKey.accessKeyId] },
    ],
  });
  ({ send, call } = rawClient(double, () => now));
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  double.reset();
});

const refused = (type: string) => ({ error: type, message: expect.any(String) });

const form = (fields: Record<string, string> = {}) =>
  new URLSearchParams({
    Action: "AssumeRole",
    Version: "2011-06-15",
    RoleArn: openRole,
    RoleSessionName: "s1",
    ...fields,
  }).toString();
const sts = (body: string, options: Sending = {}) =>
  send(body, "application/x-www-form-urlencoded", { service: "sts", ...options });
const field = (xml: string, name: string) =>
  (new RegExp(`<${name}>(.*?)</${name}>`).exec(xml)?.[1] ?? "")
    .replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
    .replaceAll("&#x2B;", "+");

async function session(fields: Record<string, string> = {}) {
  const { status, text } = await sts(form(fields));
  expect(status).toBe(200);
  return {
    accessKeyId: field(text, "AccessKeyId"),
    secretAccessKey: field(text, "SecretAccessKey"),
    sessionToken: field(text, "SessionToken"),
  };
}

describe("assumed roles", () => {
  it("have a session token that works until it expires", async () => {
    const key = await session({ DurationSeconds: "900" });
    const describeWith = (options: Sending) => call("DescribeSecret", { SecretId: "s" }, options);
    expect(await describeWith({ key })).toEqual(refused("ResourceNotFoundException"));
    expect(await describeWith({ key: { ...key, sessionToken: "other" } })).toEqual(
      refused("UnrecognizedClientException"),
    );
    const { sessionToken: _none, ...withoutToken } = key;
    expect(await describeWith({ key: withoutToken })).toEqual(refused("UnrecognizedClientException"));
    now += 900_001;
    expect(await describeWith({ key })).toEqual(refused("ExpiredTokenException"));
  });

  it.each<[string, Record<string, string>, string]>([
    ["a role whose trust wants an external id, without one", { RoleArn: externalRole }, "AccessDenied"],
    ["a wrong external id", { RoleArn: externalRole, ExternalId: "ext-2" }, "AccessDenied"],
    ["an unknown role", { RoleArn: "arn:aws:iam::123456789012:role/none" }, "AccessDenied"],
    ["an invalid role ARN", { RoleArn: "arn:aws:iam::12:role/x" }, "ValidationError"],
    ["a session name of one character", { RoleSessionName: "s" }, "ValidationError"],
    ["899 seconds", { DurationSeconds: "899" }, "ValidationError"],
    ["another action's parameters", { Action: "GetCallerIdentity" }, "ValidationError"],
    ["an action that is not known", { Action: "GetSessionToken" }, "InvalidAction"],
    ["another version", { Version: "2011-06-16" }, "InvalidAction"],
    ["an unknown parameter", { Policy: "{}" }, "ValidationError"],
  ])("are refused for %s", async (_what, fields, code) => {
    expect((await sts(form(fields))).text).toContain(`<Code>${code}</Code>`);
  });

  it("require the right external id and a signature for the STS service", async () => {
    expect((await sts(form({ RoleArn: externalRole, ExternalId: "ext-1" }))).status).toBe(200);
    const wrong = { key: { ...defaultKey, secretAccessKey: "wrong" } };
    expect(await sts(form(), wrong)).toMatchObject({
      status: 403,
      text: expect.stringContaining("SignatureDoesNotMatch"),
    });
    expect((await sts(form(), { service: "secretsmanager" })).text).toContain("SignatureDoesNotMatch");
  });
});

describe("GetCallerIdentity", () => {
  const identity = "Action=GetCallerIdentity&Version=2011-06-15";

  it("returns a user or an assumed role", async () => {
    const { status, text } = await sts(identity);
    expect([status, field(text, "Account")]).toEqual([200, "123456789012"]);
    expect(field(text, "Arn")).toBe(`arn:aws:iam::123456789012:user/${defaultKey.accessKeyId}`);
    const assumed = await sts(identity, { key: await session() });
    expect(field(assumed.text, "Arn")).toContain(":assumed-role/");
    expect(double.requests().map(({ operation }) => operation)).toEqual([
      "GetCallerIdentity",
      "AssumeRole",
      "GetCallerIdentity",
    ]);
  });

  it("requires a known key and parameters without repetition", async () => {
    const wrong = { key: { ...defaultKey, secretAccessKey: "wrong" } };
    expect(await sts(identity, wrong)).toMatchObject({ status: 403, text: expect.stringContaining("Signature") });
    const nobody = { key: { ...defaultKey, accessKeyId: "AKIANOBODY" } };
    expect((await sts(identity, nobody)).text).toContain("<Code>InvalidClientTokenId</Code>");
    expect((await sts(`${identity}&X=1`)).text).toContain("<Code>ValidationError</Code>");
    expect((await sts(`${identity}&Version=2011-06-15`)).text).toContain("<Code>ValidationError</Code>");
    expect((await send(identity, "application/json", { service: "sts" })).text).toContain("<Code>InvalidAction</Code>");
  });
});
