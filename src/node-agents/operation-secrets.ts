import type { Operation, OperationResult } from "../contracts/node-operation.ts";
import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import { accessControl } from "../rpc/stubs.ts";
import { type HiddenParams, hiding } from "../volume-requests/hidden-params.ts";
import type { SessionRecord } from "./session-record.ts";

/** The part of an operation that is stored sealed. */
export interface SealedPart {
  readonly secrets?: Operation["secrets"] | undefined;
  readonly hidden?: HiddenParams | null;
}

/**
 * Seals the secrets of a node's operations, and registers the session as a holder of keys with its first secret: most
 * nodes never see one. Owned by `NodeSession`.
 */
export class OperationSecrets {
  #keys: DataKeys | undefined;

  constructor(
    private readonly object: ObjectContext,
    private readonly record: SessionRecord,
  ) {}

  /** @throws Sealed */
  seal(operation: string, part: SealedPart): Uint8Array {
    return this.#dataKeys().seal(JSON.stringify(part), contextOf(operation));
  }

  /** @throws Sealed */
  open(operation: string, sealed: ArrayBuffer): SealedPart {
    return JSON.parse(this.#dataKeys().openText(sealed, contextOf(operation))) as SealedPart;
  }

  /**
   * Seals a result with a publish context, which may hold passwords; null for other results. Call outside of a
   * transaction.
   * @throws Sealed
   */
  sealResult(operation: string, result: OperationResult): string | null {
    if (result.state !== "done" || hiding(result.result)[1] === null) return null;
    return Buffer.from(this.#dataKeys().seal(JSON.stringify(result), resultOf(operation))).toString("base64");
  }

  /** @throws Sealed */
  openResult(operation: string, sealed: string): OperationResult {
    const text = this.#dataKeys().openText(Buffer.from(sealed, "base64"), resultOf(operation));
    return JSON.parse(text) as OperationResult;
  }

  /** Enqueues the registration as a holder of keys, unless it is registered; inside a transaction. */
  register(): void {
    if (!this.record.row.holds_keys) this.#announce();
  }

  /** Enqueues the end of the registration; inside a transaction. */
  unregister(): void {
    if (this.record.row.holds_keys) this.#announce();
  }

  /** Delivers the outbox topic `key-holder`. */
  async deliver(): Promise<() => void> {
    const { env, name } = this.object;
    const term = await accessControl(env).holdsKeys("node-session", name, !this.record.row.revoked);
    this.rotate(term);
    return () => this.record.holdsKeys();
  }

  rotate(term: number): void {
    this.object.commit(() => this.#dataKeys().rotate(term, Date.now()));
  }

  #announce(): void {
    this.object.outbox.enlistLatest("key-holder", "", null);
  }

  #dataKeys(): DataKeys {
    const { sql, env, name } = this.object;
    this.#keys ??= new DataKeys(sql, `node-session ${name}`, () => masterKey(env));
    return this.#keys;
  }
}

const contextOf = (operation: string): string => `node-session operation ${operation}`;
const resultOf = (operation: string): string => `node-session result ${operation}`;
