import type { Outbox } from "./outbox.ts";

/** The part of a `StoredObject` that its components use: identity, storage, transactions and effects. Types only. */
export interface ObjectContext {
  readonly env: Env;
  /** The object's name, or its id when it has none. */
  readonly name: string;
  readonly sql: SqlStorage;
  readonly outbox: Outbox;
  /** Runs `change` as one transaction together with the alarm of its rows, as `StoredObject.commit`. */
  commit<T>(change: () => T): T;
  /** Continues work after the response was sent. */
  waitUntil(work: Promise<unknown>): void;
}
