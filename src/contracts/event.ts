/** An event as its producer appends it. The log assigns the index. */
export interface NewEvent {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly FilterKeys: readonly string[] | null;
  /** The account of its line in the backlog: see `Shares`. Not visible to readers. */
  readonly Account?: string;
  /**
   * One key, named after the object; never a secret. `CreateIndex: null` and `ModifyIndex: null` inside become the
   * index. Or its JSON text, split where the index belongs: numbers beyond 2^53, such as nanoseconds, keep all digits.
   */
  readonly Payload: Readonly<Record<string, unknown>> | readonly string[];
}

/** One line of the stream before its index is known. */
export interface Append {
  /** The producer's increasing number; appending is idempotent by source and number. */
  readonly seq: number;
  readonly events: readonly NewEvent[];
}

export interface StreamEvent extends Omit<NewEvent, "Account"> {
  readonly Index: number;
  readonly Payload: Readonly<Record<string, unknown>>;
}
