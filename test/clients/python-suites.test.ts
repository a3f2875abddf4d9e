import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";
import { figuresOf } from "./suites/figures.ts";
import { PythonSuites, type SuiteName } from "./suites/python-suites.ts";
import { explain, REASONS } from "./suites/reasons.ts";

/** The tests that hvac and python-nomad have of their own, against a service without sample data. */

const LONG: readonly SuiteName[] = ["hvac"];
const SUITE_MS = 1_800_000;

const suites = new PythonSuites();
const { missing } = suites;
if (missing !== null) console.warn(`The suites of hvac and python-nomad are not run: ${missing}.`);
afterAll(() => suites.close());

describe.runIf(missing === null)("the suite of", () => {
  const dir = cloneOfWorkingTree();
  let service: LocalService;

  beforeAll(async () => {
    service = await new LocalService(dir, await freePort(), { SEED: "0" }).ready();
  });

  afterAll(async () => {
    service.signal("SIGINT");
    await service.exit;
    remove(dir);
  });

  for (const name of ["python-nomad", "hvac"] as const) {
    const skipped = LONG.includes(name) && process.env["LONG_TESTS"] !== "1";
    if (skipped) console.warn(`The suite of ${name} is not run: npm run test:long runs it.`);
    it.skipIf(skipped)(
      `${name} passes but for tests of features that are not offered`,
      async () => {
        const results = await suites.run(name, service.baseUrl, service.token);
        const failed = results.filter(({ outcome }) => outcome === "failed");
        const { counts, unexplained } = explain(
          failed.map(({ test, error }) => `${test}\n${error}`),
          REASONS[name],
        );
        expect(unexplained).toEqual([]);
        const { passed, skipped, failures } = figuresOf(name);
        expect(counts).toEqual(failures);
        expect(results.filter(({ outcome }) => outcome === "passed")).toHaveLength(passed);
        expect(results.filter(({ outcome }) => outcome === "skipped")).toHaveLength(skipped);
      },
      SUITE_MS,
    );
  }
});
