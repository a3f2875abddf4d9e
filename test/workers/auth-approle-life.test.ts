import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { accessObject, dump, holderOf, path } from "./access.ts";
import { loseEverything, restore, snapshot } from "./backup-world.ts";
import { del, get, list, put } from "./client.ts";
import { clock } from "./clock.ts";
import { evictObject } from "./evict-all.ts";

/** Roles and secret ids of `approle` over restarts, restores and moves; the lists of locked names. */

clock.moves = true;

const ROLE = "/v1/auth/approle/role/web";
const NOBODY = { token: null };
const there = { headers: { "X-Orch-Namespace": "team" } };
const signIn = (role_id: string, secret_id: string, at = "approle") =>
  put(`/v1/auth/${at}/login`, { role_id, secret_id }, NOBODY);

afterEach(() => {
  vi.useRealTimers();
});

beforeEach(async () => {
  expect((await put("/v1/sys/auth/approle", { type: "approle" })).status).toBe(204);
  expect((await put(ROLE, { role_id: "web-role" })).status).toBe(204);
});

const secretId = async (body: object = {}) => (await put(`${ROLE}/secret-id`, body)).body.data;

describe("a secret id", () => {
  it("survives a restart and a rotation, and a snapshot contains it with its remaining uses", async () => {
    const { secret_id, secret_id_accessor } = await secretId({ num_uses: 4, metadata: { tag: "canary-tag" } });
    await put("/v1/sys/rotate", {});
    await evictObject(accessObject());
    expect((await signIn("web-role", secret_id)).status).toBe(200);
    const file = await snapshot();
    expect(Buffer.from(file).toString("latin1")).not.toContain(secret_id);
    await loseEverything();
    expect((await restore(file)).status).toBe(200);
    // Restored objects restart behind the answer.
    await expect.poll(async () => (await signIn("web-role", secret_id)).status).toBe(200);
    const left = (await put(`${ROLE}/secret-id-accessor/lookup`, { secret_id_accessor })).body.data;
    expect(left).toMatchObject({ secret_id_num_uses: 2, metadata: { tag: "canary-tag" } });
  });

  it("is removed by the alarm after its expiry", async () => {
    const { secret_id_accessor } = await secretId({ ttl: 60 });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
    await runDurableObjectAlarm(accessObject());
    expect(await dump()).not.toContain(secret_id_accessor);
  });

  it("keeps its role when the auth method moves", async () => {
    const { secret_id } = await secretId();
    const before = (await signIn("web-role", secret_id)).body.auth.entity_id;
    await put("/v1/sys/remount", { from: "auth/approle", to: "auth/machines" });
    expect((await signIn("web-role", secret_id, "machines")).body.auth.entity_id).toBe(before);
    expect((await signIn("web-role", secret_id)).status).not.toBe(200);
  });

  it("is refused above 10000 of one role", async () => {
    await secretId();
    await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      const [row] = sql.exec("SELECT mount, role, uses, updated, value FROM approle_secret_ids").toArray();
      const { mount = "", role = "", uses = 0, updated = 0, value = "" } = row ?? {};
      for (let at = 1; at < 10_000; at += 1) {
        sql.exec(
          "INSERT INTO approle_secret_ids VALUES (?, ?, ?, ?, ?, NULL, ?, ?)",
          mount,
          role,
          `h${at}`,
          `a${at}`,
          uses,
          updated,
          value,
        );
      }
    });
    const { status, body } = await put(`${ROLE}/secret-id`, {});
    expect([status, body]).toEqual([400, { errors: ["secret_id: a role holds at most 10000"] }]);
    expect((await del(ROLE)).status).toBe(204);
    await put(ROLE, { role_id: "web-role" });
    expect((await list(`${ROLE}/secret-id`)).status).toBe(404);
  });

  it("does not open for another role", async () => {
    const { secret_id_accessor } = await secretId();
    await put("/v1/auth/approle/role/other", {});
    await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      sql.exec("UPDATE approle_secret_ids SET role = 'other'");
    });
    const at = "/v1/auth/approle/role/other/secret-id-accessor/lookup";
    expect((await put(at, { secret_id_accessor })).status).toBe(503);
  });
});

describe("sys/locked-users", () => {
  const lock = async (name: string, options: Parameters<typeof put>[2] = NOBODY) => {
    for (let i = 0; i < 5; i += 1) {
      await put("/v1/auth/approle/login", { role_id: name, secret_id: "wrong" }, options);
    }
  };

  it("lists names of the caller's namespace and those below it", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/sys/auth/approle", { type: "approle" }, there);
    await lock("web-role");
    await lock("un/known *");
    await lock("below", { ...NOBODY, ...there });
    const accessor = (await get("/v1/sys/auth/approle")).body.data.accessor;
    const below = (await get("/v1/sys/auth/approle", there)).body.data.accessor;
    const { total, by_namespace } = (await get("/v1/sys/locked-users")).body.data;
    expect(total).toBe(3);
    expect(by_namespace.map((group: Record<string, unknown>) => [group["namespace_path"], group["counts"]])).toEqual([
      ["", 2],
      ["team/", 1],
    ]);
    expect(by_namespace[0].mount_accessors).toEqual([
      { mount_accessor: accessor, counts: 2, alias_identifiers: ["un/known *", "web-role"] },
    ]);
    expect((await get("/v1/sys/locked-users", there)).body.data.total).toBe(1);
    // Another namespace's method cannot be named.
    expect((await put(`/v1/sys/locked-users/${accessor}/unlock/web-role`, {}, there)).status).toBe(400);
    expect((await put(`/v1/sys/locked-users/${below}/unlock/below`, {}, there)).status).toBe(204);
    expect((await put(`/v1/sys/locked-users/${accessor}/unlock/un/known%20*`, {})).status).toBe(204);
    expect((await get("/v1/sys/locked-users")).body.data.total).toBe(1);
  });

  it("lists locked names, and drops them when the lock expires", async () => {
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    for (let i = 0; i < 5; i += 1) await put("/v1/auth/userpass/login/ann", { password: "wrong" }, NOBODY);
    const [group] = (await get("/v1/sys/locked-users")).body.data.by_namespace;
    expect(group.mount_accessors[0].alias_identifiers).toEqual(["ann"]);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 901_000 });
    expect((await get("/v1/sys/locked-users")).body.data).toEqual({ total: 0, by_namespace: [] });
  });

  it("requires read to list and update to unlock", async () => {
    const { client_token: token } = await holderOf(path("sys/locked-users", "read"));
    expect((await get("/v1/sys/locked-users", { token })).status).toBe(200);
    expect((await put("/v1/sys/locked-users/a/unlock/b", {}, { token })).status).toBe(403);
    const { client_token: other } = await holderOf(path("sys/locked-users/*", "update"));
    expect((await get("/v1/sys/locked-users", { token: other })).status).toBe(403);
    expect((await put("/v1/sys/locked-users/a/unlock/b", {}, { token: other })).status).toBe(400);
  });
});
