import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { made } from "./created-objects.ts";
import { beginDeployment } from "./own-deployment.ts";

const TABLES = ["destinations", "associations", "births", "names"];

/** All deployments share the tables in D1. A test may have dropped one. */
async function emptyListings(): Promise<void> {
  const run = (queries: readonly string[]) => env.LISTINGS.batch(queries.map((query) => env.LISTINGS.prepare(query)));
  try {
    // The local database measures itself before and after each query.
    await run([TABLES.map((table) => `DELETE FROM ${table}`).join(";\n")]);
  } catch {
    const steps = env.TEST_MIGRATIONS.flatMap(({ queries }) => queries);
    await run([[...TABLES.map((table) => `DROP TABLE IF EXISTS ${table}`), ...steps].join(";\n")]);
  }
}

/** A deployment in which nothing has ever been. The one before has ended, and its files stay until the next test file. */
export async function emptyDeployment(): Promise<void> {
  beginDeployment();
  made.clear();
  await emptyListings();
}

/** Ends all deployments so far, and deletes their files. */
export async function deleteDeployments(): Promise<void> {
  beginDeployment();
  await reset();
}
