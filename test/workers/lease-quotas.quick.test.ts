import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { Fault } from "../doubles/cloud-b/azure-types.ts";
import { accessObject, holderOf, issue, path } from "./access.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";
import { creds, dynamicRole, mountEngine, openTenant, revoke, type Tenant, writeRole } from "./engine-helpers.ts";
import { evictObject } from "./evict-all.ts";

const AT = "/v1/sys/quotas/lease-count";
const LIMITED = (at: string) => [`1 error occurred:\n\t* request path "${at}": lease count quota exceeded\n\n`];

const quota = async (name: string, body: object): Promise<void> => {
  const made = await put(`${AT}/${name}`, body);
  expect([made.status, made.text]).toEqual([204, ""]);
};
const counter = async (name: string): Promise<number> => (await get(`${AT}/${name}`)).body.data.counter;

/** A token that may read all credentials and create tokens. */
const limitedToken = async () => {
  const rules = path("+/creds/*", "read") + path("auth/token/create", "update");
  const { client_token: token } = await holderOf(rules);
  return { token };
};

const logIn = (name: string, options?: Parameters<typeof send>[3]) =>
  send("POST", `/v1/auth/people/login/${name}`, { password: "p" }, { token: "", ...options });

/** A user of a method at `auth/people`. */
async function user(name: string, more: object = {}): Promise<void> {
  await put("/v1/sys/auth/people", { type: "userpass" });
  expect((await put(`/v1/auth/people/users/${name}`, { password: "p", ...more })).status).toBe(204);
}

describe("sys/quotas/lease-count", () => {
  it("are stored and shown with their counter", async () => {
    await user("ann");
    await quota("all", { max_leases: "1000" });
    await quota("ann", { path: "auth/people", role: "ann", max_leases: 7, inheritable: false, type: "lease-count" });
    expect((await list(AT)).body.data.keys).toEqual(["all", "ann"]);
    expect((await get(`${AT}/ann`)).body.data).toEqual({
      counter: 0,
      inheritable: false,
      max_leases: 7,
      name: "ann",
      path: "auth/people/",
      role: "ann",
      type: "lease-count",
    });
    expect((await get(`${AT}/all`)).body.data).toMatchObject({ max_leases: 1000, path: "", inheritable: true });
    expect((await logIn("ann")).status).toBe(200);
    expect([await counter("ann"), await counter("all")]).toEqual([1, 1]);
    expect([(await del(`${AT}/ann`)).status, (await del(`${AT}/ann`)).status]).toEqual([204, 204]);
    expect((await get(`${AT}/ann`)).status).toBe(404);
    await del(`${AT}/all`);
    expect((await list(AT)).status).toBe(404);
  });

  it("returns 400 with the field's name for a setting without an effect", async () => {
    await mountKv("kv");
    await quota("kv", { max_leases: 1, path: "kv/" });
    await user("ann");
    await quota("ann", { max_leases: 1, path: "auth/people", role: "ann" });
    const rows: readonly [name: string, body: object, says: string][] = [
      ["q", {}, "max_leases"],
      ["q", { max_leases: 0 }, "max_leases"],
      ["q", { max_leases: 1, path: "nowhere/" }, "path: invalid mount path"],
      ["q", { max_leases: 1, path: "kv" }, 'path: quota rule with similar properties exists under the name "kv"'],
      ["q", { max_leases: 1, path: "kv/", role: "r" }, "role: the path must be that of an auth mount"],
      ["q", { max_leases: 1, path: "auth/people", role: "ANN" }, 'exists under the name "ann"'],
      ["q", { max_leases: 1, type: "rate-limit" }, "type: must be lease-count"],
      ["a b", { max_leases: 1 }, "name: must be"],
    ];
    for (const [name, body, says] of rows) {
      const { status, text } = await put(`${AT}/${encodeURIComponent(name)}`, body);
      expect([says, status, JSON.parse(text).errors[0]]).toEqual([says, 400, expect.stringContaining(says)]);
    }
  });
});

describe("a lease-count quota of an engine", () => {
  let tenant: Tenant;
  const begin = async () => {
    tenant = await openTenant();
    await mountEngine(tenant);
    await writeRole("web", dynamicRole(tenant));
  };

  it("refuses a further lease before anything is created for it, until a lease ends", async () => {
    await begin();
    await quota("web", { path: "cloud-b/creds/web", max_leases: 1 });
    const caller = await limitedToken();
    const first = await creds("web", caller);
    expect(first.status, first.text).toBe(200);
    const calls = (await tenant.requests()).length;
    const second = await creds("web", caller);
    expect([second.status, second.body.errors]).toEqual([429, LIMITED("cloud-b/creds/web")]);
    expect((await tenant.requests()).length).toBe(calls);
    expect(await counter("web")).toBe(1);
    expect((await revoke(first.body.lease_id)).status).toBe(204);
    expect((await creds("web", caller)).status).toBe(200);
    expect(await counter("web")).toBe(1);
  });

  it("admits one of two requests at the limit, also of two mounts and after a restart of the counter", async () => {
    await begin();
    await put("/v1/sys/mounts/second", { type: "cloud-b" });
    await put("/v1/second/config", tenant.config);
    await writeRole("web", dynamicRole(tenant), "second");
    await quota("all", { max_leases: 4 });
    const caller = await limitedToken();
    const ask = (mount: string) => get(`/v1/${mount}/creds/web`, caller);
    // The token itself is a lease.
    expect((await ask("cloud-b")).status).toBe(200);
    expect((await ask("second")).status).toBe(200);
    const killed = runInDurableObject(accessObject(), (_object, state) => state.abort("killed by a test"));
    await expect(killed).rejects.toThrow("killed by a test");
    const both = await Promise.all([ask("cloud-b"), ask("second"), ask("second")]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 429, 429]);
    expect(await counter("all")).toBe(4);
  });

  it("counts leases that exist, and exempts root tokens", async () => {
    await begin();
    expect((await creds("web")).status).toBe(200);
    await quota("mount", { path: "cloud-b", max_leases: 1 });
    const caller = await limitedToken();
    expect((await creds("web", caller)).status).toBe(429);
    expect((await creds("web")).status).toBe(200);
    expect(await counter("mount")).toBe(2);
    await quota("mount", { path: "cloud-b", max_leases: 3 });
    expect((await creds("web", caller)).status).toBe(200);
  });

  it("does not count a lease whose creation failed", async () => {
    await begin();
    await quota("mount", { path: "cloud-b/", max_leases: 1 });
    const caller = await limitedToken();
    await tenant.fault({
      operation: "CreateApplication",
      fault: "error",
      status: 400,
      code: "Request_BadRequest",
      message: "no",
    } as Fault);
    expect((await creds("web", caller)).status).toBe(400);
    expect((await creds("web", caller)).status).toBe(200);
  });
});

describe("a lease-count quota of tokens", () => {
  it("refuses logins and new tokens, and batch tokens that it does not count", async () => {
    await user("ann");
    const caller = await limitedToken();
    const create = (body: object) => send("POST", "/v1/auth/token/create", body, caller);
    await quota("tokens", { path: "auth/token", max_leases: 2 });
    expect((await create({ type: "batch", ttl: "1h" })).status).toBe(200);
    expect(await counter("tokens")).toBe(1);
    expect((await create({ ttl: "1h" })).status).toBe(200);
    for (const body of [{ ttl: "1h" }, { type: "batch", ttl: "1h" }]) {
      const refused = await create(body);
      expect([refused.status, refused.body.errors]).toEqual([429, LIMITED("auth/token/create")]);
    }
    expect((await logIn("ann")).status).toBe(200);
    expect((await issue({ policies: ["default"], ttl: "1h" })).client_token).toBeTruthy();
    expect(await counter("tokens")).toBe(3);
  });

  it("counts no less after the last use of a root token without an expiry", async () => {
    const caller = await limitedToken();
    const create = () => send("POST", "/v1/auth/token/create", { ttl: "1h" }, caller);
    await quota("tokens", { path: "auth/token", max_leases: 2 });
    expect((await create()).status).toBe(200);
    expect(await counter("tokens")).toBe(2);
    const { client_token: token } = await issue({ policies: ["root"], num_uses: 1 });
    expect((await put("/v1/auth/token/revoke-self", {}, { token })).status).toBe(204);
    expect(await counter("tokens")).toBe(2);
    expect((await create()).status).toBe(429);
  });

  it("frees a lease with the token that ends", async () => {
    await user("ann");
    await quota("people", { path: "auth/people/", max_leases: 1 });
    const first = await logIn("ann");
    expect(first.status).toBe(200);
    const refused = await logIn("ann");
    expect([refused.status, refused.body.errors]).toEqual([429, LIMITED("auth/people/login/ann")]);
    await put("/v1/auth/token/revoke", { token: first.body.auth.client_token });
    expect((await logIn("ann")).status).toBe(200);
  });

  it("of the most specific place applies alone: role, path, mount, namespace, global", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/team/sys/auth/people", { type: "userpass" });
    const names = ["role", "exact", "prefix-1", "mount"];
    for (const name of names) await user(name);
    for (const name of ["here", "more"]) await put(`/v1/team/auth/people/users/${name}`, { password: "p" });
    await quota("global", { max_leases: 1000 });
    await quota("mount", { path: "auth/people/", max_leases: 1 });
    await quota("prefix", { path: "auth/people/login/prefix*", max_leases: 2 });
    await quota("exact", { path: "auth/people/login/exact", max_leases: 3 });
    await quota("role", { path: "auth/people/", role: "Role", max_leases: 4 });
    await quota("namespace", { path: "team", max_leases: 5 });
    const rows: readonly [path: string, allowed: number][] = [
      ["auth/people/login/role", 4],
      ["auth/people/login/exact", 3],
      ["auth/people/login/prefix-1", 2],
      // All of the mount have been counted.
      ["auth/people/login/mount", 0],
      ["team/auth/people/login/here", 5],
    ];
    for (const [at, allowed] of rows) {
      const found: number[] = [];
      for (let n = 0; n <= allowed; n++)
        found.push((await send("POST", `/v1/${at}`, { password: "p" }, { token: "" })).status);
      expect([at, found.indexOf(429)]).toEqual([at, allowed]);
    }
    await quota("namespace", { path: "team", max_leases: 6 });
    expect((await send("POST", "/v1/team/auth/people/login/more", { password: "p" }, { token: "" })).status).toBe(200);
  });

  it("of a role counts the role in any letter case, also as an older release stored it", async () => {
    await user("ann");
    await quota("ann", { path: "auth/people", role: "Ann", max_leases: 1 });
    expect((await get(`${AT}/ann`)).body.data.role).toBe("ann");
    await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      sql.exec("UPDATE facts SET value = replace(value, ?, ?)", '"role":"ann"', '"role":"ANN"');
    });
    await evictObject(accessObject());
    expect([(await logIn("ann")).status, (await logIn("Ann")).status]).toEqual([200, 429]);
  });

  it("of a namespace applies below it only when it is inheritable", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/team/sys/namespaces/sub", {});
    await put("/v1/team/sub/sys/auth/people", { type: "userpass" });
    await put("/v1/team/sub/auth/people/users/ann", { password: "p" });
    const login = async () =>
      (await send("POST", "/v1/team/sub/auth/people/login/ann", { password: "p" }, { token: "" })).status;
    await quota("team", { path: "team/", max_leases: 1 });
    expect([await login(), await login()]).toEqual([200, 200]);
    await quota("team", { path: "team/", max_leases: 2, inheritable: true });
    expect(await login()).toBe(429);
  });

  it("has metrics", async () => {
    await user("ann");
    await quota("people", { path: "auth/people/", max_leases: 1 });
    await logIn("ann");
    await logIn("ann");
    const { text } = await get("/v1/sys/metrics?format=prometheus");
    expect(text).toContain('sallyport_lease_count_quota_max{name="people"} 1');
    expect(text).toContain('sallyport_lease_count_quota_counter{name="people"} 1');
    expect(text).toContain('sallyport_lease_count_quota_violations_total{name="people"} 1');
  });
});
