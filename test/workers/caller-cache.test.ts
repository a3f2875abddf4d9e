import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Authorizer } from "../../src/access/authorize/authorize.ts";
import { authorizeCacheSize } from "../../src/access/authorize/authorize-cached.ts";
import { TokenStore } from "../../src/access/tokens/token-store.ts";
import type { AccessControl } from "../../src/objects/access-control.ts";
import { accessObject, holderOf, issue, path, policies } from "./access.ts";
import { del, get, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { evictObject } from "./evict-all.ts";
import { throughReplicas } from "./replicas.ts";

/* `AccessControl` caches callers until a commit changes them; the cache must not be observable. */

clock.moves = true;

const SECRET = "/v1/kv/data/x";
const status = async (token: string, headers: Record<string, string> = {}) =>
  (await get(SECRET, { token, headers })).status;

beforeEach(async () => {
  await mountKv();
  await put(SECRET, { data: {} });
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A token that reads the secret, and is cached by a first read. */
async function reader(more: object = {}) {
  await policies({ reader: path("kv/data/*", "read") });
  const auth = await issue({ policies: ["reader"], ...more });
  expect([await status(auth.client_token), await status(auth.client_token)]).toEqual([200, 200]);
  return auth;
}

it("a token is looked up once for many requests without changes", async () => {
  const { client_token: token } = await reader();
  const lookups = vi.spyOn(TokenStore.prototype, "byHash");
  for (let n = 0; n < 5; n++) expect(await status(token)).toBe(200);
  expect(lookups).not.toHaveBeenCalled();
  expect(await status("nobody")).toBe(403);
  expect(await status("nobody")).toBe(403);
  // The replica remembers that there is no such token.
  expect(lookups).toHaveBeenCalledTimes(1);
});

it("a change of another token leaves a caller cached, a change of policies does not", async () => {
  const { client_token: token } = await reader();
  const other = await issue({ policies: ["default"] });
  const ask = () =>
    runInDurableObject(accessObject(), (object) => object.authorize({ token, namespace: "", path: "kv/data/x" }));
  await ask();
  await put("/v1/auth/token/revoke", { token: other.client_token });
  const lookups = vi.spyOn(TokenStore.prototype, "byHash");
  expect(await ask()).toMatchObject({ ok: true });
  expect(lookups).not.toHaveBeenCalled();
  await policies({ another: path("kv/data/*", "read") });
  lookups.mockClear();
  expect(await ask()).toMatchObject({ ok: true });
  expect(lookups).toHaveBeenCalledTimes(1);
});

describe("the next read of a cached caller", () => {
  it("is refused after the token was revoked, alone or with its parent", async () => {
    const parent = await holderOf(`${path("kv/data/*", "read")}${path("auth/token/create", "update")}`);
    const made = await send("POST", "/v1/auth/token/create", {}, { token: parent.client_token });
    const child: string = made.body.auth.client_token;
    expect([await status(parent.client_token), await status(child)]).toEqual([200, 200]);
    await put("/v1/auth/token/revoke-accessor", { accessor: parent.accessor });
    expect([await status(parent.client_token), await status(child)]).toEqual([403, 403]);
  });

  it("is refused when an ancestor has expired, and answered when it was renewed before", async () => {
    const rules = `${path("kv/data/*", "read")}${path("auth/token/*", "update")}`;
    const parent = await holderOf(rules, { ttl: "1m" });
    const childOf = async (token: string, body: object): Promise<string> =>
      (await send("POST", "/v1/auth/token/create", body, { token })).body.auth.client_token;
    const child = await childOf(parent.client_token, { ttl: "1h" });
    const family = [child, await childOf(child, { ttl: "1h" }), await childOf(child, { type: "batch", ttl: "1h" })];
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const statuses = () => Promise.all(family.map((token) => status(token)));
    expect(await statuses()).toEqual([200, 200, 200]);
    await send("POST", "/v1/auth/token/renew-self", { increment: "90s" }, { token: parent.client_token });
    vi.setSystemTime(Date.now() + 61_000);
    expect(await statuses()).toEqual([200, 200, 200]);
    vi.setSystemTime(Date.now() + 61_000);
    expect(await statuses()).toEqual([403, 403, 403]);
    // Neither a new child nor a lookup by accessor finds it any more.
    expect((await send("POST", "/v1/auth/token/create", {}, { token: child })).status).toBe(403);
  });

  it("uses the current policy", async () => {
    const { client_token: token } = await reader();
    await policies({ reader: path("kv/data/other", "read") });
    expect(await status(token)).toBe(403);
    await policies({ reader: path("kv/data/*", "read") });
    expect(await status(token)).toBe(200);
    await del("/v1/sys/policies/acl/reader");
    expect(await status(token)).toBe(403);
  });

  it("uses the current policies of the token", async () => {
    await policies({ reader: path("kv/data/*", "read") });
    const { body } = await put("/v1/acl/token", { Name: "n", Type: "client", Policies: ["reader"] });
    const change = (Policies: string[]) =>
      put(`/v1/acl/token/${body.AccessorID}`, { Name: "n", Type: "client", Policies });
    expect(await status(body.SecretID)).toBe(200);
    await change(["default"]);
    expect(await status(body.SecretID)).toBe(403);
    await change(["reader"]);
    expect(await status(body.SecretID)).toBe(200);
  });

  it("is refused after the token's expiry, and not before a renewed expiry", async () => {
    const [short, renewed] = [await reader({ ttl: "1h" }), await reader({ ttl: "1h" })];
    await put("/v1/auth/token/renew", { token: renewed.client_token, increment: "3h" });
    expect(await status(renewed.client_token)).toBe(200);
    expect([await status(short.client_token), await status(renewed.client_token)]).toEqual([200, 200]);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * 3_600_000 });
    expect([await status(short.client_token), await status(renewed.client_token)]).toEqual([403, 200]);
  });

  it("is counted for a token with limited uses", async () => {
    const { client_token: token } = await issue({ policies: ["root"], num_uses: 3 });
    expect([await status(token), await status(token), await status(token), await status(token)]).toEqual([
      200, 200, 200, 403,
    ]);
  });

  it("is refused after its namespace was deleted", async () => {
    await put("/v1/sys/namespaces/team", {});
    const { client_token: token } = await issue({ policies: ["default"] }, { headers: { "X-Orch-Namespace": "team" } });
    const self = () => get("/v1/auth/token/lookup-self", { token, headers: { "X-Orch-Namespace": "team" } });
    expect([(await self()).status, (await self()).status]).toEqual([200, 200]);
    await del("/v1/sys/namespaces/team");
    expect((await self()).status).toBe(403);
  });
});

it("a rolled back change leaves the stored rights", async () => {
  const { client_token: token } = await reader();
  const failed = runInDurableObject(accessObject(), (object) => {
    vi.spyOn(TokenStore.prototype, "orphanChildren").mockImplementationOnce(() => {
      throw new Error("in the middle");
    });
    return object.revokeToken({ own: token }, true);
  });
  await expect(failed).rejects.toThrow("in the middle");
  expect(await status(token)).toBe(200);
  await evictObject(accessObject());
  expect(await status(token)).toBe(200);
});

describe("a change that was rolled back after its rows were read leaves no copy of", () => {
  /** Fails a change after `read` has seen its rows, as a full disk does at the end of a transaction. */
  async function failed(change: (object: AccessControl) => unknown, read: (object: AccessControl) => unknown) {
    const failing = runInDurableObject(accessObject(), (object) => {
      vi.spyOn(Authorizer.prototype, "forget").mockImplementationOnce(() => {
        expect(read(object)).toBeTruthy();
        throw new Error("in the middle");
      });
      return change(object);
    });
    await expect(failing).rejects.toThrow("in the middle");
  }

  const mount = { description: "", local: false, seal_wrap: false };

  it("a mount", async () => {
    const found = (object: AccessControl) => object.listMounts("").some((each) => each.path === "late/");
    await failed((object) => object.enableMount("", "late", { ...mount, type: "kv" }), found);
    expect(await runInDurableObject(accessObject(), found)).toBe(false);
  });

  it("an auth mount", async () => {
    const found = (object: AccessControl) => object.readAuthMount("", "late").ok;
    await failed((object) => object.enableAuthMount("", "late", { ...mount, type: "approle" }), found);
    expect(await runInDurableObject(accessObject(), found)).toBe(false);
  });

  it("a namespace", async () => {
    const found = (object: AccessControl) => object.readNamespace("late/").ok;
    await failed((object) => object.putNamespace("", "late", {}), found);
    expect(await runInDurableObject(accessObject(), found)).toBe(false);
  });

  it("the rights of a policy", async () => {
    const { client_token: token } = await issue({ policies: ["late"], no_default_policy: true });
    const allowed = (object: AccessControl) => {
      const grant = object.authorize({ token, namespace: "", path: "kv/data/x" });
      return grant.ok && grant.capabilities.includes("read");
    };
    await failed((object) => object.putPolicy("", "late", path("kv/data/*", "read")), allowed);
    expect(await status(token)).toBe(403);
  });
});

describe("the cache of an isolate for unknown callers", () => {
  beforeEach(() => void throughReplicas(0));
  afterEach(() => void throughReplicas(1));

  const ask = (number: number, padding = "") =>
    get(`/v1/kv/data/${number}/${padding}`, { token: `stranger-${number}` });

  it("holds only recent entries", async () => {
    const start = Date.now();
    let passed = 0;
    vi.spyOn(Date, "now").mockImplementation(() => start + passed);
    for (let number = 0; number < 100; number++) {
      passed += 100;
      expect((await ask(number)).status).toBe(403);
      expect(authorizeCacheSize().entries).toBeLessThanOrEqual(16);
    }
    passed += 10_000;
    await ask(100);
    expect(authorizeCacheSize().entries).toBe(1);
  });

  it("is bounded, and counted correctly", async () => {
    const now = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(now);
    const padding = "x".repeat(3_500);
    for (let number = 0; number < 700; number++) await ask(number, padding);
    const { entries, characters } = authorizeCacheSize();
    expect(characters).toBeLessThanOrEqual(2 * 1024 * 1024);
    expect(characters).toBeGreaterThan(1_900_000);
    expect(Math.round(characters / entries)).toBeGreaterThan(3_500);
    // An equal request reuses the entry.
    await ask(699, padding);
    expect(authorizeCacheSize()).toEqual({ entries, characters });
  });
});
