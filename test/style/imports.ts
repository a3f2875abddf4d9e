import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

export interface Import {
  readonly from: string;
  readonly to: string;
}

/** The relative imports of all sources below a folder, type imports and re-exports included, tests excluded. */
export function importsBelow(root: string): Import[] {
  const files = readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((name) => join(root, name))
    .filter((path) => /\.(ts|mts)$/.test(path) && !/\.(test|d)\.m?ts$/.test(path) && !path.includes("node_modules"));
  return files.flatMap((from) =>
    [...readFileSync(from, "utf8").matchAll(/(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]+)"/g)].map(([, to = ""]) => ({
      from,
      to: normalize(join(dirname(from), to)),
    })),
  );
}

/** Groups of files that import each other in a circle: the strongly connected components of two files or more (Tarjan 1972). */
export function circles(imports: readonly Import[]): string[][] {
  const targets = Map.groupBy(imports, ({ from }) => from);
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (file: string): void => {
    index.set(file, index.size);
    low.set(file, index.get(file) ?? 0);
    stack.push(file);
    for (const { to } of targets.get(file) ?? []) {
      if (!index.has(to)) visit(to);
      else if (!stack.includes(to)) continue;
      low.set(file, Math.min(low.get(file) ?? 0, low.get(to) ?? 0));
    }
    if (low.get(file) !== index.get(file)) return;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1) found.push(group.sort());
  };
  for (const file of targets.keys()) if (!index.has(file)) visit(file);
  return found;
}
