import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { failure, sender } from "../../src/providers/outcome.ts";
import { cloudCSm } from "../../src/sync/destinations/cloud-c-sm/adapter.ts";
import type { CallContext } from "../../src/sync/destinations/destination-type.ts";
import { connectionOf, contextOf, wanted } from "../doubles/cloud-c-sm/fixture.ts";
import { errorInfo, retryInfo, type StatusName } from "../doubles/cloud-c-sm/requests.ts";
import { type CloudCDouble, startCloudC } from "../doubles/cloud-c-sm/server.ts";

let double: CloudCDouble;

beforeAll(async () => {
  double = await startCloudC();
});
afterAll(() => double.close());
beforeEach(() => double.reset());

type Connection = ReturnType<typeof connectionOf> & { project_id?: string };

const put = (connection: Connection = connectionOf(double), context = contextOf(double)) =>
  cloudCSm.put(wanted(), connection, context);
const probe = (connection: Connection = connectionOf(double)) => cloudCSm.probe(connection, contextOf(double));
const count = (operation: string) => double.requests().filter((one) => one.operation === operation).length;
const withKey = (changed: Partial<Connection["credentials"]>): Connection => {
  const { credentials } = connectionOf(double);
  return { credentials: { ...credentials, ...changed } };
};
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const anotherKey = privateKey.export({ type: "pkcs8", format: "pem" }).toString();

describe("an answer", () => {
  it.each<[StatusName, string, string]>([
    ["INVALID_ARGUMENT", "client", "invalid_parameter"],
    ["FAILED_PRECONDITION", "client", "precondition_failed"],
    ["PERMISSION_DENIED", "client", "permission_denied"],
    ["RESOURCE_EXHAUSTED", "external", "throttled"],
    ["ABORTED", "external", "contended"],
    ["INTERNAL", "external", "provider_unavailable"],
    ["UNAVAILABLE", "external", "provider_unavailable"],
    ["DEADLINE_EXCEEDED", "external", "provider_unavailable"],
  ])("%s is %s %s", async (status, outcome, code) => {
    double.fault({ fault: "error", status, operation: "AddSecretVersion" });
    expect(await put()).toMatchObject({ outcome, code });
  });

  it.each([
    ["SERVICE_DISABLED", "api_disabled"],
    ["CONSUMER_INVALID", "project_not_found"],
    ["CONSUMER_SUSPENDED", "project_suspended"],
    ["BILLING_DISABLED", "billing_disabled"],
    ["ACCESS_TOKEN_SCOPE_INSUFFICIENT", "permission_denied"],
    ["SOMETHING_NEW", "permission_denied"],
  ])("PERMISSION_DENIED because of %s is %s", async (reason, code) => {
    double.fault({
      fault: "error",
      status: "PERMISSION_DENIED",
      operation: "CreateSecret",
      details: [errorInfo(reason)],
    });
    expect(await put()).toMatchObject({ outcome: "client", code });
  });

  it("names the missing permission", async () => {
    double.change({ deny: ["secretmanager.versions.add"] });
    expect(await put()).toMatchObject({
      code: "permission_denied",
      message: expect.stringContaining("secretmanager.versions.add"),
    });
  });

  it("is retried after RetryInfo, else Retry-After, at most an hour", async () => {
    const throttled = { fault: "error", status: "RESOURCE_EXHAUSTED", operation: "CreateSecret" } as const;
    double.fault({ ...throttled, details: [retryInfo("30s")] });
    expect(await put()).toMatchObject({ outcome: "external", code: "throttled", retryAfterMs: 30_000 });
    double.fault({ ...throttled, details: [errorInfo("RATE_LIMIT_EXCEEDED"), retryInfo("1.5s")] });
    expect(await put()).toMatchObject({ retryAfterMs: 1500 });
    double.fault({ ...throttled, details: [retryInfo("99999s")] });
    expect(await put()).toMatchObject({ retryAfterMs: 3_600_000 });
    double.fault({ ...throttled, details: [retryInfo("soon")], headers: { "retry-after": "7" } });
    expect(await put()).toMatchObject({ retryAfterMs: 7000 });
  });

  it("without a status is classified by its HTTP status", async () => {
    double.fault({ fault: "raw", status: 502, body: "<html>", operation: "CreateSecret" });
    expect(await put()).toMatchObject({ outcome: "external", code: "provider_unavailable" });
    double.fault({ fault: "raw", status: 429, body: "", operation: "CreateSecret" });
    expect(await put()).toMatchObject({ outcome: "external", code: "throttled" });
    double.fault({ fault: "raw", status: 404, body: "{}", operation: "CreateSecret" });
    expect(await put()).toMatchObject({ outcome: "client", code: "refused" });
  });

  it("of success from another server is 'unknown', never 'ok'", async () => {
    for (const body of ["<html>captive portal</html>", "{}", '{"name":"projects/1/secrets/other/versions/1"}']) {
      double.fault({ fault: "raw", status: 200, body, operation: "AddSecretVersion" });
      expect(await put()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    }
  });

  it("that never arrives is 'unknown' for a write and 'external' for a read", async () => {
    double.fault({ fault: "drop", operation: "CreateSecret" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    double.fault({ fault: "drop", operation: "GetSecret" });
    const inspected = await cloudCSm.inspect(wanted(), connectionOf(double), contextOf(double));
    expect(inspected).toMatchObject({ outcome: "external", code: "network_error" });
  });

  it("while syncing is paused is the pause's error, and no request is sent", async () => {
    const paused: CallContext = {
      ...contextOf(double),
      send: sender({ deadlineMs: 5000, permit: async () => false }),
    };
    expect(await put(connectionOf(double), paused)).toEqual(failure("external", "paused", "Syncing is paused."));
    expect(double.requests()).toEqual([]);
  });

  it("adds no value, key, token or provider text to the message", async () => {
    const { value } = wanted();
    const message = `Value '${value}' is bad`;
    const outcomes = [await put(withKey({ private_key: anotherKey }))];
    for (const status of ["INVALID_ARGUMENT", "PERMISSION_DENIED", "INTERNAL"] as const) {
      const details = [errorInfo(value, { permission: value })];
      double.fault({ fault: "error", status, message, details, operation: "AddSecretVersion" });
      outcomes.push(await put());
    }
    double.fault({ fault: "raw", status: 400, body: JSON.stringify({ error: { status: value, message } }) });
    outcomes.push(await put());
    const other = await double.openAccount();
    double.fault(
      {
        fault: "raw",
        status: 400,
        body: JSON.stringify({ error: value, error_description: message }),
        operation: "Token",
      },
      other.account,
    );
    outcomes.push(await put(connectionOf(other)));
    expect(outcomes.map(({ outcome }) => outcome)).toEqual([
      "client",
      "client",
      "client",
      "external",
      "client",
      "client",
    ]);
    for (const part of [value, "BEGIN", "ya29", anotherKey.slice(40, 80)]) {
      expect(JSON.stringify(outcomes)).not.toContain(part);
    }
  });
});

describe("the access token", () => {
  it("is cached for later pushes", async () => {
    const own = await double.openAccount();
    await put(connectionOf(own));
    await put(connectionOf(own));
    expect(double.requests(own.account).filter(({ operation }) => operation === "Token")).toHaveLength(1);
  });

  it("is renewed once when it ended early, and the push succeeds", async () => {
    await put();
    double.expireTokens();
    const before = count("Token");
    expect(await put()).toMatchObject({ outcome: "ok" });
    expect(count("Token")).toBe(before + 1);
  });

  it("is not requested repeatedly when a fresh one is refused", async () => {
    const own = await double.openAccount();
    double.fault({ fault: "error", status: "UNAUTHENTICATED", operation: "CreateSecret", count: 9 }, own.account);
    expect(await put(connectionOf(own))).toMatchObject({ outcome: "client", code: "auth_failed" });
    expect(double.requests(own.account).map(({ operation }) => operation)).toEqual(["Token", "CreateSecret"]);
  });

  it("of one key is not used for another key of the same account", async () => {
    await put();
    expect(await put(withKey({ private_key: anotherKey }))).toMatchObject({ code: "auth_failed" });
  });

  it.each<[string, number, string, string, string]>([
    ["a failing endpoint", 503, "busy", "external", "provider_unavailable"],
    ["a throttling endpoint", 429, "{}", "external", "throttled"],
    ["something else's page", 200, "<html>", "external", "unreadable_answer"],
    [
      "a token with a line break",
      200,
      '{"access_token":"a\\nb","expires_in":3599,"token_type":"Bearer"}',
      "external",
      "unreadable_answer",
    ],
    ["no lifetime", 200, '{"access_token":"a","token_type":"Bearer"}', "external", "unreadable_answer"],
    ["an unknown refusal", 400, '{"error":"new_word"}', "client", "auth_failed"],
    [
      "a clock that is off",
      400,
      '{"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."}',
      "client",
      "auth_failed",
    ],
  ])("is not issued for %s (%i)", async (_what, status, body, outcome, code) => {
    const own = await double.openAccount();
    double.fault({ fault: "raw", status, body, operation: "Token" }, own.account);
    expect(await put(connectionOf(own))).toMatchObject({ outcome, code });
    expect(double.secrets(own.account)).toEqual([]);
  });

  it("request without an answer changed nothing, so it is not 'unknown'", async () => {
    const own = await double.openAccount();
    double.fault({ fault: "drop", operation: "Token" }, own.account);
    expect(await put(connectionOf(own))).toMatchObject({ outcome: "external", code: "network_error" });
  });
});

describe("the host of requests", () => {
  it("is Google's by default, with the project encoded", async () => {
    const own = await double.openAccount();
    const asked: [string, RequestInit][] = [];
    const send: CallContext["send"] = async ([url, init]) => {
      asked.push([url, init]);
      const text = url.includes("/token")
        ? '{"access_token":"t","expires_in":3599,"token_type":"Bearer"}'
        : '{"name":"projects/1/secrets/app-db/versions/1","etag":"\\"1\\""}';
      return { ok: true, response: new Response(), text };
    };
    const connection = { ...connectionOf(own), project_id: "example.com:acme-prod" };
    expect(await cloudCSm.put(wanted(), connection, { settings: {}, send })).toMatchObject({ outcome: "ok" });
    const base = "https://secretmanager.googleapis.com/v1/projects/example.com%3Aacme-prod/secrets";
    expect(asked.map(([url, { method }]) => `${method} ${url}`)).toEqual([
      "POST https://oauth2.googleapis.com/token",
      `POST ${base}?secretId=app-db`,
      `POST ${base}/app-db:addVersion`,
    ]);
    // The request format of Google's own client (golden file, "GCP createSecret" and "GCP addSecretVersion").
    expect(JSON.parse(String(asked[1]?.[1].body))).toMatchObject({ replication: { automatic: {} } });
    expect(Object.keys(JSON.parse(String(asked[2]?.[1].body)).payload)).toEqual(["data", "dataCrc32c"]);
  });

  it("is never taken from a key file, unless the deployment allows the token endpoint", async () => {
    const connection = withKey({ token_uri: "https://tokens.example.com/token" });
    const context = { ...contextOf(double), settings: { CLOUD_C_SM_URL: double.url } };
    expect(await put(connection, context)).toMatchObject({ outcome: "client", code: "token_uri_refused" });
    expect(double.requests()).toEqual([]);
  });

  it("is never called over plain http beyond loopback", async () => {
    const settings = { ...contextOf(double).settings, CLOUD_C_SM_URL: "http://secrets.example.com" };
    expect(await put(connectionOf(double), { ...contextOf(double), settings })).toMatchObject({ code: "insecure_url" });
  });
});

describe("probe", () => {
  it("succeeds with a working key and changes nothing", async () => {
    expect(await probe()).toEqual({ outcome: "ok" });
    expect(double.secrets()).toEqual([]);
  });

  it("succeeds with a role that may get but not list", async () => {
    double.change({ deny: ["secretmanager.secrets.list"] });
    expect(await probe()).toEqual({ outcome: "ok" });
  });

  it("distinguishes a wrong key, an unknown account and a disabled account", async () => {
    expect(await probe(withKey({ private_key: anotherKey }))).toMatchObject({
      outcome: "client",
      code: "auth_failed",
      message: expect.stringContaining("private key"),
    });
    expect(await probe(withKey({ client_email: "nobody@acme-double.iam.gserviceaccount.com" }))).toMatchObject({
      outcome: "client",
      code: "auth_failed",
      message: expect.stringContaining("e-mail"),
    });
    // Once without a token, and once after its token was refused.
    const own = await double.openAccount();
    double.change({ disabled: true }, own.account);
    expect(await probe(connectionOf(own))).toMatchObject({ outcome: "client", code: "account_disabled" });
    double.change({ disabled: false }, own.account);
    expect(await probe(connectionOf(own))).toEqual({ outcome: "ok" });
    double.change({ disabled: true }, own.account);
    expect(await probe(connectionOf(own))).toMatchObject({ outcome: "client", code: "account_disabled" });
  });

  it("distinguishes a disabled API, a missing project and missing permissions", async () => {
    double.change({ apiEnabled: false });
    expect(await probe()).toMatchObject({ outcome: "client", code: "api_disabled" });
    double.change({ apiEnabled: true, projectExists: false });
    expect(await probe()).toMatchObject({ outcome: "client", code: "project_not_found" });
    double.change({ projectExists: true, deny: ["secretmanager.secrets.list", "secretmanager.secrets.get"] });
    expect(await probe()).toMatchObject({
      outcome: "client",
      code: "permission_denied",
      message: expect.stringContaining("acme-double"),
    });
    const other = await double.openAccount();
    expect(await probe({ ...connectionOf(double), project_id: other.projectId })).toMatchObject({
      code: "permission_denied",
    });
    expect(await probe({ ...connectionOf(double), project_id: double.projectNumber })).toMatchObject({
      code: "permission_denied",
    });
    double.change({ deny: [] });
    expect(await probe({ ...connectionOf(double), project_id: double.projectNumber })).toEqual({ outcome: "ok" });
    double.fault({ fault: "error", status: "NOT_FOUND", operation: "ListSecrets" });
    expect(await probe()).toMatchObject({ outcome: "client", code: "project_not_found" });
  });

  it("reports an unreachable service", async () => {
    await probe();
    double.fault({ fault: "drop", operation: "ListSecrets" });
    expect(await probe()).toMatchObject({ outcome: "external", code: "network_error" });
  });
});
