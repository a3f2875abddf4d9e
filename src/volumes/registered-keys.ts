import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import { accessControl } from "../rpc/stubs.ts";

/** The outbox topic that registers an object as a holder of data keys. */
const TOPIC = "key-holder";

/**
 * Data keys of the cluster registry, which gets its first secret late: the first key is created with it, and the object
 * is registered at `AccessControl`, which sends every new key term to registered objects.
 */
export class RegisteredKeys {
  #keys: DataKeys | undefined;
  /** Whether the registration was enlisted since start. */
  #isEnlisted = false;

  constructor(
    private readonly sql: SqlStorage,
    private readonly env: Env,
    private readonly outbox: Outbox,
    private readonly commit: <T>(change: () => T) => T,
  ) {}

  open(): DataKeys {
    this.#keys ??= new DataKeys(this.sql, "cluster-registry", () => masterKey(this.env));
    return this.#keys;
  }

  /** Enlists the registration; inside the transaction that seals. */
  register(): void {
    if (!this.#isEnlisted) this.outbox.enlistLatest(TOPIC, "", null);
    this.#isEnlisted = true;
  }

  /** Delivers the registration, and catches up with the key term. */
  async deliver(): Promise<void> {
    this.rotate(await accessControl(this.env).holdsKeys("cluster-registry", "main", true));
  }

  rotate(term: number): void {
    this.commit(() => this.open().rotate(term, Date.now()));
  }

  /** Forgets a key that a discarded transaction may have created. */
  onRollback(): void {
    this.#isEnlisted = false;
    this.#keys = undefined;
  }
}
