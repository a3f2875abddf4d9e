import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { literalsOf, ownersOf, sourceOf, sourcesWithSql, tablesIn, trespasses } from "./sql.ts";

describe("SQL statements of src", () => {
  const owners = ownersOf("src", "migrations");
  const sources = sourcesWithSql("src");
  const views = sources.filter(({ path }) => path.endsWith("/view.ts"));

  it("name only tables of their own folder; other folders import statements of the owner", () => {
    expect(owners.size).toBeGreaterThan(90);
    expect(
      sources.flatMap(({ literals }) => literals.flatMap(({ text }) => [...tablesIn(text)])).length,
    ).toBeGreaterThan(500);
    expect(trespasses(sources, owners)).toEqual([]);
  });

  it("only read in files named view.ts", () => {
    expect(views.length).toBeGreaterThan(3);
    const writes = views.flatMap(({ path, literals }) =>
      literals.filter(({ text }) => /\b(INSERT|UPDATE|DELETE|CREATE|DROP|REPLACE)\b/.test(text)).map(() => path),
    );
    expect(writes).toEqual([]);
  });

  it("are found in a folder that does not own their table", () => {
    const source = 'import { a } from "./a.ts";\nconst one = sql.exec("SELECT 1 FROM nodes WHERE id = ?", id);\n';
    expect(trespasses([sourceOf("src/volumes/host/made-up.ts", source)], owners)).toEqual([
      { at: "src/volumes/host/made-up.ts:2", table: "nodes", owners: ["src/cluster/nodes"] },
    ]);
    expect(trespasses([sourceOf("src/cluster/nodes/made-up.ts", source)], owners)).toEqual([]);
    expect(trespasses([sourceOf("src/cluster/nodes/below/made-up.ts", source)], owners)).toEqual([]);
  });

  it("are exempt in migrations only", () => {
    const step = (name: string) => `export const ${name} = [\n  "UPDATE nodes SET status = 1",\n];\n`;
    expect(trespasses([sourceOf("src/kv/a.ts", step("steps: Migration[]"))], owners)).toEqual([]);
    expect(trespasses([sourceOf("src/kv/a.ts", step("steps: string[]"))], owners)).toHaveLength(1);
  });
});

it.each([
  ["SELECT a FROM one AS o CROSS JOIN two ON x = (SELECT 1 FROM three) WHERE y", ["one", "two", "three"]],
  ["SELECT a FROM one, two AS t, three WHERE y", ["one", "two", "three"]],
  ["WITH kept AS (SELECT 1 FROM one) SELECT 1 FROM kept", ["one"]],
  ["WITH RECURSIVE up (a) AS (SELECT 1 FROM one UNION ALL SELECT 1 FROM up) DELETE FROM two", ["one", "two"]],
  ["INSERT INTO one SELECT 1", ["one"]],
  ["INSERT INTO one VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 1", ["one"]],
  ["EXISTS (SELECT 1 FROM one", ["one"]],
  ["CREATE TRIGGER a AFTER UPDATE OF b, c ON one BEGIN SELECT 1; END", ["one"]],
  ["names are taken from the table of another object", []],
])("finds the tables of %j", (text, tables) => {
  expect([...tablesIn(text)].sort()).toEqual([...tables].sort());
});

it("finds every string literal of a source, not its comments or patterns", () => {
  const source = [
    '// it\'s "a" comment',
    'const a = "one"; /* `b` */',
    "const b = /['\"`]/.test(a) ? `two @{a + `three @{{ a }.a}`} four` : 'fi\\'ve';",
    "const c = a / 2 / 3;",
    'const d = "six";',
  ]
    .join("\n")
    .replaceAll("@", "$");
  expect(literalsOf(source).map(({ line, text }) => [line, text])).toEqual([
    [2, "one"],
    [3, "three {}"],
    [3, "two {} four"],
    [3, "fi\\'ve"],
    [5, "six"],
  ]);
  const registry = literalsOf(readFileSync("src/objects/cluster-registry.ts", "utf8"));
  expect(registry.filter(({ text }) => text.includes("\n"))).toEqual([]);
});
