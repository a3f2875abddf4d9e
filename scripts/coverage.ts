// Checks docs/internals/coverage.md: every promise is either open or proved by tests that exist and ran.
//
//   node scripts/coverage.ts [report.json]     report.json: what `vitest --reporter=json` wrote; run it at the root
//   node scripts/coverage.ts --write           fills the Proof cells from the ids above the tests
//
// The check is a pure function of the page, the cited test files and the report; only the end of this file reads disk.
import { globSync, readFileSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { type DeclaredTest, linesThatProve, SEPARATOR, testsIn } from "./declared-tests.ts";

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

interface Coverage {
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

function testsOf(sources: ReadonlyMap<string, string>, file: string): DeclaredTest[] | string {
  const source = sources.get(file);
  if (source === undefined) return `no such test file: ${file}`;
  try {
    return testsIn(source);
  } catch (error) {
    return `cannot be parsed: ${file}: ${error instanceof Error ? error.message : String(error)}`;
  }
}

// ------------------------------------------------------------------------------------------------------ the Proof cells

/**
 * The page with the Proof cells that follow from the ids at the tests, in the order of the files. Problems are ids that
 * the page does not have, and lists of ids that do not stand directly above a test.
 */
export function fillPage(
  markdown: string,
  sources: ReadonlyMap<string, string>,
): { markdown: string; problems: string[] } {
  const problems: string[] = [];
  const ids = new Set(parsePage(markdown).rows.map(({ id }) => id));
  const proofs = new Map<string, Proof[]>();
  for (const [file, source] of [...sources].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const expected = linesThatProve(source).length;
    const tests = expected === 0 ? [] : testsOf(sources, file);
    if (typeof tests === "string") {
      problems.push(tests);
      continue;
    }
    const proving = tests.filter(({ proves }) => proves.length > 0);
    if (proving.length !== expected) {
      problems.push(`${file}: ${expected} lists of promises, of which ${proving.length} stand directly above a test`);
    }
    for (const { name, proves, line } of proving) {
      for (const id of proves) {
        if (!ids.has(id)) problems.push(`${file} line ${line + 1}: no promise has the id ${JSON.stringify(id)}`);
        const known = proofs.get(id) ?? [];
        if (!known.some((proof) => proof.file === file && proof.name === name)) known.push({ file, name });
        proofs.set(id, known);
      }
    }
  }
  const lines = markdown.split("\n").map((text) => {
    const cells = text.startsWith("|") ? splitCells(text) : undefined;
    const [id, what] = cells ?? [];
    if (cells?.length !== 3 || id === undefined || what === undefined || !ids.has(id)) return text;
    const cell = proofs.get(id)?.map(referenceTo).join("<br>") ?? OPEN;
    return `| ${[id, what, cell].map((each) => each.replaceAll("|", "\\|")).join(" | ")} |`;
  });
  return { markdown: lines.join("\n"), problems };
}

function referenceTo({ file, name }: Proof): string {
  const text = `${file}${SEPARATOR}${name}`;
  return text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
}

// -------------------------------------------------------------------------------------------------------------- disk

const PAGE = "docs/internals/coverage.md";
const TESTS = "{src,agent/src,packages/*/src,test}/**/*.test.ts";

/** The input of `measureCoverage`, read from a working copy. An unreadable report is an error. */
export function loadCoverage(root: string, reportPath?: string): Parameters<typeof measureCoverage> {
  const markdown = readFileSync(resolve(root, PAGE), "utf8");
  const sources = new Map<string, string>();
  for (const file of citedFiles(markdown)) {
    const path = resolve(root, file);
    if (statSync(path, { throwIfNoEntry: false })?.isFile()) sources.set(file, readFileSync(path, "utf8"));
  }
  for (const path of globSync(TESTS, { cwd: root })) {
    const source = readFileSync(resolve(root, path), "utf8");
    if (linesThatProve(source).length > 0) sources.set(path.split(sep).join("/"), source);
  }
  if (reportPath === undefined) return [markdown, sources];
  const report = VITEST_JSON.parse(JSON.parse(readFileSync(reportPath, "utf8")));
  // vitest writes absolute paths, the page relative ones.
  for (const file of report.testResults) file.name = relative(root, file.name).split(sep).join("/");
  return [markdown, sources, report];
}

/** All that is wrong with the page: its own problems, those of the ids above the tests, and cells that do not follow. */
export function problemsOfPage(...[markdown, sources, report]: Parameters<typeof measureCoverage>): string[] {
  const filled = fillPage(markdown, sources);
  const stale =
    filled.markdown === markdown ? [] : ["the Proof cells are not those of the tests: run this with --write"];
  return [...checkCoverage(markdown, sources, report), ...filled.problems, ...stale];
}

function run(argument: string | undefined): void {
  if (argument === "--write") {
    const [markdown, sources] = loadCoverage(process.cwd());
    writeFileSync(PAGE, fillPage(markdown, sources).markdown);
  }
  const input = loadCoverage(process.cwd(), argument === "--write" ? undefined : argument);
  const problems = problemsOfPage(...input);
  const { proved, open, total } = measureCoverage(...input);
  for (const problem of problems) console.error(`${PAGE} ${problem}`);
  console.log(`coverage: ${proved}/${open}/${total} (proved/open/total)`);
  if (problems.length > 0) process.exitCode = 1;
}

// import.meta.main would be shorter, but where it is unknown this command would check nothing and succeed.
if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    run(process.argv[2]);
  } catch (error) {
    console.error(`coverage: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
