import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import type { Migration } from "../durable/migrations.ts";
import { decrypt, encrypt, GCM_OVERHEAD } from "./aes-gcm.ts";
import { type Keyring, parseKeyring, Sealed } from "./keyring.ts";

export const dataKeyMigrations: Migration[] = [
  // One data key for each term, wrapped by the master key with `master_id`.
  `CREATE TABLE data_keys (
      term INTEGER PRIMARY KEY, master TEXT NOT NULL, wrapped BLOB NOT NULL, created INTEGER NOT NULL) STRICT`,
];

const TERM_BYTES = 4;
/** Bytes that sealing adds to a value: the key's term, a nonce and a tag. */
export const SEAL_OVERHEAD = TERM_BYTES + GCM_OVERHEAD;

const utf8 = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

/**
 * The data keys of one object, stored wrapped by the master key. Values are sealed under the key of the newest term. A
 * new master key therefore re-wraps a handful of rows and no value. Every call is synchronous, so a value is sealed in
 * the same transaction as its row.
 */
export class DataKeys {
  #open: Map<number, KeyObject> | undefined;
  #newest = 0;

  /**
   * @param scope the name of the object; it is bound into each wrapped key, so a key cannot be moved to another object.
   */
  constructor(
    private readonly sql: SqlStorage,
    private readonly scope: string,
    private readonly masterKey: () => string | undefined,
  ) {
    // Creates the first key outside any transaction: a rollback cannot remove it while values are already sealed under
    // it.
    this.sealedBecause();
  }

  /** Seals `plain`, bound to `context`. @throws Sealed */
  seal(plain: Uint8Array | string, context: string): Uint8Array {
    const keys = this.#keys();
    const term = Buffer.alloc(TERM_BYTES);
    term.writeUInt32BE(this.#newest);
    const bytes = typeof plain === "string" ? Buffer.from(plain) : plain;
    return Buffer.concat([term, encrypt(this.#keyOf(keys, this.#newest), bytes, context)]);
  }

  /** Opens the output of `seal` for the same `context`. @throws Sealed, also when the value was moved or altered */
  open(sealed: ArrayBuffer | Uint8Array, context: string): Uint8Array {
    const bytes = sealed instanceof Uint8Array ? sealed : new Uint8Array(sealed);
    if (bytes.length < SEAL_OVERHEAD) throw new Sealed("sealed: a stored value is cut short; it was altered");
    const key = this.#keyOf(this.#keys(), new DataView(bytes.buffer, bytes.byteOffset).getUint32(0));
    try {
      return decrypt(key, bytes.subarray(TERM_BYTES), context);
    } catch {
      throw new Sealed("sealed: a stored value does not open under its key; it was altered or moved");
    }
  }

  openText(sealed: ArrayBuffer | Uint8Array, context: string): string {
    return utf8.decode(this.open(sealed, context));
  }

  /** The reason why values cannot be sealed or opened, or null. */
  sealedBecause(): string | null {
    try {
      this.#keys();
      return null;
    } catch (failure) {
      if (failure instanceof Sealed) return failure.message;
      throw failure;
    }
  }

  /**
   * Rotates to `term`; no-op when already there. A new data key seals from now on; every older one is re-wrapped under
   * the newest master key. Earlier master keys can be removed afterwards. Call inside a transaction.
   */
  rotate(term: number, now: number): void {
    const keys = this.#keys();
    const keyring = parseKeyring(this.masterKey());
    for (const [old, key] of keys) this.#store(keyring, old, key.export(), now);
    if (term > this.#newest) this.#store(keyring, term, randomBytes(32), now);
    // Reloaded on next use: after a rollback, memory must not hold a key that is not on disk.
    this.#open = undefined;
  }

  /** Deletes the keys, and so every value, at the end of the object. Call inside a transaction. */
  deleteAll(): void {
    this.sql.exec("DELETE FROM data_keys");
  }

  #keyOf(keys: Map<number, KeyObject>, term: number): KeyObject {
    const key = keys.get(term);
    if (!key) throw new Sealed(`sealed: data key of term ${term} is missing`);
    return key;
  }

  #keys(): Map<number, KeyObject> {
    if (this.#open) return this.#open;
    const keyring = parseKeyring(this.masterKey());
    const keys = new Map<number, KeyObject>();
    const rows = this.sql
      .exec<{ term: number; master: string; wrapped: ArrayBuffer }>(
        "SELECT term, master, wrapped FROM data_keys ORDER BY term",
      )
      .toArray();
    for (const row of rows) {
      const master = keyring.byId.get(row.master);
      if (!master) {
        throw new Sealed(`sealed: this data was sealed under master key ${row.master}, which MASTER_KEY does not hold`);
      }
      try {
        const key = decrypt(master.bytes, new Uint8Array(row.wrapped), this.#context(row.term));
        keys.set(row.term, createSecretKey(key));
      } catch {
        throw new Sealed(`sealed: the data key of term ${row.term} does not open under master key ${row.master}`);
      }
    }
    if (keys.size === 0) {
      const first = randomBytes(32);
      this.#store(keyring, 1, first, Date.now());
      keys.set(1, createSecretKey(first));
    }
    this.#newest = Math.max(...keys.keys());
    this.#open = keys;
    return keys;
  }

  #store(keyring: Keyring, term: number, key: Uint8Array, now: number): void {
    this.sql.exec(
      `INSERT INTO data_keys (term, master, wrapped, created) VALUES (?, ?, ?, ?)
       ON CONFLICT (term) DO UPDATE SET master = excluded.master, wrapped = excluded.wrapped`,
      term,
      keyring.newest.id,
      encrypt(keyring.newest.bytes, key, this.#context(term)),
      now,
    );
  }

  #context(term: number): string {
    return `data-key ${this.scope} ${term}`;
  }
}
