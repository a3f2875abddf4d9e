import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { made } from "./created-objects.ts";

const SETTLED_MS = 5;
const TABLES = ["destinations", "associations", "births"];

/**
 * Creates the tables in D1, in one call for each test. D1 outlives a reset that follows the abort of all objects; then
 * the tables are there, and lose their rows.
 */
async function emptyListings(): Promise<void> {
  const run = (queries: readonly string[]) => env.LISTINGS.batch(queries.map((query) => env.LISTINGS.prepare(query)));
  try {
    // The local database measures itself before and after each query.
    await run([env.TEST_MIGRATIONS.flatMap(({ queries }) => queries).join(";\n")]);
  } catch (failure) {
    if (!String(failure).includes("already exists")) throw failure;
    await run(TABLES.map((table) => `DELETE FROM ${table}`));
  }
}

/**
 * A deployment in which nothing has ever been. A call that the test before left behind may bring an object back while
 * or after everything is deleted, with rows in its memory that are gone from its disk; then it is deleted once more.
 */
export async function emptyDeployment(): Promise<void> {
  for (let tries = 50; tries > 0; tries -= 1) {
    made.clear();
    await reset();
    await emptyListings();
    await scheduler.wait(SETTLED_MS);
    if (made.size === 0) return;
  }
  throw new Error(`objects are called without end: ${[...new Set(made.values())].join(", ")}`);
}
