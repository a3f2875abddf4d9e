import { beforeEach } from "vitest";

/** Lines kept of one test: a failure is explained by the last ones. */
const MAX_LINES = 10_000;

type Print = (...given: unknown[]) => void;

let held: (() => void)[] = [];

/**
 * Holds back the log of each test, and prints it when the test fails. Vitest sends each line to its own process, which
 * cost a tenth of the CPU time of these suites. Called once per file.
 */
export function holdLog(): void {
  for (const level of ["debug", "log", "info", "warn", "error"] as const) {
    // The file before this one may have changed the console of the runtime, which all files share.
    const known = console[level] as Print & { readonly direct?: Print };
    const direct: Print = known.direct ?? known.bind(console);
    const hold: Print = (...given) => {
      if (held.length >= MAX_LINES) held = held.slice(MAX_LINES / 2);
      held.push(() => direct(...given));
    };
    console[level] = Object.assign(hold, { direct });
  }
  beforeEach(({ onTestFinished }) => {
    // Runs after all other hooks, which may fail the test as well.
    onTestFinished(({ task }) => {
      if (task.result?.state === "fail") for (const print of held) print();
      held = [];
    });
  });
}
