import type { IndexBackfill, IndexedRows } from "./blocking/index-backfill.ts";
import { OperationWaiters } from "./operation-waiters.ts";

/** The table of one kind of operations. */
interface Table<Row, Stored> {
  readonly name: string;
  /** The columns that `read` takes. */
  readonly columns: string;
  readonly read: (row: Row) => Stored;
  /** Condition on its rows that have no outcome yet, in the words of its columns. */
  readonly open: string;
  /** Condition on its rows that a node may have begun and that have no outcome yet. */
  readonly started: string;
  /** The column in whose order operations were begun. */
  readonly order: string;
}

/**
 * Operations on nodes, stored before they are sent and until some time after they have ended. Used by host volumes, CSI
 * plugins and the session of each node, whose tables differ in columns; the states are those of
 * `packages/agent-protocol/src/operation-states.ts`. Each call is one indexed statement. Writes run inside the caller's
 * transaction.
 */
export class OperationStore<Row extends Record<string, SqlStorageValue>, Stored> implements IndexedRows {
  readonly #waiters = new OperationWaiters();

  constructor(
    protected readonly sql: SqlStorage,
    private readonly table: Table<Row, Stored>,
  ) {}

  find(id: string): Stored | null {
    return this.one("id = ?", id);
  }

  /** The first row of a condition, which may end with an order. */
  one(condition: string, ...values: SqlStorageValue[]): Stored | null {
    return this.rows(`${condition} LIMIT 1`, ...values)[0] ?? null;
  }

  /** The rows of a condition, which may end with an order and a limit. */
  rows(condition: string, ...values: SqlStorageValue[]): Stored[] {
    const { name, columns, read } = this.table;
    return this.sql
      .exec<Row>(`SELECT ${columns} FROM ${name} WHERE ${condition}`, ...values)
      .toArray()
      .map(read);
  }

  count(condition: string, ...values: SqlStorageValue[]): number {
    return this.sql
      .exec<{ n: number }>(`SELECT count(*) AS n FROM ${this.table.name} WHERE ${condition}`, ...values)
      .one().n;
  }

  /** Whether any row of a condition exists. */
  any(condition: string, ...values: SqlStorageValue[]): boolean {
    return this.sql.exec(`SELECT 1 FROM ${this.table.name} WHERE ${condition} LIMIT 1`, ...values).toArray().length > 0;
  }

  isOpen(id: string): boolean {
    return this.any(`id = ? AND ${this.table.open}`, id);
  }

  /** The operations of a node that have no outcome yet, in the order of their begin. */
  runningOn(nodeId: string): Stored[] {
    return this.rows(`node_id = ? AND ${this.table.started} ORDER BY ${this.table.order}`, nodeId);
  }

  update(id: string, assignments: string, ...values: SqlStorageValue[]): void {
    this.sql.exec(`UPDATE ${this.table.name} SET ${assignments} WHERE id = ?`, ...values, id);
  }

  /** Deletes up to 500 ended operations whose time has come, the oldest first. @param ended which have ended */
  forget(now: number, ended = "due IS NOT NULL"): void {
    const { name, order } = this.table;
    this.sql.exec(
      `DELETE FROM ${name} WHERE ${order} IN (SELECT ${order} FROM ${name} WHERE due <= ? AND ${ended} ORDER BY due LIMIT 500)`,
      now,
    );
  }

  /** Sets the index of the event line of an operation's end. */
  setIndex({ row: [id = ""] }: IndexBackfill, index: number): void {
    this.update(id, "idx = ?", index);
  }

  // ---- requests that wait for an operation ----

  expectWaiter(id: string): void {
    this.#waiters.expectWaiter(id);
  }

  isAwaited(id: string): boolean {
    return this.#waiters.isAwaited(id);
  }

  /**
   * Resolves when an operation is completed and visible to readers, at the latest after `waitMs`.
   * @param last the caller does not poll again
   */
  ended(id: string, waitMs: number, last: boolean): Promise<void> {
    return this.#waiters.wait(id, () => this.isOpen(id), waitMs, last);
  }

  /** Ends the wait of a client that has left. */
  leave(id: string): void {
    this.#waiters.leave(id);
  }

  /** Wakes all waiters of a completed operation. */
  wake(id: string): void {
    this.#waiters.wake(id);
  }
}
