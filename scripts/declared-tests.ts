/** The tests that a file declares, read from its syntax: names, marks such as `skip`, and the promises that they prove. */
import { parseAst } from "vitest/node";

export const SEPARATOR = " › ";

/** Ids of promises in comment lines directly above a test, after `Proves:`. */
const PROVES = /^\s*\/\/ Proves:/;
const COMMENT = /^\s*\/\/ ?/;

export interface DeclaredTest {
  /** Titles as written, from the outermost describe to the test. */
  name: string;
  /** Set when a title has places that are filled in at run time: what the finished name must look like. */
  pattern?: RegExp;
  flaw?: Flaw;
  /** Ids of the promises that it proves. */
  proves: readonly string[];
  /** Line of its declaration, from 0. */
  line: number;
}

/** `fails` is here because such a test passes when its promise is broken. */
type Flaw = "skip" | "todo" | "fails";

interface Title {
  /** As written. */
  text: string;
  /** Source of a regular expression. */
  pattern: string;
}

interface Scope {
  titles: readonly Title[];
  flaw: Flaw | undefined;
}

/** A syntax node with the fields that the walk reads. */
interface Node {
  type: string;
  start: number;
  end: number;
  [field: string]: unknown;
}

/** `it.each` as one test, see test/support/rows.ts: its places are filled in by "…". */
const ROWS = "itRows";
const TESTS = new Set(["it", "test", ROWS]);
const GROUPS = new Set(["describe", "suite"]);
const TABLES = new Set(["each", "for"]);
/** Modifiers with arguments: the title is in the next call. */
const CURRIED = new Set([...TABLES, "skipIf", "runIf"]);
const MODIFIERS = new Set([
  ...CURRIED,
  ...GROUPS,
  "concurrent",
  "sequential",
  "shuffle",
  "only",
  "skip",
  "todo",
  "fails",
]);
/** One value filled in at run time. It may not reach over a describe boundary. */
const HOLE = `(?:(?!${SEPARATOR})[^])+`;

/** In the order of the file. Throws when the file cannot be parsed. */
export function testsIn(source: string): DeclaredTest[] {
  const found: DeclaredTest[] = [];
  const lines = source.split("\n");
  const visit = (value: unknown, scope: Scope): void => {
    if (Array.isArray(value)) {
      for (const item of value) visit(item, scope);
      return;
    }
    if (!isNode(value)) return;
    const call = value.type === "CallExpression" ? declaration(value, source, scope) : undefined;
    if (call === "unnamed") return;
    if (call?.kind === "test") {
      const line = source.slice(0, value.start).split("\n").length - 1;
      found.push({ ...finished(call.scope), proves: provedAbove(lines, line), line });
    }
    for (const child of Object.values(value)) visit(child, call?.scope ?? scope);
  };
  visit(parseAst(source, { lang: "ts" }), { titles: [], flaw: undefined });
  return found;
}

/** Lines, from 0, that begin a list of promises, wherever they stand. */
export function linesThatProve(source: string): number[] {
  return source.split("\n").flatMap((text, line) => (PROVES.test(text) ? [line] : []));
}

/** The ids in the comment that ends directly above a line. */
function provedAbove(lines: readonly string[], line: number): string[] {
  let first = line;
  while (COMMENT.test(lines[first - 1] ?? "")) {
    first -= 1;
    if (!PROVES.test(lines[first] as string)) continue;
    const text = lines.slice(first, line).map((each) => each.replace(PROVES, "").replace(COMMENT, ""));
    return text
      .join(" ")
      .split(",")
      .map((id) => id.trim());
  }
  return [];
}

function finished({ titles, flaw }: Scope): Omit<DeclaredTest, "proves" | "line"> {
  const fixed = titles.every((title) => title.pattern === escapeRegExp(title.text));
  return {
    name: titles.map((title) => title.text).join(SEPARATOR),
    ...(fixed ? {} : { pattern: new RegExp(`^${titles.map((title) => title.pattern).join(SEPARATOR)}$`) }),
    ...(flaw === undefined ? {} : { flaw }),
  };
}

/** Reads `it(…)`, `describe.skip(…)`, `it.each(…)(…)` and so on; nothing for any other call. */
function declaration(
  call: Node,
  source: string,
  outer: Scope,
): { kind: "test" | "group"; scope: Scope } | "unnamed" | undefined {
  const chain = calleeChain(call["callee"]);
  if (chain === undefined) return undefined;
  const [root = "", ...modifiers] = chain.names;
  const inGroup = GROUPS.has(root) || modifiers.some((name) => GROUPS.has(name));
  if (!inGroup && !TESTS.has(root)) return undefined;
  if (!modifiers.every((name) => MODIFIERS.has(name))) return undefined;
  const last = modifiers.at(-1);
  if ((root === ROWS || (last !== undefined && CURRIED.has(last))) && !chain.applied) return undefined;

  const [first, ...rest] = nodes(call["arguments"]);
  const title = titleOf(first, source, root === ROWS || modifiers.some((name) => TABLES.has(name)));
  // A name that cannot be read here cannot be checked here either, so nothing under it can be cited.
  if (title === undefined) return "unnamed";
  const flaw = outer.flaw ?? flawOf(modifiers, rest, inGroup);
  return { kind: inGroup ? "group" : "test", scope: { titles: [...outer.titles, title], flaw } };
}

/** `it.skip.each(table)` is it, skip, each; applied, because the outermost step was a call. */
function calleeChain(value: unknown): { names: string[]; applied: boolean } | undefined {
  if (!isNode(value)) return undefined;
  if (value.type === "Identifier") return { names: [String(value["name"])], applied: false };
  if (value.type === "MemberExpression" && value["computed"] === false) {
    const object = calleeChain(value["object"]);
    const property = value["property"];
    if (object === undefined || !isNode(property)) return undefined;
    return { names: [...object.names, String(property["name"])], applied: false };
  }
  if (value.type === "CallExpression" || value.type === "TaggedTemplateExpression") {
    const inner = calleeChain(value[value.type === "CallExpression" ? "callee" : "tag"]);
    return inner && { names: inner.names, applied: true };
  }
  return undefined;
}

function flawOf(modifiers: readonly string[], args: readonly Node[], group: boolean): Flaw | undefined {
  const flaws: readonly Flaw[] = ["skip", "todo", "fails"];
  const marked = flaws.find((flaw) => modifiers.includes(flaw));
  if (marked !== undefined) return marked;
  const options = args.find((arg) => arg.type === "ObjectExpression");
  for (const property of nodes(options?.["properties"])) {
    const { key, value } = property;
    const off = isNode(value) && value.type === "Literal" && value["value"] === false;
    const named = flaws.find((flaw) => isNode(key) && (key["name"] ?? key["value"]) === flaw);
    if (named !== undefined && !off) return named;
  }
  // vitest takes a test without a body for a todo.
  return !group && args.every((arg) => arg === options) ? "todo" : undefined;
}

function titleOf(node: Node | undefined, source: string, table: boolean): Title | undefined {
  const literal = (text: string): Title => ({ text, pattern: table ? tablePattern(text) : escapeRegExp(text) });
  if (node?.type === "Literal") return typeof node["value"] === "string" ? literal(node["value"]) : undefined;
  if (node?.type === "TemplateLiteral") {
    const title: Title = { text: "", pattern: "" };
    const holes = nodes(node["expressions"]);
    for (const [index, quasi] of nodes(node["quasis"]).entries()) {
      const piece = literal((quasi["value"] as { cooked: string }).cooked);
      const hole = holes[index];
      title.text += piece.text + (hole ? `\${${source.slice(hole.start, hole.end)}}` : "");
      title.pattern += piece.pattern + (hole ? HOLE : "");
    }
    return title;
  }
  return undefined;
}

/** `%s`, `$name` and their kin become holes; `%%` is a percent sign. Loose on purpose: the report decides. */
function tablePattern(text: string): string {
  return text
    .split(/(%%|%(?:\.\d+)?[a-zA-Z#$]|\$[\w$.]+)/)
    .map((piece, index) => (index % 2 === 0 ? escapeRegExp(piece) : piece === "%%" ? "%" : HOLE))
    .join("");
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

function nodes(value: unknown): Node[] {
  return Array.isArray(value) ? value.filter(isNode) : [];
}
