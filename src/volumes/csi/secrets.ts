import type { CsiVolume, Texts } from "../../contracts/csi-volumes.ts";
import type { MountOptions } from "../../contracts/volume-requests.ts";
import type { HiddenParams } from "../../volume-requests/hidden-params.ts";
import type { RegisteredKeys } from "../registered-keys.ts";
import type { CsiVolumeStore } from "./volume-store.ts";

/** Upper bounds of the secrets of one plugin call; the agent protocol permits no less. */
export const MAX_SECRETS = 128;
export const MAX_SECRET_NAME = 128;
export const MAX_SECRET_VALUE = 16_384;

interface Name {
  readonly namespace: string;
  readonly id: string;
}

/** The sealed part of a volume. */
interface Kept {
  readonly secrets: Texts;
  readonly mountFlags: readonly string[];
}
const NONE: Kept = { secrets: {}, mountFlags: [] };

/** The sealed part of an operation. */
export interface Hidden {
  readonly secrets: Texts;
  readonly params: HiddenParams;
}

const contextOf = ({ namespace, id }: Name): string => `csi-volume ${JSON.stringify([namespace, id])}`;
const OPERATION = "csi-operation";
const CLAIM = "csi-claim";

/**
 * Secrets of CSI volumes and data of equal sensitivity: mount flags and publish contexts. They are stored sealed,
 * apart from the visible record, and are sent to their plugins only.
 */
export class CsiSecrets {
  constructor(
    private readonly store: CsiVolumeStore,
    private readonly keys: RegisteredKeys,
  ) {}

  /** The secrets of a volume's plugin calls. @throws Sealed */
  of(name: Name): Texts {
    return this.#kept(name).secrets;
  }

  /** A volume including its mount flags, which its row does not contain. @throws Sealed */
  opened(volume: CsiVolume): CsiVolume {
    const { mount } = volume;
    if (!mount || mount.MountFlags.length === 0) return volume;
    return { ...volume, mount: { ...mount, MountFlags: this.#kept(volume).mountFlags } };
  }

  /**
   * Seals the secret part of a volume; inside the caller's transaction.
   * @param volume including its mount flags
   * @param secrets null = unchanged
   * @throws Sealed
   */
  keep(volume: Name & { readonly mount: MountOptions | null }, secrets: Texts | null): void {
    const kept: Kept = { secrets: secrets ?? this.of(volume), mountFlags: volume.mount?.MountFlags ?? [] };
    if (Object.keys(kept.secrets).length + kept.mountFlags.length === 0 && !this.store.sealed(volume)) return;
    this.keys.register();
    this.store.setSealed(volume, this.keys.open().seal(JSON.stringify(kept), contextOf(volume)));
  }

  /** Seals the secret part of an operation; null when it is empty. @throws Sealed */
  seal(hidden: Hidden): Uint8Array | null {
    if (Object.keys(hidden.secrets).length + Object.keys(hidden.params).length === 0) return null;
    return this.keys.open().seal(JSON.stringify(hidden), OPERATION);
  }

  /** @throws Sealed */
  open(sealed: ArrayBuffer | null): Hidden {
    if (!sealed) return { secrets: {}, params: {} };
    return JSON.parse(this.keys.open().openText(sealed, OPERATION)) as Hidden;
  }

  /** Seals a claim's column; inside the caller's transaction. @throws Sealed */
  sealForClaim(what: unknown): Uint8Array {
    this.hold();
    return this.keys.open().seal(JSON.stringify(what), CLAIM);
  }

  /** @throws Sealed */
  openOfClaim(sealed: ArrayBuffer): unknown {
    return JSON.parse(this.keys.open().openText(sealed, CLAIM));
  }

  /** Records that this object holds data keys; inside the caller's transaction. */
  hold(): void {
    this.keys.register();
  }

  #kept(name: Name): Kept {
    const sealed = this.store.sealed(name);
    return sealed ? (JSON.parse(this.keys.open().openText(sealed, contextOf(name))) as Kept) : NONE;
  }
}
