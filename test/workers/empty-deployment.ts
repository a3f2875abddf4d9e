import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { made } from "./created-objects.ts";

const SETTLED_MS = 5;
const TABLES = ["destinations", "associations", "births"];

/**
 * A deployment in which nothing has ever been. A call that the test before left behind may bring an object back while
 * or after everything is deleted, with rows in its memory that are gone from its disk; then it is deleted once more.
 * D1 outlives a reset that follows the abort of all objects.
 */
export async function emptyDeployment(): Promise<void> {
  for (let tries = 50; tries > 0; tries -= 1) {
    made.clear();
    await reset();
    await applyD1Migrations(env.LISTINGS, env.TEST_MIGRATIONS);
    await env.LISTINGS.batch(TABLES.map((table) => env.LISTINGS.prepare(`DELETE FROM ${table}`)));
    await scheduler.wait(SETTLED_MS);
    if (made.size === 0) return;
  }
  throw new Error(`objects are called without end: ${[...new Set(made.values())].join(", ")}`);
}
