import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** A string literal of a source file; `{}` stands for each interpolation of a template. */
interface Literal {
  readonly line: number;
  readonly text: string;
}

/** A source file without the text of its migrations, which were released and never change. */
interface Source {
  readonly path: string;
  readonly literals: readonly Literal[];
}

/** A statement that names a table of another folder. */
export interface Trespass {
  readonly at: string;
  readonly table: string;
  readonly owners: readonly string[];
}

/** The folder of D1's tables, whose migrations lie in a folder of their own. */
const LISTINGS = "src/listings";
/** A keyword before the name of a table. */
const NAMED =
  /\b(?:FROM|JOIN|INTO|UPDATE|CREATE TABLE|CREATE TABLE IF NOT EXISTS|DROP TABLE|ALTER TABLE|(?:INSERT|DELETE|UPDATE OF [\w, ]+) ON)\s+([a-z]\w*)/g;
const LISTED = /\bFROM\s+([a-z]\w*(?:\s+(?:AS\s+)?[a-z]\w*)?(?:\s*,\s*\w+(?:\s+(?:AS\s+)?[a-z]\w*)?)+)/g;
const CREATED = /\bCREATE TABLE (?:IF NOT EXISTS )?([a-z]\w*)|\bRENAME TO ([a-z]\w*)/g;
const COMMON_TABLE = /(?:\bWITH(?: RECURSIVE)?|,)\s+(\w+)(?:\s*\([^)]*\))?\s+AS\s+(?:(?:NOT )?MATERIALIZED\s+)?\(/g;
const MIGRATIONS = /^export const \w+: Migration\[\] = \[.*?^\];$/gms;

/** The string literals of TypeScript, those within interpolations included. */
export function literalsOf(source: string): Literal[] {
  const found: Literal[] = [];
  const scanner = { source, at: 0, found };
  scanCode(scanner, false);
  const lines = [...source.matchAll(/\n/g)].map(({ index }) => index);
  return found.map(({ line, text }) => ({ line: lines.filter((end) => end < line).length + 1, text }));
}

interface Scanner {
  readonly source: string;
  at: number;
  readonly found: Literal[];
}

/** A regular expression follows one of these, or begins a file; otherwise a slash divides. */
const BEFORE_PATTERN = /(?:^|[(,=:[!&|?{};>]|\breturn)\s*$/;

/** Scans up to the end, or behind the brace that ends an interpolation. */
function scanCode(scanner: Scanner, isInterpolation: boolean): void {
  const { source } = scanner;
  for (let depth = 0; scanner.at < source.length; ) {
    const from = scanner.at;
    const rest = source[from];
    if (source.startsWith("//", from)) scanner.at = endOf(source, "\n", from);
    else if (source.startsWith("/*", from)) scanner.at = endOf(source, "*/", from) + 2;
    else if (rest === '"' || rest === "'") scanQuoted(scanner, rest);
    else if (rest === "`") scanTemplate(scanner);
    else if (rest === "/" && BEFORE_PATTERN.test(source.slice(Math.max(0, from - 40), from))) {
      const [pattern = "/"] =
        /^\/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n])+\//.exec(source.slice(from, from + 2_000)) ?? [];
      scanner.at += pattern.length;
    } else {
      scanner.at += 1;
      if (rest === "{") depth += 1;
      if (rest === "}" && isInterpolation && depth === 0) return;
      if (rest === "}") depth -= 1;
    }
  }
}

const endOf = (source: string, end: string, from: number): number => {
  const at = source.indexOf(end, from);
  return at < 0 ? source.length : at;
};

function scanQuoted(scanner: Scanner, quote: string): void {
  const from = scanner.at;
  const [whole = quote] =
    new RegExp(`^${quote}(?:\\\\.|[^\\\\${quote}\\n])*${quote}`).exec(scanner.source.slice(from)) ?? [];
  scanner.at += whole.length;
  scanner.found.push({ line: from, text: whole.slice(1, -1) });
}

function scanTemplate(scanner: Scanner): void {
  const { source } = scanner;
  const from = scanner.at++;
  let text = "";
  while (scanner.at < source.length && source[scanner.at] !== "`") {
    if (source.startsWith("${", scanner.at)) {
      scanner.at += 2;
      scanCode(scanner, true);
      text += "{}";
      continue;
    }
    const length = source[scanner.at] === "\\" ? 2 : 1;
    text += source.slice(scanner.at, scanner.at + length);
    scanner.at += length;
  }
  scanner.at += 1;
  scanner.found.push({ line: from, text });
}

/** The tables that a statement, or a part of one, names. */
export function tablesIn(text: string): Set<string> {
  const own = new Set([...text.matchAll(COMMON_TABLE)].map(([, name]) => name));
  const listed = [...text.matchAll(LISTED)].flatMap(([, list = ""]) =>
    list.split(",").map((item) => item.trim().split(/\s/)[0] ?? ""),
  );
  const named = [...text.matchAll(NAMED)].map(([, name = ""]) => name);
  return new Set([...named, ...listed].filter((name) => !own.has(name)));
}

/** The folders whose sources create a table. */
export type Owners = ReadonlyMap<string, ReadonlySet<string>>;

export function ownersOf(root: string, d1: string): Owners {
  const owners = new Map<string, Set<string>>();
  const own = (folder: string, text: string) => {
    for (const [, created, renamed] of text.matchAll(CREATED)) {
      const table = created ?? renamed ?? "";
      owners.set(table, (owners.get(table) ?? new Set<string>()).add(folder));
    }
  };
  for (const path of sourcesBelow(root)) own(dirname(path), readFileSync(path, "utf8"));
  for (const name of readdirSync(d1)) own(LISTINGS, readFileSync(join(d1, name), "utf8"));
  return owners;
}

/** Statements of sources that name tables of other folders. A folder owns the tables that it or a parent creates. */
export function trespasses(sources: readonly Source[], owners: Owners): Trespass[] {
  return sources.flatMap(({ path, literals }) =>
    literals.flatMap(({ line, text }) =>
      [...tablesIn(text)].flatMap((table) => {
        const folders = [...(owners.get(table) ?? [])];
        const isOwn = folders.length === 0 || folders.some((folder) => path.startsWith(`${folder}/`));
        return isOwn ? [] : [{ at: `${path}:${line}`, table, owners: folders }];
      }),
    ),
  );
}

/** The sources below a folder, tests excluded, without the text of their migrations. */
export const sourcesWithSql = (root: string): Source[] =>
  sourcesBelow(root).map((path) => sourceOf(path, readFileSync(path, "utf8")));

export const sourceOf = (path: string, text: string): Source => ({
  path,
  literals: literalsOf(text.replace(MIGRATIONS, (steps) => steps.replace(/[^\n]/g, " "))),
});

const sourcesBelow = (root: string): string[] =>
  readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((name) => join(root, name))
    .filter((path) => path.endsWith(".ts") && !/\.(test|d)\.ts$/.test(path))
    .sort();
