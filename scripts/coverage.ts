// Checks docs/internals/coverage.md: every promise is either open or proved by tests that exist and ran.
//
//   node scripts/coverage.ts [report.json]     report.json: what `vitest --reporter=json` wrote; run it at the root
//
// The check is a pure function of the page, the cited test files and the report; only the end of this file reads disk.
import { readFileSync, realpathSync, statSync } from "node:fs";
import { relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAst } from "vitest/node";
import * as z from "zod";

const SEPARATOR = " › ";
const HEADER = ["id", "What the interface document says", "Proof"];
const ID = /^[A-E](\.[A-Za-z0-9_-]+)+$/;
const OPEN = "open";

/** The part of vitest's JSON report that the check reads. `name` is the test file, relative to the repository. */
const VITEST_JSON = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      assertionResults: z.array(
        z.object({ ancestorTitles: z.array(z.string()), title: z.string(), status: z.string() }),
      ),
    }),
  ),
});
export type VitestJson = z.infer<typeof VITEST_JSON>;

export interface Coverage {
  problems: string[];
  /** Rows all of whose references are sound. A row with a problem is neither proved nor open. */
  proved: number;
  open: number;
  total: number;
}

export function checkCoverage(markdown: string, sources: ReadonlyMap<string, string>, report?: VitestJson): string[] {
  return measureCoverage(markdown, sources, report).problems;
}

export function measureCoverage(markdown: string, sources: ReadonlyMap<string, string>, report?: VitestJson): Coverage {
  const page = parsePage(markdown);
  const problems = [...page.problems];
  const firstLine = new Map<string, number>();
  const declared = new Map<string, DeclaredTest[] | string>();
  let proved = 0;
  let open = 0;
  for (const row of page.rows) {
    const found: string[] = [];
    const first = firstLine.get(row.id);
    if (first === undefined) firstLine.set(row.id, row.line);
    else found.push(`the id is already used in line ${first}`);
    for (const proof of row.proofs) {
      const tests = declared.get(proof.file) ?? testsOf(sources, proof.file);
      declared.set(proof.file, tests);
      const problem = typeof tests === "string" ? tests : checkProof(proof, tests, report);
      if (problem !== undefined) found.push(problem);
    }
    problems.push(...found.map((text) => `line ${row.line}, ${row.id}: ${text}`));
    if (found.length > 0) continue;
    if (row.proofs.length === 0) open++;
    else proved++;
  }
  return { problems, proved, open, total: page.rows.length };
}

/** The test files the page cites, so that a caller knows which sources to read. */
export function citedFiles(markdown: string): Set<string> {
  return new Set(parsePage(markdown).rows.flatMap((row) => row.proofs.map((proof) => proof.file)));
}

// ---------------------------------------------------------------------------------------------------------- the page

interface Proof {
  file: string;
  name: string;
}

interface Row {
  id: string;
  line: number;
  /** Empty: the row is open. */
  proofs: Proof[];
}

function parsePage(markdown: string): { rows: Row[]; problems: string[] } {
  const rows: Row[] = [];
  const problems: string[] = [];
  let place: "outside" | "header" | "rows" = "outside";
  for (const [index, text] of markdown.split(/\r?\n/).entries()) {
    const line = index + 1;
    const fault = (what: string) => problems.push(`line ${line}: ${what}`);
    if (text.trim() === "") {
      place = "outside";
      continue;
    }
    if (!text.startsWith("|")) {
      // A line inside a table that lost its first bar would otherwise drop out of the count without a word.
      if (place !== "outside") fault("a table row must begin with |");
      continue;
    }
    const cells = splitCells(text);
    if (place === "outside") {
      if (cells?.join("|") !== HEADER.join("|")) fault(`a table must begin with | ${HEADER.join(" | ")} |`);
      place = "header";
    } else if (place === "header") {
      if (cells?.length !== HEADER.length || !cells.every((cell) => /^:?-+:?$/.test(cell))) {
        fault("a table header must be followed by |---|---|---|");
      }
      place = "rows";
    } else {
      const row = parseRow(cells, line);
      if (typeof row === "string") fault(row);
      else rows.push(row);
    }
  }
  if (rows.length === 0) problems.push("the page has no rows");
  return { rows, problems };
}

function parseRow(cells: string[] | undefined, line: number): Row | string {
  if (cells === undefined) return "a table row must end with |";
  const [id, what, proof] = cells;
  if (cells.length !== 3 || id === undefined || what === undefined || proof === undefined) {
    return `a row has 3 cells, this one has ${cells.length} (write a bar inside a cell as \\|)`;
  }
  if (!ID.test(id)) return `${JSON.stringify(id)} is not an id: an area letter A to E, then names joined by dots`;
  if (what === "") return `${id}: the second cell is empty`;
  if (proof === "") return `${id}: the Proof cell is empty: write ${OPEN} or test references`;
  if (proof === OPEN) return { id, line, proofs: [] };
  const proofs: Proof[] = [];
  for (const reference of proof.split("<br>")) {
    // Any number of backticks, so that a test name may hold one.
    const code = /^(`+)(?!`)(.*[^`])\1$/.exec(reference.trim())?.[2]?.trim() ?? "";
    const at = code.indexOf(SEPARATOR);
    if (at < 1) return `${id}: ${JSON.stringify(reference.trim())} is not \`file${SEPARATOR}name of the test\``;
    proofs.push({ file: code.slice(0, at), name: code.slice(at + SEPARATOR.length) });
  }
  return { id, line, proofs };
}

/** Cells of one row, or nothing when the row is not closed. A bar written \| belongs to its cell. */
function splitCells(text: string): string[] | undefined {
  const cells = text.trimEnd().split(/(?<!\\)\|/);
  if (cells.length < 3 || cells.at(-1) !== "") return undefined;
  return cells.slice(1, -1).map((cell) => cell.replaceAll("\\|", "|").trim());
}

// --------------------------------------------------------------------------------------------------------- one proof

function checkProof(proof: Proof, tests: readonly DeclaredTest[], report: VitestJson | undefined): string | undefined {
  const cited = `${proof.file}${SEPARATOR}${proof.name}`;
  const exact = tests.filter((test) => test.name === proof.name);
  const matching = exact.length > 0 ? exact : tests.filter((test) => test.pattern?.test(proof.name));
  if (matching.length === 0) return `no test with this name is written in the file: ${cited}`;
  const flaw = matching.find((test) => test.flaw !== undefined)?.flaw;
  if (flaw !== undefined) return `the test is marked ${flaw}: ${cited}`;
  if (report === undefined) return undefined;

  // A reference to a template as written cites every test made from it.
  const templates = exact.flatMap((test) => test.pattern ?? []);
  const wanted = (name: string) => name === proof.name || templates.some((pattern) => pattern.test(name));
  const results = report.testResults
    .filter((file) => file.name === proof.file)
    .flatMap((file) => file.assertionResults)
    .filter((result) => wanted([...result.ancestorTitles, result.title].join(SEPARATOR)));
  if (results.length === 0) return `the test did not run: ${cited}`;
  const other = results.find((result) => result.status !== "passed");
  if (other !== undefined) return `the test ended ${other.status}, not passed: ${cited}`;
  return undefined;
}

// ------------------------------------------------------------------------------------------- tests declared in a file

interface DeclaredTest {
  /** Titles as written, from the outermost describe to the test. */
  name: string;
  /** Set when a title has places that are filled in at run time: what the finished name must look like. */
  pattern?: RegExp;
  flaw?: Flaw;
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

function testsOf(sources: ReadonlyMap<string, string>, file: string): DeclaredTest[] | string {
  const source = sources.get(file);
  if (source === undefined) return `no such test file: ${file}`;
  try {
    return collectTests(source);
  } catch (error) {
    return `cannot be parsed: ${file}: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function collectTests(source: string): DeclaredTest[] {
  const found: DeclaredTest[] = [];
  const visit = (value: unknown, scope: Scope): void => {
    if (Array.isArray(value)) {
      for (const item of value) visit(item, scope);
      return;
    }
    if (!isNode(value)) return;
    const call = value.type === "CallExpression" ? declaration(value, source, scope) : undefined;
    if (call === "unnamed") return;
    if (call?.kind === "test") found.push(finished(call.scope));
    for (const child of Object.values(value)) visit(child, call?.scope ?? scope);
  };
  visit(parseAst(source, { lang: "ts" }), { titles: [], flaw: undefined });
  return found;
}

function finished({ titles, flaw }: Scope): DeclaredTest {
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

// -------------------------------------------------------------------------------------------------------------- disk

/** The input of `measureCoverage`, read from a working copy. An unreadable report is an error. */
export function loadCoverage(root: string, reportPath?: string): Parameters<typeof measureCoverage> {
  const markdown = readFileSync(resolve(root, "docs/internals/coverage.md"), "utf8");
  const sources = new Map<string, string>();
  for (const file of citedFiles(markdown)) {
    const path = resolve(root, file);
    if (statSync(path, { throwIfNoEntry: false })?.isFile()) sources.set(file, readFileSync(path, "utf8"));
  }
  if (reportPath === undefined) return [markdown, sources];
  const report = VITEST_JSON.parse(JSON.parse(readFileSync(reportPath, "utf8")));
  // vitest writes absolute paths, the page relative ones.
  for (const file of report.testResults) file.name = relative(root, file.name).split(sep).join("/");
  return [markdown, sources, report];
}

// import.meta.main would be shorter, but where it is unknown this command would check nothing and succeed.
if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    const { problems, proved, open, total } = measureCoverage(...loadCoverage(process.cwd(), process.argv[2]));
    for (const problem of problems) console.error(`docs/internals/coverage.md ${problem}`);
    console.log(`coverage: ${proved}/${open}/${total} (proved/open/total)`);
    if (problems.length > 0) process.exitCode = 1;
  } catch (error) {
    console.error(`coverage: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
