/**
 * What was read last, for those who ask the same before anything is written: whoever waited for one change reads alike, and
 * they may be thousands. Not for reads inside a transaction, which may yet be undone: nothing tells of that.
 */
export class SharedRead<Answer> {
  readonly #sql: SqlStorage;
  #last: { readonly key: string; readonly answer: Answer } | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** @param query whatever the answer depends on beside the rows */
  of(query: object, read: () => Answer): Answer {
    const { written } = this.#sql.exec<{ written: number }>("SELECT total_changes() AS written").one();
    const key = JSON.stringify([written, query]);
    if (this.#last?.key !== key) this.#last = { key, answer: read() };
    return this.#last.answer;
  }
}
