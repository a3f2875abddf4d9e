/**
 * The index of the last change of each table, which lists answer and blocking queries wait for. Kept in memory, too: it is
 * asked for with every read.
 */
export class TableIndexes {
  readonly #sql: SqlStorage;
  #known = new Map<string, number>();
  readonly #moved = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.reload();
  }

  /** 0 for a table that never changed. */
  of(table: string): number {
    return this.#known.get(table) ?? 0;
  }

  /** Call inside the transaction that gives a row its index. */
  note(table: string, index: number): void {
    if (index <= this.of(table)) return;
    this.#sql.exec(
      "INSERT INTO table_indexes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET idx = excluded.idx",
      table,
      index,
    );
    this.#known.set(table, index);
    this.#moved.add(table);
  }

  /** The tables that moved since this was last asked. */
  takeMoved(): string[] {
    const moved = [...this.#moved];
    this.#moved.clear();
    return moved;
  }

  /** A transaction was rolled back: what is in memory may be ahead of the rows. */
  reload(): void {
    this.#known = new Map(
      this.#sql
        .exec<{ name: string; idx: number }>("SELECT name, idx FROM table_indexes")
        .toArray()
        .map(({ name, idx }) => [name, idx]),
    );
  }
}
