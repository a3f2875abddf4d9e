import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { accessObject, dump, holderOf, issue, path, policies } from "./access.ts";
import { loseEverything, restore, snapshot } from "./backup-world.ts";
import { del, get, list, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { evictObject } from "./evict-all.ts";

/** Tokens with the default policy, which grants the cubbyhole. */
const holder = async (more: object = {}) => (await issue({ policies: ["default"], ...more })).client_token as string;

const rows = (): Promise<number> =>
  runInDurableObject(
    accessObject(),
    (_object, { storage: { sql } }) => sql.exec<{ n: number }>("SELECT count(*) AS n FROM cubbyholes").one().n,
  );

describe("cubbyhole/:path", () => {
  it("stores, returns, lists and deletes objects of a token with the default policy", async () => {
    const token = await holder();
    const made = await put("/v1/cubbyhole/app/db", '{"user":"u","n":12345678901234567890,"none":null}', { token });
    expect([made.status, made.text]).toEqual([204, ""]);
    await put("/v1/cubbyhole/top", { a: 1 }, { token });
    const read = await get("/v1/cubbyhole/app/db", { token });
    expect(read.text).toContain('"data":{"user":"u","n":12345678901234567890,"none":null}');
    expect(read.body).toMatchObject({ lease_id: "", lease_duration: 0, renewable: false, mount_type: "cubbyhole" });
    expect((await list("/v1/cubbyhole", { token })).body.data).toEqual({ keys: ["app/", "top"] });
    expect((await list("/v1/cubbyhole/app", { token })).body.data).toEqual({ keys: ["db"] });
    expect((await list("/v1/cubbyhole/app/", { token })).body.data).toEqual({ keys: ["db"] });
    expect((await del("/v1/cubbyhole/app/db", { token })).status).toBe(204);
    expect((await del("/v1/cubbyhole/app/db", { token })).status).toBe(204);
    expect((await send("HEAD", "/v1/cubbyhole/top", undefined, { token })).status).toBe(200);
    const missing = await get("/v1/cubbyhole/app/db", { token });
    expect([missing.status, missing.body]).toEqual([404, { errors: [] }]);
    expect((await list("/v1/cubbyhole/app", { token })).status).toBe(404);
  });

  it("is private to the token, also from root and from its parent", async () => {
    const [token, other] = [await holder(), await holder()];
    await put("/v1/cubbyhole/x", { mine: 1 }, { token });
    for (const reader of [other, "root"]) {
      expect((await get("/v1/cubbyhole/x", { token: reader })).status).toBe(404);
      await put("/v1/cubbyhole/x", { mine: 2 }, { token: reader });
      await del("/v1/cubbyhole/x", { token: reader });
    }
    expect((await get("/v1/cubbyhole/x", { token })).body.data).toEqual({ mine: 1 });
  });

  it("requires the capability of each verb", async () => {
    const rules = await holderOf(path("cubbyhole/new", "create") + path("cubbyhole/read", "read"));
    const token = rules.client_token;
    expect((await put("/v1/cubbyhole/new", { a: 1 }, { token })).status).toBe(204);
    expect((await put("/v1/cubbyhole/new", { a: 2 }, { token })).status).toBe(403);
    expect((await get("/v1/cubbyhole/new", { token })).status).toBe(403);
    expect((await get("/v1/cubbyhole/read", { token })).status).toBe(404);
    expect((await list("/v1/cubbyhole", { token })).status).toBe(403);
  });

  it("returns 400 for an empty object and for a path that is a folder", async () => {
    const empty = await put("/v1/cubbyhole/x", {});
    expect([empty.status, empty.body.errors]).toEqual([400, ["missing data fields"]]);
    expect((await put("/v1/cubbyhole/x/", { a: 1 })).status).toBe(400);
    expect((await get("/v1/cubbyhole/x/")).status).toBe(404);
  });

  it("keeps the storage of each namespace apart, and a later namespace of the name is empty", async () => {
    await put("/v1/sys/namespaces/ns", {});
    await put("/v1/cubbyhole/x", { at: "root" });
    await put("/v1/ns/cubbyhole/x", { at: "ns" });
    expect((await get("/v1/cubbyhole/x")).body.data).toEqual({ at: "root" });
    expect((await get("/v1/cubbyhole/x", { headers: { "X-Vault-Namespace": "ns" } })).body.data).toEqual({ at: "ns" });
    await del("/v1/sys/namespaces/ns");
    await put("/v1/sys/namespaces/ns", {});
    expect((await get("/v1/ns/cubbyhole/x")).status).toBe(404);
  });

  it("belongs to tokens of a child namespace, too, and ends with that namespace", async () => {
    await put("/v1/sys/namespaces/ns", {});
    const inside = { headers: { "X-Orch-Namespace": "ns" } };
    await policies({ mine: path("cubbyhole/*", "create", "read") }, inside);
    const { client_token: token } = await issue({ policies: ["mine"] }, inside);
    expect((await put("/v1/ns/cubbyhole/x", { a: 1 }, { token })).status).toBe(204);
    expect((await get("/v1/ns/cubbyhole/x", { token })).body.data).toEqual({ a: 1 });
    expect((await get("/v1/cubbyhole/x", { token })).status).toBe(403);
    await del("/v1/sys/namespaces/ns");
    expect(await rows()).toBe(0);
  });
});

describe("the end of a token", () => {
  it("deletes its cubbyhole and those of its children in the same transaction", async () => {
    const parent = (await holderOf(path("auth/token/create", "update") + path("cubbyhole/*", "create"))).client_token;
    const child = (await issue({}, { token: parent })).client_token;
    for (const token of [parent, child]) expect((await put("/v1/cubbyhole/x", { a: 1 }, { token })).status).toBe(204);
    expect(await rows()).toBe(2);
    await put("/v1/auth/token/revoke", { token: parent });
    expect(await rows()).toBe(0);
  });

  it("deletes the cubbyhole of a token that expires", async () => {
    clock.moves = true;
    const token = await holder({ ttl: "1s" });
    await put("/v1/cubbyhole/x", { a: 1 }, { token });
    await expect.poll(rows).toBe(0);
    expect((await get("/v1/cubbyhole/x", { token })).status).toBe(403);
  });

  it("leaves nothing of a write that arrives after the revocation", async () => {
    const { accessor, client_token } = await issue({ policies: ["default"] });
    await put("/v1/auth/token/revoke", { token: client_token });
    const late = await accessObject().writeCubbyhole({ accessor, namespaceId: "root" }, "x", '{"a":1}', {
      create: true,
      update: true,
    });
    expect(late).toMatchObject({ ok: false, reason: "denied" });
    expect(await rows()).toBe(0);
  });
});

describe("the bounds of a cubbyhole", () => {
  it("returns 413 for a value above the limit or all values together, and keeps the stored ones", async () => {
    const token = await holder();
    const large = await put("/v1/cubbyhole/x", { v: "x".repeat(520 * 1024) }, { token });
    expect([large.status, large.body.errors[0]]).toEqual([413, expect.stringContaining("at most 524288 bytes")]);
    const value = { v: "x".repeat(500 * 1024) };
    for (const at of ["a", "b"]) expect((await put(`/v1/cubbyhole/${at}`, value, { token })).status).toBe(204);
    const third = await put("/v1/cubbyhole/c", value, { token });
    expect([third.status, third.body.errors[0]]).toEqual([413, expect.stringContaining("at most 1048576 bytes")]);
    expect((await put("/v1/cubbyhole/a", value, { token })).status).toBe(204);
    expect((await put("/v1/cubbyhole/c", value)).status).toBe(204);
    expect((await list("/v1/cubbyhole", { token })).body.data.keys).toEqual(["a", "b"]);
  });

  it("returns 400 for more than 256 paths, and for a path of more than 512 characters", async () => {
    const token = await holder();
    for (let n = 0; n < 256; n++) await put(`/v1/cubbyhole/p${n}`, { a: 1 }, { token });
    const more = await put("/v1/cubbyhole/more", { a: 1 }, { token });
    expect([more.status, more.body.errors[0]]).toEqual([400, expect.stringContaining("at most 256 paths")]);
    expect((await put("/v1/cubbyhole/p7", { a: 2 }, { token })).status).toBe(204);
    const long = await put(`/v1/cubbyhole/${"x".repeat(513)}`, { a: 1 });
    expect([long.status, long.body.errors[0]]).toEqual([400, expect.stringContaining("at most 512 characters")]);
  });
});

describe("a stored value", () => {
  it("is sealed, survives a restart and a rotation, and is carried by a snapshot", async () => {
    await put("/v1/cubbyhole/x", { password: "canary-cubbyhole" });
    expect(await dump()).not.toContain("canary-cubbyhole");
    await put("/v1/sys/rotate", {});
    await evictObject(accessObject());
    expect((await get("/v1/cubbyhole/x")).body.data).toEqual({ password: "canary-cubbyhole" });
    const file = await snapshot();
    await loseEverything();
    expect((await restore(file)).status).toBe(200);
    // Restored objects restart behind the answer.
    await expect.poll(async () => (await get("/v1/cubbyhole/x")).body.data).toEqual({ password: "canary-cubbyhole" });
  });

  it("does not open for another token or path", async () => {
    await put("/v1/cubbyhole/x", { a: 1 });
    await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
      sql.exec("UPDATE cubbyholes SET path = 'y'");
    });
    expect((await get("/v1/cubbyhole/y")).status).toBe(503);
  });
});
