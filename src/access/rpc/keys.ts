import type { KeyHolder, KeysApi } from "../../contracts/access-control.ts";
import { destinationKeyOf } from "../../contracts/destination.ts";
import type { Result } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import type { KeyRotation } from "../system/key-rotation.ts";

/** RPC methods about data keys and the objects that hold them. */
export class KeyMethods implements KeysApi {
  readonly #rotation: KeyRotation;
  readonly #namespaces: NamespaceTree;
  readonly #outbox: Outbox;

  constructor(rotation: KeyRotation, namespaces: NamespaceTree, outbox: Outbox) {
    this.#rotation = rotation;
    this.#namespaces = namespaces;
    this.#outbox = outbox;
  }

  keyStatus(): { term: number; installed: number; pending: number } {
    return this.#rotation.status();
  }

  /** Resolves after one attempt to inform every other object. */
  async rotateKeys(): Promise<Result<null>> {
    const rotated = refuseIfSealed(() => this.#rotation.rotate(Date.now()));
    if (rotated.ok) await this.#outbox.drain("rekey");
    return rotated;
  }

  holdsKeys(kind: KeyHolder, name: string, holds: boolean): number {
    return this.#rotation.register(kind, name, holds);
  }

  admitDestination(name: string): Result<null> {
    const admitted = this.#namespaces.admit(destinationKeyOf(name).namespace);
    if (admitted.ok) this.#rotation.register("sync-destination", name, true);
    return admitted;
  }
}
