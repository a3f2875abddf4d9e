import { beforeEach, describe, expect, it, vi } from "vitest";
import { issue } from "./access.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";

clock.moves = true;

const AT = "/v1/sys/quotas/rate-limit";
const from = (address: string, more: object = {}) => ({ headers: { "CF-Connecting-IP": address }, ...more });
const HERE = "192.0.2.1";

beforeEach(async () => {
  vi.setSystemTime(Math.ceil(Date.now() / 1_000) * 1_000);
  await mountKv("kv");
  await put("/v1/kv/data/a", { data: { x: 1 } });
});

const quota = async (name: string, body: object): Promise<void> => {
  const made = await put(`${AT}/${name}`, body);
  expect([made.status, made.text]).toEqual([204, ""]);
};

/** The statuses of requests in a row. */
async function statuses(count: number, path: string, options: Parameters<typeof get>[1] = from(HERE)) {
  const found: number[] = [];
  for (let n = 0; n < count; n++) found.push((await get(path, options)).status);
  return found;
}

const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1_000);

describe("sys/quotas/rate-limit", () => {
  it("is stored and shown, with upstream's defaults", async () => {
    await quota("all", { rate: "1000.5", path: "" });
    expect((await get(`${AT}/all`)).body.data).toEqual({
      name: "all",
      type: "rate-limit",
      path: "",
      role: "",
      rate: 1000.5,
      interval: 1,
      block_interval: 0,
      inheritable: true,
      group_by: "ip",
      secondary_rate: 0,
    });
    const settings = { rate: 7, interval: "1m", block_interval: 90, inheritable: true, group_by: "none" };
    await quota("kv", { path: "kv", ...settings, type: "rate-limit", role: "", secondary_rate: 0 });
    expect((await get(`${AT}/kv`)).body.data).toMatchObject({ ...settings, path: "kv/", interval: 60 });
    expect((await list(AT)).body.data.keys).toEqual(["all", "kv"]);
    await quota("all", { rate: 1000, interval: 0 });
    expect((await get(`${AT}/all`)).body.data.interval).toBe(1);
    expect((await del(`${AT}/kv`)).status).toBe(204);
    expect((await del(`${AT}/kv`)).status).toBe(204);
    expect((await get(`${AT}/kv`)).status).toBe(404);
    await del(`${AT}/all`);
    expect((await list(AT)).status).toBe(404);
  });

  it("returns 400 with the field's name for a setting without an effect", async () => {
    await quota("kv", { rate: 1000, path: "kv/" });
    const rows: readonly [name: string, body: object, says: string][] = [
      ["q", {}, "rate"],
      ["q", { rate: 0 }, "rate"],
      ["q", { rate: 1, path: "nowhere/" }, "path: invalid mount path"],
      ["q", { rate: 1, path: "kv" }, 'path: quota rule with similar properties exists under the name "kv"'],
      ["q", { rate: 1, role: "r" }, "role: quotas by role are not offered"],
      ["q", { rate: 1, group_by: "entity_then_ip" }, "group_by: must be ip or none"],
      ["q", { rate: 1, secondary_rate: 1 }, "secondary_rate"],
      ["q", { rate: 1, type: "lease-count" }, "type: must be rate-limit"],
      ["q", { rate: 1, interval: "-1s" }, "interval"],
      ["a b", { rate: 1 }, "name: must be"],
    ];
    for (const [name, body, says] of rows) {
      const { status, text } = await put(`${AT}/${encodeURIComponent(name)}`, body);
      expect([says, status, JSON.parse(text).errors[0]]).toEqual([says, 400, expect.stringContaining(says)]);
    }
    expect((await list(AT)).body.data.keys).toEqual(["kv"]);
  });
});

describe("a quota", () => {
  it("refuses further requests of an address with upstream's text, until the interval ends", async () => {
    await quota("kv", { path: "kv/", rate: 2, interval: 10 });
    expect(await statuses(3, "/v1/kv/data/a")).toEqual([200, 200, 429]);
    const { body, headers } = await get("/v1/kv/data/a", from(HERE));
    expect(body.errors).toEqual(['request path "kv/data/a": rate limit quota exceeded']);
    expect([headers.get("Retry-After"), headers.get("X-Ratelimit-Limit")]).toEqual(["10", null]);
    expect((await get("/v1/kv/data/a", from("192.0.2.2"))).status).toBe(200);
    expect((await get("/v1/sys/mounts", from(HERE))).status).toBe(200);
    pass(10);
    expect(await statuses(3, "/v1/kv/data/a")).toEqual([200, 200, 429]);
  });

  it("counts reads and writes, also with grants that were cached before", async () => {
    const write = () => send("PUT", "/v1/kv/data/a", { data: { x: 2 } }, from(HERE));
    expect((await write()).status).toBe(200);
    await quota("kv", { path: "kv/", rate: 2, interval: 10 });
    expect([(await write()).status, (await write()).status, (await write()).status]).toEqual([200, 200, 429]);
    expect((await get("/v1/kv/data/a")).body.data.metadata.version).toBe(4);
  });

  it("keeps a refused client out for the block interval", async () => {
    await quota("kv", { path: "kv/", rate: 1, interval: 1, block_interval: "1m" });
    expect(await statuses(2, "/v1/kv/data/a")).toEqual([200, 429]);
    pass(30);
    const { status, headers } = await get("/v1/kv/data/a", from(HERE));
    expect([status, headers.get("Retry-After")]).toEqual([429, "30"]);
    pass(31);
    expect(await statuses(2, "/v1/kv/data/a")).toEqual([200, 429]);
  });

  it("counts all clients together with group_by none", async () => {
    await quota("kv", { path: "kv/", rate: 1, interval: 10, group_by: "none" });
    expect((await get("/v1/kv/data/a", from(HERE))).status).toBe(200);
    expect((await get("/v1/kv/data/a", from("192.0.2.2"))).status).toBe(429);
  });

  it("of the most specific path applies alone", async () => {
    await put("/v1/sys/namespaces/team", {});
    const team = { headers: { "X-Orch-Namespace": "team" } };
    await mountKv("kv", team);
    await quota("global", { rate: 1, interval: 10 });
    await quota("mount", { path: "kv/", rate: 2, interval: 10 });
    await quota("prefix", { path: "kv/data/a*", rate: 3, interval: 10 });
    await quota("exact", { path: "kv/data/abc", rate: 4, interval: 10 });
    await quota("namespace", { path: "team", rate: 5, interval: 10 });
    const rows: readonly [path: string, allowed: number][] = [
      ["/v1/sys/internal/ui/namespaces", 1],
      ["/v1/kv/data/b", 2],
      ["/v1/kv/data/ab", 3],
      ["/v1/kv/data/abc", 4],
      ["/v1/team/kv/data/abc", 5],
    ];
    for (const [path, allowed] of rows) {
      const found = await statuses(allowed + 1, path);
      expect([path, found.indexOf(429)]).toEqual([path, allowed]);
    }
  });

  it("of a namespace applies below it only when it is inheritable", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/team/sys/namespaces/sub", {});
    const path = "/v1/team/sub/sys/mounts";
    await quota("team", { path: "team/", rate: 1, interval: 10 });
    expect(await statuses(2, path)).toEqual([200, 200]);
    await quota("team", { path: "team/", rate: 1, interval: 10, inheritable: true });
    expect(await statuses(2, path)).toEqual([200, 429]);
  });

  it("counts one user, role or policy by any spelling of its name", async () => {
    await put("/v1/sys/auth/up", { type: "userpass" });
    await put("/v1/auth/up/users/ann", { password: "some-password" });
    await quota("login", { path: "auth/up/login/Ann", rate: 1, interval: 10 });
    await quota("user", { path: "auth/up/users/a*", rate: 1, interval: 10 });
    await quota("policy", { path: "sys/policies/acl/default", rate: 1, interval: 10 });
    const password = { password: "some-password" };
    const login = async (name: string) =>
      (await put(`/v1/auth/up/login/${name}`, password, { token: null, ...from(HERE) })).status;
    expect([await login("ann"), await login("ANN"), await login("aNn")]).toEqual([200, 429, 429]);
    const read = async (path: string) => (await get(path, from(HERE))).status;
    expect([await read("/v1/auth/up/users/Ann"), await read("/v1/auth/up/users/ANN")]).toEqual([200, 429]);
    const policy = "/v1/sys/policies/acl";
    expect([await read(`${policy}/default`), await read(`${policy}/DEFAULT`)]).toEqual([200, 429]);
  });

  it("exempts one user by any spelling of the name, and a folder with its final slash", async () => {
    await put("/v1/sys/auth/up", { type: "userpass" });
    for (const name of ["ann", "bob"]) await put(`/v1/auth/up/users/${name}`, { password: "some-password" });
    const exempt = ["auth/up/users/Ann", "auth/up/login/aN*", "kv/metadata/A", "kv/data/A"];
    await put("/v1/sys/quotas/config", { rate_limit_exempt_paths: exempt });
    await put("/v1/kv/data/A/b", { data: {} });
    await quota("users", { path: "auth/up/", rate: 1, interval: 10 });
    await quota("kv", { path: "kv/", rate: 1, interval: 10 });
    for (const name of ["ann", "ANN"]) expect(await statuses(2, `/v1/auth/up/users/${name}`)).toEqual([200, 200]);
    expect(await statuses(2, "/v1/auth/up/users/bob")).toEqual([200, 429]);
    for (const path of ["A", "A/"]) expect((await list(`/v1/kv/metadata/${path}`, from(HERE))).status).toBe(200);
    // Names of secrets are told apart by case.
    expect(await statuses(2, "/v1/kv/data/a")).toEqual([200, 429]);
  });

  it("counts logins, which have no token", async () => {
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put("/v1/auth/userpass/users/ann", { password: "some-password" });
    await quota("logins", { path: "auth/userpass/login/*", rate: 1, interval: 10 });
    const login = () =>
      put("/v1/auth/userpass/login/ann", { password: "some-password" }, { token: null, ...from(HERE) });
    expect([(await login()).status, (await login()).status]).toEqual([200, 429]);
    expect((await get("/v1/auth/userpass/users/ann", from(HERE))).status).toBe(200);
  });

  it("counts requests without a right, and none without a valid token", async () => {
    await quota("kv", { path: "kv/", rate: 2, interval: 10 });
    const { client_token: token } = await issue({ policies: ["none"], no_default_policy: true });
    expect(await statuses(3, "/v1/kv/data/a", from(HERE, { token: "hvs.unknown" }))).toEqual([403, 403, 403]);
    expect(await statuses(3, "/v1/kv/data/a", from(HERE, { token }))).toEqual([403, 403, 429]);
  });

  it("exempts paths, and shows limits in headers on request", async () => {
    await quota("all", { rate: 3, interval: 10, path: "kv/" });
    const config = { enable_rate_limit_response_headers: true, rate_limit_exempt_paths: ["kv/metadata/*"] };
    expect((await put("/v1/sys/quotas/config", config)).status).toBe(204);
    const shown = { ...config, enable_rate_limit_audit_logging: false };
    const read = async () => (await get("/v1/sys/quotas/config")).body.data;
    expect(await read()).toEqual({ ...shown, absolute_rate_limit_exempt_paths: [] });
    const absolute = { absolute_rate_limit_exempt_paths: ["team/sys/mounts", "kv/config"] };
    expect((await put("/v1/sys/quotas/config", absolute)).status).toBe(204);
    expect(await read()).toEqual({ ...shown, ...absolute });
    const { headers } = await get("/v1/kv/data/a", from(HERE));
    const limit = (name: string) => headers.get(`X-Ratelimit-${name}`);
    expect([limit("Limit"), limit("Remaining"), limit("Reset")]).toEqual(["3", "2", "10"]);
    expect(await statuses(5, "/v1/kv/metadata/a")).toEqual([200, 200, 200, 200, 200]);
    expect(await statuses(3, "/v1/kv/data/a")).toEqual([200, 200, 429]);
    expect((await get("/v1/kv/data/a", from(HERE))).headers.get("X-Ratelimit-Remaining")).toBe("0");
    expect(await statuses(2, "/v1/kv/config")).toEqual([200, 200]);
    await put("/v1/sys/namespaces/team", {});
    await quota("team", { rate: 1, interval: 10, path: "team" });
    const team = { headers: { "CF-Connecting-IP": HERE, "X-Orch-Namespace": "team" } };
    expect(await statuses(2, "/v1/sys/mounts", team)).toEqual([200, 200]);
    expect(await statuses(2, "/v1/sys/policy", team)).toEqual([200, 429]);
    expect((await put("/v1/sys/quotas/config", { enable_rate_limit_audit_logging: true })).status).toBe(400);
  });
});
