/**
 * A row that gets the index of the line that tells of it. Its table's index moves with it, also when the row itself is gone.
 * Tables go by their topic, or their own name where nothing of theirs is on the stream.
 */
export interface IndexBackfill {
  readonly table: string;
  /** What identifies the row in its table. */
  readonly row: readonly string[];
}

/** Who keeps the rows of a table. */
export interface IndexedRows {
  /** Runs in the transaction that forgets the promise of an index. */
  stamp(stamp: IndexBackfill, index: number): void;
}
