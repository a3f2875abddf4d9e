import { randomUUID } from "node:crypto";
import { AuthorizationManagementClient } from "@azure/arm-authorization";
import { ClientAssertionCredential, ClientSecretCredential, type TokenCredential } from "@azure/identity";
import {
  AuthenticationHandler,
  Client,
  type Context,
  GraphError,
  type Middleware,
  RetryHandler,
} from "@microsoft/microsoft-graph-client";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type AzureDouble, startAzure } from "./azure.ts";
import type { AzureAccount } from "./azure-types.ts";

// The vendor's clients against the double, over the life of a credential, as a check independent of our reading of the
// protocol.

let double: AzureDouble;
let account: ReturnType<AzureDouble["openAccount"]>["account"];
let details: AzureAccount;

beforeAll(async () => {
  double = await startAzure();
});
afterAll(() => double.close());
beforeEach(() => {
  ({ account, details } = double.openAccount({ pageSize: 4 }));
});

const hosts = (): Record<string, string> => ({
  "login.microsoftonline.com": double.loginUrl,
  "graph.microsoft.com": double.graphUrl,
  "management.azure.com": double.armUrl,
});

/** The double's address for a request to one of the vendor's hosts. */
function rerouted(url: string): { url: string; host: string } {
  const { host, pathname, search } = new URL(url);
  return { url: `${hosts()[host]}${pathname}${search}`, host };
}

type Options = NonNullable<ConstructorParameters<typeof AuthorizationManagementClient>[2]>;

/** The clients require https, so the address is changed last. */
const reroute: NonNullable<Options["additionalPolicies"]>[number] = {
  position: "perRetry",
  policy: {
    name: "reroute",
    async sendRequest(request, next) {
      const { url } = request;
      const to = rerouted(url);
      request.headers.set("x-original-host", to.host);
      Object.assign(request, { url: to.url, allowInsecureConnection: true });
      const response = await next(request);
      Object.assign(request, { url, allowInsecureConnection: false });
      return response;
    },
  },
};

const options = { additionalPolicies: [reroute], retryOptions: { maxRetries: 0 } };

const credential = (clientId = details.client_id, secret = details.client_secret) =>
  new ClientSecretCredential(details.tenant_id, clientId, secret, options);

/** The vendor's client, with the vendor's retries. */
function graphClient(): Client {
  const send: Middleware = {
    async execute(context: Context) {
      const { url, host } = rerouted(String(context.request));
      const headers = new Headers(context.options?.headers as Record<string, string>);
      headers.set("x-original-host", host);
      context.response = await fetch(url, { ...(context.options as RequestInit), headers });
    },
  };
  const getAccessToken = async () => (await credential().getToken("https://graph.microsoft.com/.default")).token;
  const authenticate = new AuthenticationHandler({ getAccessToken });
  const retry = new RetryHandler();
  authenticate.setNext(retry);
  retry.setNext(send);
  return Client.initWithMiddleware({ middleware: authenticate });
}

const armClient = (of: TokenCredential = credential()) =>
  new AuthorizationManagementClient(of, details.subscription_id, options);

const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
};

describe("the vendor's clients", () => {
  it("create a working principal with password, roles and groups, and remove it", async () => {
    const before = account.everything();
    const graph = graphClient();
    const arm = armClient();
    const application = await graph.api("/applications").post({ displayName: "app-1", tags: ["a", "b"] });
    const principal = await graph.api("/servicePrincipals").post({ appId: application.appId });
    const endDateTime = new Date(Date.now() + 86_400_000).toISOString();
    const { secretText } = await graph
      .api(`/servicePrincipals/${principal.id}/addPassword`)
      .post({ passwordCredential: { startDateTime: new Date().toISOString(), endDateTime } });

    const group = details.groups.find(({ displayName }) => displayName === "O'Brien & Söhne");
    const found = await graph
      .api("/groups")
      .filter(encodeURIComponent("displayName eq 'O''Brien & Söhne'"))
      .select("id,displayName")
      .get();
    expect([...found.value, ...(await graph.api(found["@odata.nextLink"]).get()).value]).toEqual([group]);
    const reference = { "@odata.id": `https://graph.microsoft.com/v1.0/directoryObjects/${principal.id}` };
    await graph.api(`/groups/${group?.id}/members/$ref`).post(reference);

    const scope = `/subscriptions/${details.subscription_id}`;
    const roles = await collect(arm.roleDefinitions.list(scope, { filter: "roleName eq 'Bob''s role'" }));
    expect(roles).toMatchObject([{ roleName: "Bob's role", roleType: "CustomRole" }]);
    const roleDefinitionId = roles[0]?.id ?? "";
    expect(await arm.roleDefinitions.getById(roleDefinitionId)).toMatchObject({ roleName: "Bob's role" });
    const given = { roleDefinitionId, principalId: principal.id, principalType: "ServicePrincipal" };
    const assignment = await arm.roleAssignments.create(details.resource_group, randomUUID(), given);
    expect(assignment).toMatchObject({ ...given, scope: details.resource_group });
    const assigned = arm.roleAssignments.listForScope(scope, { filter: `principalId eq '${principal.id}'` });
    expect((await collect(assigned)).map(({ id }) => id)).toEqual([assignment.id]);

    const login = credential(application.appId, secretText);
    expect(await login.getToken("https://management.core.windows.net//.default")).toMatchObject({
      tokenType: "Bearer",
    });

    expect(await arm.roleAssignments.deleteById(assignment.id ?? "")).toMatchObject({ id: assignment.id });
    expect((await arm.roleAssignments.deleteById(assignment.id ?? "")).id).toBeUndefined();
    await graph.api(`/groups/${group?.id}/members/${principal.id}/$ref`).delete();
    await graph.api(`/applications/${application.id}`).delete();
    for (const { id } of [principal, application]) await graph.api(`/directory/deletedItems/${id}`).delete();
    expect(account.everything()).toEqual(before);
    await expect(
      credential(application.appId, secretText).getToken("https://management.azure.com/.default"),
    ).rejects.toThrow(/AADSTS700016/);
  });

  it("add a password to an existing application, and remove it", async () => {
    const graph = graphClient();
    const path = `/applications/${details.existing_application.object_id}`;
    const passwordCredential = { displayName: "mine", endDateTime: "2099-01-01T00:00:00Z" };
    const { keyId, secretText, hint } = await graph.api(`${path}/addPassword`).post({ passwordCredential });
    expect(secretText.slice(0, 3)).toBe(hint);
    const read = await graph.api(path).select("id,appId,passwordCredentials").get();
    expect(read).toEqual({
      id: details.existing_application.object_id,
      appId: details.existing_application.client_id,
      passwordCredentials: [expect.objectContaining({ keyId, hint, displayName: "mine", secretText: null })],
    });
    const login = credential(details.existing_application.client_id, secretText);
    expect((await login.getToken("https://graph.microsoft.com/.default")).token).toMatch(/^eyJ/);
    await graph.api(`${path}/removePassword`).post({ keyId });
    await expect(graph.api(`${path}/removePassword`).post({ keyId })).rejects.toThrow(/No password credential found/);
  });

  it("log in with an assertion of a trusted issuer", async () => {
    const { publicKey, privateKey } = await generateKeyPair("RS256");
    const issuer = "https://issuer.example";
    const configuration = { issuer, jwks_uri: `${issuer}/keys` };
    const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: "k1" }] };
    account.call({ change: "PublishIssuer", issuer, configuration, keys });
    const trusted = { issuer, subject: "engine", audience: "api://AzureADTokenExchange" };
    account.call({ change: "AddFederatedCredential", id: details.root.object_id, ...trusted });
    const sign = () =>
      new SignJWT()
        .setIssuer(issuer)
        .setSubject("engine")
        .setAudience(trusted.audience)
        .setIssuedAt()
        .setExpirationTime("1h");
    const assertion = () => sign().setProtectedHeader({ alg: "RS256", kid: "k1" }).sign(privateKey);
    const federated = new ClientAssertionCredential(details.tenant_id, details.client_id, assertion, options);
    const roles = await collect(armClient(federated).roleDefinitions.list(details.resource_group));
    expect(roles.map(({ id }) => id)).toEqual(details.role_definitions.map(({ id }) => id));
  });

  it("recognise errors, and wait for the requested delay", async () => {
    const graph = graphClient();
    const missing = randomUUID();
    const notFound = await graph
      .api(`/applications/${missing}`)
      .get()
      .catch((problem: unknown) => problem);
    expect(notFound).toBeInstanceOf(GraphError);
    expect(notFound).toMatchObject({
      statusCode: 404,
      code: "Request_ResourceNotFound",
      requestId: expect.any(String),
    });
    const wait = { "retry-after": "1" };
    account.fault({ operation: "ListGroups", fault: "error", status: 429, code: "TooManyRequests", headers: wait });
    await graph.api("/groups").get();
    expect(account.log.slice(-2).map(({ status }) => status)).toEqual([429, 200]);

    const arm = armClient();
    const definition = details.role_definitions[0]?.id ?? "";
    const given = { roleDefinitionId: definition, principalId: missing, principalType: "ServicePrincipal" };
    const create = (name: string, changed = {}) =>
      arm.roleAssignments.create(details.resource_group, name, { ...given, ...changed });
    await expect(create(randomUUID())).rejects.toMatchObject({ statusCode: 400, code: "PrincipalNotFound" });
    const { principal_id: principalId } = details.existing_application;
    await create(randomUUID(), { principalId });
    await expect(create(randomUUID(), { principalId })).rejects.toMatchObject({
      statusCode: 409,
      code: "RoleAssignmentExists",
    });
    await expect(
      credential(details.client_id, "wrong").getToken("https://graph.microsoft.com/.default"),
    ).rejects.toThrow(/AADSTS7000215/);
    const unfederated = new ClientAssertionCredential(
      details.tenant_id,
      details.client_id,
      async () => "a.b.c",
      options,
    );
    await expect(unfederated.getToken("https://graph.microsoft.com/.default")).rejects.toThrow(/AADSTS50027/);
  });
});
