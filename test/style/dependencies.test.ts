import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const read = (path: string): Manifest => JSON.parse(readFileSync(path, "utf8"));
const root = read("package.json");
const installed = new Set(
  ["package.json", ...globSync("{agent,packages/*}/package.json")].flatMap((path) =>
    Object.keys(read(path).dependencies ?? {}),
  ),
);

/** Scripts of package.json whose preparation installs no development dependencies. */
const light = Object.keys(root.scripts).filter((name) => root.scripts[`pre${name}`] === "node scripts/prepare.mjs");
const programs = light.flatMap((name) => /^node (scripts\/[\w-]+\.ts)/.exec(root.scripts[name] ?? "")?.[1] ?? []);

/** Modules that the code loads at its start, and modules that it resolves by name: other processes, packages. */
const LOADED =
  /^(?:import|export)\s(?!type\b)[^"';]*?from\s+"([^"]+)"|^import\s+"([^"]+)"|import\.meta\.resolve\("([^"]+)"\)/gm;

/** Every module that `files` reach, with one file that names it. */
function reached(files: readonly string[]): Map<string, string> {
  const found = new Map(files.map((file) => [file, "package.json"]));
  for (const file of found.keys()) {
    if (!existsSync(file)) continue;
    for (const [, from, bare, resolved] of readFileSync(file, "utf8").matchAll(LOADED)) {
      const name = from ?? bare ?? resolved ?? "";
      const path = name.startsWith(".") ? normalize(join(dirname(file), name)) : name;
      if (!found.has(path)) found.set(path, file);
    }
  }
  return found;
}

/** `@scope/name/file` and `name/file` belong to packages; `node:fs` and `schema:…` do not. */
const packageOf = (name: string): string | undefined => /^((?:@[\w.-]+\/)?[\w.-]+)(?:\/|$)/.exec(name)?.[1];

describe("programs that run without development dependencies", () => {
  it("include npm start, and every file that they name exists", () => {
    expect(light).toEqual(expect.arrayContaining(["start", "build", "openapi", "deploy:check"]));
    for (const program of programs) expect(existsSync(program), program).toBe(true);
  });

  it("load packages of `dependencies` only", () => {
    const sources = ["src/worker.ts", ...globSync("console/src/**/*.{ts,tsx}")];
    const modules = reached([...programs, ...sources]);
    expect(modules.size).toBeGreaterThan(500);
    const foreign = [...modules].filter(([name]) => !existsSync(name) && packageOf(name) !== undefined);
    expect(foreign.map(([name]) => packageOf(name))).toEqual(
      expect.arrayContaining(["wrangler", "zod", "preact", "@grpc/grpc-js", "ws"]),
    );
    const missing = foreign.filter(([name]) => !installed.has(packageOf(name) ?? ""));
    expect(missing.map(([name, file]) => `${file}: ${name}`)).toEqual([]);
  });
});
