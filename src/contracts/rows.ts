/** Lists of rows, and changes of rows that are on the event stream. */

/** The place of a page in a list. */
export interface PageQuery<From = string> {
  /** The first row; empty = from the beginning. */
  readonly from: From;
  readonly limit: number;
  readonly reverse: boolean;
}

export interface Page<Row, From = string> {
  readonly rows: readonly Row[];
  /** The first row of the next page; null on the last. */
  readonly next: From | null;
}

/** Identifies a row in lists of one or all namespaces. */
export type RowKey = readonly [namespace: string, id: string];

/** An answer with the index of its table. */
export type Indexed<Answer> = Answer & { readonly index: number };

/** The result of a change. */
export interface Written {
  /** Index of the event of this change, or of the last change when nothing changed; null until it is appended. */
  readonly index: number | null;
}

/** Null until the row's event is appended to the stream. */
export interface RowIndexes {
  readonly createIndex: number | null;
  readonly modifyIndex: number | null;
}
