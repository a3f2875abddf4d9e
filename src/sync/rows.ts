import { Memo } from "../platform/durable/memo.ts";

/**
 * Inserts a row, or changes the row with this key. Called inside the object's transaction.
 * @param key names of the columns of the primary key
 */
export function upsert(sql: SqlStorage, table: string, row: Readonly<Record<string, unknown>>, ...key: string[]): void {
  const columns = Object.keys(row);
  const changes = columns.filter((name) => !key.includes(name)).map((name) => `${name} = excluded.${name}`);
  sql.exec(
    `INSERT INTO ${table} (${columns.join()}) VALUES (${columns.map(() => "?").join()})
     ON CONFLICT (${key.join()}) DO UPDATE SET ${changes.join()}`,
    ...Object.values(row),
  );
}

/** The texts that a statement selects, in its only column. */
export const texts = (sql: SqlStorage, statement: string, ...values: readonly SqlStorageValue[]): string[] =>
  sql
    .exec<Record<string, string>>(statement, ...values)
    .toArray()
    .flatMap((row) => Object.values(row));

/** The only row of a table, memoized. Methods that write are called inside the object's transaction. */
export class SingleRow<Row extends Record<string, SqlStorageValue>> {
  readonly #memo: Memo<Row | null>;

  constructor(
    private readonly sql: SqlStorage,
    private readonly table: string,
  ) {
    this.#memo = new Memo(() => sql.exec<Row>(`SELECT * FROM ${table}`).toArray()[0] ?? null);
  }

  get(): Row | null {
    return this.#memo.get();
  }

  /** Sets columns. All without a default must be among them. */
  put(columns: { readonly [Name in keyof Row]?: Row[Name] | Uint8Array }): void {
    upsert(this.sql, this.table, { ...columns, id: 1 }, "id");
    this.forget();
  }

  delete(): void {
    this.sql.exec(`DELETE FROM ${this.table}`);
    this.forget();
  }

  /** Drops the memoized row after a rollback, or a write of other statements. */
  forget(): void {
    this.#memo.forget();
  }
}
