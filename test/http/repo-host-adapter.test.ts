import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import type { RepoHostConnection } from "../../src/providers/repo-host-github/client.ts";
import type { CallContext, ExternalObject, Listing } from "../../src/sync/destinations/destination-type.ts";
import { repoHost } from "../../src/sync/destinations/repo-host/adapter.ts";
import { repoHostVariables } from "../../src/sync/destinations/repo-host-variables/adapter.ts";
import type { Account } from "../doubles/repo-host/account.ts";
import { type RepoHostDouble, startRepoHost } from "../doubles/repo-host/server.ts";
import { vaultAt } from "../doubles/repo-host/state.ts";

const value = "hunter2-hunter2 é😀\n";
let now = Date.now();
let double: RepoHostDouble;
let account: Account;

beforeAll(async () => {
  double = await startRepoHost({ now: () => now, rates: { perHour: 60, writesPerMinute: 12 } });
});
afterAll(() => double.close());
beforeEach(async () => {
  now = Date.now();
  account = await double.openAccount();
});

const repository = (changed: Partial<RepoHostConnection> = {}): RepoHostConnection => ({
  access_token: account.credentials.accessToken,
  secrets_location: "repository",
  repository_owner: "acme",
  repository_name: "web",
  ...changed,
});
const environment = () => repository({ environment_name: "production" });
const organization = (changed: Partial<RepoHostConnection> = {}): RepoHostConnection => ({
  access_token: account.credentials.accessToken,
  secrets_location: "organization",
  organization_name: "acme",
  organization_visibility: "private",
  ...changed,
});
const asApp = ({ access_token: _, ...connection }: RepoHostConnection): RepoHostConnection => ({
  ...connection,
  app_name: "sync-bot",
  installation_id: account.credentials.installationId,
});

const context = (changed: Partial<CallContext> = {}, deadlineMs = 5000): CallContext => ({
  settings: { REPO_HOST_URL: double.url },
  send: sender({ deadlineMs }),
  app: { appId: account.credentials.appId, privateKey: account.credentials.appKey },
  ...changed,
});
const put = (changed: Partial<ExternalObject> = {}, connection = repository(), given = context()) =>
  repoHost.put(
    {
      name: "DB_PASSWORD",
      value,
      tags: {},
      idempotencyToken: "intent-1",
      knownToExist: false,
      reference: null,
      previousTagKeys: [],
      contentType: "text/plain",
      updatePolicy: "replace",
      ...changed,
    },
    connection,
    given,
  );
const known = { name: "DB_PASSWORD", reference: "2026-01-01T00:00:00.000Z" };
const remove = (connection = repository(), changed: { reference?: null; ownedOnly?: boolean } = {}) =>
  repoHost.remove({ ...known, ownedOnly: false, ...changed }, connection, context());
const inspect = (reference: string | null = null, connection = repository()) =>
  repoHost.inspect({ name: "DB_PASSWORD", reference }, connection, context());
const probe = (connection = repository(), given = context()) => repoHost.probe(connection, given);
const ok = { outcome: "ok", reference: expect.any(String) };
const operations = () => account.requests().map(({ operation }) => operation);
const asSomebodyElse = (secret = "theirs") =>
  account.call({ operation: "put-secret", place: "acme/web", name: "DB_PASSWORD", value: secret });
const addToken = (change: object) =>
  String(account.call({ operation: "add-token", ...change } as Parameters<Account["call"]>[0])["token"]);

describe("put", () => {
  it.each<[string, () => RepoHostConnection, string]>([
    ["a repository", () => repository(), "acme/web"],
    ["an environment", environment, "acme/web:production"],
    ["an environment with a slash", () => repository({ environment_name: "eu/früh" }), "acme/web:eu/früh"],
    ["an organization", () => organization(), "acme"],
  ])("seals the value for %s, with a token and as an application", async (_what, connection, place) => {
    expect(await put({}, connection())).toEqual(ok);
    expect(account.secrets()).toMatchObject([{ place, name: "DB_PASSWORD", value }]);
    expect(await put({ value: "" }, asApp(connection()))).toEqual(ok);
    expect(account.secrets()).toMatchObject([{ place, name: "DB_PASSWORD", value: "" }]);
    expect(operations().slice(0, 2)).toEqual(["getPublicKey", "putSecret"]);
  });

  it("sends user agent and API version in every request, and reads the key once for several secrets", async () => {
    await put();
    await put({ name: "OTHER" });
    expect(operations()).toEqual(["getPublicKey", "putSecret", "putSecret"]);
    for (const { userAgent, apiVersion } of account.requests()) {
      expect(userAgent).toMatch(/^sallyport\/\d/);
      expect(apiVersion).toBe("2022-11-28");
    }
    expect(account.requests().at(-1)).toMatchObject({
      method: "PUT",
      path: "/repos/acme/web/actions/secrets/OTHER",
      fields: ["encrypted_value", "key_id"],
    });
  });

  it("reads the key again once when it was replaced", async () => {
    await put();
    account.call({ operation: "rotate-key", place: "acme/web" });
    expect(await put({ value: "two" })).toEqual(ok);
    expect(operations().slice(2)).toEqual(["putSecret", "getPublicKey", "putSecret"]);
    expect(account.secrets()).toMatchObject([{ value: "two" }]);
  });

  it("accepts 48 KB, and refuses one byte more and invalid names without a call", async () => {
    expect(await put({ value: "x".repeat(48 * 1024) })).toEqual(ok);
    const before = operations().length;
    expect(await put({ value: `${"é".repeat(24 * 1024)}x` })).toMatchObject({
      outcome: "client",
      code: "value_too_large",
    });
    for (const name of ["", "lower", "1ST", "GITHUB_TOKEN", "A-B", "N".repeat(256)]) {
      expect(await put({ name })).toMatchObject({ outcome: "client", code: "name_invalid" });
    }
    expect(operations()).toHaveLength(before);
  });

  it("sends the organization's visibility, and the ids of selected repositories every time", async () => {
    const selected = organization({ organization_visibility: "selected", selected_repository_names: ["web", "site"] });
    expect(await put({}, selected)).toEqual(ok);
    expect(await put({ value: "two" }, selected)).toEqual(ok);
    expect(operations()).toEqual(["getPublicKey", "getRepository", "getRepository", "putSecret", "putSecret"]);
    const ids = ["web", "site"].map((name) => account.state.repositories.get(name)?.id);
    expect(account.secrets()).toMatchObject([{ value: "two", visibility: "selected", selected: ids }]);
  });

  it("looks up a selected repository again when it was recreated under its name", async () => {
    const selected = organization({ organization_visibility: "selected", selected_repository_names: ["api"] });
    await put({}, selected);
    account.call({ operation: "delete-repository", repository: "api" });
    const { id } = account.call({ operation: "add-repository", repository: "api" });
    expect(await put({}, selected)).toEqual(ok);
    expect(account.secrets()).toMatchObject([{ selected: [id] }]);
    account.call({ operation: "delete-repository", repository: "api" });
    account.call({ operation: "rotate-key", place: "acme" });
    expect(await put({}, { ...selected, selected_repository_names: ["gone"] })).toMatchObject({
      outcome: "client",
      code: "not_found",
      message: expect.stringContaining("acme/gone"),
    });
  });

  it("a full repository is a quota error, and existing secrets can still be updated", async () => {
    for (let index = 0; index < 100; index++) {
      account.call({ operation: "put-secret", place: "acme/web", name: `S${index}`, value: "v" });
    }
    expect(await put()).toMatchObject({ outcome: "client", code: "quota_exceeded" });
    expect(await put({ name: "S7" })).toEqual(ok);
  });
});

describe("update policies", () => {
  it("if-not-exists leaves an existing secret and writes an absent one", async () => {
    expect(await put({ updatePolicy: "if-not-exists" })).toEqual(ok);
    expect(await put({ updatePolicy: "if-not-exists", value: "two", knownToExist: true })).toEqual({
      outcome: "ok",
      left: true,
    });
    expect(account.secrets()).toMatchObject([{ value }]);
  });

  it("owned-only refuses a secret that we have not written, and updates one that we have", async () => {
    asSomebodyElse();
    expect(await put({ updatePolicy: "owned-only" })).toMatchObject({ outcome: "client", code: "not_owned" });
    expect(account.secrets()).toMatchObject([{ value: "theirs" }]);
    expect(await put({ updatePolicy: "owned-only", knownToExist: true })).toEqual(ok);
    expect(await put({ updatePolicy: "owned-only", name: "NEW" })).toEqual(ok);
  });

  it.each(["if-not-exists", "owned-only"] as const)(
    "%s writes again at once after a write with a lost answer",
    async (updatePolicy) => {
      account.fault({ fault: "apply-then-drop", operation: "putSecret" });
      expect(await put({ updatePolicy })).toEqual(ok);
      expect(account.secrets()).toMatchObject([{ value }]);
      // Also with the key that was read again after a refusal.
      account.call({ operation: "rotate-key", place: "acme/web" });
      account.fault({ fault: "error", status: 422, operation: "putSecret" });
      account.fault({ fault: "apply-then-drop", operation: "putSecret" });
      expect(await put({ updatePolicy, name: "OTHER" })).toEqual(ok);
    },
  );

  it("removing with ownedOnly leaves a secret without a known push of ours", async () => {
    asSomebodyElse();
    expect(await remove(repository(), { ownedOnly: true, reference: null })).toEqual({ outcome: "ok" });
    expect(account.secrets()).toHaveLength(1);
    expect(await remove(repository(), { ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(account.secrets()).toEqual([]);
  });
});

describe("a repeated push", () => {
  it("after a write with a lost answer ends with one secret of the newest value", async () => {
    account.fault({ fault: "apply-then-drop", operation: "putSecret" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    expect(account.secrets()).toMatchObject([{ value }]);
    expect(await put({ value: "two" })).toEqual(ok);
    expect(account.secrets()).toMatchObject([{ value: "two" }]);
  });

  it("after a lost answer to a read is not uncertain", async () => {
    account.fault({ fault: "drop", operation: "getPublicKey" });
    expect(await put()).toMatchObject({ outcome: "external", code: "network_error" });
  });

  it("a removal with a lost answer is completed by the next", async () => {
    await put();
    account.fault({ fault: "apply-then-drop", operation: "deleteSecret" });
    expect(await remove()).toMatchObject({ outcome: "unknown" });
    expect(await remove()).toEqual({ outcome: "ok" });
  });
});

describe("remove", () => {
  it("deletes, and succeeds for an absent secret or a deleted environment", async () => {
    await put({}, environment());
    expect(await remove(environment())).toEqual({ outcome: "ok" });
    expect(account.secrets()).toEqual([]);
    expect(await remove(environment())).toEqual({ outcome: "ok" });
    account.call({ operation: "delete-environment", repository: "web", environment: "production" });
    expect(await remove(environment())).toEqual({ outcome: "ok" });
  });

  it("does not treat an invisible repository as a deleted one", async () => {
    const blind = addToken({ kind: "fine-grained", permissions: { secrets: "write" }, repositories: ["api"] });
    expect(await remove(repository({ access_token: blind }))).toMatchObject({ outcome: "client", code: "not_found" });
    account.call({ operation: "delete-repository", repository: "web" });
    expect(await remove()).toMatchObject({ outcome: "client", code: "not_found" });
    expect(await remove(asApp(repository()))).toMatchObject({ outcome: "client", code: "not_found" });
    expect(await remove(organization({ organization_name: "other" }))).toMatchObject({ code: "not_found" });
  });

  it("does not follow a renamed repository", async () => {
    account.call({ operation: "rename-repository", repository: "web", name: "site2" });
    expect(await remove()).toMatchObject({ outcome: "client", code: "redirect_refused" });
  });
});

describe("inspect", () => {
  it("distinguishes absent, unchanged, changed since the push, and present without a reference", async () => {
    expect(await inspect()).toEqual({ outcome: "ok", state: "absent", owned: null });
    const pushed = await put();
    const { reference = null } = pushed.outcome === "ok" ? pushed : {};
    expect(Date.parse(reference ?? "")).toBe(Math.floor(now / 1000) * 1000);
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "unchanged", owned: null });
    expect(await inspect()).toEqual({ outcome: "ok", state: "present", owned: null });
    now += 60_000;
    asSomebodyElse();
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: null });
    expect(operations().filter((operation) => operation === "putSecret")).toHaveLength(1);
  });

  it("does not report an invisible secret as absent", async () => {
    expect(await inspect(null, repository({ repository_name: "nowhere" }))).toMatchObject({ code: "not_found" });
  });
});

describe("probe", () => {
  it("succeeds for a writable repository, and changes nothing", async () => {
    const selected = organization({ organization_visibility: "selected", selected_repository_names: ["api"] });
    for (const connection of [repository(), environment(), organization(), selected]) {
      expect(await probe(connection)).toEqual({ outcome: "ok" });
      expect(await probe({ ...connection, access_token: account.credentials.fineGrainedToken })).toEqual({
        outcome: "ok",
      });
      expect(await probe(asApp(connection))).toEqual({ outcome: "ok" });
    }
    const methods = new Set(account.requests().map(({ method, operation }) => `${method} ${operation}`));
    expect([...methods].filter((one) => !one.startsWith("GET "))).toEqual(["POST createInstallationToken"]);
  });

  it.each<[string, (change: typeof addToken) => Partial<RepoHostConnection>, string, string]>([
    ["a wrong token", () => ({ access_token: "ghp_wrong" }), "auth_failed", "not accepted"],
    ["a missing repository", () => ({ repository_name: "nowhere" }), "not_found", "acme/nowhere"],
    ["a missing environment", () => ({ environment_name: "moon" }), "environment_not_found", "moon"],
    ["no scope", (add) => ({ access_token: add({ kind: "classic", scopes: ["gist"] }) }), "not_found", "acme/web"],
    [
      "no right to write",
      (add) => ({ access_token: add({ kind: "classic", scopes: ["repo"], role: "read" }) }),
      ...(["permission_denied", "may not write"] as const),
    ],
    [
      "no permission",
      (add) => ({ access_token: add({ kind: "fine-grained", permissions: { metadata: "read" } }) }),
      ...(["permission_denied", "secrets=read"] as const),
    ],
  ])("reports %s", async (_what, changed, code, text) => {
    const outcome = await probe(repository(changed(addToken)));
    expect(outcome).toMatchObject({ outcome: "client", code, message: expect.stringContaining(text) });
  });

  it("reports that reading a public repository's key is not enough", async () => {
    for (const scopes of [["gist"], []]) {
      const token = addToken({ kind: "classic", scopes });
      const outcome = await probe(repository({ access_token: token, repository_name: "site" }));
      expect(outcome).toMatchObject({ code: "permission_denied", message: expect.stringContaining("scope repo") });
    }
  });

  it("reports that an organization needs another scope, and that an archived repository is read-only", async () => {
    const token = addToken({ kind: "classic", scopes: ["repo"] });
    expect(await probe(organization({ access_token: token }))).toMatchObject({ code: "permission_denied" });
    account.call({ operation: "archive-repository", repository: "web" });
    expect(await probe()).toMatchObject({ outcome: "client", code: "read_only" });
  });

  it("distinguishes a wrong key, a wrong installation, a missing permission and an unreachable repository", async () => {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const { appId, appKey } = account.credentials;
    const app = asApp(repository());
    const wrongKey = await probe(app, context({ app: { appId, privateKey: pem } }));
    expect(wrongKey).toMatchObject({ outcome: "client", code: "auth_failed", message: expect.stringContaining(appId) });
    expect(await probe(app, context({ app: { appId: "1", privateKey: appKey } }))).toMatchObject({
      code: "auth_failed",
    });
    expect(await probe(app, context({ app: { appId, privateKey: "none" } }))).toMatchObject({
      code: "app_key_invalid",
    });
    expect(await probe({ ...app, installation_id: 7 })).toMatchObject({ code: "installation_not_found" });
    const { app: _, ...without } = context();
    expect(await probe(app, without)).toMatchObject({ outcome: "client", code: "app_missing" });

    account.call({ operation: "set-installation", repositories: ["api"] });
    expect(await probe(app)).toMatchObject({ code: "not_found", message: expect.stringContaining("does not reach") });
    account.call({ operation: "set-installation", repositories: "all", permissions: { secrets: "read" } });
    expect(await probe(app)).toMatchObject({ code: "permission_denied", message: expect.stringContaining("secrets") });
    account.call({ operation: "set-installation", suspended: true });
    expect(await probe(app)).toMatchObject({ outcome: "client", code: "permission_denied" });
  });
});

describe("an application", () => {
  it("is preferred to an access token, requests minimal permissions, and caches its token", async () => {
    const both = { ...asApp(repository()), access_token: "ghp_wrong" };
    expect(await put({}, both)).toEqual(ok);
    expect(await put({ value: "two" }, both)).toEqual(ok);
    expect(operations()).toEqual(["createInstallationToken", "getPublicKey", "putSecret", "putSecret"]);
    expect(account.requests()[0]).toMatchObject({ bearer: "app", fields: ["repositories", "permissions"] });
    const [token] = [...account.state.tokens.values()].filter(({ kind }) => kind === "installation");
    expect(token).toMatchObject({ permissions: { metadata: "read", secrets: "write" } });
    expect(token).toMatchObject({ repositories: new Set([account.state.repositories.get("web")?.id]) });
  });

  it("renews a token that was revoked early, once", async () => {
    await put({}, asApp(repository()));
    account.call({ operation: "revoke-installation-tokens" });
    expect(await put({ value: "two" }, asApp(repository()))).toEqual(ok);
    // The refused call in between has no known token, so it is not in this account's log.
    expect(operations().slice(3)).toEqual(["createInstallationToken", "putSecret"]);
    account.fault({ fault: "error", status: 401, count: 9, operation: "putSecret" });
    expect(await put({}, asApp(repository()))).toMatchObject({ outcome: "client", code: "auth_failed" });
  });
});

describe("errors", () => {
  it.each<[number, Record<string, string>, string, string, string, number | undefined]>([
    [429, {}, "", "external", "throttled", 60_000],
    [429, { "retry-after": "7" }, "", "external", "throttled", 7000],
    [403, { "retry-after": "90" }, "", "external", "throttled", 90_000],
    [403, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1" }, "", "external", "throttled", 1000],
    [403, {}, "You have exceeded a secondary rate limit.", "external", "throttled", 60_000],
    [403, {}, "You have triggered an abuse detection mechanism.", "external", "throttled", 60_000],
    [403, {}, "Resource not accessible by integration", "client", "permission_denied", undefined],
    [403, { "x-github-sso": "required; url=https://x" }, "", "client", "permission_denied", undefined],
    [401, {}, "", "client", "auth_failed", undefined],
    [409, {}, "", "external", "conflict", undefined],
    [422, {}, "", "client", "invalid_request", undefined],
    [418, {}, "", "client", "refused", undefined],
    [500, {}, "", "external", "provider_unavailable", undefined],
    [503, { "retry-after": "5" }, "", "external", "provider_unavailable", 5000],
  ])("%i %o %s is %s %s", async (status, headers, message, outcome, code, retryAfterMs) => {
    account.fault({ fault: "error", status, headers, message, operation: "putSecret" });
    const answer = await put();
    expect(answer).toMatchObject({ outcome, code });
    expect("retryAfterMs" in answer ? answer.retryAfterMs : undefined).toBe(retryAfterMs);
  });

  it("waits for the reset of the primary limit, and for the wait of the secondary one", async () => {
    for (let writes = 0; writes < 12; writes++) expect(await put({ knownToExist: true })).toEqual(ok);
    expect(await put()).toMatchObject({ outcome: "external", code: "throttled", retryAfterMs: 60_000 });
    now += 61_000;
    expect(await put()).toEqual(ok);
    for (let reads = 0; reads < 60; reads++) await inspect();
    const limited = await inspect();
    expect(limited).toMatchObject({ outcome: "external", code: "throttled" });
    const { retryAfterMs = 0 } = limited.outcome === "ok" ? {} : limited;
    expect(retryAfterMs).toBeGreaterThan(60_000);
    expect(retryAfterMs).toBeLessThanOrEqual(60 * 60_000);
  });

  it("a success from another server is never 'ok'", async () => {
    const portal = { fault: "raw", status: 200, body: "<html>" } as const;
    account.fault({ ...portal, operation: "getPublicKey" });
    expect(await put()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    account.fault({ ...portal, operation: "putSecret" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    account.fault({ ...portal, operation: "deleteSecret" });
    expect(await remove()).toMatchObject({ outcome: "unknown", code: "unreadable_answer" });
    account.fault({ fault: "raw", status: 200, body: "", operation: "deleteSecret" });
    expect(await remove(), "a success of another number").toEqual({ outcome: "ok" });
    account.fault({ ...portal, operation: "getSecret" });
    expect(await inspect()).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    account.fault({ ...portal, operation: "getSecret" });
    expect(await put({ updatePolicy: "if-not-exists" })).toMatchObject({ code: "unreadable_answer" });
    account.fault({ ...portal, operation: "getPublicKey" });
    expect(await remove(repository({ repository_name: "nowhere" }))).toMatchObject({ code: "unreadable_answer" });
    account.fault({ ...portal, operation: "createInstallationToken" });
    expect(await put({}, asApp(repository()))).toMatchObject({ outcome: "external", code: "unreadable_answer" });
  });

  it("sends nothing while syncing is paused", async () => {
    const paused = context({ send: sender({ deadlineMs: 5000, permit: async () => false }) });
    expect(await put({}, repository(), paused)).toMatchObject({ outcome: "external", code: "paused" });
    expect(operations()).toEqual([]);
  });

  it("contain no value, credential or text of the provider", async () => {
    const outcomes = [
      await put({ value: "v".repeat(50_000) }),
      await put({}, repository({ access_token: "ghp_wrong" })),
    ];
    for (const status of [400, 401, 403, 404, 409, 422, 429, 500]) {
      const message = `quotes ${value}`;
      account.fault({ fault: "error", status, message, errors: [{ code: value }], operation: "putSecret" });
      outcomes.push(await put());
    }
    const text = JSON.stringify(outcomes);
    expect(outcomes.every(({ outcome }) => outcome !== "ok")).toBe(true);
    for (const part of ["hunter2", "quotes", "vvvv", "ghp_"]) expect(text).not.toContain(part);
  });

  it("calls only hosts that the deployment allows", async () => {
    const elsewhere = repository({ enterprise_url: double.url });
    expect(await put({}, elsewhere)).toMatchObject({ outcome: "client", code: "host_not_allowed" });
    const listed = { settings: { SYNC_ALLOWED_HOSTS: "git.example.com, 127.0.0.1" } as CallContext["settings"] };
    expect(await put({}, elsewhere, context(listed))).toEqual(ok);
  });
});

it("lists variables page by page, as the header of each page says", async () => {
  const { variables } = vaultAt(account.state, "acme/web");
  for (let n = 0; n < 60; n++) variables.set(`V${n}`, { name: `V${n}`, value, createdAt: 0, updatedAt: 0 });
  const names: string[] = [];
  let pages = 0;
  for (let cursor: string | null = ""; cursor !== null; pages++) {
    const page: Listing | undefined = await repoHostVariables.reading?.list(cursor, repository(), context());
    if (page?.outcome !== "ok") throw new Error(JSON.stringify(page));
    names.push(...page.names);
    cursor = page.next;
  }
  expect([pages, names.length]).toEqual([2, 60]);
});
