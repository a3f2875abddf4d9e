/** One step of an object's schema, in SQL. Lists only grow at the end; a test pins each released step. */
export type Migration = string;

/** The steps of each module of an object, in the order in which they run. */
export type Schema = Readonly<Record<string, readonly Migration[]>>;

/**
 * The tables of an object were written by a newer version. They stay untouched until that version or a later one is
 * deployed again.
 */
export class NewerSchema extends Error {
  override readonly name = "NewerSchema";

  constructor(module: string, applied: number, known: number) {
    super(
      `newer schema: the tables of "${module}" are at step ${applied} of their schema, and this version of the service ` +
        `knows ${known}; deploy the version that was here before, or a newer one`,
    );
  }
}

/** Also true for an error from another object's RPC, which keeps only the class name. */
export const isNewerSchema = (failure: unknown): failure is Error =>
  failure instanceof Error && failure.name === "NewerSchema";

/** Whether a storage was never used by an object. */
export const isEmpty = (sql: SqlStorage): boolean =>
  sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").toArray().length === 0;

/** Whether steps of the schema of a used object have not run. */
export function isBehind(sql: SqlStorage, schema: Schema): boolean {
  const applied = versionsOf(sql);
  return Object.entries(schema).some(([module, steps]) => (applied[module] ?? 0) < steps.length);
}

/** Migrates all tables of an object, or none. Runs in the constructor, so before any request. @throws NewerSchema */
export function migrateAll(storage: DurableObjectStorage, schema: Schema): void {
  storage.transactionSync(() => {
    for (const [module, steps] of Object.entries(schema)) migrate(storage, module, steps);
    // An unknown module also means a newer version.
    for (const [module, applied] of Object.entries(versionsOf(storage.sql)))
      if (applied > 0 && !schema[module]) throw new NewerSchema(module, applied, 0);
  });
}

/** Migrates the tables of one module. @throws NewerSchema */
export function migrate(storage: DurableObjectStorage, module: string, steps: readonly Migration[]): void {
  const { sql } = storage;
  sql.exec("CREATE TABLE IF NOT EXISTS migrations (module TEXT PRIMARY KEY, applied INTEGER NOT NULL) STRICT");
  const applied = versionsOf(sql)[module] ?? 0;
  if (applied > steps.length) throw new NewerSchema(module, applied, steps.length);
  if (applied === steps.length) return;
  storage.transactionSync(() => {
    for (const step of steps.slice(applied)) sql.exec(step);
    recordVersion(sql, module, steps.length);
  });
}

/** Number of completed steps by module. */
export type Versions = Readonly<Record<string, number>>;

export const versionsOf = (sql: SqlStorage): Versions =>
  Object.fromEntries(
    sql
      .exec<{ module: string; applied: number }>("SELECT module, applied FROM migrations")
      .toArray()
      .map(({ module, applied }) => [module, applied]),
  );

export const recordVersion = (sql: SqlStorage, module: string, applied: number): void => {
  sql.exec(
    "INSERT INTO migrations (module, applied) VALUES (?, ?) ON CONFLICT (module) DO UPDATE SET applied = excluded.applied",
    module,
    applied,
  );
};
