import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import type { Migration } from "../src/platform/durable/migrations.ts";

/** A database in memory that answers like an object's own, for tests outside the Workers runtime. */
export function memorySql(migrations: readonly Migration[]): SqlStorage {
  const db = new DatabaseSync(":memory:");
  for (const step of migrations) db.exec(step);
  const exec = (query: string, ...values: SQLInputValue[]) => {
    const rows = db.prepare(query).all(...values);
    return {
      toArray: () => rows,
      [Symbol.iterator]: () => rows[Symbol.iterator](),
      raw: () => rows.map((row) => Object.values(row)),
      one: () => {
        if (rows.length !== 1) throw new Error(`${rows.length} rows instead of one`);
        return rows[0];
      },
    };
  };
  return { exec } as unknown as SqlStorage;
}
