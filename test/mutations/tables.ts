import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Mutation } from "./mutation.ts";

const FOLDER = join(import.meta.dirname, "tables");
const NOTHING = "∅";
const WHOLE_FILE = "*";

/** Reads every table: `tables/access.txt` is the area `access`. The format is described in docs/internals/mutations.md. */
export function mutationTables(): Map<string, readonly Mutation[]> {
  const names = readdirSync(FOLDER).sort();
  return new Map(names.map((name) => [name.replace(".txt", ""), rowsOf(readFileSync(join(FOLDER, name), "utf8"))]));
}

/** Parses one table. @throws Error with the first line that is none of the format's */
export function rowsOf(table: string): Mutation[] {
  const rows: Mutation[] = [];
  let [file, suites]: [string, readonly string[]] = ["", []];
  for (const line of table.split("\n").filter((line) => line !== "")) {
    const [, name, rest] = /^ {2}([\w$#*.]+): (.*)$/.exec(line) ?? [];
    const [change, promise, equivalent] = rest?.split(" // ") ?? [];
    const [find, replace] = change?.split(" → ") ?? [];
    if (name !== undefined && find !== undefined && replace !== undefined && promise !== undefined) {
      rows.push({ file, suites, name, find, replace: replace === NOTHING ? "" : replace, promise, equivalent });
    } else if (/^\S+\.ts$/.test(line)) {
      file = line;
    } else if (/^ \S+(?: \S+)*$/.test(line)) {
      suites = line.slice(1).split(" ");
    } else throw new Error(`no line of a mutation: ${line}`);
  }
  return rows;
}

/** Returns the source with the mutation applied, or the reason why it cannot be. */
export function mutated(source: string, { find, replace, name }: Mutation): { source: string } | { fault: string } {
  const ranges = rangesOf(source, name);
  if (ranges.length === 0) return { fault: `there is no ${name}` };
  // Line breaks and indentation are the formatter's.
  const text = new RegExp(find.trim().split(/\s+/).map(RegExp.escape).join("\\s+"), "g");
  const places = new Map<number, number>();
  for (const [from, to] of ranges) {
    for (const { 0: found, index } of source.slice(from, to).matchAll(text)) places.set(from + index, found.length);
  }
  const [place] = places;
  if (!place || places.size > 1) return { fault: `the text to replace occurs ${places.size} times` };
  const [at, length] = place;
  return { source: source.slice(0, at) + replace + source.slice(at + length) };
}

/** The characters of each function, method, constant, class or property of this name, with its body. */
export function rangesOf(source: string, name: string): (readonly [number, number])[] {
  if (name === WHOLE_FILE) return [[0, source.length]];
  const words = "(?:(?:export|default|abstract|static|private|protected|override|readonly|async|get|set|type) )*";
  const kinds = "(?:(?:const|let|function\\*?|class|interface) |\\*)?";
  const declared = new RegExp(
    `^( *)${words}${kinds}${RegExp.escape(name)}(?:<[^\\n]*>)?(?:\\(| =|\\?? ?:| \\{| extends| implements)`,
    "gm",
  );
  const ranges: (readonly [number, number])[] = [];
  for (const { 0: head, 1: indent = "", index } of source.matchAll(declared)) {
    // A declaration goes on while lines are deeper, or close a bracket of its first line.
    const body = new RegExp(`.*(?:\\n(?:${indent} .*|${indent}[)\\]}\`].*|(?=\\n)))*`, "y");
    body.lastIndex = index + head.length;
    const text = head + (body.exec(source)?.[0] ?? "");
    const isCall = text.startsWith(`${indent}${name}(`) && /\)[;,]?\s*$/.test(text);
    if (!isCall) ranges.push([index, index + text.length]);
  }
  return ranges;
}

/** Returns the reason why a row cannot be applied to the source in `root`, or null. */
export function faultOfRow(row: Mutation, root: string): string | null {
  const path = join(root, row.file);
  if (!existsSync(path)) return "the file does not exist";
  const source = readFileSync(path, "utf8");
  const changed = mutated(source, row);
  if ("fault" in changed) return changed.fault;
  if (changed.source === source) return "the replacement changes nothing";
  if (row.suites.length === 0) return "no suite is named";
  const missing = row.suites.find((suite) => !existsSync(join(root, suite)));
  if (missing) return `the suite ${missing} does not exist`;
  return row.promise ? null : "the promise is missing";
}
