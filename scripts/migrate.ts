/**
 * Applies `migrations/` to the local database LISTINGS, as `wrangler d1 migrations apply --local` does and in its table of
 * applied ones. Run by the process that builds the Worker, which has wrangler's parts loaded: the command itself takes
 * two seconds of processor time.
 */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { unstable_splitSqlQuery } from "wrangler";

/** The runtime included in wrangler: another version could store data differently. */
const { Miniflare, convertV4MiniflareOptions, Log, LogLevel } = createRequire(
  fileURLToPath(import.meta.resolve("wrangler")),
)("miniflare") as typeof import("miniflare");

const BINDING = "LISTINGS";
const APPLIED = `CREATE TABLE IF NOT EXISTS "d1_migrations"(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

/**
 * Call only while no process serves the data in `dataDir`.
 * @param databases the D1 bindings of the Worker
 * @param from the directory of the migrations
 */
export async function migrate(dataDir: string, databases: unknown, from = "migrations"): Promise<void> {
  const runtime = new Miniflare(
    convertV4MiniflareOptions({
      log: new Log(LogLevel.NONE),
      resourcePersistencePath: join(dataDir, "v3"),
      unsafeLocalExplorer: false,
      unsafeObservability: false,
      modules: true,
      script: "export default {}",
      compatibilityDate: "2026-01-01",
      d1Databases: databases as Record<string, { id: string }>,
    }),
  );
  try {
    const database = await runtime.getD1Database(BINDING);
    await database.prepare(APPLIED).run();
    const { results } = await database.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
    const applied = new Set(results.map(({ name }) => name));
    for (const name of readdirSync(from).sort()) {
      if (applied.has(name)) continue;
      const statements = unstable_splitSqlQuery(readFileSync(join(from, name), "utf8"));
      // One transaction: a failure leaves nothing of the file.
      await database.batch([
        ...statements.map((statement) => database.prepare(statement)),
        database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name),
      ]);
    }
  } catch (failure) {
    const message = failure instanceof Error ? failure.message : String(failure);
    throw new Error(`the database in ${dataDir} could not be migrated: ${message}`);
  } finally {
    await runtime.dispose();
  }
}
