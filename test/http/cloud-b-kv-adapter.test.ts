import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type Send, sender } from "../../src/providers/outcome.ts";
import { cloudBKv } from "../../src/sync/destinations/cloud-b-kv/adapter.ts";
import type { CloudBConnection } from "../../src/sync/destinations/cloud-b-kv/client.ts";
import type { CallContext, ExternalObject } from "../../src/sync/destinations/destination-type.ts";
import { type CloudBDouble, startCloudB } from "../doubles/cloud-b-kv/server.ts";

const marker = { "hashicorp:vault": "" };
const value = "hunter2-hunter2";
const name = "app-db";
let now = Date.now();
let double: CloudBDouble;

beforeAll(async () => {
  double = await startCloudB({ now: () => now });
});
afterAll(() => double.close());
beforeEach(() => {
  now = Date.now();
  double.reset();
  // Pauses between the adapter's attempts end at once; other times are real.
  const { setTimeout } = globalThis;
  vi.stubGlobal("setTimeout", (run: () => void, ms: number, ...given: []) =>
    setTimeout(run, [200, 300, 500, 1000, 2000].includes(ms) ? 0 : ms, ...given),
  );
});
afterEach(() => vi.unstubAllGlobals());

const connection = (): CloudBConnection => ({ ...double.account, cloud: "AzurePublicCloud" });
const context = (send: Send = sender({ deadlineMs: 20_000 })): CallContext => ({
  settings: { CLOUD_B_LOGIN_URL: double.url, SYNC_ALLOWED_HOSTS: "127.0.0.1" } as CallContext["settings"],
  send,
});
const object = (changed: Partial<ExternalObject> = {}): ExternalObject => ({
  name,
  value,
  tags: marker,
  reference: null,
  knownToExist: false,
  idempotencyToken: "intent-1",
  previousTagKeys: [],
  contentType: "text/plain",
  updatePolicy: "replace",
  ...changed,
});
const put = (changed: Partial<ExternalObject> = {}, to = connection(), given = context()) =>
  cloudBKv.put(object(changed), to, given);
const remove = (ownedOnly = false) => cloudBKv.remove({ name, reference: null, ownedOnly }, connection(), context());
const inspect = (reference: string | null) => cloudBKv.inspect({ name, reference }, connection(), context());
const operations = () => double.requests().flatMap(({ service, operation }) => (service === "vault" ? operation : []));
const secret = () => double.secrets()[0];
const somebodyElse = (operation: string, body: Record<string, unknown> = {}) => double.call(operation, { name, body });
/** Deleted, with the deletion complete. */
const deletedByOthers = (tags: Record<string, string>) => {
  somebodyElse("SetSecret", { value: "old", tags });
  somebodyElse("DeleteSecret");
  double.call("GetSecretVersions", { name });
  double.call("GetSecretVersions", { name });
};
const ok = { outcome: "ok", reference: expect.stringMatching(/^[\da-f]{32}$/) };

describe("reading for an import", () => {
  const list = (cursor = "", given = context()) => cloudBKv.reading?.list(cursor, connection(), given);
  const read = (of = name) => cloudBKv.reading?.read?.(of, connection(), context());

  it("goes on page by page, without deleted secrets", async () => {
    for (let each = 0; each < 30; each++) double.call("SetSecret", { name: `n${each}`, body: { value: "v" } });
    deletedByOthers({});
    const first = await list();
    if (first?.outcome !== "ok" || first.next === null) throw new Error(JSON.stringify(first));
    const second = await list(first.next);
    expect(second).toMatchObject({ outcome: "ok", next: null });
    const names = [first, second].flatMap((page) => (page?.outcome === "ok" ? page.names : []));
    expect(names.sort()).toEqual(Array.from({ length: 30 }, (_, each) => `n${each}`).sort());
    expect(await read()).toEqual({ outcome: "ok", content: null });
  });

  it("leaves out secrets of certificates, and goes on after a page without any", async () => {
    const next = "https://elsewhere.example:443/secrets?api-version=7.5&$skiptoken=abc%3D&maxresults=25";
    const pages = [
      { value: [], nextLink: next },
      { value: [{ id: "https://v.example/secrets/cert", managed: true }, { id: "https://v.example/secrets/a" }] },
      { value: null, nextLink: "https://elsewhere.example/secrets?page=2" },
    ];
    const asked: string[] = [];
    const real = sender({ deadlineMs: 20_000 });
    const send: Send = async (request) => {
      if (!request[0].includes("/secrets?")) return real(request);
      asked.push(request[0]);
      return { ok: true, response: new Response(null, { status: 200 }), text: JSON.stringify(pages[asked.length - 1]) };
    };
    expect(await list("", context(send))).toEqual({ outcome: "ok", names: [], next: "abc=" });
    expect(await list("abc=", context(send))).toEqual({ outcome: "ok", names: ["a"], next: null });
    expect(await list("", context(send))).toMatchObject({ outcome: "external", code: "unreadable_answer" });
    const url = new URL(asked[1] ?? "");
    expect([url.hostname, url.searchParams.get("$skiptoken")]).toEqual(["127.0.0.1", "abc="]);
  });

  it("refuses a disabled secret by name", async () => {
    somebodyElse("SetSecret", { value: "theirs", attributes: { enabled: false } });
    expect(await list()).toMatchObject({ names: [name] });
    const refused = await read();
    expect(refused).toMatchObject({ outcome: "client", code: "disabled" });
    expect(JSON.stringify(refused)).not.toContain("theirs");
  });
});

describe("put", () => {
  it("writes value, type and all tags in one call, and returns the version", async () => {
    expect(await put({ tags: { ...marker, team: "payments" } })).toEqual(ok);
    expect(operations()).toEqual(["SetSecret"]);
    const expected = { name, value, contentType: "text/plain", tags: { ...marker, team: "payments" }, enabled: true };
    expect(secret()).toMatchObject(expected);
    expect(await put({ value: "two", contentType: "application/json", knownToExist: true })).toEqual(ok);
    expect(secret()).toMatchObject({ value: "two", tags: marker, contentType: "application/json" });
    expect(secret()?.versions).toHaveLength(2);
  });

  it("enables a secret that another writer disabled", async () => {
    somebodyElse("SetSecret", { value: "v", attributes: { enabled: false } });
    expect(await put()).toEqual(ok);
    expect(secret()).toMatchObject({ enabled: true, value });
  });

  it("accepts an empty value and one of 25 600 bytes", async () => {
    expect(await put({ value: "" })).toEqual(ok);
    expect(await put({ value: "é".repeat(12_800) })).toEqual(ok);
  });

  it.each<[string, Partial<ExternalObject>, string]>([
    ["25 601 bytes", { value: `${"é".repeat(12_800)}x` }, "value_too_large"],
    ["a name with an underscore", { name: "a_b" }, "name_invalid"],
    ["a name of 128 characters", { name: "n".repeat(128) }, "name_invalid"],
    ["no name", { name: "" }, "name_invalid"],
  ])("refuses %s without a call", async (_what, changed, code) => {
    expect(await put(changed)).toMatchObject({ outcome: "client", code });
    expect(double.requests()).toEqual([]);
  });

  it("sends the same request as the vendor's client", async () => {
    const sent: [string, RequestInit][] = [];
    const send = sender({ deadlineMs: 5000 });
    const recording: Send = (request) => {
      sent.push([...request]);
      return send(request);
    };
    double.revokeTokens();
    await put({}, connection(), context(recording));
    const [[url = "", init = {}] = []] = sent.slice(-1);
    expect(url).toBe(`${double.account.key_vault_uri}/secrets/${name}?api-version=7.5`);
    expect(init.method).toBe("PUT");
    const headers = Object.fromEntries(new Headers(init.headers));
    expect(headers).toEqual({
      accept: "application/json",
      "content-type": "application/json",
      authorization: expect.stringMatching(/^Bearer /),
    });
    expect(JSON.parse(String(init.body))).toEqual({
      value,
      tags: marker,
      contentType: "text/plain",
      attributes: { enabled: true },
    });
  });
});

describe("a deleted name", () => {
  it("is recovered and written", async () => {
    deletedByOthers({});
    expect(await put()).toEqual(ok);
    expect(operations()).toEqual(["SetSecret", "RecoverDeletedSecret", "SetSecret", "SetSecret"]);
    expect(secret()).toMatchObject({ value, state: "active", tags: marker, versions: { length: 2 } });
  });

  it("is written during a deletion, or during a recovery by another caller", async () => {
    await put();
    await remove();
    expect(secret()).toMatchObject({ state: "deleting" });
    expect(await put({ value: "two" })).toEqual(ok);
    double.reset();
    deletedByOthers({});
    somebodyElse("RecoverDeletedSecret");
    expect(await put()).toEqual(ok);
    expect(operations()).toEqual(["SetSecret", "SetSecret"]);
  });

  it("is recovered and written also when the conflict has no reason", async () => {
    const noGet = ["set", "list", "delete", "recover"];
    const rows: [string, readonly string[] | undefined, Partial<ExternalObject>, Record<string, string>, unknown][] = [
      ["all permissions", undefined, {}, {}, ok],
      ["without get", noGet, {}, {}, ok],
      ["owned-only, ours", undefined, { updatePolicy: "owned-only" }, marker, ok],
      [
        "owned-only, foreign",
        undefined,
        { updatePolicy: "owned-only" },
        {},
        expect.objectContaining({ code: "not_owned" }),
      ],
      [
        "owned-only, without get",
        noGet,
        { updatePolicy: "owned-only" },
        marker,
        expect.objectContaining({ code: "permission_denied" }),
      ],
    ];
    for (const [what, permissions, changed, tags, expected] of rows) {
      await using own = await startCloudB({
        now: () => now,
        account: { bareConflicts: true, ...(permissions && { permissions }) },
      });
      own.call("SetSecret", { name, body: { value: "old", tags } });
      own.call("DeleteSecret", { name });
      for (let poll = 0; poll < 2; poll++) own.call("GetSecretVersions", { name });
      const there = {
        ...context(),
        settings: { CLOUD_B_LOGIN_URL: own.url, SYNC_ALLOWED_HOSTS: "127.0.0.1" } as CallContext["settings"],
      };
      expect(await put(changed, { ...own.account, cloud: "AzurePublicCloud" }, there), what).toEqual(expected);
      expect(own.secrets()[0]?.state, what).toBe(expected === ok ? "active" : "deleted");
    }
  });

  it("is retried later after a conflict with another writer", async () => {
    somebodyElse("SetSecret", { value: "theirs" });
    double.fault({ fault: "error", status: 409, type: "Conflict", operation: "SetSecret", count: 2 });
    expect(await put()).toEqual(ok);
    expect(operations()).toEqual(["SetSecret", "GetDeletedSecret", "SetSecret", "GetDeletedSecret", "SetSecret"]);
    const conflict = { fault: "error", status: 409, type: "Conflict", operation: "SetSecret" } as const;
    double.fault({ ...conflict, count: 99, headers: { "retry-after": "7" } });
    expect(await put()).toMatchObject({ outcome: "external", code: "contended", retryAfterMs: 7_000 });
  });

  it("is written when it was purged before it could be recovered", async () => {
    deletedByOthers({});
    double.fault({ fault: "error", status: 404, type: "SecretNotFound", operation: "RecoverDeletedSecret" });
    expect(await put()).toEqual(ok);
  });

  it.each(["ObjectIsBeingDeleted", "ObjectIsBeingRecovered", "ObjectIsDeletedButRecoverable"])(
    "that stays %s is retried later",
    async (inner) => {
      deletedByOthers({});
      double.fault({ fault: "error", status: 409, type: "Conflict", inner, operation: "SetSecret", count: 99 });
      const held = { outcome: "external", code: "name_held", message: expect.any(String), retryAfterMs: 10_000 };
      expect(await put()).toEqual(held);
    },
  );

  it("returns the missing permission to recover", async () => {
    deletedByOthers({});
    const refused = { status: 403, type: "Forbidden", inner: "ForbiddenByPolicy" };
    double.fault({ fault: "error", ...refused, operation: "RecoverDeletedSecret" });
    const failed = await put();
    expect(failed).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(failed).toMatchObject({ message: expect.stringContaining("RecoverDeletedSecret") });
  });

  it.each(["if-not-exists", "owned-only"] as const)("is recovered under %s only when it was ours", async (policy) => {
    deletedByOthers({ theirs: "1" });
    expect(await put({ updatePolicy: policy })).toMatchObject({ outcome: "client", code: "not_owned" });
    expect(secret()).toMatchObject({ state: "deleted", versions: { length: 1 } });
    double.reset();
    deletedByOthers(marker);
    expect(await put({ updatePolicy: policy })).toEqual(ok);
    expect(secret()).toMatchObject({ value, state: "active" });
  });
});

describe("a deletion", () => {
  it("is confirmed by any success except a web page, which comes from another server", async () => {
    for (const [status, body, outcome] of [
      [204, "", "ok"],
      [202, "Accepted", "ok"],
      [200, "<html>captive portal</html>", "unknown"],
    ] as const) {
      double.fault({ fault: "raw", status, body, operation: "DeleteSecret" });
      expect((await remove()).outcome, String(status)).toBe(outcome);
    }
  });
});

describe("a repeated push", () => {
  it.each(["SetSecret", "RecoverDeletedSecret"])("after a lost answer to %s ends with its value", async (operation) => {
    deletedByOthers(marker);
    double.fault({ fault: "apply-then-drop", operation });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    expect(await put()).toEqual(ok);
    expect(secret()).toMatchObject({ value, tags: marker, state: "active" });
  });

  it("after a write with a lost answer adds a version of equal content", async () => {
    double.fault({ fault: "apply-then-drop", operation: "SetSecret" });
    expect(await put()).toMatchObject({ outcome: "unknown", code: "network_error" });
    const answer = await put();
    expect(answer).toEqual(ok);
    expect(new Set(secret()?.versions.map(({ sha256 }) => sha256)).size).toBe(1);
  });

  it("under owned-only recognises its own recovered secret", async () => {
    deletedByOthers(marker);
    double.fault({ fault: "apply-then-drop", operation: "RecoverDeletedSecret" });
    await put({ updatePolicy: "owned-only" });
    expect(await put({ updatePolicy: "owned-only" })).toEqual(ok);
    expect(secret()).toMatchObject({ value });
  });
});

describe("update policies", () => {
  it("if-not-exists creates an absent secret and leaves an existing one", async () => {
    expect(await put({ updatePolicy: "if-not-exists" })).toEqual(ok);
    expect(await put({ updatePolicy: "if-not-exists", value: "two" })).toEqual({ outcome: "ok", left: true });
    expect(secret()).toMatchObject({ value, versions: { length: 1 } });
  });

  it("owned-only writes owned or absent secrets and refuses others", async () => {
    expect(await put({ updatePolicy: "owned-only" })).toEqual(ok);
    expect(await put({ updatePolicy: "owned-only", value: "two" })).toEqual(ok);
    now += 1000;
    somebodyElse("SetSecret", { value: "theirs" });
    const refused = await put({ updatePolicy: "owned-only", knownToExist: true });
    expect(refused).toMatchObject({ outcome: "client", code: "not_owned" });
    expect(secret()).toMatchObject({ value: "theirs" });
  });

  it("treat a secret as foreign when any version of its newest second is", async () => {
    await put();
    somebodyElse("SetSecret", { value: "theirs" });
    expect(await put({ updatePolicy: "owned-only" })).toMatchObject({ code: "not_owned" });
    expect(secret()).toMatchObject({ value: "theirs", versions: { length: 2 } });
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(secret()).toMatchObject({ state: "active" });
  });

  it("read no value", async () => {
    somebodyElse("SetSecret", { value: "theirs", tags: marker });
    await put({ updatePolicy: "owned-only" });
    await put({ updatePolicy: "if-not-exists" });
    await inspect(null);
    await remove(true);
    expect(operations()).not.toContain("GetSecret");
  });

  it("read all pages of versions to find the newest", async () => {
    for (let n = 0; n < 60; n++) {
      now += 1000;
      somebodyElse("SetSecret", { value: `v${n}`, tags: n === 59 ? {} : marker });
    }
    expect(await put({ updatePolicy: "owned-only" })).toMatchObject({ code: "not_owned" });
    expect(operations()).toEqual(["GetSecretVersions", "GetSecretVersions", "GetSecretVersions"]);
  });

  it("return an error when there are too many versions", async () => {
    const nextLink = `${double.account.key_vault_uri}/secrets/${name}/versions?api-version=7.5&$skiptoken=MA`;
    const body = JSON.stringify({ value: [], nextLink });
    double.fault({ fault: "raw", status: 200, body, operation: "GetSecretVersions", count: 20 });
    expect(await inspect(null)).toMatchObject({ outcome: "client", code: "too_many_versions" });
    expect(operations()).toHaveLength(20);
  });

  it("follow no page link to another host", async () => {
    const body = JSON.stringify({ value: [], nextLink: "https://elsewhere.example/?$skiptoken=MA" });
    double.fault({ fault: "raw", status: 200, body, operation: "GetSecretVersions" });
    expect(await inspect(null)).toEqual({ outcome: "ok", state: "absent", owned: null });
    expect(operations()).toEqual(["GetSecretVersions", "GetSecretVersions"]);
  });
});

describe("remove", () => {
  it("deletes, keeps the secret recoverable, and succeeds for absent or deleted secrets", async () => {
    expect(await remove()).toEqual({ outcome: "ok" });
    await put();
    expect(await remove()).toEqual({ outcome: "ok" });
    double.call("GetSecretVersions", { name });
    expect(await remove()).toEqual({ outcome: "ok" });
    expect(secret()).toMatchObject({ state: "deleted", value });
    expect(operations()).not.toContain("PurgeDeletedSecret");
  });

  it("retries later while the name is being deleted or recovered", async () => {
    await put();
    await remove();
    expect(await remove()).toMatchObject({ outcome: "external", code: "name_held", retryAfterMs: 10_000 });
    expect(await remove()).toEqual({ outcome: "ok" });
  });

  it("with ownedOnly leaves foreign secrets", async () => {
    somebodyElse("SetSecret", { value: "theirs" });
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(secret()).toMatchObject({ value: "theirs", state: "active" });
    double.reset();
    await put();
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(await remove(true)).toEqual({ outcome: "ok" });
    expect(secret()).toMatchObject({ state: "deleting" });
  });

  it("does not treat another server's 404 as an absent secret", async () => {
    double.fault({ fault: "raw", status: 404, body: "<html>not here</html>", service: "vault" });
    expect(await remove()).toMatchObject({ outcome: "client", code: "not_found" });
  });
});

describe("inspect", () => {
  it("distinguishes absent, present, unchanged and changed, and reports the owner", async () => {
    expect(await inspect(null)).toEqual({ outcome: "ok", state: "absent", owned: null });
    const written = await put();
    const reference = "reference" in written ? (written.reference ?? null) : null;
    expect(await inspect(null)).toEqual({ outcome: "ok", state: "present", owned: true });
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "unchanged", owned: true });
    now += 1000;
    somebodyElse("SetSecret", { value: "theirs" });
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: false });
  });

  it("is not sure of a push beside another version of the same second", async () => {
    const first = await put();
    const second = await put({ value: "second", reference: "reference" in first ? (first.reference ?? null) : null });
    const reference = "reference" in second ? (second.reference ?? null) : null;
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "present", owned: true });
    somebodyElse("SetSecret", { value: "theirs" });
    expect(await inspect(reference)).toEqual({ outcome: "ok", state: "changed", owned: false });
  });

  it("reports a disabled version as changed", async () => {
    const written = await put();
    const reference = "reference" in written ? (written.reference ?? null) : null;
    double.call("UpdateSecret", { name, body: { attributes: { enabled: false } } });
    expect(await inspect(reference)).toMatchObject({ state: "changed" });
  });

  it("reports a deleted secret as absent", async () => {
    deletedByOthers(marker);
    expect(await inspect("f".repeat(32))).toMatchObject({ state: "absent" });
  });
});
