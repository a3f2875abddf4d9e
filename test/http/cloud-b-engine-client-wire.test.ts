import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { cloudB, managedCloud, managedClouds } from "../../src/credentials/engines/azure/client.ts";
import type { Cloud, CloudAccount } from "../../src/credentials/engines/azure/directory.ts";
import type { ClientAssertion } from "../../src/providers/identity-token.ts";
import { type Call, type Send, sender } from "../../src/providers/outcome.ts";
import { type AzureDouble, startAzure } from "../doubles/cloud-b/azure.ts";
import type { AzureOptions } from "../doubles/cloud-b/azure-types.ts";

// Addresses and identities of requests, and requests that are never sent.

const uuid = (): string => crypto.randomUUID();
const failed = (failure: Record<string, unknown>) => ({ ok: false, failure: expect.objectContaining(failure) });

/**
 * A `send` that records requests and returns the results of `answer`. The token endpoint issues a token to every
 * client.
 */
function recording(answer: (url: URL, body: unknown) => [status: number, body?: unknown] = () => [200, {}]) {
  const sent: { method: string; url: string; headers: Record<string, string>; body: string }[] = [];
  const send: Send = async ([url, init]): Promise<Call> => {
    const { method = "GET", body } = init;
    const text = typeof body === "string" ? body : "";
    sent.push({ method, url, headers: Object.fromEntries(new Headers(init.headers)), body: text });
    const token = { token_type: "Bearer", expires_in: 3599, access_token: "t0ken" };
    const [status, answered] = url.endsWith("/token") ? [200, token] : answer(new URL(url), text);
    return { ok: true, response: new Response(null, { status }), text: answered ? JSON.stringify(answered) : "" };
  };
  return { send, sent };
}

const account = (changed: Partial<CloudAccount> = {}): CloudAccount => ({
  tenantId: uuid(),
  subscriptionId: uuid(),
  clientId: uuid(),
  clientSecret: "s3cret~text",
  environment: "",
  ...changed,
});

describe("a cloud", () => {
  it.each([
    [
      "AzurePublicCloud",
      "login.microsoftonline.com",
      "graph.microsoft.com",
      "management.azure.com",
      "https://management.core.windows.net//.default",
    ],
    [
      "AzureChinaCloud",
      "login.chinacloudapi.cn",
      "microsoftgraph.chinacloudapi.cn",
      "management.chinacloudapi.cn",
      "https://management.core.chinacloudapi.cn/.default",
    ],
    [
      "AzureUSGovernmentCloud",
      "login.microsoftonline.us",
      "graph.microsoft.us",
      "management.usgovcloudapi.net",
      "https://management.core.usgovcloudapi.net/.default",
    ],
  ])("%s has its own hosts and audiences, in any letter case", async (environment, login, graph, arm, scope) => {
    const ids = [uuid(), uuid()] as const;
    for (const spelled of [environment, environment.toLowerCase()]) {
      const { send, sent } = recording();
      const given = account({ environment: spelled });
      const cloud = cloudB(given, {}, send);
      await cloud.addGroupMember(...ids);
      await cloud.findRoleDefinitions("Reader");
      const [graphToken, member, armToken, roles] = sent;
      const endpoint = `https://${login}/${given.tenantId}/oauth2/v2.0/token`;
      expect([graphToken?.url, armToken?.url]).toEqual([endpoint, endpoint]);
      expect(new URLSearchParams(graphToken?.body).get("scope")).toBe(`https://${graph}/.default`);
      expect(new URLSearchParams(armToken?.body).get("scope")).toBe(scope);
      expect(member?.url).toBe(`https://${graph}/v1.0/groups/${ids[0]}/members/$ref`);
      expect(JSON.parse(member?.body ?? "")).toEqual({
        "@odata.id": `https://${graph}/v1.0/directoryObjects/${ids[1]}`,
      });
      expect(roles?.url).toMatch(`https://${arm}/subscriptions/${given.subscriptionId}/`);
    }
  });

  // Proves: A.config.environment.public
  it("is the public one by default; clouds without Graph are unknown", () => {
    expect(managedCloud("")?.name).toBe("AzurePublicCloud");
    expect(managedClouds).toEqual(["AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud"]);
    expect(["AzureGermanCloud", "public", "x"].map(managedCloud)).toEqual([null, null, null]);
  });

  it("at another address keeps its own name in role definitions", async () => {
    const { send, sent } = recording();
    const urls = {
      CLOUD_B_LOGIN_URL: "https://login.example/",
      CLOUD_B_GRAPH_URL: "https://graph.example/base/",
      CLOUD_B_ARM_URL: "https://arm.example",
    };
    const given = account({ environment: "AzureChinaCloud" });
    const cloud = cloudB(given, urls, send);
    await cloud.addGroupMember(uuid(), uuid());
    await cloud.deleteRoleAssignment(`/providers/Microsoft.Authorization/roleAssignments/${uuid()}`);
    expect(sent.map(({ url }) => new URL(url).origin)).toEqual([
      "https://login.example",
      "https://graph.example",
      "https://login.example",
      "https://arm.example",
    ]);
    expect(sent[1]?.url).toMatch("https://graph.example/base/v1.0/groups/");
    expect(sent[1]?.body).toMatch("https://microsoftgraph.chinacloudapi.cn/v1.0/directoryObjects/");
    expect(new URLSearchParams(sent[0]?.body).get("scope")).toBe("https://microsoftgraph.chinacloudapi.cn/.default");
  });
});

describe("a request", () => {
  it("selects the needed fields, doubles quotes and has an api-version", async () => {
    const { send, sent } = recording(() => [200, { value: [] }]);
    const given = account();
    const cloud = cloudB(given, {}, send);
    await cloud.findGroups("O'Brien & Söhne");
    await cloud.findApplicationsByName("a'b");
    await cloud.findServicePrincipals("c'd");
    await cloud.findRoleDefinitions("Bob's role");
    const asked = sent.filter(({ url }) => !url.endsWith("/token")).map(({ url }) => new URL(url));
    expect(asked.map(({ searchParams }) => Object.fromEntries(searchParams))).toEqual([
      { $filter: "displayName eq 'O''Brien & Söhne'", $select: "id,displayName" },
      { $filter: "displayName eq 'a''b'", $select: "id,appId,displayName,passwordCredentials" },
      { $filter: "appId eq 'c''d'", $select: "id" },
      { $filter: "roleName eq 'Bob''s role'", "api-version": "2022-05-01-preview" },
    ]);
  });

  it("for a role assignment names the principal type", async () => {
    const { send, sent } = recording(() => [201, { id: "/x" }]);
    const given = { scope: "/", assignmentId: uuid(), roleDefinitionId: "/r", principalId: uuid() };
    expect(await cloudB(account(), {}, send).createRoleAssignment(given)).toEqual({ ok: true, value: { id: "/x" } });
    const { method, url, body } = sent[1] ?? {};
    const path = `/providers/Microsoft.Authorization/roleAssignments/${given.assignmentId}?api-version=2022-04-01`;
    expect([method, url]).toEqual(["PUT", `https://management.azure.com${path}`]);
    const { roleDefinitionId, principalId } = given;
    expect(JSON.parse(body ?? "")).toEqual({
      properties: { roleDefinitionId, principalId, principalType: "ServicePrincipal" },
    });
  });

  const assignment = (scope: string, assignmentId = uuid()) => ({
    scope,
    assignmentId,
    roleDefinitionId: "/r",
    principalId: uuid(),
  });
  const anything = `/subscriptions/${uuid()}/resourceGroups/production`;
  it.each<[string, (cloud: Cloud) => Promise<unknown>]>([
    ["an object id that is a path", (cloud) => cloud.getApplication("../groups")],
    ["an object id that is empty", (cloud) => cloud.deleteApplication("")],
    ["an invalid key id", (cloud) => cloud.removeApplicationPassword(uuid(), "1")],
    ["a group that is a path", (cloud) => cloud.addGroupMember("a/b", uuid())],
    ["an invalid member", (cloud) => cloud.addGroupMember(uuid(), "me")],
    ["a member that ends a path early", (cloud) => cloud.removeGroupMember(uuid(), `${uuid()}?`)],
    ["a scope that is empty", (cloud) => cloud.createRoleAssignment(assignment(""))],
    ["a scope that is a word", (cloud) => cloud.createRoleAssignment(assignment("production"))],
    ["a scope that is another host", (cloud) => cloud.createRoleAssignment(assignment("https://evil.example/x"))],
    ["a scope that goes up", (cloud) => cloud.createRoleAssignment(assignment(`${anything}/../x`))],
    ["a scope with a gap", (cloud) => cloud.createRoleAssignment(assignment("/subscriptions//x"))],
    ["a scope of half a character", (cloud) => cloud.createRoleAssignment(assignment("/subscriptions/\ud800"))],
    ["an invalid assignment's id", (cloud) => cloud.createRoleAssignment(assignment(anything, "x"))],
    ["the removal of a resource group", (cloud) => cloud.deleteRoleAssignment(anything)],
    [
      "the removal of somebody else's kind of assignment",
      (cloud) => cloud.deleteRoleAssignment(`${anything}/providers/Example.Thing/roleAssignments/${uuid()}`),
    ],
    ["the removal of a role definition", (cloud) => cloud.deleteRoleAssignment(roleId("roleDefinitions"))],
    ["reading a role assignment as a role", (cloud) => cloud.getRoleDefinition(roleId("roleAssignments"))],
    ["a role definition that is a name", (cloud) => cloud.getRoleDefinition("Reader")],
  ])("is not sent for %s", async (_what, call) => {
    const { send, sent } = recording();
    expect(await call(cloudB(account(), {}, send))).toEqual(
      failed({ outcome: "client", code: "refused", status: null }),
    );
    expect(sent).toEqual([]);
  });

  const roleId = (kind: string) => `${anything}/providers/Microsoft.Authorization/${kind}/${uuid()}`;

  it("keeps a scope's characters inside the path", async () => {
    const { send, sent } = recording(() => [201, { id: "/x" }]);
    await cloudB(account(), {}, send).createRoleAssignment(assignment("/subscriptions/s/resourceGroups/a?b#c%2e (ü)/"));
    expect(sent[1]?.url).toMatch("/subscriptions/s/resourceGroups/a%3Fb%23c%252e%20(%C3%BC)/providers/Microsoft.");
  });

  it.each<[Partial<CloudAccount>, string]>([
    [{ environment: "AzureGermanCloud" }, "environment must be one of AzurePublicCloud"],
    [{ tenantId: "../common" }, "tenant_id"],
    [{ tenantId: "" }, "tenant_id"],
    [{ subscriptionId: "production" }, "subscription_id"],
    [{ clientId: "" }, "client_id is required"],
    [{ clientSecret: "" }, "client_secret or identity_token_audience is required"],
  ])("is not sent for an account with %j", async (changed, text) => {
    const { send, sent } = recording();
    const cloud = cloudB(account(changed), {}, send);
    const misconfigured = { outcome: "client", code: "misconfigured", message: expect.stringContaining(text) };
    expect(await cloud.getGroup(uuid())).toEqual(failed(misconfigured));
    expect(await cloud.findRoleDefinitions("x")).toEqual(failed(misconfigured));
    expect(await cloud.login(uuid(), "x")).toEqual(failed(misconfigured));
    expect(sent).toEqual([]);
  });
});

describe("an answer", () => {
  const application = { id: uuid(), appId: uuid(), displayName: "x", passwordCredentials: [] };

  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["a text", "x"],
    ["no id", { ...application, id: undefined }],
    ["an id that is a path", { ...application, id: "../x" }],
    ["no client id", { ...application, appId: null }],
  ])("with %s leaves the outcome of a creation unknown, but not of a read", async (_what, body) => {
    const cloud = cloudB(account(), {}, recording(() => [200, body]).send);
    const unreadable = { code: "unreadable_answer", status: 200 };
    const created = await cloud.createApplication({ displayName: "x", tags: [], signInAudience: "" });
    expect(created).toEqual(failed({ ...unreadable, outcome: "unknown" }));
    expect(await cloud.getApplication(uuid())).toEqual(failed({ ...unreadable, outcome: "external" }));
  });

  it("without a password's text or expiry has an unknown outcome", async () => {
    const password = { keyId: uuid(), secretText: "hunter2", endDateTime: "2030-01-02T03:04:05.1234567Z" };
    const add = (body: unknown) =>
      cloudB(account(), {}, recording(() => [200, body]).send).addApplicationPassword(uuid(), {
        displayName: "x",
        endsAt: Date.now() + 1000,
      });
    const endsAt = Date.UTC(2030, 0, 2, 3, 4, 5, 123);
    const { keyId, secretText } = password;
    expect(await add(password)).toEqual({ ok: true, value: { keyId, secretText, endsAt } });
    for (const changed of [{ secretText: null }, { secretText: "" }, { endDateTime: "soon" }, { keyId: "1" }]) {
      const refused = await add({ ...password, ...changed });
      expect(refused).toEqual(failed({ outcome: "unknown", code: "unreadable_answer" }));
      expect(JSON.stringify(refused)).not.toContain("hunter2");
    }
  });

  const linking = (link: (url: URL) => string) =>
    recording((url) => [200, { value: [application], "@odata.nextLink": link(url) }]);

  it("is followed to the cloud's own address", async () => {
    let pages = 0;
    const { send, sent } = recording(() => {
      const more = ++pages < 3 && {
        "@odata.nextLink": "https://graph.microsoft.com/v1.0/applications?$skiptoken=x%27y",
      };
      return [200, { value: [application], ...more }];
    });
    const found = await cloudB(
      account(),
      { CLOUD_B_GRAPH_URL: "https://proxy.example/g" },
      send,
    ).findApplicationsByName("x");
    expect(found.ok && found.value).toHaveLength(3);
    expect(sent[3]?.url).toBe("https://proxy.example/g/v1.0/applications?$skiptoken=x%27y");
  });

  it.each([
    "https://evil.example/v1.0/applications",
    "https://graph.microsoft.com.evil.example/",
    "https://graph.microsoft.com@evil.example/",
    "http://graph.microsoft.com/v1.0/applications",
    "/v1.0/applications",
  ])("that leads to %s is not followed", async (link) => {
    const { send, sent } = linking(() => link);
    const found = await cloudB(account(), {}, send).findApplicationsByName("x");
    expect(found).toEqual(failed({ outcome: "external", code: "unreadable_answer" }));
    expect(sent).toHaveLength(2);
  });

  it("without an end is cut off", async () => {
    const { send, sent } = linking((url) => url.href);
    const found = await cloudB(account(), {}, send).findApplicationsByName("x");
    expect(found).toEqual(failed({ outcome: "external", code: "unreadable_answer" }));
    expect(sent).toHaveLength(51);
  });
});

describe("a token", () => {
  let double: AzureDouble;
  let opened: ReturnType<AzureDouble["openAccount"]>;
  beforeAll(async () => {
    double = await startAzure();
  });
  afterAll(() => double.close());
  beforeEach(() => open());
  afterEach(() => void vi.useRealTimers());

  const open = (options: AzureOptions = {}) => {
    opened = double.openAccount(options);
  };
  const urls = () => ({
    CLOUD_B_LOGIN_URL: double.loginUrl,
    CLOUD_B_GRAPH_URL: double.graphUrl,
    CLOUD_B_ARM_URL: double.armUrl,
  });
  const identity = (changed: Partial<CloudAccount> = {}) => {
    const { tenant_id: tenantId, subscription_id: subscriptionId, client_id: clientId } = opened.details;
    const { client_secret: clientSecret, environment } = opened.details;
    return { tenantId, subscriptionId, clientId, clientSecret, environment, ...changed };
  };
  const client = (changed: Partial<CloudAccount> = {}, assertion?: ClientAssertion) =>
    cloudB(identity(changed), urls(), sender({ deadlineMs: 5000 }), assertion);
  const operations = () => opened.account.log.map(({ operation }) => operation);
  const tokens = () => operations().filter((operation) => operation === "Token").length;
  const read = (cloud = client()) => cloud.getApplication(opened.details.root.object_id);
  const create = (cloud = client()) => cloud.createApplication({ displayName: "x", tags: [], signInAudience: "" });

  it("is cached for later calls, per audience", async () => {
    expect(await read()).toMatchObject({ ok: true });
    expect(await read()).toMatchObject({ ok: true });
    await client().findRoleDefinitions("Reader");
    expect(operations()).toEqual(["Token", "GetApplication", "GetApplication", "Token", "ListRoleDefinitions"]);
  });

  // Proves: E.auth.1.client-credentials
  it("of one secret is not used for another secret", async () => {
    await read();
    const refused = await read(client({ clientSecret: "wr0ng" }));
    const wrong = { outcome: "client", code: "auth_failed", providerCode: "AADSTS7000215", status: 401 };
    expect(refused).toEqual(failed(wrong));
    expect(JSON.stringify(refused)).not.toContain("wr0ng");
  });

  it("that is refused is replaced once, and the call repeated", async () => {
    await read();
    opened.account.call({ change: "RevokeTokens" });
    expect(await read()).toMatchObject({ ok: true });
    expect(operations()).toEqual(["Token", "GetApplication", "GetApplication", "Token", "GetApplication"]);
    opened.account.fault({
      fault: "error",
      status: 401,
      code: "InvalidAuthenticationToken",
      service: "graph",
      count: 9,
    });
    expect(await read()).toEqual(failed({ outcome: "client", code: "auth_failed", status: 401 }));
    expect(tokens()).toBe(3);
  });

  it("that is refused right after its issue is not replaced", async () => {
    opened.account.fault({
      fault: "error",
      status: 401,
      code: "InvalidAuthenticationToken",
      service: "graph",
      count: 9,
    });
    expect(await read()).toEqual(failed({ outcome: "client", code: "auth_failed", status: 401 }));
    expect(operations()).toEqual(["Token", "GetApplication"]);
  });

  it("is renewed after a refusal, so that new rights apply to the next call", async () => {
    open({ permissions: [] });
    vi.useFakeTimers({ toFake: ["Date"] });
    expect(await create()).toEqual(failed({ code: "permission_denied" }));
    opened.account.call({ change: "SetPermissions", permissions: ["Application.ReadWrite.OwnedBy"] });
    expect(await create()).toEqual(failed({ code: "permission_denied" }));
    expect(tokens()).toBe(1);
    vi.setSystemTime(Date.now() + 61_000);
    expect(await create()).toEqual(failed({ code: "permission_denied" }));
    expect(await create()).toMatchObject({ ok: true });
    expect(tokens()).toBe(2);
  });

  it.each<[string, Partial<CloudAccount>, string]>([
    ["there is no tenant", { tenantId: uuid() }, "AADSTS90002"],
    ["the tenant has no application", { clientId: uuid() }, "AADSTS700016"],
  ])("is not issued where %s", async (text, changed, providerCode) => {
    const refused = await read(client(changed));
    const message = expect.stringContaining(`${text} with this`);
    expect(refused).toEqual(failed({ outcome: "client", code: "auth_failed", providerCode, message }));
  });

  it.each([
    [429, "throttled"],
    [503, "provider_unavailable"],
  ])("request that fails with %i can be retried: %s", async (status, code) => {
    const headers = { "retry-after": "3" };
    opened.account.fault({ fault: "error", service: "login", status, code: "server_busy", headers });
    expect(await create()).toEqual(failed({ outcome: "external", code, status, retryAfterMs: 3000 }));
    expect(operations()).toEqual(["Token"]);
  });

  it("that never arrives means that a creation was not sent", async () => {
    opened.account.fault({ fault: "drop", service: "login" });
    expect(await create()).toEqual(failed({ outcome: "external", code: "network_error", status: null }));
  });

  it("is requested by every login, which reports new credentials as not replicated yet", async () => {
    open({ lags: { password: { requests: 1 }, principalInLogin: { requests: 1 } } });
    const cloud = client();
    const application = await create(cloud);
    if (!application.ok) throw new Error("not created");
    const { objectId, clientId } = application.value;
    const times = { startsAt: Date.now(), endsAt: Date.now() + 60_000 };
    const password = await cloud.addApplicationPassword(objectId, { displayName: "x", ...times });
    if (!password.ok) throw new Error("no password");
    const login = () => cloud.login(clientId, password.value.secretText);
    expect(await login()).toEqual(failed({ code: "auth_failed", providerCode: "AADSTS7000229" }));
    await cloud.createServicePrincipal(clientId);
    expect(await login()).toEqual(failed({ code: "auth_failed", providerCode: "AADSTS700016" }));
    expect(await login()).toEqual(failed({ code: "auth_failed", providerCode: "AADSTS7000215" }));
    const before = tokens();
    expect([await login(), await login()]).toEqual(Array(2).fill({ ok: true, value: null }));
    expect(tokens()).toBe(before + 2);
  });

  describe("a token for a client assertion", () => {
    const issuer = "https://sallyport.example/v1/identity/oidc/plugins";
    const audience = "api://AzureADTokenExchange";
    let subject = "";
    let signed = 0;

    async function assertion(changed: Partial<ClientAssertion> = {}): Promise<ClientAssertion> {
      const claims = { issuer, subject, audience, ...changed };
      const { privateKey, publicKey } = await generateKeyPair("RS256");
      const jwks_uri = `${claims.issuer}/.well-known/keys`;
      const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: "1", alg: "RS256", use: "sig" }] };
      const configuration = { issuer: claims.issuer, jwks_uri };
      opened.account.call({ change: "PublishIssuer", issuer: claims.issuer, configuration, keys });
      const sign = () => {
        signed++;
        const jwt = new SignJWT({})
          .setProtectedHeader({ alg: "RS256", kid: "1" })
          .setIssuedAt()
          .setExpirationTime("5m");
        return jwt.setIssuer(claims.issuer).setSubject(claims.subject).setAudience(claims.audience).sign(privateKey);
      };
      return { ...claims, sign };
    }

    beforeEach(() => {
      signed = 0;
      subject = `plugin-identity:root:secret:${uuid()}`;
      const { object_id: id } = opened.details.root;
      opened.account.call({ change: "AddFederatedCredential", id, issuer, subject, audience });
    });

    it("is issued without a secret, and cached", async () => {
      const cloud = client({ clientSecret: "" }, await assertion());
      expect(await read(cloud)).toMatchObject({ ok: true });
      expect(await read(cloud)).toMatchObject({ ok: true });
      expect(opened.account.log[0]?.fields).toContain("client_assertion");
      expect(opened.account.log[0]?.fields).not.toContain("client_secret");
      expect([tokens(), signed]).toEqual([1, 1]);
    });

    it("is not used for another assertion", async () => {
      await read(client({ clientSecret: "" }, await assertion()));
      const other = await read(client({ clientSecret: "" }, await assertion({ subject: "somebody" })));
      const message = expect.stringContaining("subject; add one");
      expect(other).toEqual(failed({ code: "auth_failed", providerCode: "AADSTS700213", message }));
      expect(JSON.stringify(other)).not.toContain("somebody");
    });

    it("is not requested if there is a secret", async () => {
      expect(await read(client({}, await assertion()))).toMatchObject({ ok: true });
      expect(signed).toBe(0);
    });
  });
});
