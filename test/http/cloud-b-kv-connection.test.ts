import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { failure, sender } from "../../src/providers/outcome.ts";
import { cloudBKv } from "../../src/sync/destinations/cloud-b-kv/adapter.ts";
import type { CloudBConnection } from "../../src/sync/destinations/cloud-b-kv/client.ts";
import type { CallContext, ExternalObject } from "../../src/sync/destinations/destination-type.ts";
import { type CloudBDouble, type Fault, startCloudB } from "../doubles/cloud-b-kv/server.ts";

// The fields of a connection, its credentials, and the classification of refusals.

const value = "hunter2-hunter2";
let now = Date.now();
let double: CloudBDouble;

beforeAll(async () => {
  double = await startCloudB({ now: () => now });
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  double.reset();
});

const connection = (changed: Partial<CloudBConnection> = {}): CloudBConnection => ({
  ...double.account,
  cloud: "AzurePublicCloud",
  ...changed,
});
const settings = (changed: Record<string, string> = {}) =>
  ({ CLOUD_B_LOGIN_URL: double.url, SYNC_ALLOWED_HOSTS: "127.0.0.1", ...changed }) as CallContext["settings"];
const context = (): CallContext => ({ settings: settings(), send: sender({ deadlineMs: 5000 }) });
const object: ExternalObject = {
  name: "app-db",
  value,
  tags: { "hashicorp:vault": "" },
  reference: null,
  knownToExist: false,
  idempotencyToken: "i",
  previousTagKeys: [],
  contentType: "text/plain",
  updatePolicy: "replace",
};
const put = (to = connection(), given = context()) => cloudBKv.put(object, to, given);
const probe = (to = connection(), given = context()) => cloudBKv.probe(to, given);
const operations = () => double.requests().map(({ operation }) => operation);
const written = { outcome: "ok", reference: expect.any(String) };

describe("connection fields", () => {
  const given = {
    key_vault_uri: "https://Acme-EU.vault.azure.net/",
    tenant_id: "8f3b2c1d-aaaa-bbbb-cccc-1234567890ab",
    client_id: "4a9e1a3f-aaaa-bbbb-cccc-1234567890ab",
    client_secret: "s3cr3t~",
  };
  const problems = (changed: Record<string, unknown>) => {
    const parsed = cloudBKv.connection.safeParse({ ...given, ...changed });
    return parsed.success
      ? (cloudBKv.checkSettings?.(parsed.data, {}) ?? null)
      : parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ");
  };

  const resolved = (changed: Record<string, unknown>) => {
    const parsed = cloudBKv.connection.parse({ ...given, ...changed });
    return cloudBKv.resolve?.(parsed);
  };

  it("are stored as given, and normalized when used", () => {
    const parsed = cloudBKv.connection.parse({ ...given, colour: "red", cloud: "" });
    expect(parsed).toEqual(given);
    expect(cloudBKv.connection.parse(parsed)).toEqual(parsed);
    const used = { ...given, key_vault_uri: "https://acme-eu.vault.azure.net", cloud: "AzurePublicCloud" };
    expect(resolved({})).toEqual(used);
    expect(cloudBKv.resolve?.(used)).toEqual(used);
  });

  // Proves: B.cloud-b-kv.cloud
  it("`cloud` defaults to the public cloud", () => {
    for (const cloud of [undefined, "", "cloud"])
      expect(resolved({ cloud })).toMatchObject({ cloud: "AzurePublicCloud" });
  });

  it.each([
    ["azurecloud", "AzurePublicCloud"],
    ["public", "AzurePublicCloud"],
    ["AZUREPUBLICCLOUD", "AzurePublicCloud"],
    ["AzureUSGovernment", "AzureUSGovernmentCloud"],
    ["usgovernment", "AzureUSGovernmentCloud"],
    ["AzureUSGovernmentCloud", "AzureUSGovernmentCloud"],
    ["AzureChinaCloud", "AzureChinaCloud"],
    ["china", "AzureChinaCloud"],
    ["azuregermancloud", "AzureGermanCloud"],
  ])("cloud %s is %s", (cloud, meant) => {
    expect(cloudBKv.connection.parse({ ...given, cloud })).toMatchObject({ cloud });
    expect(resolved({ cloud })).toMatchObject({ cloud: meant });
  });

  it.each(["Azure", "clouds", "AzureMoonCloud", "constructor"])(
    "cloud %s is refused with the list of clouds",
    (cloud) => {
      const allowed = "AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud, AzureGermanCloud";
      expect(problems({ cloud })).toBe(`cloud: must be one of ${allowed}`);
    },
  );

  it.each(["key_vault_uri", "tenant_id", "client_id", "client_secret"])("%s is required", (field) => {
    expect(problems({ [field]: undefined })).toBe(`${field}: is required`);
    expect(problems({ [field]: "" })).toBe(`${field}: is required`);
  });

  it.each([
    ["key_vault_uri", 7, "must be a URL"],
    ["key_vault_uri", [], "must be a text"],
    ["key_vault_uri", "acme.vault.azure.net", "must be a URL"],
    ["key_vault_uri", "ftp://acme.vault.azure.net", "must be a URL"],
    ["key_vault_uri", "https://acme.vault.azure.net/secrets", "without a path"],
    ["key_vault_uri", "https://acme.vault.azure.net?x", "without a path"],
    ["key_vault_uri", "https://acme.vault.azure.net/#x", "without a path"],
    ["key_vault_uri", "https://me:pass@acme.vault.azure.net", "must not hold credentials"],
    ["key_vault_uri", "http://acme.vault.azure.net", "must begin with https://"],
    ["key_vault_uri", "https://acme.vault.azure.net:8443", "the host must be a vault of AzurePublicCloud"],
    ["key_vault_uri", "https://acme.vault.azure.cn", "the host must be a vault of AzurePublicCloud"],
    ["key_vault_uri", "https://vault.azure.net", "such as my-vault.vault.azure.net"],
    ["key_vault_uri", "https://a.b.vault.azure.net", "the host must be a vault"],
    ["key_vault_uri", "https://evilvault.azure.net", "the host must be a vault"],
    ["key_vault_uri", "https://acme.vault.azure.net.example.com", "SYNC_ALLOWED_HOSTS"],
    ["key_vault_uri", "https://a--b.vault.azure.net", "the host must be a vault"],
    ["key_vault_uri", `https://${"a".repeat(25)}.vault.azure.net`, "the host must be a vault"],
    ["key_vault_uri", "https://127.0.0.1", "SYNC_ALLOWED_HOSTS"],
    ["tenant_id", "a/b", "must be a tenant's id or domain name"],
    ["tenant_id", "..", "must be a tenant's id or domain name"],
    ["client_id", "a b", "without spaces"],
    ["client_secret", "é", "printable"],
    ["cloud", 7, "must be a text"],
  ])("%s %s is refused: %s", (field, bad, message) => {
    expect(problems({ [field]: bad })).toMatch(new RegExp(`^${field}: `));
    expect(problems({ [field]: bad })).toContain(message);
  });

  it("a vault must belong to the cloud's hosts", () => {
    expect(problems({})).toBeNull();
    expect(problems({ cloud: "china", key_vault_uri: "https://acme.vault.azure.cn" })).toBeNull();
    expect(problems({ cloud: "usgovernment", key_vault_uri: "https://acme.vault.usgovcloudapi.net" })).toBeNull();
    expect(problems({ cloud: "china" })).toContain("my-vault.vault.azure.cn");
  });

  it.each([
    ["https://kv.example.com:8443", "kv.example.com", null],
    ["https://kv.example.com:8443", "other, KV.example.com:8443", null],
    ["https://kv.example.com:8443", "kv.example.com:443", "the host must be"],
    ["https://kv.example.com", "*.example.com", null],
    ["https://example.com", "*.example.com", "the host must be"],
    ["https://kv.example.com", "*", "the host must be"],
    ["https://kv.example.com", "", "the host must be"],
    ["http://kv.example.com", "kv.example.com", "must begin with https://"],
    ["http://127.0.0.1:8080", "127.0.0.1:8080", null],
    ["http://localhost:8080", "127.0.0.1", "must begin with https://"],
  ])("%s with SYNC_ALLOWED_HOSTS '%s': %s", (key_vault_uri, allowed, problem) => {
    const parsed = cloudBKv.connection.parse({ ...given, key_vault_uri });
    const refused = cloudBKv.checkSettings?.(parsed, settings({ SYNC_ALLOWED_HOSTS: allowed }));
    expect(refused).toEqual(problem === null ? null : expect.stringContaining(problem));
  });

  it.each<[string, Record<string, string>, string | null]>([
    ["15 tags", Object.fromEntries([...Array(15).keys()].map((n) => [`k${n}`, ""])), null],
    ["16 tags", Object.fromEntries([...Array(16).keys()].map((n) => [`k${n}`, ""])), "at most 15"],
    ["an empty key", { "": "v" }, "1 to 256"],
    ["a key of 257 characters", { ["k".repeat(257)]: "" }, "1 to 256"],
    ["a value of 257 characters", { k: "v".repeat(257) }, "at most 256"],
    ["any characters", { "<é>": "%&\\?/" }, null],
  ])("tags: %s", (_what, tags, problem) => {
    expect(cloudBKv.checkTags?.(tags)).toEqual(problem === null ? null : expect.stringContaining(problem));
  });
});

describe("tokens", () => {
  it("are cached, and requested again after a refusal or expiry", async () => {
    const account = await double.newAccount();
    const own = connection(account);
    const log = async () => {
      const response = await fetch(`${double.url}/_double/requests?account=${account.tenant_id}`);
      return ((await response.json()) as { operation: string }[]).map(({ operation }) => operation);
    };
    await put(own);
    await put(own);
    expect(await log()).toEqual(["Token", "SetSecret", "SetSecret"]);
    double.revokeTokens();
    expect(await put(own)).toEqual(written);
    expect((await log()).slice(3)).toEqual(["SetSecret", "Token", "SetSecret"]);
    now += 3_600_000;
    expect(await put(own)).toEqual(written);
    expect((await log()).slice(6)).toEqual(["SetSecret", "Token", "SetSecret"]);
  });

  it("are requested once when a fresh one is refused", async () => {
    const { key_vault_uri } = double.account;
    const stranger = connection({ ...(await double.newAccount()), key_vault_uri });
    const failed = { outcome: "client", code: "auth_failed", message: expect.stringContaining("another tenant") };
    expect(await put(stranger)).toEqual(failed);
    expect(operations()).toEqual(["SetSecret"]);
  });

  it("come from the configured endpoint, with or without a trailing slash", async () => {
    double.revokeTokens();
    const given = { ...context(), settings: settings({ CLOUD_B_LOGIN_URL: `${double.url}/` }) };
    expect(await put(connection(), given)).toEqual(written);
    expect(operations()).toContain("Token");
  });

  it("are refused for a rotated secret, and issued for the new one", async () => {
    await put();
    const old = connection();
    double.rotateSecret();
    double.revokeTokens();
    expect(await put(old)).toMatchObject({ code: "auth_failed" });
    expect(await put()).toEqual(written);
  });

  it("a lost answer of the token endpoint is no uncertain write", async () => {
    for (const fault of ["drop", "apply-then-drop"] as const) {
      double.revokeTokens();
      double.fault({ fault, service: "login" });
      expect(await put()).toMatchObject({ outcome: "external", code: "network_error" });
    }
    expect(double.secrets()).toEqual([]);
  });

  it.each([
    [
      "AzurePublicCloud",
      "https://acme.vault.azure.net",
      "https://login.microsoftonline.com",
      "https://vault.azure.net",
    ],
    [
      "AzureUSGovernmentCloud",
      "https://acme.vault.usgovcloudapi.net",
      "https://login.microsoftonline.us",
      "https://vault.usgovcloudapi.net",
    ],
    ["AzureChinaCloud", "https://acme.vault.azure.cn", "https://login.chinacloudapi.cn", "https://vault.azure.cn"],
    [
      "AzureGermanCloud",
      "https://acme.vault.microsoftazure.de",
      "https://login.microsoftonline.de",
      "https://vault.microsoftazure.de",
    ],
  ])("of %s come from its login host for its vaults", async (cloud, key_vault_uri, login, resource) => {
    const answers = [
      { token_type: "Bearer", expires_in: "3599", access_token: `token-${cloud}` },
      { value, id: `${key_vault_uri}/secrets/app-db/0123456789abcdef0123456789abcdef` },
    ];
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json(answers.shift()));
    const to = connection({ cloud, key_vault_uri, client_secret: "a&b" });
    expect(await put(to, { settings: {}, send: sender({ deadlineMs: 20_000 }) })).toEqual({
      outcome: "ok",
      reference: "0123456789abcdef0123456789abcdef",
    });
    const [[tokenUrl, tokenInit] = [], [url, init] = []] = fetched.mock.calls;
    fetched.mockRestore();
    expect(tokenUrl).toBe(`${login}/${to.tenant_id}/oauth2/v2.0/token`);
    expect(Object.fromEntries(new URLSearchParams(String(tokenInit?.body)))).toEqual({
      grant_type: "client_credentials",
      client_id: to.client_id,
      client_secret: "a&b",
      scope: `${resource}/.default`,
    });
    expect(url).toBe(`${key_vault_uri}/secrets/app-db?api-version=7.5`);
    expect(new Headers(init?.headers).get("authorization")).toBe(`Bearer token-${cloud}`);
  });

  it("are not sent to a host that the settings no longer allow", async () => {
    const given = { ...context(), settings: settings({ SYNC_ALLOWED_HOSTS: "" }) };
    expect(await put(connection(), given)).toMatchObject({ outcome: "client", code: "host_not_allowed" });
    expect(double.requests()).toEqual([]);
  });

  it("no request is sent while syncing is paused", async () => {
    const paused = failure("external", "paused", "Syncing is paused.");
    const send = sender({ deadlineMs: 5000, permit: async () => false });
    expect(await put(connection(), { ...context(), send })).toEqual(paused);
    expect(double.requests()).toEqual([]);
  });
});

describe("probe", () => {
  it("changes nothing and needs no existing secret", async () => {
    double.revokeTokens();
    expect(await probe()).toEqual({ outcome: "ok" });
    expect(operations().at(-1)).toBe("GetSecretVersions");
    expect(double.secrets()).toEqual([]);
  });

  it.each<[string, Partial<CloudBConnection>, string]>([
    ["a wrong tenant", { tenant_id: "11111111-1111-1111-1111-111111111111" }, "no tenant with this tenant_id"],
    ["a wrong client id", { client_id: "nobody" }, "no application with this client_id"],
    ["a wrong secret", { client_secret: "wrong-secret" }, "client_secret is not a secret of this application"],
  ])("reports %s", async (_what, changed, message) => {
    const failed = { outcome: "client", code: "auth_failed", message: expect.stringContaining(message) };
    expect(await probe(connection(changed))).toEqual(failed);
  });

  it("distinguishes a vault of another tenant from a missing one", async () => {
    const { key_vault_uri } = await double.newAccount();
    expect(await probe(connection({ key_vault_uri }))).toMatchObject({
      code: "auth_failed",
      message: expect.stringContaining("the vault belongs to another tenant than tenant_id"),
    });
    // A port without a listener.
    expect(await probe(connection({ key_vault_uri: "http://127.0.0.1:1" }))).toEqual({
      outcome: "external",
      code: "network_error",
      message: "No vault can be reached at 127.0.0.1:1; key_vault_uri may be wrong.",
    });
  });

  it("reports a missing permission", async () => {
    const account = await double.newAccount({ permissions: ["set", "delete"] });
    expect(await probe(connection(account))).toMatchObject({ code: "permission_denied" });
    expect(await put(connection(account))).toEqual(written);
  });
});

describe("errors", () => {
  type Refusal = Omit<Extract<Fault, { fault: "error" }>, "fault">;
  const vault = (status: number, type: string, inner?: string): Refusal => ({
    service: "vault",
    status,
    type,
    ...(inner && { inner }),
  });
  const login = (status: number, type: string, number = 0): Refusal => ({ service: "login", status, type, number });

  it.each<[Refusal, string, string]>([
    [vault(403, "Forbidden", "ForbiddenByRbac"), "client", "permission_denied"],
    [vault(403, "Forbidden", "ForbiddenByPolicy"), "client", "permission_denied"],
    [vault(403, "Forbidden", "ForbiddenByFirewall"), "client", "permission_denied"],
    [vault(403, "Forbidden"), "client", "permission_denied"],
    [vault(400, "BadParameter"), "client", "invalid_parameter"],
    [vault(404, "ResourceNotFound"), "client", "not_found"],
    [vault(413, "RequestEntityTooLarge"), "client", "value_too_large"],
    [vault(418, "Teapot"), "client", "refused"],
    [vault(429, "Throttled"), "external", "throttled"],
    [vault(429, "SomethingNew"), "external", "throttled"],
    [vault(408, "RequestTimeout"), "external", "provider_unavailable"],
    [vault(500, "InternalServerError"), "external", "provider_unavailable"],
    [vault(503, "ServiceUnavailable"), "external", "provider_unavailable"],
    [vault(530, "origin"), "external", "network_error"],
    [login(401, "invalid_client", 7000222), "client", "auth_failed"],
    [login(400, "unauthorized_client", 700016), "client", "auth_failed"],
    [login(400, "something_new"), "client", "auth_failed"],
    [login(400, "temporarily_unavailable"), "external", "provider_unavailable"],
    [login(503, "server_error"), "external", "provider_unavailable"],
    [login(429, "throttled"), "external", "throttled"],
  ])("%o is %s %s", async (refusal, outcome, code) => {
    double.revokeTokens();
    const headers = { "retry-after": "7" };
    // The cached token is refused first, so another one is requested.
    double.fault({ fault: "error", ...refusal, headers });
    const failed = await put(connection());
    expect(failed).toMatchObject({ outcome, code, ...(outcome === "external" && { retryAfterMs: 7000 }) });
    expect(failed).toMatchObject({ message: expect.stringContaining(`HTTP ${refusal.status}`) });
  });

  it("an answer 200 from another server is never 'ok'", async () => {
    const page = { fault: "raw", status: 200, body: "<html>captive portal</html>" } as const;
    double.fault({ ...page, service: "vault" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    double.fault({ ...page, body: "{}", service: "vault" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    double.revokeTokens();
    double.fault({ ...page, service: "login" });
    expect(await put()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    for (const body of ['{"value":7}', "[]", '{"value":[{"id":"x"}]}']) {
      double.fault({ ...page, body, operation: "GetSecretVersions" });
      const known = { name: "app-db", reference: null };
      const seen = await cloudBKv.inspect(known, connection(), context());
      expect(seen).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    }
  });

  it("a missing answer is 'unknown', and a late write has happened", async () => {
    await put();
    double.reset();
    double.fault({ fault: "drop" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    double.fault({ fault: "delay", ms: 1_000 });
    const hurried = { ...context(), send: sender({ deadlineMs: 500 }) };
    expect(await put(connection(), hurried)).toMatchObject({ outcome: "unknown", code: "deadline_exceeded" });
    await vi.waitFor(() => expect(double.secrets()).toHaveLength(1));
  });

  it("too many creates are throttled", async () => {
    const own = connection(await double.newAccount({ createsPer10s: 2 }));
    await put(own);
    await put(own);
    expect(await put(own)).toMatchObject({ outcome: "external", code: "throttled", retryAfterMs: 10_000 });
  });

  it("contain no value, secret, token or text of the provider", async () => {
    await put();
    const outcomes = [await put(connection({ client_secret: "wrong-secret" }))];
    for (const type of ["BadParameter", value, `Conflict ${value}`]) {
      double.fault({ fault: "error", service: "vault", type, inner: `x ${value}`, message: `'${value}'` });
      outcomes.push(await put());
    }
    outcomes.push(await cloudBKv.put({ ...object, value: "v".repeat(25_601) }, connection(), context()));
    const text = JSON.stringify(outcomes);
    expect(outcomes.every(({ outcome }) => outcome === "client")).toBe(true);
    for (const part of [`'${value}'`, `x ${value}`, "wrong-secret", double.account.client_secret, "vvvv", "eyJ"]) {
      expect(text).not.toContain(part);
    }
  });
});
