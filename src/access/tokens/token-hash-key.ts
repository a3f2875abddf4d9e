import { createSecretKey, type KeyObject } from "node:crypto";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { Sealed } from "../../platform/crypto/keyring.ts";

const NAME = "token-hash-key";

/** The key of the hashes by which tokens are found. One for the deployment, sealed at rest, opened once. */
export class TokenHashKey {
  #key: KeyObject | undefined;

  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
  ) {}

  /** @throws Sealed */
  open(): KeyObject {
    if (!this.#key) {
      const sealed = this.#sealed();
      if (!sealed) throw new Sealed(this.keys.sealedBecause() ?? "sealed: the key of the token hashes is missing");
      this.#key = createSecretKey(this.keys.open(sealed, NAME));
    }
    return this.#key;
  }

  /** Creates the key of a fresh deployment. Call inside a transaction. */
  begin(): void {
    if (this.#sealed()) return;
    const key = crypto.getRandomValues(new Uint8Array(32));
    this.sql.exec("INSERT INTO sealed VALUES (?, ?)", NAME, this.keys.seal(key, NAME));
  }

  #sealed(): ArrayBuffer | undefined {
    return this.sql.exec<{ value: ArrayBuffer }>("SELECT value FROM sealed WHERE name = ?", NAME).toArray()[0]?.value;
  }
}
