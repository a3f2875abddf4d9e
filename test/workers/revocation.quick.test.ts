import { beforeEach, describe, expect, it, vi } from "vitest";
import { accessObject, holderOf, issue, path, policies } from "./access.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { throughReplicas } from "./replicas.ts";

clock.moves = true;

/** Maximum age of cached authorizations (docs/internals/design.md). */
const BOUND_MS = 2_000;
const ALL = `${path("*", "read", "update", "list", "create")} namespace "*" { policy = "read" }`;

/**
 * Revokes like a request in another isolate: this isolate's cache stays, as the object cannot reach it. A revocation
 * through this isolate clears its cache.
 */
const revokeElsewhere = (token: string) => accessObject().revokeToken({ own: token });

/** Fills this isolate's cache with authorizations of a token. */
const warmUp = async (token: string, routes: readonly string[]) => {
  for (const route of routes) expect((await get(route, { token })).status, route).toBe(200);
};

describe("a revoked token", () => {
  const fresh = [
    "/v1/kv/data/x",
    "/v1/kv/metadata/x",
    "/v1/auth/token/lookup-self",
    "/v1/sys/policies/acl/default",
    "/v1/sys/mounts",
    "/v1/acl/token/self",
    "/v1/acl/policies",
    "/v1/sys/sync/destinations/in-mem/d",
  ];
  const eventual = ["/v1/namespaces", "/v1/namespace/default"];

  beforeEach(async () => {
    await mountKv();
    await put("/v1/kv/data/x", { data: {} });
    await put("/v1/sys/sync/destinations/in-mem/d", {});
  });

  it("is refused by the next read of a secret, token, policy or mount, in every isolate", async () => {
    const { client_token: token } = await holderOf(ALL);
    await warmUp(token, fresh);
    await revokeElsewhere(token);
    for (const route of fresh) expect((await get(route, { token })).status, route).toBe(403);
    expect((await put("/v1/auth/token/create", {}, { token })).status).toBe(403);
    expect((await put("/v1/sys/policies/acl/x", { policy: 'path "a" {}' }, { token })).status).toBe(403);
  });

  it("is refused by every route at once where there are replicas", async () => {
    const { client_token: token } = await holderOf(ALL);
    await warmUp(token, eventual);
    await revokeElsewhere(token);
    for (const route of eventual) expect((await get(route, { token })).status, route).toBe(403);
  });

  it.each(eventual)("is refused by %s after at most two seconds without replicas", async (route) => {
    const { client_token: token } = await holderOf(ALL);
    const now = Date.now();
    try {
      throughReplicas(0);
      vi.useFakeTimers({ toFake: ["Date"], now });
      await warmUp(token, [route]);
      await revokeElsewhere(token);
      vi.setSystemTime(now + BOUND_MS / 2);
      expect((await get(route, { token })).status, "from memory").toBe(200);
      vi.setSystemTime(now + BOUND_MS);
      expect((await get(route, { token })).status).toBe(403);
    } finally {
      vi.useRealTimers();
      throughReplicas(1);
    }
  });

  it("is refused by all routes at once in the isolate of the revocation", async () => {
    const { client_token: token } = await holderOf(ALL);
    await warmUp(token, [...fresh, ...eventual]);
    expect((await put("/v1/auth/token/revoke", { token })).status).toBe(204);
    for (const route of [...fresh, ...eventual]) expect((await get(route, { token })).status, route).toBe(403);
  });

  it("is refused in time under constant requests", async () => {
    const { client_token: token } = await holderOf(ALL);
    const [route = ""] = eventual;
    const now = Date.now();
    try {
      throughReplicas(0);
      vi.useFakeTimers({ toFake: ["Date"], now });
      await warmUp(token, [route]);
      vi.setSystemTime(now + BOUND_MS / 2);
      await warmUp(token, [route]);
      await revokeElsewhere(token);
      vi.setSystemTime(now + BOUND_MS);
      expect((await get(route, { token })).status).toBe(403);
    } finally {
      vi.useRealTimers();
    }
  });

  it("cannot write a policy in a namespace that leads the path", async () => {
    await put("/v1/sys/namespaces/ns1", {});
    const { client_token: token } = await holderOf(`${ALL} path "ns1/*" { capabilities = ["update"] }`);
    const write = () => put("/v1/ns1/sys/policies/acl/p", { policy: 'path "a" {}' }, { token });
    expect((await write()).status).toBe(204);
    await revokeElsewhere(token);
    expect((await write()).status).toBe(403);
  });

  it("is revoked at the same time as its children", async () => {
    await policies({ all: ALL });
    const parent = (await issue({ policies: ["all"] })).client_token;
    const child = (await issue({ policies: ["all"] }, { token: parent })).client_token;
    await warmUp(child, fresh);
    await revokeElsewhere(parent);
    for (const route of fresh) expect((await get(route, { token: child })).status, route).toBe(403);
  });
});

it("does not delay a changed policy for the next read of a secret", async () => {
  await mountKv();
  await put("/v1/kv/data/x", { data: {} });
  await policies({ p: path("kv/data/x", "read") });
  const { client_token: token } = await issue({ policies: ["p"] });
  await warmUp(token, ["/v1/kv/data/x"]);
  await accessObject().putPolicy("", "p", path("kv/data/x", "deny"));
  expect((await get("/v1/kv/data/x", { token })).status).toBe(403);
});

describe("revoke-prefix of a path that issues tokens", () => {
  const alive = async (token: string) => (await get("/v1/auth/token/lookup-self", { token })).status === 200;
  const login = async (name: string) =>
    (await put(`/v1/auth/userpass/login/${name}`, { password: "b" }, { token: null })).body.auth.client_token;

  beforeEach(async () => {
    await policies({ reader: path("auth/token/create", "update") });
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    for (const name of ["ann", "ann2"])
      await put(`/v1/auth/userpass/users/${name}`, { password: "b", token_policies: "reader" });
  });

  it("revokes its tokens with their children, and no others", async () => {
    const [ann, other] = [await login("ann"), await login("ann2")];
    const child = (await put("/v1/auth/token/create", { ttl: "1h" }, { token: ann })).body.auth.client_token;
    expect((await put("/v1/sys/leases/revoke-prefix/auth/userpass/login/ann", {})).status).toBe(204);
    expect([await alive(ann), await alive(child), await alive(other)]).toEqual([false, false, true]);
    expect((await put("/v1/sys/leases/revoke-force/auth/userpass/", {})).status).toBe(204);
    expect(await alive(other)).toBe(false);
  });

  it("stays in the namespace, and spares tokens without an expiry", async () => {
    const create = async (body: object) => (await put("/v1/auth/token/create", body)).body.auth.client_token;
    const [short, endless, ann] = [await create({ ttl: "1h" }), await create({}), await login("ann")];
    const there = { headers: { "X-Orch-Namespace": "ns" } };
    await put("/v1/sys/namespaces/ns", {});
    await put("/v1/sys/leases/revoke-prefix/auth/token", {}, there);
    expect(await alive(short)).toBe(true);
    await put("/v1/sys/revoke-prefix/auth/token", { sync: false });
    expect([await alive(short), await alive(endless), await alive(ann)]).toEqual([false, true, true]);
  });
});
