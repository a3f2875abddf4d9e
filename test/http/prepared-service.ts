import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { buildWorker } from "../../scripts/runtime.ts";

/** Set by vitest.config.ts, a folder of one run. */
const run = process.env["PREPARED"];

/**
 * Puts a bundled Worker into `builtDir` and a migrated database into `dataDir`. The first caller of a run creates
 * them, which costs seconds of CPU time; later callers get copies.
 */
export async function prepareService(builtDir: string, dataDir: string): Promise<void> {
  if (!run) return prepare(builtDir, dataDir);
  const kept = join(run, "service");
  if (!existsSync(kept)) {
    mkdirSync(run, { recursive: true });
    const made = mkdtempSync(join(run, "service-"));
    await prepare(join(made, "built"), join(made, "data"));
    try {
      renameSync(made, kept);
    } catch {
      // Another suite has created them.
      rmSync(made, { recursive: true });
    }
  }
  cpSync(join(kept, "data"), dataDir, { recursive: true });
  cpSync(join(kept, "built"), builtDir, { recursive: true });
}

async function prepare(builtDir: string, dataDir: string): Promise<void> {
  await buildWorker({ dir: builtDir, dataDir, migrations: true }, AbortSignal.timeout(120_000));
}
