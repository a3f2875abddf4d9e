import type { DataKeys } from "../platform/crypto/data-keys.ts";

/** Seals the data of a mount's versions. A sealed value is bound to its path and version: it cannot be opened elsewhere. */
export class VersionSealing {
  constructor(
    private readonly keys: DataKeys,
    private readonly mount: string,
  ) {}

  /** @throws Sealed */
  seal(data: string, path: string, version: number): Uint8Array {
    return this.keys.seal(data, this.#context(path, version));
  }

  /** @throws Sealed */
  open(sealed: ArrayBuffer | Uint8Array, path: string, version: number): string {
    return this.keys.openText(sealed, this.#context(path, version));
  }

  #context(path: string, version: number): string {
    return `kv ${this.mount} ${version} ${path}`;
  }
}
