import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Mutation } from "./mutation.ts";

const FOLDER = import.meta.dirname;
const OTHER_FILES: ReadonlySet<string> = new Set(["mutation.ts", "tables.ts", "run.ts", "checkout.ts"]);

/** Reads every table of this folder: `access.ts` is the area `access`. */
export async function mutationTables(): Promise<Map<string, readonly Mutation[]>> {
  const tables = new Map<string, readonly Mutation[]>();
  for (const name of readdirSync(FOLDER).sort()) {
    if (!name.endsWith(".ts") || name.endsWith(".test.ts") || OTHER_FILES.has(name)) continue;
    const exported = Object.values(await import(join(FOLDER, name))) as (readonly Mutation[])[];
    tables.set(name.slice(0, -3), exported.flat());
  }
  return tables;
}

/** Returns the reason why a row cannot be applied to the source in `root`, or null. */
export function faultOfRow(row: Mutation, root: string): string | null {
  const path = join(root, row.file);
  if (!existsSync(path)) return "the file does not exist";
  const times = readFileSync(path, "utf8").split(row.find).length - 1;
  if (times !== 1) return `the text to replace occurs ${times} times`;
  if (row.find === row.replace) return "the replacement changes nothing";
  if (row.suites.length === 0) return "no suite is named";
  const missing = row.suites.find((suite) => !existsSync(join(root, suite)));
  if (missing) return `the suite ${missing} does not exist`;
  return row.promise ? null : "the promise is missing";
}
