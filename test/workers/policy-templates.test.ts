import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf, path, policies } from "./access.ts";
import { get, mountKv, put, send } from "./client.ts";

const NOBODY = { token: null };
let accessor = "";

const NAME = "{{identity.entity.name}}";
const signIn = async (user = "ann") => {
  const { body } = await put(`/v1/auth/userpass/login/${user}`, { password: "p" }, NOBODY);
  return { token: body.auth.client_token as string, entity: body.auth.entity_id as string };
};
const reads = async (token: string, name: string) =>
  (await get(`/v1/kv/data/${name.split("/").map(encodeURIComponent).join("/")}`, { token })).status;
const rename = async (entity: string, name: string) =>
  expect((await put(`/v1/identity/entity/id/${entity}`, { name })).status).toBe(204);

beforeEach(async () => {
  await mountKv();
  for (const name of ["ann/x", "bob/x", "ops/x", "devs/x"]) await put(`/v1/kv/data/${name}`, { data: { a: "1" } });
  await put("/v1/sys/auth/userpass", { type: "userpass" });
  accessor = (await get("/v1/sys/auth/userpass")).body.data.accessor;
  for (const name of ["ann", "bob"]) {
    await put(`/v1/auth/userpass/users/${name}`, { password: "p", token_policies: "own" });
  }
  await policies({ own: path(`kv/data/${NAME}/*`, "create", "read", "update") });
});

describe("a templated policy", () => {
  it("gives each entity a folder of its own", async () => {
    const [ann, bob] = [await signIn("ann"), await signIn("bob")];
    await rename(ann.entity, "ann");
    await rename(bob.entity, "bob");
    for (const [{ token }, mine, other] of [
      [ann, "ann/x", "bob/x"],
      [bob, "bob/x", "ann/x"],
    ] as const) {
      expect(await reads(token, mine)).toBe(200);
      expect(await reads(token, other)).toBe(403);
      expect((await put(`/v1/kv/data/${mine}`, { data: { a: "2" } }, { token })).status).toBe(200);
      expect((await put(`/v1/kv/data/${other}`, { data: { a: "2" } }, { token })).status).toBe(403);
    }
  });

  it("is read back as it was written, and shown resolved to its token", async () => {
    const { token, entity } = await signIn();
    await rename(entity, "ann");
    expect((await get("/v1/sys/policies/acl/own")).body.data.policy).toContain(NAME);
    const rules = (await get("/v1/sys/internal/ui/resultant-acl", { token })).body.data;
    expect(Object.keys(rules.glob_paths)).toContain("kv/data/ann/");
    const { body } = await put("/v1/sys/capabilities-self", { paths: ["kv/data/ann/x", "kv/data/bob/x"] }, { token });
    expect(body.data).toMatchObject({ "kv/data/ann/x": ["create", "read", "update"], "kv/data/bob/x": ["deny"] });
  });

  it("is in the policy default: an entity reads itself, by id and name, and no other", async () => {
    const [ann, bob] = [await signIn("ann"), await signIn("bob")];
    const entity = async (at: string) => (await get(`/v1/identity/entity/${at}`, { token: ann.token })).status;
    await rename(ann.entity, "ann");
    await rename(bob.entity, "bob");
    expect([await entity(`id/${ann.entity}`), await entity("name/ann")]).toEqual([200, 200]);
    expect([await entity(`id/${bob.entity}`), await entity("name/bob")]).toEqual([403, 403]);
    expect((await put("/v1/identity/entity/name/ann", { name: "eve" }, { token: ann.token })).status).toBe(403);
  });

  it("follows a changed name at once, for reads and writes", async () => {
    const { token, entity } = await signIn();
    const write = async (name: string) => (await put(`/v1/kv/data/${name}`, { data: { a: "2" } }, { token })).status;
    for (const name of ["ann", "bob", "ops", "ann"]) {
      await rename(entity, name);
      for (const folder of ["ann", "bob", "ops"]) {
        const expected = folder === name ? 200 : 403;
        expect(await reads(token, `${folder}/x`), `${folder} as ${name}`).toBe(expected);
        expect(await write(`${folder}/x`), `${folder} as ${name}`).toBe(expected);
      }
    }
  });

  it("follows metadata, aliases and groups at once", async () => {
    await policies({
      own: [
        path("kv/data/{{identity.entity.metadata.team}}/x", "read"),
        path(`kv/data/{{identity.entity.aliases.${accessor}.custom_metadata.folder}}/x`, "read"),
        path("kv/data/{{identity.groups.names.devs.name}}/x", "read"),
      ].join(""),
    });
    const { token, entity } = await signIn();
    const may = async () => ({
      ops: await reads(token, "ops/x"),
      bob: await reads(token, "bob/x"),
      devs: await reads(token, "devs/x"),
    });
    expect(await may()).toEqual({ ops: 403, bob: 403, devs: 403 });
    await put(`/v1/identity/entity/id/${entity}`, { metadata: { team: "ops" } });
    expect(await may()).toEqual({ ops: 200, bob: 403, devs: 403 });
    const alias = (await get(`/v1/identity/entity/id/${entity}`)).body.data.aliases[0].id;
    await put(`/v1/identity/entity-alias/id/${alias}`, { custom_metadata: { folder: "bob" } });
    expect(await may()).toEqual({ ops: 200, bob: 200, devs: 403 });
    const inner = (await put("/v1/identity/group/name/inner", { member_entity_ids: [entity] })).body.data.id;
    await put("/v1/identity/group/name/devs", { member_group_ids: [inner] });
    expect(await may()).toEqual({ ops: 200, bob: 200, devs: 200 });
    await put("/v1/identity/group/name/inner", { member_entity_ids: [] });
    await put(`/v1/identity/entity/id/${entity}`, { metadata: {} });
    expect(await may()).toEqual({ ops: 403, bob: 200, devs: 403 });
    await send("DELETE", `/v1/identity/entity-alias/id/${alias}`);
    expect(await may()).toEqual({ ops: 403, bob: 403, devs: 403 });
  });

  it("follows a merge: tokens of the merged entity get the folder of the remaining one", async () => {
    const { token, entity } = await signIn();
    await rename(entity, "ann");
    const to = (await put("/v1/identity/entity", { name: "bob" })).body.data.id;
    await put("/v1/identity/entity/merge", { to_entity_id: to, from_entity_ids: [entity] });
    expect(await reads(token, "ann/x")).toBe(403);
    expect(await reads(token, "bob/x")).toBe(200);
  });

  it("follows a merge with the id, the aliases and the groups of the remaining entity", async () => {
    const { token, entity } = await signIn();
    const bob = (await put("/v1/identity/entity", { name: "bob" })).body.data.id;
    const alias = `{{identity.entity.aliases.${accessor}.name}}`;
    const named = ["{{identity.entity.id}}", alias, "{{identity.groups.names.devs.name}}"];
    await policies({ own: named.map((name) => path(`kv/data/${name}/x`, "read")).join("") });
    await put("/v1/identity/group/name/devs", { member_entity_ids: [bob] });
    await put("/v1/identity/entity/merge", { to_entity_id: bob, from_entity_ids: [entity] });
    const folders = [entity, bob, "ann", "devs", "ops"];
    const answers = await Promise.all(folders.map((folder) => reads(token, `${folder}/x`)));
    expect(answers).toEqual([403, 404, 200, 200, 403]);
  });

  it("follows a login that changes the metadata of the alias", async () => {
    await put("/v1/sys/auth/approle", { type: "approle" });
    const approle = (await get("/v1/sys/auth/approle")).body.data.accessor;
    await policies({ own: path(`kv/data/{{identity.entity.aliases.${approle}.metadata.folder}}/*`, "read", "update") });
    await put("/v1/auth/approle/role/app", { token_policies: "own" });
    const { role_id } = (await get("/v1/auth/approle/role/app/role-id")).body.data;
    const login = async (folder: string) => {
      const issued = await put("/v1/auth/approle/role/app/secret-id", { metadata: { folder } });
      const { secret_id } = issued.body.data;
      return (await put("/v1/auth/approle/login", { role_id, secret_id }, NOBODY)).body.auth.client_token as string;
    };
    const first = await login("ann");
    const write = async (name: string) =>
      (await put(`/v1/kv/data/${name}`, { data: { a: "2" } }, { token: first })).status;
    expect([await reads(first, "ann/x"), await write("bob/x")]).toEqual([200, 403]);
    await login("bob");
    expect([await reads(first, "ann/x"), await write("bob/x")]).toEqual([403, 200]);
  });

  it("follows the alias metadata of the user, from the next login on, over that of the alias", async () => {
    await policies({ own: path(`kv/data/{{identity.entity.aliases.${accessor}.custom_metadata.folder}}/x`, "read") });
    const user = (alias_metadata: object) => put("/v1/auth/userpass/users/ann", { alias_metadata });
    await user({ folder: "ops" });
    const { token, entity } = await signIn();
    const may = async () => {
      const answers = await Promise.all(["ops", "bob", "devs"].map((name) => reads(token, `${name}/x`)));
      return answers.map((status) => status === 200);
    };
    const alias = async () => (await get(`/v1/identity/entity/id/${entity}`)).body.data.aliases[0];
    await put(`/v1/identity/entity-alias/id/${(await alias()).id}`, { custom_metadata: { folder: "devs", by: "me" } });
    expect([(await alias()).custom_metadata, await may()]).toEqual([{ folder: "ops", by: "me" }, [true, false, false]]);
    await user({ folder: "bob" });
    expect(await may()).toEqual([true, false, false]);
    await signIn();
    expect(await may()).toEqual([false, true, false]);
    await user({});
    await signIn();
    expect([(await alias()).custom_metadata, await may()]).toEqual([
      { folder: "devs", by: "me" },
      [false, false, true],
    ]);
  });

  it("applies to batch tokens and child tokens, which have the entity of their parent", async () => {
    const { token, entity } = await signIn();
    await rename(entity, "ann");
    await policies({ maker: path("auth/token/create", "update") });
    await put(`/v1/identity/entity/id/${entity}`, { policies: ["maker"] });
    for (const type of ["batch", "service"]) {
      const { body } = await put("/v1/auth/token/create", { type, ttl: "1h", policies: ["own"] }, { token });
      const child = body.auth.client_token as string;
      expect(await reads(child, "ann/x"), type).toBe(200);
      expect(await reads(child, "bob/x"), type).toBe(403);
      await rename(entity, "bob");
      expect(await reads(child, "ann/x"), type).toBe(403);
      expect(await reads(child, "bob/x"), type).toBe(200);
      await rename(entity, "ann");
    }
  });

  it("does not apply to a token without an entity", async () => {
    const { client_token: token } = await holderOf(path(`kv/data/${NAME}/*`, "read") + path("kv/data/ops/x", "read"));
    expect(await reads(token, "ops/x")).toBe(200);
    expect(await reads(token, "ann/x")).toBe(403);
  });

  it("does not apply an entity's name in another namespace", async () => {
    await put("/v1/sys/namespaces/there", {});
    const there = { headers: { "X-Orch-Namespace": "there" } };
    await put("/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } }, there);
    await put("/v1/kv/data/ann/x", { data: { a: "1" } }, there);
    await policies({ own: path(`kv/data/${NAME}/*`, "read") }, there);
    const { token, entity } = await signIn();
    await rename(entity, "ann");
    await policies({ maker: path("there/auth/token/create", "update", "sudo") });
    await put(`/v1/identity/entity/id/${entity}`, { policies: ["maker"] });
    const made = await put("/v1/auth/token/create", { policies: ["own"] }, { token, ...there });
    expect(made.status, made.text).toBe(200);
    const child = made.body.auth;
    expect(child).toMatchObject({ entity_id: entity, token_policies: expect.arrayContaining(["own"]) });
    expect((await get("/v1/kv/data/ann/x", { token: child.client_token, ...there })).status).toBe(403);
  });
});

describe("policy templates with hostile entity names", () => {
  itRows([
    "*",
    "+",
    "a*",
    "ann*",
    "ann/",
    "../ann",
    "..",
    ".",
    "ann/x/..",
    "{{identity.entity.metadata.m}}",
    "}}",
    "%2A",
  ])("%j reaches no folder of another entity", async (name) => {
    const { token, entity } = await signIn();
    await put(`/v1/identity/entity/id/${entity}`, { name, metadata: { m: "ann" } });
    for (const pattern of [`kv/data/${NAME}/*`, `kv/data/${NAME}/x`, `kv/data/${NAME}*`, `kv/+/${NAME}/+`]) {
      await policies({ own: path(pattern, "read", "list", "update", "create", "delete") });
      for (const folder of ["ann", "bob", "ops"]) {
        expect(await reads(token, `${folder}/x`), `${pattern} ${folder}`).toBe(403);
        const written = await put(`/v1/kv/data/${folder}/x`, { data: {} }, { token });
        expect(written.status, `${pattern} ${folder}`).toBe(403);
      }
    }
  });

  it("reaches no folder inside another entity's by a slash", async () => {
    const { token, entity } = await signIn();
    await put("/v1/kv/data/bob/private/x", { data: { a: "1" } });
    for (const name of ["bob/private", "bob%2Fprivate"]) {
      await rename(entity, name);
      expect(await reads(token, "bob/private/x")).toBe(403);
    }
  });

  it("keeps a name with such characters usable for its own folder", async () => {
    const { token, entity } = await signIn();
    for (const name of ["ann+ci@example.com", "{ann}", "a b"]) {
      await put(`/v1/kv/data/${encodeURIComponent(name)}/x`, { data: { a: "1" } });
      await rename(entity, name);
      expect(await reads(token, `${name}/x`), name).toBe(200);
      expect(await reads(token, "ann/x"), name).toBe(403);
    }
  });
});
