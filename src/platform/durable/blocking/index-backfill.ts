/**
 * Identifies a row that receives the index of its event-log line. The index of its table moves with it, also when the
 * row was deleted. Tables are named by their topic, or by their own name if none of their changes are on the stream.
 */
export interface IndexBackfill {
  readonly table: string;
  /** Primary key of the row. */
  readonly row: readonly string[];
}

/** The owner of a table's rows. */
export interface IndexedRows {
  /** Runs in the transaction that deletes the pending index. */
  setIndex(backfill: IndexBackfill, index: number): void;
}
