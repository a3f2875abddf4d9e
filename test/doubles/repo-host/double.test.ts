import { createSign } from "node:crypto";
import { request as httpRequest } from "node:http";
import sodium from "libsodium-wrappers";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Account } from "./account.ts";
import { type RepoHostDouble, startRepoHost } from "./server.ts";

let now = Date.now();
let double: RepoHostDouble;
let account: Account;

beforeAll(async () => {
  await sodium.ready;
  double = await startRepoHost({ now: () => now, rates: { perHour: 200, writesPerMinute: 20 } });
});
afterAll(() => double.close());
beforeEach(async () => {
  now = Date.now();
  account = await double.openAccount();
});

interface Sending {
  method?: string;
  body?: unknown;
  bearer?: string;
  headers?: Record<string, string>;
}

async function send(path: string, { method = "GET", body, bearer, headers = {} }: Sending = {}) {
  const init: RequestInit = {
    method,
    redirect: "manual",
    headers: {
      accept: "application/vnd.github+json",
      "user-agent": "test",
      "x-github-api-version": "2022-11-28",
      authorization: `Bearer ${bearer ?? account.credentials.accessToken}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
  };
  if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(double.url + path, init);
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
}
const statusOf = async (path: string, sending: Sending = {}) => (await send(path, sending)).status;

const secrets = "/repos/acme/web/actions/secrets";
async function sealed(text: string | Uint8Array, path = secrets) {
  const { key, key_id } = (await send(`${path}/public-key`)).body;
  const box = sodium.crypto_box_seal(text, sodium.from_base64(key, sodium.base64_variants.ORIGINAL));
  return { encrypted_value: Buffer.from(box).toString("base64"), key_id };
}
const putStatus = async (name: string, body: unknown, sending: Sending = {}, path = secrets) =>
  statusOf(`${path}/${name}`, { method: "PUT", body, ...sending });

describe("a request", () => {
  it("requires a User-Agent", async () => {
    const { hostname, port } = new URL(double.url);
    const status = await new Promise((resolve, reject) => {
      const sent = httpRequest({ hostname, port, path: "/app" }, (response) => resolve(response.statusCode));
      sent.on("error", reject).end();
    });
    expect(status).toBe(403);
  });

  it("with an unknown version, another media type or another path is refused", async () => {
    expect(await statusOf(secrets, { headers: { "x-github-api-version": "2021-01-01" } })).toBe(400);
    expect(await statusOf(secrets, { headers: { accept: "*/*" } })).toBe(415);
    expect(await statusOf("/repos/acme/web/actions/caches")).toBe(404);
    expect(await statusOf(`${secrets}/`)).toBe(404);
    expect(await statusOf(`${secrets}/A`, { method: "POST", body: {} })).toBe(404);
    expect(await statusOf(`/api/v3${secrets}`)).toBe(200);
  });

  it("requires a known token", async () => {
    expect(await statusOf(secrets, { bearer: "ghp_wrong" })).toBe(401);
    expect(await statusOf(secrets, { headers: { authorization: "Basic eDp5" } })).toBe(401);
  });
});

describe("writing a secret", () => {
  it("creates, updates, and converts names to upper case", async () => {
    expect(await putStatus("lower_case", await sealed("one"))).toBe(201);
    expect(await putStatus("LOWER_CASE", await sealed("two"))).toBe(204);
    expect(account.secrets()).toMatchObject([{ name: "LOWER_CASE", value: "two" }]);
    expect((await send(`${secrets}/Lower_Case`)).body).toMatchObject({ name: "LOWER_CASE" });
  });

  it("refuses a value that is not sealed with the current key", async () => {
    const good = await sealed("one");
    const box = Buffer.from(good.encrypted_value, "base64");
    box.writeUInt8(box.readUInt8(40) ^ 1, 40);
    expect(await putStatus("A", { ...good, encrypted_value: box.toString("base64") })).toBe(422);
    expect(await putStatus("A", { ...good, key_id: "1" })).toBe(422);
    expect(await putStatus("A", { ...good, encrypted_value: Buffer.from("plain").toString("base64") })).toBe(422);
    expect(await putStatus("A", { ...good, encrypted_value: "not base64!" })).toBe(422);
    expect(await putStatus("A", await sealed(Uint8Array.of(0xff, 0xfe)))).toBe(422);
    account.call({ operation: "rotate-key", place: "acme/web" });
    expect(await putStatus("A", good)).toBe(422);
    expect(account.secrets()).toEqual([]);
  });

  it("refuses invalid names, fields and sizes", async () => {
    const good = await sealed("one");
    for (const name of ["A-B", "1A", "GITHUB_A", "github_a"]) expect(await putStatus(name, good)).toBe(422);
    expect(await putStatus("A", { ...good, visibility: "all" })).toBe(422);
    expect(await putStatus("A", { key_id: good.key_id })).toBe(422);
    expect(await putStatus("A", "[1]")).toBe(400);
    expect(await putStatus("A", "{")).toBe(400);
    expect(await putStatus("A", good, { headers: { "content-type": "text/plain" } })).toBe(415);
    expect(await putStatus("A", await sealed("x".repeat(48 * 1024)))).toBe(201);
    expect(await putStatus("B", await sealed("x".repeat(48 * 1024 + 1)))).toBe(422);
  });

  it("is limited to a hundred secrets", async () => {
    for (let index = 0; index < 100; index++) {
      account.call({ operation: "put-secret", place: "acme/web", name: `S${index}`, value: "v" });
    }
    expect((await send(`${secrets}?per_page=1`)).body).toMatchObject({ total_count: 100, secrets: { length: 1 } });
    expect(await putStatus("MORE", await sealed("v"))).toBe(422);
    expect(await putStatus("S1", await sealed("v"))).toBe(204);
  });

  it("an organization requires a visibility, and ids exactly for 'selected'", async () => {
    const path = "/orgs/acme/actions/secrets";
    const good = await sealed("one", path);
    const { id } = (await send("/repos/acme/api")).body;
    const statuses = [];
    for (const more of [
      {},
      { visibility: "some" },
      { visibility: "selected" },
      { visibility: "all", selected_repository_ids: [id] },
      { visibility: "selected", selected_repository_ids: [1] },
      { visibility: "private" },
      { visibility: "selected", selected_repository_ids: [id] },
    ]) {
      statuses.push(await putStatus("A", { ...good, ...more }, {}, path));
    }
    expect(statuses).toEqual([422, 422, 422, 422, 422, 201, 204]);
  });
});

describe("the permissions of a token", () => {
  const add = (change: object) =>
    String(account.call({ operation: "add-token", ...change } as Parameters<Account["call"]>[0])["token"]);

  it("classic: a private repository is hidden without the scope, and readers cannot write", async () => {
    const none = add({ kind: "classic", scopes: [] });
    expect(await statusOf("/repos/acme/web", { bearer: none })).toBe(404);
    expect(await statusOf("/repos/acme/site", { bearer: none })).toBe(200);
    expect(await statusOf("/repos/acme/site/actions/secrets/public-key", { bearer: none })).toBe(200);
    expect(await statusOf("/repos/acme/site/actions/secrets", { bearer: none })).toBe(403);
    const reader = add({ kind: "classic", scopes: ["repo"], role: "read" });
    expect(await statusOf(`${secrets}/public-key`, { bearer: reader })).toBe(200);
    expect(await putStatus("A", await sealed("one"), { bearer: reader })).toBe(403);
    expect(await statusOf("/orgs/acme/actions/secrets", { bearer: reader })).toBe(403);
    expect((await send(secrets)).headers.get("x-oauth-scopes")).toBe("admin:org, repo");
  });

  it("fine-grained: permissions and repositories are both required", async () => {
    const reader = add({ kind: "fine-grained", permissions: { secrets: "read" } });
    const refused = await send(`${secrets}/A`, { method: "PUT", body: await sealed("one"), bearer: reader });
    expect(refused.status).toBe(403);
    expect(refused.headers.get("x-accepted-github-permissions")).toBe("secrets=write");
    expect(refused.headers.has("x-oauth-scopes")).toBe(false);
    const elsewhere = add({ kind: "fine-grained", permissions: { secrets: "write" }, repositories: ["api"] });
    expect(await statusOf(`${secrets}/public-key`, { bearer: elsewhere })).toBe(404);
    const ofEnvironment = "/repos/acme/web/environments/production/secrets/public-key";
    expect(await statusOf(ofEnvironment, { bearer: reader })).toBe(403);
    expect(await statusOf(ofEnvironment)).toBe(200);
    expect(await statusOf(ofEnvironment.replace("production", "moon"))).toBe(404);
  });

  it("an archived repository is read-only, and a renamed one is a redirect", async () => {
    account.call({ operation: "archive-repository", repository: "web" });
    expect(await putStatus("A", await sealed("one"))).toBe(403);
    account.call({ operation: "rename-repository", repository: "web", name: "web2" });
    expect(await statusOf(secrets)).toBe(301);
    expect(await statusOf(secrets.replace("web", "web2"))).toBe(200);
  });
});

describe("an application", () => {
  function jwt(claims: Record<string, unknown> = {}, head = { alg: "RS256", typ: "JWT" }): string {
    const seconds = Math.floor(now / 1000);
    const all = { iat: seconds - 60, exp: seconds + 540, iss: account.credentials.appId, ...claims };
    const text = [head, all].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
    return `${text}.${createSign("sha256").update(text).sign(account.credentials.appKey, "base64url")}`;
  }
  const tokens = () => `/app/installations/${account.credentials.installationId}/access_tokens`;
  const issue = (body: unknown) => send(tokens(), { method: "POST", body, bearer: jwt() });

  it("requires a signature with its key, valid for at most ten minutes", async () => {
    const seconds = Math.floor(now / 1000);
    expect(await statusOf("/app", { bearer: jwt() })).toBe(200);
    expect(await statusOf("/app", { bearer: jwt({ iat: seconds - 61 }) })).toBe(401);
    expect(await statusOf("/app", { bearer: jwt({ iat: seconds, exp: seconds + 601 }) })).toBe(401);
    expect(await statusOf("/app", { bearer: jwt({ iat: seconds + 30 }) })).toBe(401);
    expect(await statusOf("/app", { bearer: jwt({ exp: seconds - 1 }) })).toBe(401);
    expect(await statusOf("/app", { bearer: jwt({ aud: "x" }) })).toBe(401);
    expect(await statusOf("/app", { bearer: jwt({}, { alg: "HS256", typ: "JWT" }) })).toBe(401);
    expect(await statusOf("/app", { bearer: `${jwt().slice(0, -8)}AAAAAAAA` })).toBe(401);
    expect(await statusOf("/app", { bearer: jwt({ iss: "1" }) })).toBe(404);
    expect(await statusOf("/app")).toBe(401);
    expect(await statusOf(secrets, { bearer: jwt() })).toBe(403);
  });

  it("gets tokens with at most the permissions of the installation, for an hour", async () => {
    const { body, status } = await issue({ repositories: ["web"], permissions: { secrets: "write" } });
    expect({ status, permissions: body.permissions }).toEqual({
      status: 201,
      permissions: { metadata: "read", secrets: "write" },
    });
    expect(await statusOf(secrets, { bearer: body.token })).toBe(200);
    expect(await statusOf("/repos/acme/api", { bearer: body.token })).toBe(404);
    now += 3_600_001;
    expect(await statusOf(secrets, { bearer: body.token })).toBe(401);
    expect((await issue({ permissions: { contents: "write" } })).status).toBe(422);
    expect((await issue({ repositories: ["nowhere"] })).status).toBe(422);
    expect((await issue({ repository: "web" })).status).toBe(422);
    account.call({ operation: "set-installation", suspended: true });
    expect((await issue({})).status).toBe(403);
    account.call({ operation: "set-installation", removed: true });
    expect((await issue({})).status).toBe(404);
  });
});

describe("rate limits", () => {
  it("the secondary one counts writes per minute and returns the wait", async () => {
    const body = await sealed("one");
    for (let index = 0; index < 20; index++) expect(await putStatus("A", body)).toBeLessThan(300);
    const refused = await send(`${secrets}/A`, { method: "PUT", body });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([403, "60"]);
    now += 60_000;
    expect(await putStatus("A", body)).toBe(204);
  });

  it("the primary one counts calls per hour and token, and returns the remaining number", async () => {
    const first = await send(secrets);
    expect(first.headers.get("x-ratelimit-remaining")).toBe("199");
    for (let index = 0; index < 199; index++) await statusOf(secrets);
    const refused = await send(secrets);
    expect([refused.status, refused.headers.get("x-ratelimit-remaining")]).toEqual([403, "0"]);
    expect(Number(refused.headers.get("x-ratelimit-reset")) * 1000).toBeGreaterThan(now);
    expect(await statusOf(secrets, { bearer: account.credentials.fineGrainedToken })).toBe(200);
  });
});

describe("control paths", () => {
  it("create separate accounts, and apply to the named one", async () => {
    const open = await fetch(`${double.url}/_double/accounts`, { method: "POST" });
    const credentials = (await open.json()) as Account["credentials"];
    const own = (path: string, body?: unknown) =>
      fetch(`${double.url}/_double/${path}?account=${credentials.account}`, {
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      }).then((response) => response.json());
    await own("call", { operation: "put-secret", place: "acme/web", name: "A", value: "v" });
    expect(await own("secrets")).toMatchObject([{ name: "A", value: "v" }]);
    expect(account.secrets()).toEqual([]);
    await own("faults", { fault: "raw", status: 503, body: "{}" });
    expect(await statusOf(secrets)).toBe(200);
    expect(await statusOf(secrets, { bearer: credentials.accessToken })).toBe(503);
    expect(await own("requests")).toMatchObject([{ operation: "listSecrets", status: 503 }]);
  });
});
