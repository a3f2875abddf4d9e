import { generateKeyPairSync } from "node:crypto";
import { importPKCS8, type JWTPayload, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { crc32c } from "../../../src/lib/crc32c.ts";
import { type CloudCDouble, type OpenedAccount, startCloudC } from "./server.ts";

// The double's promises. Each test fails if the double were kinder.

const scope = "https://www.googleapis.com/auth/cloud-platform";
const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const anotherKey = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
let now = Date.now();
let double: CloudCDouble;
let token: string;

beforeAll(async () => {
  double = await startCloudC({ now: () => now, writesPerMinute: 20, writesPerSecret: 5 });
});
afterAll(() => double.close());
beforeEach(async () => {
  now = Date.now();
  double.reset();
  token = (await grant()).access_token;
});

interface Assertion {
  claims?: JWTPayload;
  header?: Record<string, unknown>;
  key?: string;
  account?: OpenedAccount;
  form?: Record<string, string>;
  contentType?: string;
}

/** Asks for an access token with an assertion that is right except for what is given. */
async function grant({ claims, header, key, account = double, form, contentType }: Assertion = {}) {
  const { client_email: iss, private_key, private_key_id: kid } = account.credentials;
  const iat = Math.floor(now / 1000);
  const payload = { iss, scope, aud: "https://oauth2.googleapis.com/token", iat, exp: iat + 3600, ...claims };
  const assertion = await new SignJWT(payload)
    .setProtectedHeader({ alg: "RS256", typ: "JWT", kid, ...header })
    .sign(await importPKCS8(key ?? private_key, "RS256"));
  const response = await fetch(double.tokenUrl, {
    method: "POST",
    headers: { "content-type": contentType ?? "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ grant_type: grantType, assertion, ...form }).toString(),
  });
  return (await response.json()) as { access_token: string; error: string; error_description: string };
}

interface Answer {
  status: number;
  body: Record<string, unknown> & { error?: { status: string; details?: { reason: string }[] } };
}

/** One request with the token; the body is JSON unless it is a text already. */
async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${double.url}/v1/projects/${path.startsWith("/") ? double.projectId : ""}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}
const refused = (status: string, reason?: string) => ({
  body: { error: { status, ...(reason === undefined ? {} : { details: [{ reason }] }) } },
});
const secret = { replication: { automatic: {} } };
const create = (id = "s", body: object = secret) => call("POST", `/secrets?secretId=${id}`, body);
const payload = (text: string) => {
  const data = Buffer.from(text);
  return { data: data.toString("base64"), dataCrc32c: String(crc32c(data)) };
};
const add = (text = "v") => call("POST", "/secrets/s:addVersion", { payload: payload(text) });

describe("assertions", () => {
  it("with valid claims return a token that works for an hour", async () => {
    expect(await create()).toMatchObject({ status: 200 });
    now += 3_600_000;
    expect(await call("GET", "/secrets/s")).toMatchObject(refused("UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED"));
  });

  it.each<[string, Assertion | (() => Assertion), string, string]>([
    ["another key", { key: anotherKey }, "invalid_grant", "Invalid JWT Signature."],
    ["another key id", { header: { kid: "0" } }, "invalid_grant", "Invalid JWT Signature."],
    ["an unknown header", { header: { jku: "https://evil.example" } }, "invalid_grant", "Invalid JWT: bad header"],
    ["another type", { header: { typ: "at+jwt" } }, "invalid_grant", "Invalid JWT: bad header"],
    ["an unknown account", { claims: { iss: "x@y.example" } }, "invalid_grant", "Invalid grant: account not found"],
    [
      "another audience",
      () => ({ claims: { aud: double.tokenUrl } }),
      "invalid_grant",
      "Invalid JWT: Failed audience check.",
    ],
    [
      "two audiences",
      { claims: { aud: ["https://oauth2.googleapis.com/token", "x"] } },
      "invalid_grant",
      "Invalid JWT: Failed audience check.",
    ],
    ["another scope", { claims: { scope: "https://www.googleapis.com/auth/drive" } }, "invalid_scope", ""],
    ["a claim too many", { claims: { target_audience: "x" } }, "invalid_grant", "Invalid JWT: unknown claims"],
    ["more than an hour", () => ({ claims: { exp: Math.floor(now / 1000) + 3601 } }), "invalid_grant", "short-lived"],
    [
      "an end in the past",
      () => ({ claims: { iat: Math.floor(now / 1000) - 7200, exp: Math.floor(now / 1000) - 3600 } }),
      "invalid_grant",
      "short-lived",
    ],
    [
      "a beginning in the future",
      () => ({ claims: { iat: Math.floor(now / 1000) + 300 } }),
      "invalid_grant",
      "short-lived",
    ],
    ["another grant type", { form: { grant_type: "client_credentials" } }, "unsupported_grant_type", ""],
    ["a field too many", { form: { scope } }, "invalid_request", ""],
    ["something that is not a JWT", { form: { assertion: "a.b.c" } }, "invalid_grant", ""],
    ["JSON", { contentType: "application/json" }, "invalid_request", ""],
  ])("with %s are refused", async (_what, given, error, description) => {
    expect(await grant(typeof given === "function" ? given() : given)).toEqual({
      error,
      error_description: expect.stringContaining(description),
    });
  });

  it("of a disabled account are refused, as are its tokens", async () => {
    double.change({ disabled: true });
    expect(await grant()).toMatchObject({ error: "invalid_grant", error_description: "Robot is disabled." });
    expect(await call("GET", "/secrets/s")).toMatchObject(refused("UNAUTHENTICATED", "ACCOUNT_STATE_INVALID"));
  });
});

describe("access", () => {
  it("requires a token that the double issued", async () => {
    expect(await call("GET", "/secrets/s", undefined, { authorization: "" })).toMatchObject(
      refused("UNAUTHENTICATED", "CREDENTIALS_MISSING"),
    );
    expect(await call("GET", "/secrets/s", undefined, { authorization: "Bearer ya29.other" })).toMatchObject(
      refused("UNAUTHENTICATED"),
    );
  });

  it("distinguishes unknown projects, foreign projects and disabled APIs", async () => {
    const other = await double.openAccount();
    expect(await call("GET", "nobody/secrets/s")).toMatchObject(refused("PERMISSION_DENIED", "CONSUMER_INVALID"));
    expect(await call("GET", `${other.projectId}/secrets/s`)).toMatchObject(
      refused("PERMISSION_DENIED", "IAM_PERMISSION_DENIED"),
    );
    double.change({ apiEnabled: false });
    expect(await call("GET", "/secrets/s")).toMatchObject(refused("PERMISSION_DENIED", "SERVICE_DISABLED"));
  });

  it("requires each RPC's own permission, before it checks that the object exists", async () => {
    await create();
    const rpcs: [string, string, string, object?][] = [
      ["secrets.create", "POST", "/secrets?secretId=s", secret],
      ["secrets.list", "GET", "/secrets"],
      ["secrets.get", "GET", "/secrets/none"],
      ["secrets.update", "PATCH", "/secrets/s?updateMask=labels", { labels: {} }],
      ["secrets.delete", "DELETE", "/secrets/s"],
      ["versions.add", "POST", "/secrets/s:addVersion", { payload: payload("v") }],
      ["versions.list", "GET", "/secrets/s/versions"],
      ["versions.get", "GET", "/secrets/s/versions/latest"],
      ["versions.access", "GET", "/secrets/s/versions/1:access"],
      ["versions.destroy", "POST", "/secrets/s/versions/1:destroy", {}],
    ];
    for (const [permission, method, path, body] of rpcs) {
      double.change({ deny: [`secretmanager.${permission}`] });
      expect(await call(method, path, body)).toMatchObject({
        body: { error: { details: [{ metadata: { permission: `secretmanager.${permission}` } }] } },
      });
    }
    expect(double.secrets()).toMatchObject([{ versions: [] }]);
  });

  it("accepts the project number, and answers with the number", async () => {
    await create();
    expect(await call("GET", `${double.projectNumber}/secrets/s`)).toMatchObject({
      body: { name: `projects/${double.projectNumber}/secrets/s` },
    });
  });

  it("enforces the write quotas of the project and of each secret per minute", async () => {
    await create();
    for (let write = 0; write < 5; write++) expect(await add()).toMatchObject({ status: 200 });
    expect(await add()).toMatchObject(refused("RESOURCE_EXHAUSTED"));
    for (let write = 0; write < 13; write++) await call("DELETE", "/secrets/none");
    expect(await call("DELETE", "/secrets/none")).toMatchObject(refused("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED"));
    expect(await call("GET", "/secrets/s")).toMatchObject({ status: 200 });
    now += 60_001;
    token = (await grant()).access_token;
    expect(await add()).toMatchObject({ status: 200 });
  });
});

describe("requests", () => {
  const labels = (given: unknown) => ({ ...secret, labels: given });
  it.each<[string, string, string, unknown]>([
    ["an unknown field", "POST", "/secrets?secretId=t", { ...secret, colour: "red" }],
    ["an unknown query parameter", "POST", "/secrets?secretId=t&force=1", secret],
    ["a doubled query parameter", "POST", "/secrets?secretId=t&secretId=u", secret],
    ["another encoding", "GET", "/secrets/s?$alt=proto", undefined],
    ["no secretId", "POST", "/secrets", secret],
    ["a secretId with a dot", "POST", "/secrets?secretId=a.b", secret],
    ["a secretId of 256 characters", "POST", `/secrets?secretId=${"n".repeat(256)}`, secret],
    ["no replication", "POST", "/secrets?secretId=t", {}],
    ["a replication of two kinds", "POST", "/secrets?secretId=t", { replication: { automatic: {}, userManaged: {} } }],
    ["a label key in upper case", "POST", "/secrets?secretId=t", labels({ Team: "a" })],
    ["a label key that begins with a digit", "POST", "/secrets?secretId=t", labels({ "1a": "" })],
    ["a label key with a colon", "POST", "/secrets?secretId=t", labels({ "a:b": "" })],
    ["a label value of 64 characters", "POST", "/secrets?secretId=t", labels({ a: "v".repeat(64) })],
    ["a label that is not text", "POST", "/secrets?secretId=t", labels({ a: 1 })],
    [
      "65 labels",
      "POST",
      "/secrets?secretId=t",
      labels(Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`l${at}`, ""]))),
    ],
    ["an annotation key that ends with a dot", "POST", "/secrets?secretId=t", { ...secret, annotations: { "a.": "" } }],
    ["annotations of 16 KiB", "POST", "/secrets?secretId=t", { ...secret, annotations: { a: "x".repeat(16_384) } }],
    ["a mask of another field", "PATCH", "/secrets/s?updateMask=replication", secret],
    ["no mask", "PATCH", "/secrets/s", { labels: {} }],
    ["a field outside the mask", "PATCH", "/secrets/s?updateMask=labels", { labels: {}, annotations: { a: "b" } }],
    ["an empty payload", "POST", "/secrets/s:addVersion", { payload: payload("") }],
    ["a payload of 65 537 bytes", "POST", "/secrets/s:addVersion", { payload: payload("x".repeat(65_537)) }],
    ["no checksum", "POST", "/secrets/s:addVersion", { payload: { data: "dg==" } }],
    ["a wrong checksum", "POST", "/secrets/s:addVersion", { payload: { data: "dg==", dataCrc32c: "1" } }],
    [
      "a checksum that is a number",
      "POST",
      "/secrets/s:addVersion",
      { payload: { data: "b25l", dataCrc32c: 714388201 } },
    ],
    ["base64 without padding", "POST", "/secrets/s:addVersion", { payload: { ...payload("v"), data: "dg" } }],
    ["base64url", "POST", "/secrets/s:addVersion", { payload: { ...payload("û?"), data: "w7s_" } }],
    ["a body that is not JSON", "POST", "/secrets/s:addVersion", "{"],
    ["a list for a body", "POST", "/secrets/s:addVersion", "[]"],
    ["a body where there is none", "DELETE", "/secrets/s", {}],
    ["a version that is not a number", "POST", "/secrets/s/versions/latest:destroy", {}],
  ])("with %s are refused", async (_what, method, path, body) => {
    await create();
    expect(await call(method, path, body)).toMatchObject(refused("INVALID_ARGUMENT"));
    expect(double.secrets()).toMatchObject([{ name: "s", labels: {}, versions: [] }]);
  });

  it("with another content type, path or method are refused", async () => {
    await create();
    const text = { "content-type": "text/plain" };
    expect(await call("POST", "/secrets/s:addVersion", { payload: payload("v") }, text)).toMatchObject(
      refused("INVALID_ARGUMENT"),
    );
    expect(await call("PUT", "/secrets/s", {})).toMatchObject({ status: 404 });
    expect(await call("POST", "/secrets/s:addversion", {})).toMatchObject({ status: 404 });
  });
});

describe("secrets", () => {
  it("are created once and have no value before the first version", async () => {
    await create();
    expect(await create()).toMatchObject(refused("ALREADY_EXISTS"));
    expect(await call("GET", "/secrets/s/versions/latest")).toMatchObject(refused("NOT_FOUND"));
  });

  it("return 404 from every RPC when absent", async () => {
    for (const [method, path, body] of [
      ["GET", "/secrets/s"],
      ["DELETE", "/secrets/s"],
      ["PATCH", "/secrets/s?updateMask=labels", { labels: {} }],
      ["POST", "/secrets/s:addVersion", { payload: payload("v") }],
      ["POST", "/secrets/s/versions/1:destroy", {}],
    ] as const) {
      expect(await call(method, path, body)).toMatchObject(refused("NOT_FOUND"));
    }
  });

  it("require the current etag if one is given", async () => {
    const { body } = await create();
    const patch = (etag: unknown) => call("PATCH", "/secrets/s?updateMask=labels", { labels: { a: "b" }, etag });
    expect(await patch('"0"')).toMatchObject(refused("ABORTED"));
    expect(await patch(body["etag"])).toMatchObject({ status: 200, body: { labels: { a: "b" } } });
    expect(await patch(body["etag"])).toMatchObject(refused("ABORTED"));
    expect(await call("DELETE", `/secrets/s?etag=${encodeURIComponent(String(body["etag"]))}`)).toMatchObject(
      refused("ABORTED"),
    );
  });

  it("number their versions from 1, and start again after a deletion", async () => {
    await create();
    await add("one");
    expect(await add("two")).toMatchObject({ body: { name: expect.stringMatching(/versions\/2$/), state: "ENABLED" } });
    expect(await call("GET", "/secrets/s/versions/latest")).toMatchObject({
      body: { name: expect.stringMatching(/versions\/2$/) },
    });
    await call("DELETE", "/secrets/s");
    await create();
    expect(await add()).toMatchObject({ body: { name: expect.stringMatching(/versions\/1$/) } });
  });

  it("return a version's value only while it is enabled, and destroy it permanently", async () => {
    await create();
    const { body } = await add("one");
    const destroy = (etag: unknown) => call("POST", "/secrets/s/versions/1:destroy", { etag });
    expect(await destroy('"0"')).toMatchObject(refused("ABORTED"));
    await call("POST", "/secrets/s/versions/1:disable", {});
    expect(await call("GET", "/secrets/s/versions/1:access")).toMatchObject(refused("FAILED_PRECONDITION"));
    expect(await destroy(body["etag"])).toMatchObject(refused("ABORTED"));
    expect(await destroy(undefined)).toMatchObject({ body: { state: "DESTROYED" } });
    expect(await destroy(undefined)).toMatchObject(refused("FAILED_PRECONDITION"));
    expect(await call("POST", "/secrets/s/versions/1:enable", {})).toMatchObject(refused("FAILED_PRECONDITION"));
    expect(JSON.stringify(double.secrets())).not.toContain("one");
  });
});

describe("over HTTP", () => {
  const control = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${double.url}/_double/${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  };

  it("accounts are separate", async () => {
    const own = (await control("POST", "accounts")) as OpenedAccount;
    token = (await grant({ account: own })).access_token;
    await call("POST", `${own.projectId}/secrets?secretId=mine`, secret);
    const query = `?account=${own.account}`;
    expect(await control("GET", `secrets${query}`)).toMatchObject([{ name: "mine" }]);
    expect(await control("GET", "secrets")).toEqual([]);
    await control("POST", `faults${query}`, { fault: "error", status: "UNAVAILABLE" });
    token = (await grant()).access_token;
    expect(await create()).toMatchObject({ status: 200 });
    await control("POST", `call${query}`, { operation: "DeleteSecret", secretId: "mine" });
    expect(await control("GET", `secrets${query}`)).toEqual([]);
    await control("POST", `change${query}`, { disabled: true });
    expect(await control("GET", `requests${query}`)).toMatchObject([
      { operation: "Token" },
      { operation: "CreateSecret" },
    ]);
  });

  it("the log has no value and no token", async () => {
    await create();
    await add("hunter2");
    const log = JSON.stringify(await control("GET", "requests"));
    expect(log).toContain('"valueBytes":7');
    for (const part of ["hunter2", Buffer.from("hunter2").toString("base64"), token]) expect(log).not.toContain(part);
  });

  it("a fault applies to its operation for the given number of times", async () => {
    double.fault({ fault: "raw", status: 418, body: "{}", operation: "GetSecret", count: 2 });
    expect(await create()).toMatchObject({ status: 200 });
    const statuses = [];
    for (let request = 0; request < 3; request++) statuses.push((await call("GET", "/secrets/s")).status);
    expect(statuses).toEqual([418, 418, 200]);
    double.fault({ fault: "apply-then-drop" });
    await expect(call("DELETE", "/secrets/s")).rejects.toThrow();
    expect(double.secrets()).toEqual([]);
  });
});
