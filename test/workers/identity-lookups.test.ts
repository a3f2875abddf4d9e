import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { path, policies } from "./access.ts";
import { del, get, mountKv, put } from "./client.ts";

const NOBODY = { token: null };
const there = { headers: { "X-Orch-Namespace": "there" } };
const NONE = "00000000-0000-4000-8000-000000000000";

/** Accessors of two auth methods. */
let staff = "";
let guests = "";

const enable = async (mount: string): Promise<string> => {
  await put(`/v1/sys/auth/${mount}`, { type: "userpass" });
  for (const user of ["ann", "bob"]) await put(`/v1/auth/${mount}/users/${user}`, { password: "p" });
  return (await get(`/v1/sys/auth/${mount}`)).body.data.accessor as string;
};
const signIn = async (user: string, mount = "staff") => {
  const { body } = await put(`/v1/auth/${mount}/login/${user}`, { password: "p" }, NOBODY);
  return { token: body.auth?.client_token as string, entity: body.auth?.entity_id as string };
};
const made = async (kind: string, body: object): Promise<string> => {
  const { status, text, body: answer } = await put(`/v1/identity/${kind}`, body);
  expect(status, text).toBe(200);
  return answer.data.id;
};
const look = (kind: string, query: object, options = {}) => put(`/v1/identity/lookup/${kind}`, query, options);
const entity = async (id: string) => (await get(`/v1/identity/entity/id/${id}`)).body.data;
const aliasOf = async (id: string, accessor = staff): Promise<string> =>
  (await entity(id)).aliases.find((alias: { mount_accessor: string }) => alias.mount_accessor === accessor)?.id;
const merge = (body: object) => put("/v1/identity/entity/merge", body);
const isValid = async (token: string) => (await get("/v1/auth/token/lookup-self", { token })).status === 200;
const reads = async (token: string) => (await get("/v1/kv/data/app", { token })).status;

beforeEach(async () => {
  await mountKv();
  await put("/v1/kv/data/app", { data: { a: "1" } });
  await policies({ reader: path("kv/data/app", "read") });
  staff = await enable("staff");
  guests = await enable("guests");
});

describe("POST identity/lookup", () => {
  it.each([["id"], ["name"], ["alias_id"], ["alias_name"]])("finds an entity and a group by %s", async (by) => {
    const ann = await made("entity", { name: "ann" });
    const devs = await made("group", { name: "devs", type: "external" });
    const owners = { entity: ann, group: devs };
    for (const [kind, id] of Object.entries(owners)) {
      const alias = { name: `${kind}@x`, mount_accessor: guests, canonical_id: id };
      const aliasId = await made(`${kind}-alias`, alias);
      const queries: Record<string, object> = {
        id: { id },
        name: { name: kind === "entity" ? "ann" : "devs" },
        alias_id: { alias_id: aliasId },
        alias_name: { alias_name: `${kind}@x`, alias_mount_accessor: guests },
      };
      const { status, body } = await look(kind, queries[by] ?? {});
      expect(status).toBe(200);
      expect(body.data).toEqual((await get(`/v1/identity/${kind}/id/${id}`)).body.data);
    }
  });

  it("normalizes the name of an alias as its auth method does", async () => {
    const { entity: id } = await signIn("ann");
    expect((await look("entity", { alias_name: "Ann", alias_mount_accessor: staff })).body.data.id).toBe(id);
  });

  it("returns 204 without a match, and for entities of another namespace", async () => {
    await put("/v1/sys/namespaces/there", {});
    const id = await made("entity", { name: "ann" });
    const alias = await made("entity-alias", { name: "ann", mount_accessor: staff, canonical_id: id });
    const queries = [{ id }, { name: "ann" }, { alias_id: alias }, { alias_name: "ann", alias_mount_accessor: staff }];
    for (const query of queries) {
      expect((await look("entity", query)).status).toBe(200);
      expect((await look("entity", query, there)).status, JSON.stringify(query)).toBe(204);
      expect((await look("group", query)).status, JSON.stringify(query)).toBe(204);
    }
    for (const query of [{ id: "none" }, { name: "none" }, { alias_id: "none" }]) {
      expect((await look("entity", query)).status).toBe(204);
    }
    const elsewhere = { alias_name: "ann", alias_mount_accessor: "none" };
    expect((await look("entity", elsewhere)).status).toBe(204);
  });

  itRows([
    [{}, "query parameter not supplied"],
    [{ id: "a", name: "b" }, "query parameter conflict"],
    [{ id: "a", alias_name: "b" }, "query parameter conflict"],
    [{ id: "a", alias_name: "b", alias_mount_accessor: "c" }, "query parameter conflict"],
    [{ alias_name: "b" }, "both 'alias_name' and 'alias_mount_accessor'"],
    [{ alias_mount_accessor: "c" }, "both 'alias_name' and 'alias_mount_accessor'"],
  ])("returns 400 for %j", async (query, message) => {
    for (const kind of ["entity", "group"]) {
      const { status, text } = await look(kind, query);
      expect(status).toBe(400);
      expect(text).toContain(message);
    }
  });
});

describe("POST identity/entity/batch-delete", () => {
  it("deletes several entities, and ignores unknown ids", async () => {
    const [ann, bob] = [await signIn("ann"), await signIn("bob")];
    const zoe = await made("entity", { name: "zoe" });
    const entities = [ann.entity, zoe, NONE, zoe];
    expect((await put("/v1/identity/entity/batch-delete", { entity_ids: entities })).status).toBe(204);
    expect(await isValid(ann.token)).toBe(false);
    expect(await isValid(bob.token)).toBe(true);
    expect((await look("entity", { alias_name: "ann", alias_mount_accessor: staff })).status).toBe(204);
    expect((await get(`/v1/identity/entity/id/${zoe}`)).status).toBe(404);
    expect((await put("/v1/identity/entity/batch-delete", { entity_ids: bob.entity })).status).toBe(204);
    expect(await isValid(bob.token)).toBe(false);
  });

  it("keeps entities of other namespaces", async () => {
    await put("/v1/sys/namespaces/there", {});
    const { token, entity: id } = await signIn("ann");
    expect((await put("/v1/identity/entity/batch-delete", { entity_ids: [id] }, there)).status).toBe(204);
    expect(await isValid(token)).toBe(true);
  });
});

describe("POST identity/entity/merge", () => {
  it("moves aliases, groups and tokens to the remaining entity", async () => {
    const to = await signIn("ann");
    const from = await signIn("bob", "guests");
    await put(`/v1/identity/entity/id/${to.entity}`, { policies: ["reader"] });
    const group = await made("group", { name: "ops", member_entity_ids: [from.entity] });
    const alias = await aliasOf(from.entity, guests);
    expect(await reads(from.token)).toBe(403);
    expect((await merge({ to_entity_id: to.entity, from_entity_ids: [from.entity] })).status).toBe(204);
    expect((await get(`/v1/identity/entity/id/${from.entity}`)).status).toBe(404);
    const remaining = await entity(to.entity);
    expect(remaining).toMatchObject({ merged_entity_ids: [from.entity], group_ids: [group] });
    expect(remaining.aliases).toHaveLength(2);
    expect(remaining.aliases.find(({ id }: { id: string }) => id === alias)).toMatchObject({
      canonical_id: to.entity,
      merged_from_canonical_ids: [from.entity],
      mount_accessor: guests,
    });
    expect(await reads(from.token)).toBe(200);
    expect((await signIn("bob", "guests")).entity).toBe(to.entity);
    // A second merge takes the tokens of the first along.
    const last = await made("entity", { name: "last" });
    expect((await merge({ to_entity_id: last, from_entity_ids: [to.entity] })).status).toBe(204);
    expect((await entity(last)).merged_entity_ids.toSorted()).toEqual([from.entity, to.entity].toSorted());
    for (const { token } of [from, to]) {
      expect(await isValid(token)).toBe(true);
      expect(await reads(token)).toBe(403);
    }
    expect((await del(`/v1/identity/entity/id/${last}`)).status).toBe(204);
    for (const { token } of [from, to]) expect(await isValid(token)).toBe(false);
  });

  it("refuses the tokens of merged entities while the remaining one is disabled", async () => {
    const [to, from] = [await signIn("ann"), await signIn("bob", "guests")];
    await merge({ to_entity_id: to.entity, from_entity_ids: [from.entity] });
    await put(`/v1/identity/entity/id/${to.entity}`, { disabled: true });
    expect(await isValid(from.token)).toBe(false);
  });

  it("keeps the named one of two aliases at the same auth method", async () => {
    const [to, from] = [await signIn("ann"), await signIn("bob")];
    const body = { to_entity_id: to.entity, from_entity_ids: [from.entity] };
    const [mine, other] = [await aliasOf(to.entity), await aliasOf(from.entity)];
    const clash = await merge(body);
    expect(clash.status).toBe(400);
    for (const id of [staff, mine, other]) expect(clash.text).toContain(id);
    expect((await merge({ ...body, conflicting_alias_ids_to_keep: [NONE] })).status).toBe(400);
    expect(await isValid(from.token)).toBe(true);
    expect((await entity(from.entity)).aliases).toHaveLength(1);
    const merged = await merge({ ...body, conflicting_alias_ids_to_keep: [other], force: true });
    expect(merged.status).toBe(200);
    expect(merged.body.warnings).toEqual([expect.stringContaining("MFA")]);
    expect((await entity(to.entity)).aliases).toMatchObject([{ id: other, name: "bob" }]);
    // The alias that went is a new entity's at the next login.
    expect((await signIn("ann")).entity).not.toBe(to.entity);
    expect((await signIn("bob")).entity).toBe(to.entity);
  });

  it("drops the alias of the merged entity when the other one is kept", async () => {
    const [to, from] = [await signIn("ann"), await signIn("bob")];
    const kept = await aliasOf(to.entity);
    const body = { to_entity_id: to.entity, from_entity_ids: [from.entity], conflicting_alias_ids_to_keep: kept };
    expect((await merge(body)).status).toBe(204);
    expect((await entity(to.entity)).aliases).toMatchObject([{ id: kept, name: "ann" }]);
  });

  it("returns 400 for entities that it cannot merge, and changes nothing", async () => {
    await put("/v1/sys/namespaces/there", {});
    const [ann, bob] = [await signIn("ann"), await signIn("bob")];
    const target = await made("entity", { name: "target" });
    const foreign = (await put("/v1/identity/entity", { name: "foreign" }, there)).body.data.id;
    const before = await entity(target);
    const to_entity_id = target;
    for (const [body, message] of [
      [{ from_entity_ids: [ann.entity] }, "missing entity id to merge to"],
      [{ to_entity_id }, "from_entity_ids: is required"],
      [{ to_entity_id, from_entity_ids: [] }, "missing entity ids to merge from"],
      [{ to_entity_id, from_entity_ids: [target] }, "should not be present"],
      [{ to_entity_id: NONE, from_entity_ids: [ann.entity] }, "to merge to is invalid"],
      [{ to_entity_id, from_entity_ids: [ann.entity, NONE] }, "to merge from is invalid"],
      [{ to_entity_id, from_entity_ids: [foreign] }, "to merge from is invalid"],
      [{ to_entity_id: foreign, from_entity_ids: [ann.entity] }, "to merge to is invalid"],
      [{ to_entity_id, from_entity_ids: [ann.entity, bob.entity] }, "found in multiple fromEntities"],
      [
        {
          to_entity_id,
          from_entity_ids: [ann.entity, bob.entity],
          conflicting_alias_ids_to_keep: [await aliasOf(ann.entity), await aliasOf(bob.entity)],
        },
        "one entity at a time",
      ],
    ] as const) {
      const { status, text } = await merge(body);
      expect(status, text).toBe(400);
      expect(text).toContain(message);
    }
    expect(await entity(target)).toEqual(before);
    for (const { token } of [ann, bob]) expect(await isValid(token)).toBe(true);
  });
});

describe("POST identity/entity-alias/id/:id", () => {
  it("changes the fields that a request names, by id", async () => {
    const [ann, bob] = [await made("entity", { name: "ann" }), await made("entity", { name: "bob" })];
    const alias = { name: "ann", mount_accessor: staff, canonical_id: ann, custom_metadata: { a: "b" } };
    const id = await made("entity-alias", alias);
    const read = async () => (await get(`/v1/identity/entity-alias/id/${id}`)).body.data;
    expect((await put(`/v1/identity/entity-alias/id/${id}`, { canonical_id: bob })).status).toBe(204);
    expect(await read()).toMatchObject({ ...alias, canonical_id: bob });
    expect((await signIn("ann")).entity).toBe(bob);
    expect(await read()).not.toHaveProperty("external_id");
    const external = { external_id: "00u1", issuer: "https://idp.example.com" };
    const moved = { id, name: "Bob", mount_accessor: guests, custom_metadata: { c: "d" }, ...external };
    expect((await put("/v1/identity/entity-alias", moved)).body.data).toEqual({ id, canonical_id: bob });
    expect(await read()).toMatchObject({ ...moved, name: "bob", canonical_id: bob });
    // Terraform sends both as empty texts when its configuration has none.
    expect((await put(`/v1/identity/entity-alias/id/${id}`, { external_id: "", issuer: "" })).status).toBe(204);
    expect((await signIn("bob", "guests")).entity).toBe(bob);
    expect(await read()).toMatchObject({ custom_metadata: { c: "d" }, ...external });

    const devs = await made("group", { name: "devs", type: "external" });
    const team = await made("group-alias", { name: "team", mount_accessor: staff, canonical_id: devs });
    expect((await put(`/v1/identity/group-alias/id/${team}`, { name: "crew" })).status).toBe(204);
    expect((await get(`/v1/identity/group-alias/id/${team}`)).body.data).toMatchObject({ id: team, name: "crew" });
  });

  it("returns 400 for an unknown id, another's name and a missing field", async () => {
    const [ann, bob] = [await signIn("ann"), await signIn("bob")];
    const alias = await aliasOf(ann.entity);
    for (const [where, body, message] of [
      [`/id/${NONE}`, { name: "zoe" }, "id: there is no such alias"],
      ["", { id: NONE, name: "zoe" }, "id: there is no such alias"],
      [`/id/${alias}`, { name: "bob" }, "name: another alias"],
      [`/id/${alias}`, { canonical_id: bob.entity }, "canonical_id: the entity already has an alias"],
      [`/id/${alias}`, { canonical_id: NONE }, "canonical_id: there is no such entity"],
      ["", { mount_accessor: staff, canonical_id: ann.entity }, "name: is required"],
      ["", { name: "zoe", canonical_id: ann.entity }, "mount_accessor: is required"],
      ["", { name: "zoe", mount_accessor: "none" }, "mount_accessor: invalid mount accessor"],
    ] as const) {
      const { status, text } = await put(`/v1/identity/entity-alias${where}`, body);
      expect(status, text).toBe(400);
      expect(text).toContain(message);
    }
    expect((await entity(ann.entity)).aliases).toMatchObject([{ id: alias, name: "ann" }]);
  });

  it("accepts the accessor of the token method, whose aliases belong to token roles", async () => {
    const accessor = (await get("/v1/sys/auth")).body.data["token/"].accessor;
    const id = await made("entity", { name: "deployer" });
    await made("entity-alias", { name: "deploy", mount_accessor: accessor, canonical_id: id });
    expect((await entity(id)).aliases).toMatchObject([{ mount_path: "auth/token/", mount_type: "token" }]);
    await put("/v1/auth/token/roles/deploys", { allowed_entity_aliases: "deploy" });
    const { body } = await put("/v1/auth/token/create/deploys", { entity_alias: "deploy" });
    expect(body.auth.entity_id).toBe(id);
  });
});
