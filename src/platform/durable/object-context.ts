import type { Outbox } from "./outbox.ts";

/** Names of the data that a transaction changes for readers of the object; null for everything. */
export type ChangedKeys = readonly string[] | null;

/** A function names them at the end of the transaction. */
export type NameChanges = ChangedKeys | (() => ChangedKeys);

/** Of a transaction that no reader can see. */
export const NOTHING: ChangedKeys = [];

/** The part of a `StoredObject` that its components use: identity, storage, transactions and effects. */
export interface ObjectContext {
  readonly env: Env;
  /** The object's name, or its id when it has none. */
  readonly name: string;
  readonly sql: SqlStorage;
  readonly outbox: Outbox;
  /** Runs `change` as one transaction together with the alarm of its rows, as `StoredObject.commit`. */
  commit<T>(change: () => T, keys?: NameChanges): T;
  /** Continues work after the response was sent. */
  waitUntil(work: Promise<unknown>): void;
}
