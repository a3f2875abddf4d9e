/** One step of an object's schema. Lists of these only ever grow at the end. */
export interface Migration {
  readonly because: string;
  readonly sql: string;
}

/** Brings the tables of `module` up to date. Runs in the constructor: synchronous, so before any request. */
export function migrate(storage: DurableObjectStorage, module: string, steps: readonly Migration[]): void {
  const { sql } = storage;
  sql.exec("CREATE TABLE IF NOT EXISTS migrations (module TEXT PRIMARY KEY, applied INTEGER NOT NULL) STRICT");
  const applied =
    sql.exec<{ applied: number }>("SELECT applied FROM migrations WHERE module = ?", module).toArray()[0]?.applied ?? 0;
  if (applied >= steps.length) return;
  storage.transactionSync(() => {
    for (const step of steps.slice(applied)) sql.exec(step.sql);
    sql.exec(
      "INSERT INTO migrations (module, applied) VALUES (?, ?) ON CONFLICT (module) DO UPDATE SET applied = excluded.applied",
      module,
      steps.length,
    );
  });
}
