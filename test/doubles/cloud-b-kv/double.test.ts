import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type AccountOptions, type CloudBAccount, type CloudBDouble, startCloudB } from "./server.ts";

// The double's promises, driven by bare requests. Each test fails if the double were kinder.

const resource = "https://vault.azure.net";
let now = Date.now();
let double: CloudBDouble;

beforeAll(async () => {
  double = await startCloudB({ now: () => now, account: { deletePolls: 0, recoverPolls: 0 } });
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  double.reset();
});

const formOf = ({ client_id, client_secret }: CloudBAccount) => ({
  grant_type: "client_credentials",
  client_id,
  client_secret,
  scope: `${resource}/.default`,
});

/** A token request that differs from a correct one by `changed`; null leaves a parameter out. */
async function requestToken(
  changed: Record<string, string | null> = {},
  {
    account = double.account,
    tenant = account.tenant_id,
    ...init
  }: RequestInit & { account?: CloudBAccount; tenant?: string } = {},
) {
  const fields = Object.entries({ ...formOf(account), ...changed }).filter(
    (field): field is [string, string] => field[1] !== null,
  );
  const response = await fetch(`${double.url}/${tenant}/oauth2/v2.0/token`, {
    method: "POST",
    body: new URLSearchParams(fields),
    ...init,
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
}

const tokenOf = async (account = double.account, scope = `${resource}/.default`): Promise<string> =>
  (await requestToken({ scope }, { account })).body.access_token;

interface Sending {
  account?: CloudBAccount;
  /** Null sends none. */
  token?: string | null;
  headers?: Record<string, string>;
  body?: unknown;
  /** Replaces the body's text. */
  text?: string;
}

/** One request to a vault: `GET /secrets/n?x=y`; the API version is added unless the query names one. */
async function send(request: string, { account = double.account, token, headers, body, text }: Sending = {}) {
  const [method = "", target = ""] = request.split(" ");
  const query = target.includes("api-version") ? "" : `${target.includes("?") ? "&" : "?"}api-version=7.5`;
  const bearer = token === undefined ? await tokenOf(account) : token;
  const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(account.key_vault_uri + target + query, {
    method,
    headers: {
      ...(bearer !== null && { authorization: `Bearer ${bearer}` }),
      ...(sent !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(sent !== undefined && { body: sent }),
  });
  const answer = await response.text();
  return {
    status: response.status,
    challenge: response.headers.get("www-authenticate"),
    retryAfter: response.headers.get("retry-after"),
    body: answer === "" ? null : JSON.parse(answer),
  };
}

const set = (name: string, value = "v", more = {}) => send(`PUT /secrets/${name}`, { body: { value, ...more } });
const refused = (status: number, code: string, inner?: string) =>
  expect.objectContaining({
    status,
    body: { error: expect.objectContaining({ code, ...(inner && { innererror: { code: inner } }) }) },
  });

describe("token requests", () => {
  it("return a bearer token of about an hour", async () => {
    const { status, body } = await requestToken();
    expect(status).toBe(200);
    expect(body).toEqual({
      token_type: "Bearer",
      expires_in: 3599,
      ext_expires_in: 3599,
      access_token: expect.stringMatching(/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
    });
  });

  it.each<[string, Record<string, string | null>, number, string, number]>([
    ["a wrong secret", { client_secret: "wrong" }, 401, "invalid_client", 7000215],
    ["an unknown client", { client_id: crypto.randomUUID() }, 400, "unauthorized_client", 700016],
    ["no secret", { client_secret: null }, 400, "invalid_request", 900144],
    ["no scope", { scope: null }, 400, "invalid_request", 900144],
    ["a version 1 resource", { scope: null, resource }, 400, "invalid_request", 9000411],
    ["a scope that is not .default", { scope: `${resource}/user` }, 400, "invalid_scope", 1002012],
    ["two scopes", { scope: `${resource}/.default openid` }, 400, "invalid_scope", 1002012],
    ["an unknown resource", { scope: "https://nobody.example/.default" }, 400, "invalid_resource", 500011],
    ["another grant", { grant_type: "password" }, 400, "unsupported_grant_type", 70003],
    ["an unknown parameter", { colour: "red" }, 400, "invalid_request", 9000411],
  ])("with %s are refused", async (_what, changed, status, error, number) => {
    const answer = await requestToken(changed);
    expect(answer).toMatchObject({ status, body: { error, error_codes: [number] } });
    expect(answer.body.error_description).toContain(`AADSTS${number}`);
  });

  it("to an unknown tenant, as JSON, or with a repeated parameter are refused", async () => {
    const unknown = { status: 400, body: { error: "invalid_request", error_codes: [90002] } };
    expect(await requestToken({}, { tenant: crypto.randomUUID() })).toMatchObject(unknown);
    const json = { body: JSON.stringify(formOf(double.account)), headers: { "content-type": "application/json" } };
    expect(await requestToken({}, json)).toMatchObject({ status: 400, body: { error_codes: [900144] } });
    const twice = new URLSearchParams([...Object.entries(formOf(double.account)), ["scope", "x"]]);
    expect(await requestToken({}, { body: twice })).toMatchObject({ status: 400, body: { error_codes: [9000411] } });
  });

  it("match the token endpoint of the tenant's discovery document", async () => {
    const { tenant_id } = double.account;
    const response = await fetch(`${double.url}/${tenant_id}/v2.0/.well-known/openid-configuration`);
    expect(await response.json()).toMatchObject({
      token_endpoint: expect.stringMatching(new RegExp(`/${tenant_id}/oauth2/v2\\.0/token$`)),
    });
  });
});

describe("authentication", () => {
  it("challenges a request without a token before any other check", async () => {
    const answer = await send("PUT /secrets/a_b?api-version=none", { token: null });
    expect(answer).toEqual(refused(401, "Unauthorized"));
    const { tenant_id } = double.account;
    expect(answer.challenge).toBe(
      `Bearer authorization="https://login.windows.net/${tenant_id}", resource="${resource}"`,
    );
  });

  it("refuses invented, altered, expired and revoked tokens", async () => {
    const token = await tokenOf();
    expect((await send("GET /secrets", { token })).status).toBe(200);
    const [head, payload = "", signature] = token.split(".");
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
    const changed = Buffer.from(JSON.stringify({ ...claims, exp: claims.exp + 1 })).toString("base64url");
    for (const wrong of ["", "x.y.z", `${head}.${changed}.${signature}`, `${token}.x`]) {
      expect(await send("GET /secrets", { token: wrong })).toEqual(refused(401, "Unauthorized"));
    }
    now += 3_599_000;
    expect(await send("GET /secrets", { token })).toEqual(refused(401, "Unauthorized"));
    const another = await tokenOf();
    double.revokeTokens();
    expect(await send("GET /secrets", { token: another })).toEqual(refused(401, "Unauthorized"));
  });

  it("refuses tokens for another audience and of another tenant", async () => {
    const graph = await tokenOf(double.account, "https://graph.microsoft.com/.default");
    expect((await send("GET /secrets", { token: graph })).body.error.message).toContain("AKV10022");
    const foreign = await tokenOf(await double.newAccount());
    expect((await send("GET /secrets", { token: foreign })).body.error.message).toContain("AKV10032");
  });

  it.each([
    ["set", "PUT /secrets/n"],
    ["get", "GET /secrets/n"],
    ["list", "GET /secrets/n/versions"],
    ["delete", "DELETE /secrets/n"],
    ["recover", "POST /deletedsecrets/n/recover"],
    ["purge", "DELETE /deletedsecrets/n"],
  ])("without the permission %s, %s returns 403", async (permission, request) => {
    const all = ["set", "get", "list", "delete", "recover", "purge"];
    const account = await double.newAccount({ permissions: all.filter((one) => one !== permission) });
    const answer = await send(request, { account, ...(request.startsWith("PUT") && { body: { value: "v" } }) });
    expect(answer).toEqual(refused(403, "Forbidden", "ForbiddenByPolicy"));
  });
});

describe("requests", () => {
  it.each<[string, string, Sending, number]>([
    ["no API version", "GET /secrets?api-version=", {}, 400],
    ["an unknown API version", "GET /secrets?api-version=1.0", {}, 400],
    ["an unknown parameter", "GET /secrets?colour=red", {}, 400],
    ["maxresults on a single secret", "GET /secrets/n?maxresults=1", {}, 400],
    ["maxresults of 26", "GET /secrets?maxresults=26", {}, 400],
    ["maxresults of 0", "GET /secrets?maxresults=0", {}, 400],
    ["another method", "PATCH /secrets/n", { body: {} }, 404],
    ["another path", "GET /keys", {}, 404],
    ["a name with an underscore", "PUT /secrets/a_b", { body: { value: "v" } }, 400],
    ["a name of 128 characters", `PUT /secrets/${"n".repeat(128)}`, { body: { value: "v" } }, 400],
    ["an invalid version", "GET /secrets/n/xyz", {}, 400],
    ["a body that is not JSON", "PUT /secrets/n", { text: "{" }, 400],
    ["a body that is a list", "PUT /secrets/n", { body: [] }, 400],
    ["no value", "PUT /secrets/n", { body: {} }, 400],
    ["a value that is a number", "PUT /secrets/n", { body: { value: 1 } }, 400],
    ["25 601 bytes", "PUT /secrets/n", { body: { value: "v".repeat(25_601) } }, 400],
    ["an unknown property", "PUT /secrets/n", { body: { value: "v", colour: "red" } }, 400],
    ["an unknown attribute", "PUT /secrets/n", { body: { value: "v", attributes: { created: 1 } } }, 400],
    ["enabled as text", "PUT /secrets/n", { body: { value: "v", attributes: { enabled: "true" } } }, 400],
    ["a content type of 256 characters", "PUT /secrets/n", { body: { value: "v", contentType: "x".repeat(256) } }, 400],
    ["a tag that is a number", "PUT /secrets/n", { body: { value: "v", tags: { a: 1 } } }, 400],
    ["a tag of 257 characters", "PUT /secrets/n", { body: { value: "v", tags: { a: "x".repeat(257) } } }, 400],
    ["an empty tag name", "PUT /secrets/n", { body: { value: "v", tags: { "": "x" } } }, 400],
    ["plain text", "PUT /secrets/n", { body: { value: "v" }, headers: { "content-type": "text/plain" } }, 415],
    ["a body on recover", "POST /deletedsecrets/n/recover", { body: {} }, 400],
    ["a value on update", `PATCH /secrets/n/${"0".repeat(32)}`, { body: { value: "v" } }, 400],
  ])("with %s are refused", async (_what, request, sending, status) => {
    expect((await send(request, sending)).status).toBe(status);
    expect(double.secrets()).toEqual([]);
  });

  it("with 16 tags are refused, with 15 accepted", async () => {
    const tags = (count: number) => Object.fromEntries([...Array(count).keys()].map((n) => [`k${n}`, ""]));
    expect(await set("n", "v", { tags: tags(16) })).toEqual(refused(400, "BadParameter"));
    expect((await set("n", "v", { tags: tags(15) })).status).toBe(200);
  });
});

describe("secrets", () => {
  it("get a version with every write, and tags belong to a version", async () => {
    const { key_vault_uri } = double.account;
    const first = await set("n", "one", { tags: { a: "1" }, contentType: "text/plain" });
    expect(first.body).toEqual({
      value: "one",
      id: expect.stringMatching(new RegExp(`^${key_vault_uri}/secrets/n/[\\da-f]{32}$`)),
      contentType: "text/plain",
      tags: { a: "1" },
      attributes: expect.objectContaining({ enabled: true, created: Math.floor(now / 1000), recoverableDays: 90 }),
    });
    await set("N", "two");
    expect((await send("GET /secrets/n")).body).toMatchObject({ value: "two" });
    expect((await send("GET /secrets/n")).body).not.toHaveProperty("tags");
    expect(double.secrets()).toMatchObject([{ name: "n", value: "two", tags: {}, versions: { length: 2 } }]);
  });

  it("are listed without values", async () => {
    await set("n", "hunter2");
    for (const list of ["GET /secrets", "GET /secrets/n/versions"]) {
      expect(JSON.stringify((await send(list)).body)).not.toContain("hunter2");
    }
    await send("DELETE /secrets/n");
    for (const list of ["GET /deletedsecrets", "GET /deletedsecrets/n"]) {
      expect(JSON.stringify((await send(list)).body)).not.toContain("hunter2");
    }
  });

  it("show no value while disabled, and can be enabled again", async () => {
    const { body } = await set("n");
    const path = new URL(body.id).pathname;
    await send(`PATCH ${path}`, { body: { attributes: { enabled: false } } });
    expect(await send("GET /secrets/n")).toEqual(refused(403, "Forbidden", "SecretDisabled"));
    await send(`PATCH ${path}`, { body: { attributes: { enabled: true } } });
    expect((await send("GET /secrets/n")).status).toBe(200);
  });

  it("keep their name after deletion until they are recovered or purged", async () => {
    await set("n", "one", { tags: { a: "1" } });
    expect((await send("DELETE /secrets/n")).body).toMatchObject({
      recoveryId: expect.stringContaining("/deletedsecrets/n"),
    });
    expect(await send("GET /secrets/n")).toEqual(refused(404, "SecretNotFound"));
    expect((await send("GET /secrets/n/versions")).body).toEqual({ value: [], nextLink: null });
    expect(await send("DELETE /secrets/n")).toEqual(refused(404, "SecretNotFound"));
    expect(await set("N")).toEqual(refused(409, "Conflict", "ObjectIsDeletedButRecoverable"));
    expect((await send("GET /deletedsecrets/n")).body).toMatchObject({ tags: { a: "1" } });
    expect((await send("POST /deletedsecrets/n/recover")).status).toBe(200);
    expect((await send("GET /secrets/n")).body).toMatchObject({ value: "one", tags: { a: "1" } });
    expect(await send("POST /deletedsecrets/n/recover")).toEqual(refused(404, "SecretNotFound"));
    await send("DELETE /secrets/n");
    expect((await send("DELETE /deletedsecrets/n")).status).toBe(204);
    expect((await set("n", "new")).status).toBe(200);
    expect(double.secrets()).toMatchObject([{ versions: { length: 1 } }]);
  });

  it("take time to be deleted and to be recovered", async () => {
    const account = await double.newAccount({ deletePolls: 4, recoverPolls: 4 });
    const own = (request: string, body?: unknown) => send(request, { account, ...(body !== undefined && { body }) });
    const write = () => own("PUT /secrets/n", { value: "v" });
    await write();
    await own("DELETE /secrets/n");
    expect(await write()).toEqual(refused(409, "Conflict", "ObjectIsBeingDeleted"));
    expect(await own("GET /deletedsecrets/n")).toEqual(refused(404, "SecretNotFound"));
    expect(await own("DELETE /secrets/n")).toEqual(refused(409, "Conflict", "ObjectIsBeingDeleted"));
    expect(await own("POST /deletedsecrets/n/recover")).toEqual(refused(409, "Conflict", "ObjectIsBeingDeleted"));
    expect((await own("POST /deletedsecrets/n/recover")).status).toBe(200);
    expect(await write()).toEqual(refused(409, "Conflict", "ObjectIsBeingRecovered"));
    expect(await own("GET /secrets/n")).toEqual(refused(404, "SecretNotFound"));
    expect(await own("GET /deletedsecrets/n")).toEqual(refused(404, "SecretNotFound"));
    expect(await own("DELETE /secrets/n")).toEqual(refused(409, "Conflict", "ObjectIsBeingRecovered"));
    expect((await write()).status).toBe(200);
  });

  it("are throttled above the vault's creates in ten seconds", async () => {
    const account = await double.newAccount({ createsPer10s: 2 });
    const write = (name: string) => send(`PUT /secrets/${name}`, { account, body: { value: "v" } });
    await write("a");
    await write("b");
    const throttled = await write("a");
    expect(throttled).toEqual(refused(429, "Throttled"));
    expect(throttled.retryAfter).toBe("10");
    now += 10_000;
    expect((await write("a")).status).toBe(200);
  });
});

describe("faults, log and accounts", () => {
  it("a fault applies to its operation for the given number of times", async () => {
    double.fault({ fault: "error", type: "Throttled", status: 429, operation: "SetSecret", count: 2 });
    expect((await send("GET /secrets")).status).toBe(200);
    expect([(await set("n")).status, (await set("n")).status, (await set("n")).status]).toEqual([429, 429, 200]);
    double.fault({ fault: "error", type: "server_error", status: 500, service: "login", number: 90033 });
    expect(await requestToken()).toMatchObject({ status: 500, body: { error: "server_error", error_codes: [90033] } });
  });

  it("a dropped write has no effect, one that is applied and dropped has", async () => {
    double.fault({ fault: "drop", operation: "SetSecret" });
    await expect(set("n")).rejects.toThrow();
    expect(double.secrets()).toEqual([]);
    double.fault({ fault: "apply-then-drop", operation: "SetSecret" });
    await expect(set("n")).rejects.toThrow();
    expect(double.secrets()).toHaveLength(1);
    double.fault({ fault: "delay", ms: 1 });
    double.clearFaults();
    expect((await set("n")).status).toBe(200);
  });

  it("the log has operations and names, and no values", async () => {
    await set("n", "hunter2");
    await send("GET /secrets/x");
    expect(double.requests()).toMatchObject([
      { service: "login", operation: "Token", subject: double.account.tenant_id, status: 200 },
      { service: "vault", operation: "SetSecret", subject: "n", valueBytes: 7, status: 200, errorType: null },
      { service: "login" },
      { service: "vault", operation: "GetSecret", subject: "x", status: 404, errorType: "SecretNotFound" },
    ]);
    expect(JSON.stringify(double.requests())).not.toContain("hunter2");
  });

  it("accounts are separate, also over HTTP", async () => {
    const control = async (call: string, body?: unknown) => {
      const [method = "", path = ""] = call.split(" ");
      const response = await fetch(`${double.url}/_double/${path}`, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: await response.json().catch(() => null) };
    };
    const options: AccountOptions = { deletePolls: 0 };
    const account = (await control("POST accounts", options)).body as CloudBAccount;
    const of = `?account=${account.tenant_id}`;
    await set("n", "main");
    expect((await control(`GET secrets${of}`)).body).toEqual([]);
    const written = { operation: "SetSecret", name: "n", body: { value: "theirs" } };
    expect((await control(`POST call${of}`, written)).status).toBe(200);
    expect((await send("GET /secrets/n", { account })).body).toMatchObject({ value: "theirs" });
    expect((await control(`POST call${of}`, { operation: "GetSecret", name: "x" })).status).toBe(404);
    await control(`POST faults${of}`, { fault: "raw", status: 503, body: '"busy"' });
    expect((await set("n", "two")).status).toBe(200);
    expect((await send("GET /secrets/n", { account, token: "x" })).status).toBe(503);
    expect((await control(`GET requests${of}`)).body).toMatchObject([{}, {}, { status: 503 }]);
    await control(`POST reset${of}`);
    expect((await control(`GET secrets${of}`)).body).toEqual([]);
    expect(double.secrets()).toMatchObject([{ value: "two" }]);
    expect((await control("GET secrets?account=nobody")).status).toBe(404);
    expect((await control("GET colours")).status).toBe(404);
    await control("POST revoke-tokens");
  });
});
