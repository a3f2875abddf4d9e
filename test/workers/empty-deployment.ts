import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";

/** A deployment in which nothing has ever been. D1 outlives a reset that follows the abort of all objects. */
export async function emptyDeployment(): Promise<void> {
  await reset();
  await applyD1Migrations(env.LISTINGS, env.TEST_MIGRATIONS);
  await env.LISTINGS.exec("DELETE FROM births");
}
