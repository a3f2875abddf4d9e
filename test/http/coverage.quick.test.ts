import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import {
  checkCoverage,
  citedFiles,
  fillPage,
  loadCoverage,
  measureCoverage,
  problemsOfPage,
  type VitestJson,
} from "../../scripts/coverage.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FILE = "test/workers/kv.test.ts";

describe("docs/internals/coverage.md", () => {
  it("follows from the ids above the tests, which exist, are not skipped and, in the report, passed", () => {
    const named = process.env["SALLYPORT_TEST_REPORT"];
    // The report is written at the end of a run, so a first run has none.
    const report = named !== undefined && existsSync(named) ? named : undefined;
    expect(problemsOfPage(...loadCoverage(ROOT, report))).toEqual([]);
  });

  it("lists every area", () => {
    const [markdown] = loadCoverage(ROOT);
    for (const area of ["A", "B", "C", "D", "E"]) expect(markdown).toMatch(new RegExp(`^\\| ${area}\\.`, "m"));
  });
});

describe("the coverage check", () => {
  describe("of the page", () => {
    it("accepts open rows and counts them", () => {
      expect(measureCoverage(page("| A.x | Says x | open |", "| B.y | Says y | open |"), new Map())).toEqual({
        problems: [],
        proved: 0,
        open: 2,
        total: 2,
      });
    });

    it.each([
      ["two cells", "| A.x | open |", "line 3: a row has 3 cells, this one has 2"],
      ["four cells", "| A.x | a | b | open |", "line 3: a row has 3 cells, this one has 4"],
      ["no closing bar", "| A.x | Says x | open", "line 3: a table row must end with |"],
      ["an escaped closing bar", "| A.x | Says x | open \\|", "line 3: a table row must end with |"],
      ["no opening bar", "A.x | Says x | open |", "line 3: a table row must begin with |"],
      ["an unknown area", "| F.x | Says x | open |", 'line 3: "F.x" is not an id'],
      ["an id of one part", "| A | Says x | open |", 'line 3: "A" is not an id'],
      ["an id with a space", "| A.x y | Says x | open |", 'line 3: "A.x y" is not an id'],
      ["no promise", "| A.x |  | open |", "line 3: A.x: the second cell is empty"],
      ["an empty Proof cell", "| A.x | Says x |  |", "line 3: A.x: the Proof cell is empty"],
      ["open beside a reference", "| A.x | Says x | open<br>`a › b` |", 'line 3: A.x: "open" is not `file › name'],
      ["a reference without backticks", "| A.x | Says x | a › b |", 'line 3: A.x: "a › b" is not `file › name'],
      ["a reference without a test", `| A.x | Says x | \`${FILE}\` |`, `line 3: A.x: "\`${FILE}\`" is not`],
      ["a dangling separator", "| A.x | Says x | `a › b`<br> |", 'line 3: A.x: "" is not `file › name'],
    ])("refuses a row with %s", (_, row, problem) => {
      expect(checkCoverage(page(row), new Map())).toContainEqual(expect.stringContaining(problem));
    });

    it("refuses an id used twice", () => {
      const twice = page("| A.x | Says x | open |", "| A.x | Says y | open |");
      expect(checkCoverage(twice, new Map())).toEqual(["line 4, A.x: the id is already used in line 3"]);
    });

    it("refuses a table without its header or separator", () => {
      expect(checkCoverage("| A.x | Says x | open |\n|---|---|---|", new Map())).toContainEqual(
        expect.stringContaining("line 1: a table must begin with"),
      );
      expect(checkCoverage(page().replace("|---|---|---|", "| A.x | Says x | open |"), new Map())).toContainEqual(
        expect.stringContaining("line 2: a table header must be followed by"),
      );
    });

    it("refuses a page without rows", () => {
      expect(checkCoverage("# Nothing here\n", new Map())).toEqual(["the page has no rows"]);
    });

    it("reads several references, bars and backticks in a test name", () => {
      const source = "it('keeps a | b', f); it('reads `x`', f); it('ends with `', f);";
      const row = `| A.x | a \\| b | \`${FILE} › keeps a \\| b\` <br> \`\`${FILE} › reads \`x\` \`\` |`;
      expect(measureCoverage(page(row), sources(source))).toMatchObject({ problems: [], proved: 1, total: 1 });
    });

    it("returns the cited files", () => {
      expect([...citedFiles(page(cite("a"), "| A.y | Says y | `src/b.test.ts › b` |"))]).toEqual([
        FILE,
        "src/b.test.ts",
      ]);
    });
  });

  describe("of the cited tests", () => {
    it("refuses a file that does not exist", () => {
      expect(checkCoverage(page(cite("a")), new Map())).toEqual([`line 3, A.x: no such test file: ${FILE}`]);
    });

    it("refuses a file that cannot be parsed", () => {
      expect(check("a", "it((")).toMatch(/cannot be parsed/);
    });

    it.each([
      "a",
      "outer › b",
      "outer › inner › c",
      "outer › inner › from a template",
      "only › d",
      "typed › e",
      "conditional › f",
      'it\'s › "quoted"',
    ])("finds the title %s", (name) => {
      expect(check(name, TREE)).toBeUndefined();
    });

    it.each([
      ["another name", "z"],
      ["the inner title alone", "c"],
      ["a describe", "outer › inner"],
      ["a test in a comment", "commented"],
      ["a test in a string", "in a string"],
      ["the test method of something else", "not a test"],
      ["a fixture", "fixture"],
      ["a title made elsewhere", "computed"],
      ["a test under a title made elsewhere", "under computed"],
      ["a name that differs in case", "A"],
      ["part of a name", "outer › inner › from a"],
    ])("does not find the title %s", (_, name) => {
      expect(check(name, TREE)).toMatch(/^line 3, A\.x: no test with this name is written in the file/);
    });

    it.each([
      ["refuses 3 of 5", "it.each([[3, 5]])('refuses %i of %d', f)"],
      ["refuses the word", "it.each([{ what: { name: 'the word' } }])('refuses $what.name', f)"],
      ["refuses x", "it.each`a\n1`('refuses $a', f)"],
      ["refuses …", "itRows(['x'])('refuses %s', f)"],
      ["refuses %s", "itRows(['x'])('refuses %s', f)"],
      ["refuses x", "test.for(['x'])('refuses %s', f)"],
      ["refuses 100% of x", "it.each(['x'])('refuses 100%% of %s', f)"],
      ["refuses x", `for (const w of ws) it(\`refuses \${w}\`, f)`],
      ["on x › refuses y", "describe.each(['x'])('on %s', () => { it.each(['y'])('refuses %s', f) })"],
      ["refuses %s", "it.each(['x'])('refuses %s', f)"],
    ])("matches %s against the table in %s", (name, source) => {
      expect(check(name, source)).toBeUndefined();
    });

    it.each([
      ["accepts x", "it.each(['x'])('refuses %s', f)"],
      ["refuses ", "it.each(['x'])('refuses %s', f)"],
      ["refuses x › y", "it.each(['x'])('refuses %s', f)"],
      ["refuses x", "it('refuses %s', f)"],
      ["costs $5", "it.each(['x'])('costs.$a', f)"],
    ])("does not match %s against %s", (name, source) => {
      expect(check(name, source)).toMatch(/no test with this name/);
    });

    it.each([
      ["skip", "it.skip('a', f)"],
      ["todo", "it.todo('a')"],
      ["todo", "it('a')"],
      ["fails", "it.fails('a', f)"],
      ["skip", "it('a', { skip: true }, f)"],
      ["todo", "it('a', { timeout: 5, todo: true }, f)"],
      ["skip", "it.skip.each([1])('%s', f)"],
      ["skip", "it.concurrent.skip('a', f)"],
    ])("refuses a test marked %s: %s", (flaw, source) => {
      expect(check("a", source)).toBe(`line 3, A.x: the test is marked ${flaw}: ${FILE} › a`);
    });

    it.each([
      ["skip", "describe.skip('g', () => { it('a', f) })"],
      ["todo", "describe('g', { todo: true }, () => { it('a', f) })"],
    ])("refuses a test in a describe marked %s", (flaw, source) => {
      expect(check("g › a", source)).toContain(`the test is marked ${flaw}`);
    });

    it("treats a modifier set to false as absent", () => {
      expect(check("a", "it('a', { skip: false }, f)")).toBeUndefined();
    });
  });

  describe("of the report", () => {
    const source = "describe('g', () => { it('a', f); it.each([1, 2])('t %s', f) })";

    it("accepts a test that passed", () => {
      expect(check("g › a", source, reportOf(["g", "a", "passed"]))).toBeUndefined();
    });

    it("refuses a test that did not run", () => {
      expect(check("g › a", source, reportOf(["g", "b", "passed"]))).toContain("the test did not run");
      expect(check("g › a", source, { testResults: [] })).toContain("the test did not run");
    });

    it("does not accept the same name in another file", () => {
      const elsewhere = reportOf(["g", "a", "passed"]);
      for (const file of elsewhere.testResults) file.name = `agent/${FILE}`;
      expect(check("g › a", source, elsewhere)).toContain("the test did not run");
    });

    it.each(["failed", "skipped", "pending", "todo"])("refuses a test with the result %s", (status) => {
      expect(check("g › a", source, reportOf(["g", "a", status]))).toContain(`the test ended ${status}, not passed`);
    });

    it("requires a test that ran in two projects to pass in both", () => {
      const both = reportOf(["g", "a", "passed"], ["g", "a", "skipped"]);
      expect(check("g › a", source, both)).toContain("the test ended skipped");
    });

    it("accepts one formatted name of a table, or all of them for the title as written", () => {
      const mixed = reportOf(["g", "t 1", "passed"], ["g", "t 2", "failed"]);
      expect(check("g › t 1", source, mixed)).toBeUndefined();
      expect(check("g › t %s", source, mixed)).toContain("the test ended failed");
      expect(check("g › t 3", source, mixed)).toContain("the test did not run");
    });

    it("counts a row with a problem as neither proved nor open", () => {
      const rows = page(cite("g › a"), "| A.y | Says y | open |");
      expect(measureCoverage(rows, sources(source), reportOf(["g", "a", "failed"]))).toMatchObject({
        proved: 0,
        open: 1,
        total: 2,
      });
    });
  });

  describe("of the ids above the tests", () => {
    const empty = page(
      "| A.x | Says a \\| b | open |",
      "| A.y | Says y | `old › reference` |",
      "| A.z | Says z | open |",
    );
    const source = [
      "// A comment before it.",
      "// Proves: A.x,",
      "// A.y",
      'it("keeps a | b", f);',
      'describe("g", () => {',
      "  // Proves: A.x",
      "  it.each([",
      '    ["c"],',
      '  ])("reads `%s`", f);',
      "});",
    ].join("\n");

    it("fills the Proof cells, in the order of files and tests, and opens rows without a test", () => {
      const first = new Map([...sources(source), ["src/b.test.ts", "// Proves: A.x\nit('b', f);"]]);
      const { markdown, problems } = fillPage(empty, first);
      expect(problems).toEqual([]);
      expect(markdown).toBe(
        page(
          `| A.x | Says a \\| b | \`src/b.test.ts › b\`<br>\`${FILE} › keeps a \\| b\`<br>\`\` ${FILE} › g › reads \`%s\` \`\` |`,
          `| A.y | Says y | \`${FILE} › keeps a \\| b\` |`,
          "| A.z | Says z | open |",
        ),
      );
      expect(fillPage(markdown, first).markdown).toBe(markdown);
      expect(problemsOfPage(markdown, first)).toEqual([]);
    });

    it("refuses a page whose cells do not follow from them", () => {
      const cited = page(cite("a"), "| A.y | Says y | open |");
      expect(problemsOfPage(cited, sources("// Proves: A.x\nit('a', f);"))).toEqual([]);
      expect(problemsOfPage(cited, sources("it('a', f);"))).toEqual([
        expect.stringMatching(/^the Proof cells are not/),
      ]);
      expect(problemsOfPage(cited, sources("// Proves: A.x, A.y\nit('a', f);"))).toHaveLength(1);
    });

    it.each([
      ["unknown ids", "// Proves: A.x, A.w\nit('a', f);", `${FILE} line 2: no promise has the id "A.w"`],
      ["ids without a comma", "// Proves: A.x A.y\nit('a', f);", `${FILE} line 2: no promise has the id "A.x A.y"`],
      ["a comma at the end", "// Proves: A.x,\nit('a', f);", `${FILE} line 2: no promise has the id ""`],
      ["ids above a describe", "// Proves: A.x\ndescribe('g', f);", "1 lists of promises, of which 0 stand"],
      ["an empty line below", "// Proves: A.x\n\nit('a', f);", "1 lists of promises, of which 0 stand"],
      [
        "two lists for one test",
        "// Proves: A.x\n// Proves: A.y\nit('a', f);",
        "2 lists of promises, of which 1 stand",
      ],
    ])("refuses %s", (_, text, problem) => {
      expect(fillPage(empty, sources(text)).problems).toContainEqual(expect.stringContaining(problem));
    });
  });

  describe("as a command", () => {
    const root = mkdtempSync(join(tmpdir(), "coverage-"));
    afterAll(() => rmSync(root, { recursive: true }));
    mkdirSync(join(root, "docs/internals"), { recursive: true });
    mkdirSync(join(root, "test/workers"), { recursive: true });
    writeFileSync(join(root, "docs/internals/coverage.md"), page(cite("g › a"), "| A.y | Says y | open |"));
    writeFileSync(join(root, FILE), "describe('g', () => {\n// Proves: A.x\nit('a', f) })");

    it("prints the count and succeeds when there is no problem", () => {
      expect(run()).toMatchObject({ status: 0, stdout: "coverage: 1/1/2 (proved/open/total)\n" });
      expect(run(reportOf(["g", "a", "passed"]))).toMatchObject({ status: 0, stderr: "" });
    });

    it("prints the problems and the count and fails when there is one", () => {
      expect(run(reportOf(["g", "a", "failed"]))).toMatchObject({
        status: 1,
        stdout: "coverage: 0/1/2 (proved/open/total)\n",
        stderr: `docs/internals/coverage.md line 3, A.x: the test ended failed, not passed: ${FILE} › g › a\n`,
      });
    });

    it("fills the cells of the page with --write", () => {
      const path = join(root, "docs/internals/coverage.md");
      const written = readFileSync(path, "utf8");
      writeFileSync(path, page("| A.x | Says x | open |", "| A.y | Says y | open |"));
      expect(command()).toMatchObject({ status: 1, stderr: expect.stringContaining("run this with --write") });
      expect(command("--write")).toMatchObject({ status: 0, stdout: "coverage: 1/1/2 (proved/open/total)\n" });
      expect(readFileSync(path, "utf8")).toBe(written);
    });

    it("fails when the given report is missing or invalid", () => {
      expect(command(join(root, "missing.json")).status).toBe(1);
      expect(run({}).status).toBe(1);
    });

    /** vitest reports absolute file names, and so does the report that the command reads. */
    function run(report?: Partial<VitestJson>) {
      if (report === undefined) return command();
      const testResults = report.testResults?.map((file) => ({ ...file, name: join(root, file.name) }));
      writeFileSync(join(root, "report.json"), JSON.stringify({ ...report, testResults }));
      return command(join(root, "report.json"));
    }

    function command(...args: string[]) {
      return spawnSync(process.execPath, [join(ROOT, "scripts/coverage.ts"), ...args], { cwd: root, encoding: "utf8" });
    }
  });
});

const TREE = `
import { describe, it, test } from "vitest";
it("a", () => {});
describe("outer", () => {
  test('b', async () => {});
  describe(\`inner\`, { concurrent: true }, function () {
    it.concurrent("c", { timeout: 1 }, f);
    it(\`from a template\`, f);
  });
});
describe.only("only", () => void test.only("d", f));
suite("typed", () => { it<Fixtures>("e", async ({ url }: Fixtures) => { url satisfies string; }, 1000); });
describe.skipIf(process.platform === "win32")("conditional", () => { it.runIf(true)("f", f); });
describe("it's", () => { it('"quoted"', f); });
// it("commented", f);
const text = 'it("in a string", f)';
/x/.test("not a test");
test.extend("fixture", f);
it(computed, f);
describe(computed, () => { it("under computed", f); });
`;

function page(...rows: string[]): string {
  return ["| id | What the interface document says | Proof |", "|---|---|---|", ...rows].join("\n");
}

function cite(name: string): string {
  return `| A.x | Says x | \`${FILE} › ${name}\` |`;
}

function sources(text: string): Map<string, string> {
  return new Map([[FILE, text]]);
}

/** The problem of a page with one row that cites `name` in a file with the content `source`. */
function check(name: string, source: string, report?: VitestJson): string | undefined {
  const problems = checkCoverage(page(cite(name)), sources(source), report);
  expect(problems.length).toBeLessThan(2);
  return problems[0];
}

function reportOf(...results: [group: string, title: string, status: string][]): VitestJson {
  const assertionResults = results.map(([group, title, status]) => ({ ancestorTitles: [group], title, status }));
  return { testResults: [{ name: FILE, assertionResults }] };
}
