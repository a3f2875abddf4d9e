import type { DataKeys } from "../../sealing/data-keys.ts";
import type { Texts } from "./volume.ts";
import type { CsiVolumeStore } from "./volume-store.ts";

interface Host {
  readonly store: CsiVolumeStore;
  readonly keys: () => DataKeys;
  /** Notes that this object holds data keys; inside a transaction. */
  readonly holdKeys: () => void;
}

interface Name {
  readonly namespace: string;
  readonly id: string;
}

const contextOf = ({ namespace, id }: Name): string => `csi-volume ${JSON.stringify([namespace, id])}`;
const OPERATION = "csi-operation";

/** Secrets of CSI volumes: they lie apart from the volumes, sealed, and leave only for their plugins. */
export class CsiSecrets {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** What a volume's plugin is shown. @throws Sealed */
  of(name: Name): Texts {
    const sealed = this.#host.store.sealed(name);
    return sealed ? (JSON.parse(this.#host.keys().openText(sealed, contextOf(name))) as Texts) : {};
  }

  /** Keeps a volume's secrets, inside the caller's transaction. @throws Sealed */
  keep(name: Name, secrets: Texts): void {
    const { store, keys, holdKeys } = this.#host;
    if (Object.keys(secrets).length === 0 && !store.sealed(name)) return;
    holdKeys();
    store.setSealed(name, keys().seal(JSON.stringify(secrets), contextOf(name)));
  }

  /** For an operation's row; null when there are none. @throws Sealed */
  seal(secrets: Texts): Uint8Array | null {
    if (Object.keys(secrets).length === 0) return null;
    return this.#host.keys().seal(JSON.stringify(secrets), OPERATION);
  }

  /** @throws Sealed */
  open(sealed: ArrayBuffer | null): Texts {
    return sealed ? (JSON.parse(this.#host.keys().openText(sealed, OPERATION)) as Texts) : {};
  }

  /** Secrets of an operation are being written, inside the caller's transaction. */
  hold(): void {
    this.#host.holdKeys();
  }
}
