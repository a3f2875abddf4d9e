/** Reads of the rows of one statement. */

type Values = readonly SqlStorageValue[];

/** The first row; null for none. */
export const firstRow = <Row extends Record<string, SqlStorageValue>>(
  sql: SqlStorage,
  query: string,
  ...values: Values
): Row | null => sql.exec<Row>(query, ...values).toArray()[0] ?? null;

export const hasRow = (sql: SqlStorage, query: string, ...values: Values): boolean =>
  firstRow(sql, query, ...values) !== null;

/** The texts of the only column. */
export const column = (sql: SqlStorage, query: string, ...values: Values): string[] =>
  [...sql.exec(query, ...values).raw<[string]>()].map(([text]) => text);
