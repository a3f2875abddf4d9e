import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { accessControl } from "../../src/rpc/stubs.ts";
import { KvStore } from "../../src/worker.ts";
import { accessObject, holderOf, path } from "./access.ts";
import { del, get, list, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import {
  creds,
  dynamicRole,
  engineObject,
  lookup,
  mountEngine,
  openTenant,
  revoke,
  succeeded,
  writeRole,
} from "./engine-helpers.ts";
import { evictObject } from "./evict-all.ts";
import { throughReplicas } from "./replicas.ts";
import {
  association,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
} from "./sync-helpers.ts";

/** Moves of mounts to other paths (docs/guides/secrets.md). */

clock.moves = true;

const move = (from: string, to: string, options?: Parameters<typeof put>[2]) =>
  put("/v1/sys/remount", { from, to }, options);
const moved = async (from: string, to: string) => succeeded(await move(from, to));
const write = async (at: string, data: object) => succeeded(await put(`/v1/${at}`, { data }));

afterEach(() => void vi.restoreAllMocks());
afterEach(() => void throughReplicas(1));

describe("POST sys/remount", () => {
  it("returns the id of the move in data and at the top level, and its status", async () => {
    await mountKv("a/b");
    const answer = await moved("a/b", "/c/d/");
    const { migration_id: id } = answer.body.data;
    expect([answer.status, answer.body.migration_id, id]).toEqual([200, id, expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    const status = await get(`/v1/sys/remount/status/${id}`);
    const info = { source_mount: "a/b/", target_mount: "c/d/", status: "success" };
    expect(status.body.data).toEqual({ migration_id: id, migration_info: info });
    expect(status.body.migration_info).toEqual(info);
    expect((await get("/v1/sys/remount/status/none")).text).toBe('{"errors":[]}');
  });

  it.each([
    ["version 1", { type: "kv" }, (name: string) => name, { k: "v" }],
    ["version 2", { type: "kv-v2" }, (name: string) => `data/${name}`, { data: { k: "v" } }],
  ])("keeps uuid, accessor, settings and secrets of a KV mount of %s", async (_version, body, at, secret) => {
    await put("/v1/sys/mounts/old", { ...body, description: "d", config: { max_lease_ttl: "1h" } });
    await put(`/v1/old/${at("x/y")}`, secret);
    const before = (await get("/v1/sys/mounts/old")).body.data;
    await moved("old", "new");
    expect((await get("/v1/sys/mounts/new")).body.data).toEqual(before);
    expect(Object.keys((await get("/v1/sys/mounts")).body.data)).toContain("new/");
    expect(Object.keys((await get("/v1/sys/mounts")).body.data)).not.toContain("old/");
    expect((await get(`/v1/new/${at("x/y")}`)).text).toContain('"k":"v"');
    expect((await get(`/v1/old/${at("x/y")}`)).status).toBe(404);
    expect((await get("/v1/sys/internal/ui/mounts/new/x")).body.data.path).toBe("new/");
    expect((await get("/v1/sys/internal/ui/mounts/old/x")).status).toBe(403);
    await put(`/v1/new/${at("z")}`, secret);
    expect((await get(`/v1/new/${at("z")}`)).status).toBe(200);
  });

  it("can be repeated, and back", async () => {
    await mountKv("a");
    await write("a/data/x", { n: 1 });
    for (const [from, to] of [
      ["a", "b"],
      ["b", "c"],
      ["c", "a"],
      ["a", "b"],
    ] as const) {
      await moved(from, to);
    }
    expect((await get("/v1/b/data/x")).body.data.data).toEqual({ n: 1 });
  });

  it.each([
    ["", "x", "both 'from' and 'to' path must be specified as a string"],
    ["kv", "", "both 'from' and 'to' path must be specified as a string"],
    [" kv", "x", "'from' path cannot contain trailing whitespace"],
    ["kv", "x ", "'to' path cannot contain trailing whitespace"],
    ["none", "x", 'no matching mount at "none/"'],
    ["kv/data", "x", 'no matching mount at "kv/data/"'],
    ["kv", "other", 'path already in use at "other/"'],
    ["kv", "other/below", 'path already in use at "other/"'],
    ["kv", "deep", 'path already in use at "deep/er/"'],
    ["kv", "kv", 'path already in use at "kv/"'],
    ["kv", "kv/below", 'path already in use at "kv/"'],
    ["kv", "ns/", "invalid destination mount: mount path: must not be empty"],
    ["kv", "sys", "cannot remount to destination sys/"],
    ["kv", "identity/x", "cannot remount to destination identity/x/"],
    ["kv", "auth/x", "cannot remount to destination auth/x/"],
    ["sys", "x", 'cannot remount "sys/"'],
    ["auth/token", "auth/x", 'cannot remount "auth/token/"'],
    ["auth/x", "auth/token", 'cannot remount to destination "auth/token/"'],
    ["auth/none", "x", 'cannot remount auth mount to non-auth mount "x/"'],
    ["auth/none", "auth/x", 'no matching mount at "auth/none/"'],
    ["kv", "agent/x", 'invalid destination mount: cannot mount "agent/x/"'],
    ["kv", "a*", "invalid destination mount: mount path: segments must not hold"],
    ["kv", "x/../y", "invalid destination mount: mount path: segments must not hold"],
  ])("returns 400 from %j to %j", async (from, to, because) => {
    await put("/v1/sys/namespaces/ns", {});
    await mountKv("kv");
    await mountKv("other");
    await mountKv("deep/er");
    const before = (await get("/v1/sys/mounts")).body.data;
    const refused = await move(from, to);
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toContain(because);
    expect((await get("/v1/sys/mounts")).body.data).toEqual(before);
  });

  it("stays inside a namespace, and is refused into another one", async () => {
    await put("/v1/sys/namespaces/ns", {});
    const inside = { headers: { "X-Orch-Namespace": "ns" } };
    await mountKv("kv", inside);
    await put("/v1/kv/data/x", { data: { n: 1 } }, inside);
    const refused = await move("ns/kv", "kv");
    expect([refused.status, refused.body.errors[0]]).toEqual([
      400,
      expect.stringMatching(/^to: a mount cannot move to another namespace, because /),
    ]);
    const { migration_id: id } = (await move("kv", "new", inside)).body.data;
    expect((await get("/v1/ns/new/data/x")).body.data.data).toEqual({ n: 1 });
    expect((await get(`/v1/sys/remount/status/${id}`, inside)).body.data.migration_info.source_mount).toBe("ns/kv/");
    const [fromAbove, fromOther] = [{}, { headers: { "X-Orch-Namespace": "other" } }];
    await put("/v1/sys/namespaces/other", {});
    expect((await get(`/v1/sys/remount/status/${id}`, fromAbove)).status).toBe(200);
    expect((await get(`/v1/sys/remount/status/${id}`, fromOther)).status).toBe(404);
    const again = await move("ns/new", "ns/newer");
    expect((await get(`/v1/sys/remount/status/${again.body.data.migration_id}`)).status).toBe(200);
    expect((await get("/v1/ns/newer/data/x")).status).toBe(200);
  });

  it("requires sudo in the namespace of the mount", async () => {
    await put("/v1/sys/namespaces/ns", {});
    await mountKv("kv", { headers: { "X-Orch-Namespace": "ns" } });
    const outside = { token: (await holderOf(path("sys/remount", "update", "sudo"))).client_token };
    expect((await move("ns/kv", "ns/new", outside)).status).toBe(403);
    const both = path("sys/remount", "update", "sudo") + path("ns/sys/remount", "update", "sudo");
    expect((await move("ns/kv", "ns/new", { token: (await holderOf(both)).client_token })).status).toBe(200);
  });

  it("is authorized by the new path at once", async () => {
    await mountKv("old");
    await write("old/data/x", { n: 1 });
    const before = { token: (await holderOf(path("old/*", "read", "update", "create"))).client_token };
    const after = { token: (await holderOf(path("new/*", "read", "update", "create"))).client_token };
    // Fills the cache of grants for both callers.
    expect((await put("/v1/old/data/x", { data: { n: 2 } }, before)).status).toBe(200);
    expect((await put("/v1/new/data/x", { data: { n: 2 } }, after)).status).toBe(404);
    await moved("old", "new");
    expect((await get("/v1/old/data/x", before)).status).toBe(404);
    expect((await put("/v1/old/data/x", { data: { n: 3 } }, before)).status).toBe(404);
    expect((await get("/v1/new/data/x", before)).status).toBe(403);
    expect((await put("/v1/new/data/x", { data: { n: 3 } }, before)).status).toBe(403);
    expect((await get("/v1/new/data/x", after)).body.data.data).toEqual({ n: 2 });
    expect((await put("/v1/new/data/x", { data: { n: 3 } }, after)).status).toBe(200);
  });
});

describe("an auth method that moves", () => {
  const login = (at: string) => put(`/v1/auth/${at}/login/ann`, { password: "long-password" }, { token: null });

  beforeEach(async () => {
    succeeded(await put("/v1/sys/auth/old", { type: "userpass", description: "people" }));
    succeeded(await put("/v1/auth/old/users/ann", { password: "long-password", token_policies: "default" }));
  });

  it("keeps accessor, users, tokens and entities", async () => {
    const before = (await get("/v1/sys/auth/old")).body.data;
    const { client_token: token, entity_id: entity } = succeeded(await login("old")).body.auth;
    const { migration_id: id } = (await moved("auth/old", "auth/team/new")).body.data;
    expect((await get("/v1/sys/auth/team/new")).body.data).toEqual(before);
    expect((await get(`/v1/sys/remount/status/${id}`)).body.data.migration_info).toEqual({
      source_mount: "auth/old/",
      target_mount: "auth/team/new/",
      status: "success",
    });
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(200);
    expect((await login("old")).status).not.toBe(200);
    expect(succeeded(await login("team/new")).body.auth.entity_id).toBe(entity);
  });

  it.each([
    ["auth/old", "auth/taken", 'path already in use at "auth/taken/"'],
    ["auth/old", "auth/old/below", 'path already in use at "auth/old/"'],
    ["auth/old", "kv", 'cannot remount auth mount to non-auth mount "kv/"'],
    ["auth/old", "auth/a b", "invalid destination mount: auth path: segments must be"],
    ["auth/old", "ns/auth/x", "to: a mount cannot move to another namespace"],
  ])("returns 400 from %j to %j", async (from, to, because) => {
    await put("/v1/sys/namespaces/ns", {});
    succeeded(await put("/v1/sys/auth/taken", { type: "userpass" }));
    const refused = await move(from, to);
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringContaining(because)]]);
    expect((await get("/v1/sys/auth/old")).status).toBe(200);
  });
});

describe("a mount that moves under load", () => {
  it("keeps every acknowledged write, and every read returns a complete secret", async () => {
    await mountKv("a");
    await write("a/data/fixed", { n: "fixed" });
    let ends = false;
    const kept = new Set<string>();
    const wrong: string[] = [];
    const writer = async (worker: number) => {
      for (let n = 0; !ends; n++) {
        const name = `w${worker}-${n}`;
        for (const at of ["a", "b"]) {
          const { status } = await put(`/v1/${at}/data/${name}`, { data: { name } });
          if (status === 200) kept.add(name);
          else if (status !== 404) wrong.push(`write at ${at}: ${status}`);
        }
      }
    };
    const reader = async () => {
      while (!ends) {
        for (const at of ["a", "b"]) {
          const { status, body } = await get(`/v1/${at}/data/fixed`);
          if (status === 200 ? body.data.data.n !== "fixed" : status !== 404) wrong.push(`read at ${at}: ${status}`);
        }
      }
    };
    const running = [writer(0), writer(1), writer(2), reader(), reader()];
    for (const [from, to] of [
      ["a", "b"],
      ["b", "a"],
      ["a", "b"],
    ] as const) {
      await scheduler.wait(150);
      await moved(from, to);
    }
    await scheduler.wait(100);
    ends = true;
    await Promise.all(running);
    expect(wrong).toEqual([]);
    expect(kept.size).toBeGreaterThan(10);
    const names = new Set((await list("/v1/b/metadata")).body.data.keys as string[]);
    expect([...kept].filter((name) => !names.has(name))).toEqual([]);
  });

  it("is the target of writes with a cached grant, never a later mount at its path", async () => {
    throughReplicas(0);
    await mountKv("old");
    await write("old/data/x", { n: 1 });
    // Another isolate moves the mount: without replicas, this one still has a grant for its old path.
    const answered = await accessControl(env).remount({ namespace: "", path: "old" }, { namespace: "", path: "new" });
    expect(answered.ok).toBe(true);
    const mounting = accessControl(env).enableMount("", "old", {
      type: "kv-v2",
      description: "",
      local: false,
      seal_wrap: false,
    });
    const late = await put("/v1/old/data/x", { data: { n: 2 } });
    expect(late.status).toBe(200);
    expect((await get("/v1/new/data/x")).body.data.data).toEqual({ n: 2 });
    expect((await mounting).ok).toBe(true);
    expect((await put("/v1/old/data/y", { data: { n: 3 } })).status).toBe(200);
    expect((await get("/v1/new/data/y")).status).toBe(404);
    expect((await get("/v1/old/data/x")).status).toBe(404);
  });
});

describe("the leases of a mount that moved", () => {
  const renew = (lease_id: string) => put("/v1/sys/leases/renew", { lease_id });
  const setUp = async () => {
    const tenant = await openTenant();
    const fresh = await tenant.everything();
    await mountEngine(tenant);
    await writeRole("app", dynamicRole(tenant, { ttl: "1h" }));
    return { tenant, fresh, lease: succeeded(await creds("app")).body.lease_id as string };
  };

  it("are found, renewed and revoked by their earlier ids, and have the new path in responses", async () => {
    const { tenant, lease } = await setUp();
    await moved("cloud-b", "moved/engine");
    const current = lease.replace(/^cloud-b\//, "moved/engine/");
    for (const id of [lease, current]) {
      expect((await lookup(id)).body.data, id).toMatchObject({ id: current, path: "moved/engine/creds/app" });
      expect((await renew(id)).body, id).toMatchObject({ lease_id: current, renewable: true });
    }
    expect((await list("/v1/sys/leases/lookup/moved/engine/creds/app")).body.data.keys).toHaveLength(1);
    expect((await list("/v1/sys/leases/lookup/cloud-b/creds/app")).status).toBe(404);
    const issued = succeeded(await get("/v1/moved/engine/creds/app")).body.lease_id;
    expect(issued).toMatch(/^moved\/engine\/creds\/app\//);
    expect((await revoke(lease)).status).toBe(204);
    expect((await lookup(current)).status).toBe(400);
    expect((await revoke(issued)).status).toBe(204);
    expect((await tenant.everything()).applications).toHaveLength(1 + 1);
  });

  it("do not belong to a later mount at the path", async () => {
    const { tenant, lease } = await setUp();
    await moved("cloud-b", "first");
    await mountEngine(tenant);
    await writeRole("app", dynamicRole(tenant));
    const second = succeeded(await creds("app")).body.lease_id;
    expect((await lookup(lease)).body.data.id).toBe(lease.replace("cloud-b/", "first/"));
    expect((await lookup(second)).body.data.id).toBe(second);
    succeeded(await put("/v1/sys/leases/revoke-prefix/cloud-b", {}));
    expect((await lookup(second)).status).toBe(400);
    expect((await lookup(lease)).status).toBe(200);
    expect((await revoke(lease)).status).toBe(204);
    expect((await lookup(lease)).status).toBe(400);
  });

  it("are revoked with their token and with the mount", async () => {
    const { tenant, fresh } = await setUp();
    const { client_token: token } = await holderOf(path("cloud-b/creds/app", "read"));
    const lease = succeeded(await creds("app", { token })).body.lease_id;
    await moved("cloud-b", "new");
    await put("/v1/auth/token/revoke", { token });
    await eventually(async () => expect((await lookup(lease)).status).toBe(400));
    succeeded(await del("/v1/sys/mounts/new"));
    await eventually(async () => expect(await tenant.everything()).toEqual(fresh));
    expect((await lookup(lease)).status).toBe(400);
  });

  it("use identity tokens with the new path", async () => {
    const tenant = await openTenant();
    const audience = "api://AzureADTokenExchange";
    const uuid = await mountEngine(null);
    const config = { ...tenant.config, client_secret: "", identity_token_audience: audience };
    succeeded(await put("/v1/cloud-b/config", config));
    await moved("cloud-b", "new");
    const account = await engineObject(uuid).account();
    expect(account).toMatchObject({ ok: true, value: { federation: { mountPath: "new/" } } });
  });
});

describe("the associations of a mount that moved", () => {
  const listed = async () => (await get("/v1/sys/sync/associations?list=true")).body.data;
  const holders = async (mount: string) =>
    (await get(`/v1/sys/sync/associations/destinations?mount=${mount}&secret_name=app/db`)).status;

  beforeEach(async () => {
    await mountKv("kv");
    await write("kv/data/app/db", { n: 1 });
    await makeDestination("in-mem", "d", {
      secret_name_template: "{{ .MountPath }}/{{ .SecretPath }}",
    });
    succeeded(await setAssociation("in-mem/d", "app/db"));
    await eventually(async () => expect(Object.keys(await objects("d"))).toEqual(["kv/app/db"]));
  });

  it("follow its writes, keep their object names, and are listed at the new path", async () => {
    await moved("kv", "new");
    await write("new/data/app/db", { n: 2 });
    await eventually(async () => expect(await objects("d")).toEqual({ "kv/app/db": '{"n":2}' }));
    await eventually(async () => expect([await holders("new"), await holders("kv")]).toEqual([200, 404]));
    expect(JSON.stringify(await listed())).not.toContain('"kv/"');
    succeeded(await removeAssociation("in-mem/d", "app/db", "new"));
    await eventually(async () => expect(await objects("d")).toEqual({}));
    await eventually(async () => expect(await holders("new")).toBe(404));
  });

  it("use the new path in their names when they are set again", async () => {
    await moved("kv", "new");
    succeeded(await setAssociation("in-mem/d", "app/db", "new"));
    await eventually(async () => expect(await objects("d")).toEqual({ "new/app/db": '{"n":1}' }));
    await eventually(async () => expect([await holders("new"), await holders("kv")]).toEqual([200, 404]));
  });

  it("are removed with the mount", async () => {
    await moved("kv", "new");
    succeeded(await del("/v1/sys/mounts/new"));
    await eventually(async () => expect(await objects("d")).toEqual({}));
    expect((await association("in-mem/d", "app/db"))?.sync_status).toBe("UNSYNCED");
    succeeded(await removeAssociation("in-mem/d", "app/db", "new"));
    expect(await association("in-mem/d", "app/db")).toBeUndefined();
  });
});

describe("a crash during a move", () => {
  it("after the mount table changed loses nothing: the rest follows automatically", async () => {
    await mountKv("kv");
    await write("kv/data/app/db", { n: 1 });
    await makeDestination("in-mem", "d");
    succeeded(await setAssociation("in-mem/d", "app/db"));
    const told = vi.spyOn(KvStore.prototype, "moved").mockImplementation(() => {
      throw new Error("crashed");
    });
    const { migration_id: id } = (await moved("kv", "new")).body.data;
    await evictObject(accessObject());
    told.mockRestore();
    expect((await get("/v1/new/data/app/db")).body.data.data).toEqual({ n: 1 });
    expect((await get(`/v1/sys/remount/status/${id}`)).body.data.migration_info.status).toBe("success");
    const found = "/v1/sys/sync/associations/destinations?mount=new&secret_name=app/db";
    await eventually(async () => expect((await get(found)).status).toBe(200));
  });
});
