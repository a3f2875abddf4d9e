import { beforeEach, describe, expect, it } from "vitest";
import { memorySql } from "../../../test/memory-sql.ts";
import { accessMigrations } from "../schema.ts";
import { Entities, MAX_LOGIN_ENTITIES } from "./entities.ts";

let sql: SqlStorage;
let entities: Entities;

beforeEach(() => {
  sql = memorySql(accessMigrations);
  entities = new Entities(sql);
});

const signIn = (name: string, groups: readonly string[] = []) =>
  entities.signIn({ namespace: "", mount: "m", name, metadata: {}, roleMetadata: {}, groups }, 1);
const idOf = (name: string): string => {
  const entity = signIn(name);
  return entity.ok ? entity.value.id : entity.message;
};
const rows = (query: string, ...values: string[]) => sql.exec(query, ...values).toArray();

/** Rows as an older release could write them. */
function entity(id: string, alias: string, created: number, disabled = 0): void {
  sql.exec("INSERT INTO entities VALUES (?, '', ?, '[]', '{}', ?, ?, ?)", id, id, disabled, created, created);
  sql.exec(
    `INSERT INTO entity_aliases (id, entity, mount, name, metadata, custom_metadata, created, updated)
     VALUES (?, ?, 'm', ?, '{}', '{}', ?, ?)`,
    `${id}-alias`,
    id,
    alias,
    created,
    created,
  );
}

function externalGroup(id: string, alias: string, created: number): void {
  sql.exec("INSERT INTO groups VALUES (?, '', ?, 'external', '[]', '{}', ?, ?)", id, id, created, created);
  sql.exec("INSERT INTO group_aliases VALUES (?, ?, 'm', ?, ?, ?)", `${id}-alias`, id, alias, created, created);
}

describe("a login", () => {
  it("finds its entity in any letter case of the name, and keeps the spelling", () => {
    const id = idOf("Ann@x.com");
    expect(idOf("ann@X.com")).toBe(id);
    expect(rows("SELECT name FROM entity_aliases")).toEqual([{ name: "Ann@x.com" }]);
    // KELVIN SIGN, whose lower case is `k`.
    expect(idOf("kate")).not.toBe(idOf("\u212Aate"));
  });

  it("finds the alias of its own spelling among older ones, else the oldest", () => {
    entity("second", "ANN", 2);
    entity("first", "Ann", 1);
    expect([idOf("Ann"), idOf("ANN"), idOf("ann")]).toEqual(["first", "second", "first"]);
  });

  it("is refused while the entity of another spelling is disabled", () => {
    entity("active", "ann", 1);
    entity("disabled", "Ann", 2, 1);
    for (const name of ["ann", "Ann", "ANN"]) expect(idOf(name)).toContain("the entity is disabled");
  });

  it("joins the groups that it names in any letter case, of two the one of its own spelling or the older one", () => {
    externalGroup("older", "DevOps", 1);
    externalGroup("younger", "devops", 2);
    const groupsAfter = (...named: string[]) => {
      signIn("ann", named);
      return rows("SELECT group_id AS id FROM group_members ORDER BY id").map(({ id }) => id);
    };
    expect(groupsAfter("DEVOPS")).toEqual(["older"]);
    expect(groupsAfter("devops")).toEqual(["younger"]);
    expect(groupsAfter("devops", "DevOps")).toEqual(["older", "younger"]);
    expect(groupsAfter()).toEqual([]);
  });
});

/** Stores a group as an older release could. */
function group(id: string, kind: "entity" | "group", member: string, policies: readonly string[]): void {
  sql.exec("INSERT INTO groups VALUES (?, '', ?, 'internal', ?, '{}', 1, 1)", id, id, JSON.stringify(policies));
  sql.exec("INSERT INTO group_members (group_id, kind, member) VALUES (?, ?, ?)", id, kind, member);
}

describe("the policies of an entity", () => {
  it("are compared in lower case and without spaces around them, and root is none of them", () => {
    const id = idOf("ann");
    group("g", "entity", id, ["No-Prod", " reader ", "READER", "Root", " root", " "]);
    expect(entities.policiesOf(id, "")).toEqual(["no-prod", "reader"]);
  });

  it("are those of all groups around it, however deep, and of a circle of groups once", () => {
    const id = idOf("ann");
    group("g0", "entity", id, ["p0"]);
    for (let depth = 1; depth < 40; depth++) group(`g${depth}`, "group", `g${depth - 1}`, [`p${depth}`]);
    sql.exec("INSERT INTO group_members (group_id, kind, member) VALUES ('g0', 'group', 'g39')");
    expect(entities.policiesOf(id, "")).toHaveLength(40);
    expect(entities.groupsOf(id)).toHaveLength(40);
  });
});

it("creates no entity for a login beyond the bound, counts once, and admits known names", () => {
  sql.exec(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MAX_LOGIN_ENTITIES - 1})
     INSERT INTO entities SELECT 'e' || i, '', 'e' || i, '[]', '{}', 0, 0, 0 FROM n`,
  );
  const counts: string[] = [];
  const { exec } = sql;
  sql.exec = ((query: string, ...values: SqlStorageValue[]) => {
    if (query.includes("count(*)")) counts.push(query);
    return exec(query, ...values);
  }) as typeof exec;
  const last = idOf("last");
  expect(idOf("beyond")).toContain(`the namespace holds ${MAX_LOGIN_ENTITIES} entities`);
  expect(idOf("LAST")).toBe(last);
  expect(counts).toHaveLength(1);
  entities.adjust("", -1);
  expect(signIn("beyond").ok).toBe(true);
});
