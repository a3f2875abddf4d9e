/** One step of an object's schema. Lists of these only ever grow at the end: a test holds each step that was released. */
export interface Migration {
  readonly because: string;
  readonly sql: string;
}

/** The steps of each module of an object, in the order in which they run. */
export type Schema = Readonly<Record<string, readonly Migration[]>>;

/**
 * The tables of an object are those of a version newer than this one. They are not touched: the version that has made them, or
 * one after it, has to be deployed again.
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

/** Also after it has come from another object, where only the name is left of the class. */
export const isNewerSchema = (failure: unknown): failure is Error =>
  failure instanceof Error && failure.name === "NewerSchema";

/** Whether no object has ever begun in a storage. */
export const isEmpty = (sql: SqlStorage): boolean =>
  sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").toArray().length === 0;

/** Brings all tables of an object up to date, or none. Runs in the constructor: so before any request. @throws NewerSchema */
export function migrateAll(storage: DurableObjectStorage, schema: Schema): void {
  storage.transactionSync(() => {
    for (const [module, steps] of Object.entries(schema)) migrate(storage, module, steps);
    // A module that is not known is newer, too.
    for (const [module, applied] of Object.entries(versionsOf(storage.sql)))
      if (applied > 0 && !schema[module]) throw new NewerSchema(module, applied, 0);
  });
}

/** Brings the tables of one module up to date. @throws NewerSchema */
export function migrate(storage: DurableObjectStorage, module: string, steps: readonly Migration[]): void {
  const { sql } = storage;
  sql.exec("CREATE TABLE IF NOT EXISTS migrations (module TEXT PRIMARY KEY, applied INTEGER NOT NULL) STRICT");
  const applied = versionsOf(sql)[module] ?? 0;
  if (applied > steps.length) throw new NewerSchema(module, applied, steps.length);
  if (applied === steps.length) return;
  storage.transactionSync(() => {
    for (const step of steps.slice(applied)) sql.exec(step.sql);
    noteVersion(sql, module, steps.length);
  });
}

/** How many steps of each module have run. */
export type Versions = Readonly<Record<string, number>>;

export const versionsOf = (sql: SqlStorage): Versions =>
  Object.fromEntries(
    sql
      .exec<{ module: string; applied: number }>("SELECT module, applied FROM migrations")
      .toArray()
      .map(({ module, applied }) => [module, applied]),
  );

export const noteVersion = (sql: SqlStorage, module: string, applied: number): void => {
  sql.exec(
    "INSERT INTO migrations (module, applied) VALUES (?, ?) ON CONFLICT (module) DO UPDATE SET applied = excluded.applied",
    module,
    applied,
  );
};
