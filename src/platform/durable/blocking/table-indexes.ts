import type { Migration } from "../migrations.ts";

/** A step of the schema of an owner of lists. */
export const TABLE_INDEXES: Migration =
  "CREATE TABLE table_indexes (name TEXT PRIMARY KEY, idx INTEGER NOT NULL) STRICT";

/**
 * The index of the last change of each table, returned by lists and awaited by blocking queries. Cached in memory,
 * because every read returns it.
 */
export class TableIndexes {
  #known = new Map<string, number>();
  readonly #moved = new Set<string>();

  constructor(private readonly sql: SqlStorage) {
    this.reload();
  }

  /** 0 for a table without changes. */
  of(table: string): number {
    return this.#known.get(table) ?? 0;
  }

  /** Call inside the transaction that gives a row its index. */
  set(table: string, index: number): void {
    if (index <= this.of(table)) return;
    this.sql.exec(
      "INSERT INTO table_indexes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET idx = excluded.idx",
      table,
      index,
    );
    this.#known.set(table, index);
    this.#moved.add(table);
  }

  /** The tables whose index moved since the last call. */
  takeMoved(): string[] {
    const moved = [...this.#moved];
    this.#moved.clear();
    return moved;
  }

  /** Call after a rollback: the cached indexes may be ahead of the rows. */
  reload(): void {
    this.#known = new Map(
      this.sql
        .exec<{ name: string; idx: number }>("SELECT name, idx FROM table_indexes")
        .toArray()
        .map(({ name, idx }) => [name, idx]),
    );
  }
}
