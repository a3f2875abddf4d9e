import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { circles, type Import, importsBelow } from "./imports.ts";

/** The layers of `src/` from the bottom to the top: a file imports from its own folder and from layers below. */
const LAYERS: readonly (readonly string[])[] = [
  ["lib"],
  ["wire"],
  ["descriptions"],
  ["compat"],
  ["platform"],
  ["contracts"],
  ["rpc"],
  ["publishing"],
  ["rights", "volume-requests"],
  ["providers", "listings"],
  ["views"],
  [
    "access",
    "auth",
    "backup",
    "cluster",
    "credentials",
    "events",
    "identity",
    "kv",
    "monitoring",
    "node-agents",
    "read-leases",
    "sync",
    "volumes",
  ],
  ["objects", "routes", "openapi"],
  ["worker.ts"],
];

/** Descriptions of types are plain data, which every layer may read; they import only other descriptions. */
const isDescription = (path: string): boolean => /\/descriptions?\.ts$/.test(path);

/** Views are statements over the tables of their folder, which every domain may read: test/style/sql.test.ts. */
const isView = (path: string): boolean => path.endsWith("/view.ts");

function folderOf(path: string): string {
  if (isDescription(path)) return "descriptions";
  return isView(path) ? "views" : (path.split("/")[1] ?? "");
}
const layerOf = (path: string): number => LAYERS.findIndex((layer) => layer.includes(folderOf(path)));

/** Whether an import points to a layer above, or to another folder of its own layer. */
function isUpward({ from, to }: Import): boolean {
  if (folderOf(from) === folderOf(to)) return false;
  if (folderOf(from) === "openapi" && folderOf(to) === "routes") return false;
  if (folderOf(from) === "routes" && folderOf(to) === "openapi") return false;
  return layerOf(to) >= layerOf(from);
}

/** Whether a file serves requests to every resource: tables and help are its arguments. */
const isServer = (path: string): boolean => path.startsWith("src/routes/server/");

/** A function, a class, or a constant that is a function. */
const RUNNING_CODE =
  /^(?:export )?(?:(?:async )?function|(?:abstract )?class|const \w+(?:: [^=]+)? =\s+(?:async )?(?:<[^>]*>)?\(.*=>)/m;

describe("src/contracts", () => {
  const isContract = (path: string) => path.endsWith(".ts");

  it("holds interfaces and plain data only", () => {
    const running = readdirSync("src/contracts")
      .filter(isContract)
      .filter((name) => RUNNING_CODE.test(readFileSync(join("src/contracts", name), "utf8")));
    expect(running).toEqual([]);
    expect(
      ["function f() {}", "export class A {}", "export const f = (a: string) => a;"].every((text) =>
        RUNNING_CODE.test(text),
      ),
    ).toBe(true);
    expect(RUNNING_CODE.test("export const KINDS = [1];\nexport type F = (a: string) => string;")).toBe(false);
  });
});

describe("the imports of src", () => {
  const imports = importsBelow("src");

  it("belong to a layer", () => {
    expect(imports.length).toBeGreaterThan(1_000);
    expect(imports.filter(({ from, to }) => layerOf(from) < 0 || layerOf(to) < 0)).toEqual([]);
  });

  it("form no circle", () => {
    expect(circles(imports)).toEqual([]);
  });

  it("point downwards", () => {
    expect(imports.filter(isUpward).map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
  });

  it("do not lead from routes/server to a resource", () => {
    const leading = imports.filter(({ from, to }) => isServer(from) && to.startsWith("src/routes/") && !isServer(to));
    expect(leading).toEqual([]);
  });

  it("lead to a resource with a folder from two files outside of it: the route table, and the list of descriptions", () => {
    const outside = imports.filter(
      ({ from, to }) =>
        /^src\/routes\/(?!server)[^/]+\/(routes|openapi)\.ts$/.test(to) && dirname(from) !== dirname(to),
    );
    expect(outside.length).toBeGreaterThan(1);
    expect([...new Set(outside.map(({ from }) => from))].sort()).toEqual([
      "src/openapi/operations/index.ts",
      "src/routes/table.ts",
    ]);
  });
});

describe.each(["agent/src", "packages"])("the imports of %s", (root) => {
  it("form no circle", () => {
    expect(circles(importsBelow(root))).toEqual([]);
  });
});

it("finds circles and upward imports", () => {
  const pair = [
    { from: "src/lib/a.ts", to: "src/lib/b.ts" },
    { from: "src/lib/b.ts", to: "src/lib/a.ts" },
  ];
  expect(circles(pair)).toEqual([["src/lib/a.ts", "src/lib/b.ts"]]);
  expect(isUpward({ from: "src/lib/a.ts", to: "src/platform/b.ts" })).toBe(true);
  expect(isUpward({ from: "src/kv/a.ts", to: "src/access/b.ts" })).toBe(true);
  expect(isUpward({ from: "src/kv/a.ts", to: "src/contracts/b.ts" })).toBe(false);
});
