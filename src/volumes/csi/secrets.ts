import type { CsiVolume, Texts } from "../../contracts/csi-volumes.ts";
import type { HiddenParams } from "../../contracts/hidden-params.ts";
import type { MountOptions } from "../../contracts/volume-asks.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
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

/** What of a volume is sealed. */
interface Kept {
  readonly secrets: Texts;
  readonly mountFlags: readonly string[];
}
const NONE: Kept = { secrets: {}, mountFlags: [] };

/** What of an operation is sealed. */
export interface Hidden {
  readonly secrets: Texts;
  readonly params: HiddenParams;
}

const contextOf = ({ namespace, id }: Name): string => `csi-volume ${JSON.stringify([namespace, id])}`;
const OPERATION = "csi-operation";
const CLAIM = "csi-claim";

/**
 * Secrets of CSI volumes, and what else is as sensitive: flags of mounts, and what controllers tell node services. They lie
 * apart from what is shown, sealed, and leave only for their plugins.
 */
export class CsiSecrets {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** What a volume's plugin is shown. @throws Sealed */
  of(name: Name): Texts {
    return this.#kept(name).secrets;
  }

  /** A volume with the flags of its mounts, which its row does not hold. @throws Sealed */
  opened(volume: CsiVolume): CsiVolume {
    const { mount } = volume;
    if (!mount || mount.MountFlags.length === 0) return volume;
    return { ...volume, mount: { ...mount, MountFlags: this.#kept(volume).mountFlags } };
  }

  /**
   * Keeps what of a volume is sealed, inside the caller's transaction.
   * @param volume with the flags of its mounts
   * @param secrets null = as they are
   * @throws Sealed
   */
  keep(volume: Name & { readonly mount: MountOptions | null }, secrets: Texts | null): void {
    const { store, keys, holdKeys } = this.#host;
    const kept: Kept = { secrets: secrets ?? this.of(volume), mountFlags: volume.mount?.MountFlags ?? [] };
    if (Object.keys(kept.secrets).length + kept.mountFlags.length === 0 && !store.sealed(volume)) return;
    holdKeys();
    store.setSealed(volume, keys().seal(JSON.stringify(kept), contextOf(volume)));
  }

  /** For an operation's row; null when there is nothing. @throws Sealed */
  seal(hidden: Hidden): Uint8Array | null {
    if (Object.keys(hidden.secrets).length + Object.keys(hidden.params).length === 0) return null;
    return this.#host.keys().seal(JSON.stringify(hidden), OPERATION);
  }

  /** @throws Sealed */
  open(sealed: ArrayBuffer | null): Hidden {
    if (!sealed) return { secrets: {}, params: {} };
    return JSON.parse(this.#host.keys().openText(sealed, OPERATION)) as Hidden;
  }

  /** For a claim's row, inside the caller's transaction. @throws Sealed */
  sealForClaim(what: unknown): Uint8Array {
    this.hold();
    return this.#host.keys().seal(JSON.stringify(what), CLAIM);
  }

  /** @throws Sealed */
  openOfClaim(sealed: ArrayBuffer): unknown {
    return JSON.parse(this.#host.keys().openText(sealed, CLAIM));
  }

  /** Something sealed is being written, inside the caller's transaction. */
  hold(): void {
    this.#host.holdKeys();
  }

  #kept(name: Name): Kept {
    const sealed = this.#host.store.sealed(name);
    return sealed ? (JSON.parse(this.#host.keys().openText(sealed, contextOf(name))) as Kept) : NONE;
  }
}
