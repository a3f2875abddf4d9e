import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { path, policies } from "./access.ts";
import { del, get, list, mountKv, put } from "./client.ts";

const NOBODY = { token: null };
const there = { headers: { "X-Orch-Namespace": "there" } };
let accessor = "";

const signIn = async (name = "ann") => {
  const { status, body } = await put(`/v1/auth/userpass/login/${name}`, { password: "p" }, NOBODY);
  return { status, token: body.auth?.client_token as string, entity: body.auth?.entity_id as string };
};
const reads = async (token: string) => (await get("/v1/kv/data/app", { token })).status;
const made = async (kind: string, body: object): Promise<string> => {
  const { status, text, body: answer } = await put(`/v1/identity/${kind}`, body);
  expect(status, text).toBe(200);
  return answer.data.id;
};

beforeEach(async () => {
  await mountKv();
  await put("/v1/kv/data/app", { data: { a: "1" } });
  await policies({ reader: path("kv/data/app", "read") });
  await put("/v1/sys/auth/userpass", { type: "userpass" });
  for (const name of ["ann", "bob"]) await put(`/v1/auth/userpass/users/${name}`, { password: "p" });
  accessor = (await get("/v1/sys/auth/userpass")).body.data.accessor;
});

describe("an entity", () => {
  it("has the fields that a request sets", async () => {
    const id = await made("entity", { name: "ann", policies: ["reader"], metadata: { team: "ops" } });
    expect((await get(`/v1/identity/entity/id/${id}`)).body.data).toMatchObject({
      id,
      name: "ann",
      policies: ["reader"],
      metadata: { team: "ops" },
      disabled: false,
      aliases: [],
      direct_group_ids: [],
      inherited_group_ids: [],
      group_ids: [],
      namespace_id: "root",
    });
    expect((await put("/v1/identity/entity", { id, name: "anna", disabled: true })).status).toBe(204);
    expect((await put("/v1/identity/entity/name/anna", { policies: "b,a,b" })).status).toBe(204);
    const changed = { id, name: "anna", disabled: true, policies: ["a", "b"], metadata: { team: "ops" } };
    expect((await get("/v1/identity/entity/name/anna")).body.data).toMatchObject(changed);
    expect((await list("/v1/identity/entity/name")).body.data.keys).toEqual(["anna"]);
    expect((await list("/v1/identity/entity/id")).body.data).toEqual({
      keys: [id],
      key_info: { [id]: { name: "anna" } },
    });
    expect((await del(`/v1/identity/entity/id/${id}`)).status).toBe(204);
    expect((await get(`/v1/identity/entity/id/${id}`)).status).toBe(404);
  });

  itRows([
    { policies: ["root"] },
    { policies: [" Root"] },
    { name: "a\u0000b" },
    { metadata: { k: "x".repeat(600) } },
    { id: "00000000-0000-4000-8000-000000000000" },
  ])("returns 400 for %j, and creates nothing", async (body) => {
    expect((await put("/v1/identity/entity", body)).status).toBe(400);
    expect((await list("/v1/identity/entity/id")).status).toBe(404);
  });

  it("returns 400 for the name of another", async () => {
    await made("entity", { name: "ann" });
    const id = await made("entity", { name: "bob" });
    const refused = await put(`/v1/identity/entity/id/${id}`, { name: "ann" });
    expect([refused.status, refused.body.errors]).toEqual([400, ["entity name is already in use"]]);
  });

  it("is found by its name and its aliases in any letter case, and keeps their spelling", async () => {
    const id = await made("entity", { name: "Ann" });
    for (const at of ["name/ann", "name/ANN"])
      expect((await get(`/v1/identity/entity/${at}`)).body.data).toMatchObject({ id, name: "Ann" });
    expect((await put("/v1/identity/entity", { name: "ANN", policies: ["reader"] })).status).toBe(204);
    expect((await put(`/v1/identity/entity/id/${id}`, { name: "ann" })).status).toBe(204);
    await put("/v1/sys/auth/approle", { type: "approle" });
    const mount = (await get("/v1/sys/auth/approle")).body.data.accessor;
    const alias = await made("entity-alias", { name: "A-1", mount_accessor: mount, canonical_id: id });
    const found = await put("/v1/identity/lookup/entity", { alias_name: "a-1", alias_mount_accessor: mount });
    expect(found.body.data).toMatchObject({ id, name: "Ann", policies: ["reader"], aliases: [{ name: "A-1" }] });
    expect(await made("entity-alias", { name: "a-1", mount_accessor: mount })).toBe(alias);
    const other = await made("entity", { name: "bob" });
    expect((await put(`/v1/identity/entity/id/${other}`, { name: "aNN" })).status).toBe(400);
  });

  it("adds its policies to its tokens at once, and removes them at once", async () => {
    const { token, entity } = await signIn();
    expect(await reads(token)).toBe(403);
    await put(`/v1/identity/entity/id/${entity}`, { policies: ["reader"] });
    expect(await reads(token)).toBe(200);
    await put(`/v1/identity/entity/id/${entity}`, { policies: [] });
    expect(await reads(token)).toBe(403);
  });

  it("cannot log in while disabled, and its tokens are refused", async () => {
    const { token, entity } = await signIn();
    await put(`/v1/identity/entity/id/${entity}`, { disabled: true });
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
    expect((await signIn()).status).toBe(403);
    await put(`/v1/identity/entity/id/${entity}`, { disabled: false });
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(200);
  });

  it("has its tokens revoked when it is deleted; the next login creates another", async () => {
    const { token, entity } = await signIn();
    await del(`/v1/identity/entity/id/${entity}`);
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
    expect((await signIn()).entity).not.toBe(entity);
  });

  it("is created by an alias that names no entity", async () => {
    const made = (await put("/v1/identity/entity-alias", { name: "Ann", mount_accessor: accessor })).body.data;
    expect((await signIn()).entity).toBe(made.canonical_id);
    expect((await list("/v1/identity/entity/id")).body.data.keys).toEqual([made.canonical_id]);
  });

  it("receives the logins of its alias", async () => {
    const id = await made("entity", { name: "ann", policies: ["reader"] });
    const alias = { name: "Ann", mount_accessor: accessor, canonical_id: id, custom_metadata: { a: "b" } };
    const of = await made("entity-alias", alias);
    const { token, entity } = await signIn();
    expect(entity).toBe(id);
    expect(await reads(token)).toBe(200);
    const stored = {
      id: of,
      name: "ann",
      mount_type: "userpass",
      mount_path: "auth/userpass/",
      custom_metadata: { a: "b" },
    };
    expect((await get(`/v1/identity/entity-alias/id/${of}`)).body.data).toMatchObject(stored);
    expect((await get(`/v1/identity/entity/id/${id}`)).body.data.aliases).toMatchObject([stored]);
    expect((await list("/v1/identity/entity-alias/id")).body.data.keys).toEqual([of]);
    expect((await put("/v1/identity/entity-alias", { ...alias, name: "bob" })).status).toBe(400);
    expect((await put("/v1/identity/entity-alias", { ...alias, mount_accessor: "none" })).status).toBe(400);
    expect((await del(`/v1/identity/entity-alias/id/${of}`)).status).toBe(204);
    expect((await signIn()).entity).not.toBe(id);
  });

  it("belongs to one namespace, and is deleted with it", async () => {
    await put("/v1/sys/namespaces/there", {});
    const id = await made("entity", { name: "ann" });
    expect((await get(`/v1/identity/entity/id/${id}`, there)).status).toBe(404);
    expect((await put("/v1/identity/entity/name/zoe", {}, there)).status).toBe(200);
    await put("/v1/identity/group/name/ops", {}, there);
    expect((await del("/v1/sys/namespaces/there")).status).toBeLessThan(300);
    await put("/v1/sys/namespaces/there", {});
    for (const kind of ["entity", "group"]) expect((await list(`/v1/identity/${kind}/id`, there)).status).toBe(404);
  });
});

describe("a group", () => {
  it("adds its policies to members, also of nested groups", async () => {
    const { token, entity } = await signIn();
    const inner = await made("group", { name: "inner", member_entity_ids: [entity], metadata: { a: "b" } });
    const outer = await made("group", { name: "outer", policies: ["reader"], member_group_ids: [inner] });
    expect(await reads(token)).toBe(200);
    expect((await get(`/v1/identity/entity/id/${entity}`)).body.data).toMatchObject({
      direct_group_ids: [inner],
      inherited_group_ids: [outer],
      group_ids: [inner, outer],
    });
    expect((await get("/v1/identity/group/name/inner")).body.data).toMatchObject({
      id: inner,
      type: "internal",
      alias: {},
      member_entity_ids: [entity],
      parent_group_ids: [outer],
      metadata: { a: "b" },
    });
    expect((await put("/v1/identity/group", { id: inner, member_entity_ids: [] })).status).toBe(204);
    expect(await reads(token)).toBe(403);
    await put(`/v1/identity/group/id/${outer}`, { member_entity_ids: [entity] });
    expect(await reads(token)).toBe(200);
    await del("/v1/identity/group/name/outer");
    expect(await reads(token)).toBe(403);
  });

  it("adds and denies by its policies in any letter case and between spaces", async () => {
    const { token, entity } = await signIn();
    const id = await made("group", { policies: [" Reader ", "READER"], member_entity_ids: [entity] });
    expect((await get(`/v1/identity/group/id/${id}`)).body.data.policies).toEqual(["reader"]);
    expect(await reads(token)).toBe(200);
    await policies({ "no-app": path("kv/data/app", "deny") });
    await put(`/v1/identity/entity/id/${entity}`, { policies: "No-App" });
    expect((await get(`/v1/identity/entity/id/${entity}`)).body.data.policies).toEqual(["no-app"]);
    expect(await reads(token)).toBe(403);
  });

  it("is changed by its id or its path, and not by a second one of its name", async () => {
    const id = await made("group", { name: "g", policies: ["b", "a", "b"] });
    const refused = await put("/v1/identity/group", { name: "g", policies: ["c"] });
    expect([refused.status, refused.body.errors]).toEqual([400, ["group name is already in use"]]);
    expect((await put("/v1/identity/group", { name: "G" })).status).toBe(400);
    expect((await get("/v1/identity/group/name/G")).body.data).toMatchObject({ id, name: "g" });
    const held = async () => (await get(`/v1/identity/group/id/${id}`)).body.data.policies;
    expect(await held()).toEqual(["b", "a"]);
    expect((await put("/v1/identity/group", { id, name: "g", policies: ["c"] })).status).toBe(204);
    expect(await held()).toEqual(["c"]);
    expect((await put("/v1/identity/group/name/g", { policies: ["d"] })).status).toBe(204);
    expect(await held()).toEqual(["d"]);
  });

  it("cannot contain itself", async () => {
    const a = await made("group", { name: "a" });
    const b = await made("group", { name: "b", member_group_ids: [a] });
    const c = await made("group", { name: "c", member_group_ids: [b] });
    for (const id of [a, b, c]) {
      expect((await put(`/v1/identity/group/id/${a}`, { member_group_ids: [id] })).status).toBe(400);
    }
    expect((await get(`/v1/identity/group/id/${a}`)).body.data.member_group_ids).toBeNull();
  });

  itRows([
    { member_entity_ids: ["00000000-0000-4000-8000-000000000000"] },
    { member_group_ids: ["00000000-0000-4000-8000-000000000000"] },
    { type: "external", member_entity_ids: ["00000000-0000-4000-8000-000000000000"] },
    { type: "other" },
    { policies: ["root"] },
    { policies: "a,ROOT" },
  ])("returns 400 for %j, and creates nothing", async (body) => {
    expect((await put("/v1/identity/group", body)).status).toBe(400);
    expect((await list("/v1/identity/group/id")).status).toBe(404);
  });

  it("is created by an alias that names no group, and keeps it", async () => {
    const alias = { name: "devs", mount_accessor: accessor };
    const made = (await put("/v1/identity/group-alias", alias)).body.data;
    const group = (await get(`/v1/identity/group/id/${made.canonical_id}`)).body.data;
    expect(group).toMatchObject({ type: "external", alias: { id: made.id }, member_entity_ids: null });
    expect((await put("/v1/identity/group-alias", alias)).body.data).toEqual(made);
    const refused = await put("/v1/identity/group-alias", { ...alias, mount_accessor: "none" });
    expect([refused.status, refused.body.errors[0]]).toEqual([400, "mount_accessor: invalid mount accessor"]);
    expect((await list("/v1/identity/group/id")).body.data.keys).toEqual([made.canonical_id]);
  });

  it("has an alias when it is external", async () => {
    const external = await made("group", { name: "out", type: "external" });
    const internal = await made("group", { name: "in" });
    const alias = { name: "devs", mount_accessor: accessor };
    expect((await put("/v1/identity/group-alias", { ...alias, canonical_id: internal })).status).toBe(400);
    const id = await made("group-alias", { ...alias, canonical_id: external });
    expect((await get(`/v1/identity/group/id/${external}`)).body.data.alias).toMatchObject({ id, ...alias });
    expect((await get(`/v1/identity/group-alias/id/${id}`)).body.data.canonical_id).toBe(external);
    expect((await put(`/v1/identity/group/id/${external}`, { type: "internal" })).status).toBe(400);
    await del(`/v1/identity/group-alias/id/${id}`);
    expect((await list("/v1/identity/group-alias/id")).status).toBe(404);
  });
});
