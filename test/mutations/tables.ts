import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Mutation } from "./mutation.ts";

const FOLDER = join(import.meta.dirname, "tables");

/** Reads every table: `tables/access.txt` is the area `access`. The format is described in docs/internals/mutations.md. */
export function mutationTables(): Map<string, readonly Mutation[]> {
  const names = readdirSync(FOLDER).sort();
  return new Map(names.map((name) => [name.replace(".txt", ""), rowsOf(readFileSync(join(FOLDER, name), "utf8"))]));
}

/** Parses one table. @throws Error with the first line that is none of the format's */
export function rowsOf(table: string): Mutation[] {
  const rows: Mutation[] = [];
  let [file, suites]: [string, readonly string[]] = ["", []];
  for (const block of table.split(/\n{2,}/)) {
    const lines = block.split("\n").filter((line) => line !== "");
    while (/^(file|suites) /.test(lines[0] ?? "")) {
      const [word, ...values] = (lines.shift() ?? "").split(" ");
      if (word === "suites") suites = values;
      else file = values.join(" ");
    }
    if (lines.length > 0) rows.push({ file, suites, ...rowOf(lines) });
  }
  return rows;
}

function rowOf([promise = "", ...lines]: readonly string[]): Omit<Mutation, "file" | "suites"> {
  const taken = (mark: string) => lines.filter((line) => line[0] === mark).map((line) => line.slice(2));
  const unknown = lines.find((line) => !"@-+=".includes(line[0] ?? " "));
  if (unknown !== undefined) throw new Error(`no line of a mutation: ${unknown}`);
  return {
    promise,
    within: taken("@")[0],
    find: taken("-").join("\n"),
    replace: taken("+").join("\n"),
    equivalent: taken("=")[0],
  };
}

/** Returns the source with the mutation applied, or the reason why it cannot be. */
export function mutated(source: string, { find, replace, within }: Mutation): { source: string } | { fault: string } {
  const [from, to] = within === undefined ? [0, source.length] : rangeOf(source, within);
  if (from < 0) return { fault: `there is no ${within}` };
  // Line breaks and indentation are the formatter's.
  const text = new RegExp(find.trim().split(/\s+/).map(RegExp.escape).join("\\s+"), "g");
  const places = [...source.slice(from, to).matchAll(text)];
  const [place] = places;
  if (!place || places.length > 1) return { fault: `the text to replace occurs ${places.length} times` };
  const at = from + place.index;
  return { source: source.slice(0, at) + replace + source.slice(at + place[0].length) };
}

/** The characters of a function, method or constant, from its name to the line that closes it; -1 when there is none. */
function rangeOf(source: string, name: string): readonly [number, number] {
  const declared = new RegExp(
    `^( *)(?:[a-z]+ )*${RegExp.escape(name)}(?:<[^\\n]*>)?(?:\\(| =|: [^\\n]* =| \\{)`,
    "m",
  ).exec(source);
  if (!declared) return [-1, -1];
  const rest = source.slice(declared.index);
  const end = new RegExp(`^${declared[1]}(?:[)\\]}].*$|(?! ).*;$)`, "m").exec(rest);
  return [declared.index, declared.index + (end ? end.index + end[0].length : rest.length)];
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
