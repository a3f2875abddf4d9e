import { inspect } from "node:util";
import { it, type TestAPI } from "vitest";

/** Vitest's own limit for one test, of which a table gets one for each ten rows. */
const TIMEOUT_MS = 60_000;
const ROWS_IN_TIME = 10;
/** The places of a title that a row fills in, as `it.each` takes them. */
const PLACES = /%[sdifjo#]|%\.\d+s|\$[\w.]+/g;

/**
 * `it.each` as one test: the deployment is made once, and every row is checked in it. For refusals and reads, which leave
 * the deployment as it was. Checks the rows after a failed one, too; the failure names each failed row.
 */
export const itRows = ((rows: readonly unknown[]) =>
  (title: string, check: (...row: readonly unknown[]) => unknown): void =>
    it(title.replaceAll(PLACES, "…"), { timeout: TIMEOUT_MS * Math.ceil(rows.length / ROWS_IN_TIME) }, async () => {
      if (rows.length === 0) throw new Error("the table has no rows");
      const areLists = rows.every(Array.isArray);
      const failures: { row: string; failure: unknown }[] = [];
      for (const row of rows) {
        try {
          await check(...(areLists ? (row as unknown[]) : [row]));
        } catch (failure) {
          failures.push({ row: inspect(row, { breakLength: Number.POSITIVE_INFINITY }).slice(0, 200), failure });
        }
      }
      const [first] = failures;
      if (!first) return;
      const lines = failures.map(
        ({ row, failure }) => `${row}: ${failure instanceof Error ? failure.message : failure}`,
      );
      // The first failure's stack and difference are those that are shown.
      if (!(first.failure instanceof Error)) throw new Error(lines.join("\n"));
      first.failure.message = lines.join("\n");
      throw first.failure;
    })) as unknown as TestAPI["each"];
