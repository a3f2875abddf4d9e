import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startCloudB } from "../cloud-b-kv/server.ts";
import { type AzureDouble, startAzure } from "./azure.ts";
import { armResource, type Driver, graphResource, openAccount, type Reply, read, refusal } from "./azure-driver.ts";

// The double's token endpoint: each test fails for a more lenient endpoint.

const day = 86_400_000;
let now = Date.now();
let double: AzureDouble;
let one: Driver;

beforeAll(async () => {
  double = await startAzure({ now: () => now });
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  one = openAccount(double);
});

/** Another password for the existing application, or for its principal. */
function addPassword(of: "object_id" | "principal_id", times: { startDateTime?: string; endDateTime?: string } = {}) {
  const id = one.details.existing_application[of];
  return { id, ...(one.call({ change: "AddPassword", id, ...times }) as { keyId: string; secretText: string }) };
}

const logIn = (secret: string | null, scope = `${graphResource}/.default`) =>
  one.requestToken({ client_id: one.details.existing_application.client_id, client_secret: secret, scope });

const claimsOf = ({ body }: Reply) => JSON.parse(Buffer.from(body.access_token.split(".")[1], "base64url").toString());

describe("secrets", () => {
  it.each(["object_id", "principal_id"] as const)("are valid from start to end or removal (%s)", async (of) => {
    const at = (ms: number) => new Date(now + ms).toISOString();
    const { id, keyId, secretText } = addPassword(of, { startDateTime: at(day), endDateTime: at(2 * day) });
    expect(refusal(await logIn(secretText))).toEqual([401, 7000215]);
    now += day;
    expect((await logIn(secretText)).status).toBe(200);
    now += day;
    expect(refusal(await logIn(secretText))).toEqual([401, 7000222]);
    one.call({ change: "RemovePassword", id, keyId });
    expect(refusal(await logIn(secretText))).toEqual([401, 7000215]);
  });

  it("issue tokens with the application and its permissions at issue", async () => {
    const { root, client_id, tenant_id } = one.details;
    const claims = claimsOf(await one.requestToken());
    expect(claims).toMatchObject({ aud: graphResource, appid: client_id, oid: root.principal_id, tid: tenant_id });
    expect(claims.roles).toEqual(["Application.ReadWrite.All", "GroupMember.ReadWrite.All"]);
    expect(claimsOf(await one.requestToken({ scope: `${armResource}/.default` })).roles).toBeUndefined();
    const token = await one.tokenFor(graphResource);
    one.call({ change: "SetPermissions", permissions: [] });
    expect((await one.graph("GET /groups", undefined, { token })).status).toBe(200);
    expect(refusal(await one.graph("GET /groups"))).toEqual([403, "Authorization_RequestDenied"]);
  });

  it("are refused without a principal, with a disabled one, after a deletion, or in another tenant", async () => {
    const { secretText } = addPassword("object_id");
    const { object_id: id, principal_id } = one.details.existing_application;
    const other = openAccount(double).details.tenant_id;
    expect(refusal(await one.requestToken({}, other))).toEqual([400, 700016]);
    one.call({ change: "DisableServicePrincipal", id: principal_id });
    expect(refusal(await logIn(secretText))).toEqual([400, 7000112]);
    one.call({ change: "DeleteServicePrincipal", id: principal_id });
    expect(refusal(await logIn(secretText))).toEqual([400, 7000229]);
    one.call({ change: "DeleteApplication", id });
    expect(refusal(await logIn(secretText))).toEqual([400, 700016]);
  });

  it("are valid after a delay, regardless of earlier attempts", async () => {
    one.call({
      change: "SetLags",
      lags: { password: { requests: 2 }, principalInLogin: { ms: 60_000 }, application: { requests: 1 } },
    });
    const application = (await one.graph("POST /applications", { displayName: "new" })).body;
    const path = `/applications/${application.id}`;
    expect(refusal(await one.graph(`GET ${path}`))).toEqual([404, "Request_ResourceNotFound"]);
    const { secretText } = (await one.graph(`POST ${path}/addPassword`, {})).body;
    expect((await one.graph("POST /servicePrincipals", { appId: application.appId })).status).toBe(201);
    const attempt = () => one.requestToken({ client_id: application.appId, client_secret: secretText });
    expect(refusal(await attempt())).toEqual([400, 700016]);
    now += 60_000;
    expect(refusal(await attempt())).toEqual([401, 7000215]);
    expect(refusal(await attempt())).toEqual([401, 7000215]);
    expect((await attempt()).status).toBe(200);
  });

  it("are valid for the audiences of the tenant's cloud", async () => {
    for (const resource of [armResource, `${armResource}/`, "https://management.core.windows.net/"]) {
      expect((await one.requestToken({ scope: `${resource}/.default` })).status).toBe(200);
    }
    expect(refusal(await one.requestToken({ scope: "https://graph.microsoft.us/.default" }))).toEqual([400, 500011]);
    const us = openAccount(double, { environment: "AzureUSGovernmentCloud" });
    expect((await us.requestToken({ scope: "https://graph.microsoft.us/.default" })).status).toBe(200);
    expect(refusal(await us.requestToken())).toEqual([400, 500011]);
  });

  it("are subject to the tenant's faults only", async () => {
    one.account.fault({
      service: "login",
      fault: "error",
      status: 429,
      code: "temporarily_unavailable",
      number: 50196,
    });
    expect((await openAccount(double).requestToken()).status).toBe(200);
    expect(refusal(await one.requestToken())).toEqual([429, 50196]);
    one.account.fault({ operation: "Token", fault: "drop" });
    await expect(one.requestToken()).rejects.toThrow();
    expect(one.account.log.map(({ operation, status }) => [operation, status])).toEqual([
      ["Token", 429],
      ["Token", null],
    ]);
    expect(JSON.stringify(one.account.log)).not.toContain(one.details.client_secret);
  });

  it("work at the endpoint of the vaults' double, per tenant", async () => {
    const vaults = await startCloudB({ otherTenants: double.otherTenants });
    const send = (tenant: string, client_id: string, client_secret: string, scope: string) => {
      const body = new URLSearchParams({ grant_type: "client_credentials", client_id, client_secret, scope });
      return read(fetch(`${vaults.url}/${tenant}/oauth2/v2.0/token`, { method: "POST", body }));
    };
    const { tenant_id, client_id, client_secret } = one.details;
    const graph = `${graphResource}/.default`;
    expect((await send(tenant_id, client_id, client_secret, graph)).status).toBe(200);
    expect(one.account.log).toHaveLength(1);
    const theirs = vaults.account;
    const vault = "https://vault.azure.net/.default";
    expect((await send(theirs.tenant_id, theirs.client_id, theirs.client_secret, vault)).status).toBe(200);
    expect(refusal(await send(theirs.tenant_id, client_id, client_secret, graph))).toEqual([400, 700016]);
    expect(refusal(await send(crypto.randomUUID(), client_id, client_secret, graph))).toEqual([400, 90002]);
    await vaults.close();
  });
});

describe("assertions", () => {
  const subject = "plugin-identity:root:secret:cloud_b_1234";
  const audience = "api://AzureADTokenExchange";
  let server: Server;
  let issuer: string;
  let served: Record<string, unknown>;
  let keys: Awaited<ReturnType<typeof generateKeyPair>>;

  beforeAll(async () => {
    keys = await generateKeyPair("RS256");
    server = createServer((request, response) => {
      response.end(JSON.stringify(served[request.url ?? ""] ?? {}));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/identity/oidc/plugins`;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));
  beforeEach(async () => {
    const jwk = { ...(await exportJWK(keys.publicKey)), kid: "k1", alg: "RS256", use: "sig" };
    const path = new URL(issuer).pathname;
    served = {
      [`${path}/.well-known/openid-configuration`]: { issuer, jwks_uri: `${issuer}/.well-known/keys` },
      [`${path}/.well-known/keys`]: { keys: [jwk] },
    };
    one.call({ change: "AddFederatedCredential", id: one.details.root.object_id, issuer, subject, audience });
  });

  const sign = (changed: JWTPayload = {}, key = keys.privateKey, alg = "RS256") => {
    const seconds = Math.floor(now / 1000);
    const payload = { iss: issuer, sub: subject, aud: [audience], iat: seconds, nbf: seconds, exp: seconds + 3600 };
    return new SignJWT({ ...payload, ...changed }).setProtectedHeader({ alg, kid: "k1" }).sign(key);
  };
  const type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
  const assert = (assertion: string, changed = {}) =>
    one.requestToken({ client_secret: null, client_assertion_type: type, client_assertion: assertion, ...changed });

  it("authenticate the application that trusts their issuer and its published keys", async () => {
    const answer = await assert(await sign());
    expect(claimsOf(answer)).toMatchObject({ oid: one.details.root.principal_id, aud: graphResource });
  });

  it("are refused with any deviation from the registration", async () => {
    const seconds = Math.floor(now / 1000);
    const stranger = await generateKeyPair("RS256");
    const curve = await generateKeyPair("ES256");
    const cases: [string, number][] = [
      [await sign({ iss: `${issuer}/` }), 700211],
      [await sign({ sub: subject.toUpperCase() }), 700213],
      [await sign({ aud: "api://another" }), 700212],
      [await sign({ aud: [audience, "api://another"] }), 700212],
      [await sign({ exp: seconds }), 700024],
      [await sign({ nbf: seconds + 60 }), 700024],
      [await sign({ exp: seconds + 90 * 86_400 }), 700024],
      [await sign({}, stranger.privateKey), 700027],
      [await sign({}, curve.privateKey, "ES256"), 5002738],
    ];
    for (const [assertion, number] of cases) expect(refusal(await assert(assertion))).toEqual([401, number]);
    expect(refusal(await assert("no.jwt"))).toEqual([400, 50027]);
    expect(refusal(await assert(await sign(), { client_secret: "both" }))).toEqual([400, 7000217]);
    expect(refusal(await assert(await sign(), { client_assertion_type: "jwt" }))).toEqual([400, 50027]);
    expect(refusal(await assert(await sign(), { client_assertion_type: null }))).toEqual([400, 900144]);
    const { client_id } = one.details.existing_application;
    expect(refusal(await assert(await sign(), { client_id }))).toEqual([401, 700211]);
  });

  it("require an issuer with its own document, served or published", async () => {
    const path = new URL(issuer).pathname;
    const jwks_uri = `${issuer}/.well-known/keys`;
    const configuration = `${path}/.well-known/openid-configuration`;
    served[configuration] = { issuer: "https://somebody.example", jwks_uri };
    expect(refusal(await assert(await sign()))).toEqual([400, 50166]);
    served[configuration] = { issuer, jwks_uri: "http://somebody.example/keys" };
    expect(refusal(await assert(await sign()))).toEqual([400, 50166]);

    const id = one.details.root.object_id;
    const far = "https://issuer.example/v1/identity/oidc/plugins";
    one.call({ change: "AddFederatedCredential", id, issuer: far, subject, audience });
    one.call({
      change: "PublishIssuer",
      issuer: far,
      configuration: { issuer: far, jwks_uri: `${far}/keys` },
      keys: served[`${path}/.well-known/keys`],
    });
    expect((await assert(await sign({ iss: far }))).status).toBe(200);
  });
});
