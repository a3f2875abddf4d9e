import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AccessControlApi } from "../../src/contracts/access-control.ts";
import type { RightsCheck } from "../../src/contracts/tokens.ts";
import { itRows } from "../support/rows.ts";
import { accessObject, dump, holderOf, issue, path, policies } from "./access.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { creds, dynamicRole, lookup, mountEngine, openTenant, rows, writeRole } from "./engine-helpers.ts";

clock.moves = true;

const SELF = "/v1/auth/token/lookup-self";
const post = (route: string, body: object, options?: Parameters<typeof send>[3]) =>
  send("POST", `/v1/auth/token/${route}`, body, options);
const batch = async (body: object = {}, options?: Parameters<typeof send>[3]) =>
  issue({ type: "batch", policies: ["app"], ttl: "1h", ...body }, options);
const statusOf = async (token: string) => (await get("/v1/kv/data/app", { token })).status;
const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });

const mayAlso = async (check: RightsCheck): Promise<boolean> =>
  ((await accessObject().mayAlso(check)) as { readonly ok: boolean }).ok;

beforeEach(async () => {
  await mountKv();
  await put("/v1/kv/data/app", { data: { a: "1" } });
  await policies({ app: path("kv/data/app", "read") });
});

afterEach(() => {
  vi.useRealTimers();
});

describe("a batch token", () => {
  it("has the rights of its policies, no accessor and no row", async () => {
    later(0);
    const before = await dump();
    const { body } = await post("create", { type: "batch", policies: ["app"], ttl: "1h", meta: { team: "x" } });
    expect(body.auth).toMatchObject({
      client_token: expect.stringMatching(/^hvb\.[A-Za-z0-9_-]+$/),
      accessor: "",
      policies: ["app", "default"],
      metadata: { team: "x" },
      orphan: false,
      lease_duration: 3600,
      renewable: false,
      num_uses: 0,
      token_type: "batch",
    });
    expect(await dump()).toBe(before);
    const token = body.auth.client_token;
    expect(await statusOf(token)).toBe(200);
    expect((await get("/v1/kv/data/other", { token })).status).toBe(403);
    const shown = {
      accessor: "",
      id: token,
      type: "batch",
      ttl: 3600,
      creation_ttl: 3600,
      renewable: false,
      meta: { team: "x" },
      orphan: false,
      path: "auth/token/create",
      policies: ["app", "default"],
    };
    expect((await get(SELF, { token })).body.data).toMatchObject(shown);
    expect((await post("lookup", { token })).body.data).toMatchObject(shown);
    const can = await send("POST", "/v1/sys/capabilities-self", { paths: ["kv/data/app"] }, { token });
    expect(can.body.data["kv/data/app"]).toEqual(["read"]);
    const of = await send("POST", "/v1/sys/capabilities", { token, paths: ["kv/data/app"] });
    expect(of.body.data["kv/data/app"]).toEqual(["read"]);
  });

  it("is not listed by accessor, and cannot be renewed, revoked or have children", async () => {
    await policies({ makes: path("auth/token/*", "update", "sudo") });
    const count = (await list("/v1/auth/token/accessors")).body.data.keys.length;
    const { client_token: token } = await batch({ policies: ["makes"] });
    const refusals = [
      [await post("renew", { token }), "batch tokens cannot be renewed"],
      [await post("renew-self", {}, { token }), "batch tokens cannot be renewed"],
      [await post("revoke", { token }), "batch tokens cannot be revoked"],
      [await post("revoke-self", {}, { token }), "batch tokens cannot be revoked"],
      [await post("revoke-orphan", { token }), "batch tokens cannot be revoked"],
      [await post("create", {}, { token }), "batch tokens cannot create more tokens"],
      [
        await send("POST", "/v1/cubbyhole/x", { a: 1 }, { token }),
        'cubbyhole operations are only supported by "service" type tokens',
      ],
    ] as const;
    for (const [{ status, body }, text] of refusals) expect([status, body.errors], text).toEqual([400, [text]]);
    expect((await get(SELF, { token })).status).toBe(200);
    expect((await list("/v1/auth/token/accessors")).body.data.keys).toHaveLength(count);
  });

  itRows([
    [{ explicit_max_ttl: "1h" }, 'batch tokens cannot have "explicit_max_ttl" set'],
    [{ num_uses: 2 }, 'batch tokens cannot have "num_uses" set'],
    [{ period: "1h" }, 'batch tokens cannot have "period" set'],
    [{ id: "chosen" }, 'batch tokens cannot have "id" set'],
    [{ policies: ["root"] }, "batch tokens cannot be root tokens"],
    [{ policies: [] }, "batch tokens cannot be root tokens"],
    [{ meta: { note: "x".repeat(2_000) } }, "must fit into 2048 characters"],
  ])("is refused with 400 for %j", async (body, text) => {
    const refused = await post("create", { type: "batch", policies: ["app"], ...body });
    expect([refused.status, refused.body.errors.join()]).toEqual([400, expect.stringContaining(text)]);
  });

  it("is revoked with its parent", async () => {
    const parent = await holderOf(path("auth/token/create", "update") + path("kv/data/app", "read"));
    const { client_token: token } = await batch({ policies: [] }, { token: parent.client_token });
    expect(await statusOf(token)).toBe(200);
    await post("revoke-accessor", { accessor: parent.accessor });
    expect((await get(SELF, { token })).body.errors.join()).toMatch(/permission denied/);
    expect((await post("lookup", { token })).status).toBe(403);
  });

  it("expires at its TTL, and no later than its parent", async () => {
    later(0);
    const parent = await holderOf(path("auth/token/create", "update"), { ttl: "10m" });
    const child = await batch({ policies: [] }, { token: parent.client_token });
    expect(child.lease_duration).toBe(600);
    const orphan = (await post("create-orphan", { type: "batch", policies: ["app"], ttl: "1h" })).body.auth;
    expect(orphan).toMatchObject({ orphan: true, lease_duration: 3600 });
    later(900);
    expect([(await get(SELF, { token: child.client_token })).status, await statusOf(orphan.client_token)]).toEqual([
      403, 200,
    ]);
    later(3_600);
    expect(await statusOf(orphan.client_token)).toBe(403);
  });

  it("that is altered, invented or truncated returns the error of an unknown token", async () => {
    const { client_token: token } = await batch();
    const flipped = `${token.slice(0, -10)}${token.at(-10) === "A" ? "B" : "A"}${token.slice(-9)}`;
    const made = `hvb.${Buffer.from(`[1,"x","root","",["root"],0,${Date.now() + 1e6},null,"","","",null,null,null]`).toString("base64url")}`;
    for (const text of [flipped, made, token.slice(0, -4), `${token}AAAA`, "hvb.", "hvb.!!!", token.slice(4)]) {
      const refused = await get(SELF, { token: text });
      expect([refused.status, refused.body.errors], text).toEqual([403, ["permission denied: invalid token"]]);
    }
    expect(await statusOf(token)).toBe(200);
  });

  it("cannot be used or looked up by the accessor that the service keeps for it", async () => {
    const { client_token: token } = await batch();
    const access: Pick<AccessControlApi, "authorize"> = accessObject() as never;
    const grant = await access.authorize({ token, namespace: "", path: "kv/data/app" });
    const accessor = grant.ok ? grant.identity.accessor : "";
    expect(accessor).toMatch(/^batch\./);
    expect((await get(SELF, { token: accessor })).status).toBe(403);
    expect((await get(SELF, { token: `hvb.${accessor.split(".")[2]}` })).status).toBe(403);
    for (const route of ["lookup-accessor", "renew-accessor", "revoke-accessor"]) {
      expect((await post(route, { accessor })).body.errors, route).toEqual(["invalid accessor"]);
    }
    const forged = accessor.replace(/\.[^.]+$/, ".AAAA");
    const check = { accessor: forged, namespace: "", path: "kv/data/app", needs: ["read"], given: {} } as const;
    expect(await mayAlso(check)).toBe(false);
    expect(await mayAlso({ ...check, accessor })).toBe(true);
  });

  it("works after a rotation of the keys", async () => {
    const { client_token: token } = await batch();
    expect((await put("/v1/sys/rotate", {})).status).toBeLessThan(300);
    expect(await statusOf(token)).toBe(200);
    expect(await statusOf((await batch()).client_token)).toBe(200);
  });

  it("does not work in a later namespace with the same path", async () => {
    const there = { headers: { "X-Orch-Namespace": "ns" } };
    await put("/v1/sys/namespaces/ns", {});
    const orphan = { type: "batch", policies: ["default"], ttl: "1h" };
    const { client_token: token } = (await post("create-orphan", orphan, there)).body.auth;
    expect((await get(SELF, { token })).body.data.namespace_path).toBe("ns/");
    await del("/v1/sys/namespaces/ns");
    await put("/v1/sys/namespaces/ns", {});
    expect((await get(SELF, { token })).status).toBe(403);
  });

  it("is issued by roles of matching types", async () => {
    const role = "/v1/auth/token/roles/app";
    const of = async (body: object) => (await post("create/app", body)).body.auth?.token_type;
    for (const [fields, fault] of [
      [{}, "non-orphan tokens"],
      [{ orphan: true }, "renewable tokens"],
      [{ orphan: true, renewable: false, token_period: 60 }, "periodic tokens"],
      [{ orphan: true, renewable: false, token_explicit_max_ttl: 60 }, "tokens with an explicit max TTL"],
    ] as const) {
      const refused = await put(role, { token_type: "batch", ...fields });
      expect([refused.status, refused.body.errors]).toEqual([
        400,
        [`'token_type' cannot be 'batch' when role is set to generate ${fault}`],
      ]);
    }
    const fields = { orphan: true, renewable: false, allowed_policies: "app", token_bound_cidrs: "10.0.0.0/8" };
    expect((await put(role, { token_type: "batch", ...fields })).status).toBe(204);
    const { client_token: token } = (await post("create/app", { type: "service", ttl: "1h" })).body.auth;
    const from = (address: string) => get("/v1/kv/data/app", { token, headers: { "CF-Connecting-IP": address } });
    expect([(await from("10.1.1.1")).status, (await from("192.0.2.1")).status]).toEqual([200, 403]);
    await put(role, { token_type: "default-batch" });
    expect([await of({}), await of({ type: "service" })]).toEqual(["batch", "service"]);
    await put(role, { token_type: "default-service" });
    expect([await of({}), await of({ type: "batch" })]).toEqual(["service", "batch"]);
    await put(role, { token_type: "service" });
    expect(await of({ type: "batch" })).toBe("service");
  });
});

describe("leases issued to a batch token", () => {
  it("end with it at the latest, also when they are renewed", async () => {
    later(0);
    const tenant = await openTenant();
    await mountEngine(tenant);
    await writeRole("app", { ...dynamicRole(tenant), ttl: "1h", max_ttl: "24h" });
    await policies({ creds: path("cloud-b/creds/*", "read") + path("auth/token/create", "update") });
    const parent = await issue({ policies: ["creds"] });
    const { client_token: token } = await batch({ policies: ["creds"], ttl: "10m" }, { token: parent.client_token });
    const { body } = await creds("app", { token });
    expect(body).toMatchObject({ lease_duration: 600, warnings: [expect.stringContaining('TTL of "1h0m0s"')] });
    const { lease_id } = body;
    later(240);
    const renewed = (await put("/v1/sys/leases/renew", { lease_id, increment: "2h" })).body;
    expect(renewed).toMatchObject({ lease_duration: 360, renewable: false });
    const longer = await batch({ policies: ["creds"], ttl: "2h" }, { token: parent.client_token });
    const usual = (await creds("app", { token: longer.client_token })).body;
    expect(usual).toMatchObject({ lease_duration: 3600, warnings: null });
    later(361);
    expect((await put("/v1/sys/leases/renew", { lease_id })).body.errors).toEqual(["lease expired"]);
  });

  it("are repeated for the same token only", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    await writeRole("app", dynamicRole(tenant));
    await policies({ creds: path("cloud-b/creds/*", "read") + path("auth/token/create", "update") });
    const parent = (await issue({ policies: ["creds"] })).client_token;
    const [one, two] = [
      await batch({ policies: [] }, { token: parent }),
      await batch({ policies: [] }, { token: parent }),
    ];
    const leases: string[] = [];
    for (const token of [one.client_token, two.client_token, parent, one.client_token])
      leases.push((await creds("app", { token, headers: { "Idempotency-Key": "deploy" } })).body.lease_id);
    expect(new Set(leases).size).toBe(3);
    expect(leases[3]).toBe(leases[0]);
  });

  it("belong to its parent, and are revoked with it", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    await writeRole("app", dynamicRole(tenant));
    await policies({ creds: path("cloud-b/creds/*", "read") + path("auth/token/create", "update") });
    const parent = await issue({ policies: ["creds"] });
    const { client_token: token } = await batch({ policies: ["creds"] }, { token: parent.client_token });
    const lease = (await creds("app", { token })).body.lease_id;
    expect((await lookup(lease)).status).toBe(200);
    await post("revoke-accessor", { accessor: parent.accessor });
    await vi.waitFor(async () => expect((await lookup(lease)).status).toBe(400));
  });

  it("end with an orphan, also those that a quota counts", async () => {
    later(0);
    const tenant = await openTenant();
    const uuid = await mountEngine(tenant);
    await writeRole("app", { ...dynamicRole(tenant), ttl: "1h", max_ttl: "24h" });
    await policies({ creds: path("cloud-b/creds/*", "read") });
    const orphans = [];
    for (const ttl of ["10m", "10m"])
      orphans.push((await post("create-orphan", { type: "batch", policies: ["creds"], ttl })).body.auth.client_token);
    const headers = { "Idempotency-Key": "deploy" };
    const [one, again, other] = [
      (await creds("app", { token: orphans[0], headers })).body,
      (await creds("app", { token: orphans[0], headers })).body,
      (await creds("app", { token: orphans[1], headers })).body,
    ];
    expect(one).toMatchObject({ lease_duration: 600 });
    expect([again.lease_id, other.lease_id === one.lease_id]).toEqual([one.lease_id, false]);
    await put("/v1/sys/quotas/lease-count/two", { path: "cloud-b", max_leases: 2 });
    expect((await creds("app", { token: orphans[0] })).status).toBe(429);
    expect(JSON.stringify(await rows(uuid, "leases"))).not.toContain("batch.");
    later(601);
    expect((await put("/v1/sys/leases/renew", { lease_id: one.lease_id })).body.errors).toEqual(["lease expired"]);
  });

  it("are shared by the requests of one orphan", async () => {
    const tenant = await openTenant();
    const uuid = await mountEngine(tenant);
    await writeRole("app", { ...dynamicRole(tenant), ttl: "1h", share_until: 50 });
    await policies({ creds: path("cloud-b/creds/*", "read") });
    const orphan = (await post("create-orphan", { type: "batch", policies: ["creds"], ttl: "2h" })).body.auth;
    const leases = [];
    for (let n = 0; n < 2; n++) leases.push((await creds("app", { token: orphan.client_token })).body.lease_id);
    expect(new Set(leases)).toEqual(new Set([expect.any(String)]));
    expect(await rows(uuid, "leases")).toHaveLength(1);
  });
});
