import { createHash } from "node:crypto";
import { mkdir, open, readdir, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { syncDirectory } from "../files.ts";
import { codeOf } from "../log.ts";

interface Use {
  readonly pluginId: string;
  readonly externalId: string;
  readonly allocId: string;
}

/** Ids are external input, so paths contain their digests. */
const digest = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32);

/**
 * The uses of volumes on this node, stored as files, so that a restart keeps them. A volume has one staging path, and
 * one target path per allocation.
 */
export class Uses {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  staging({ pluginId, externalId }: Omit<Use, "allocId">): string {
    return join(this.#root, pluginId, "staged", digest(externalId));
  }

  target({ pluginId, externalId, allocId }: Use): string {
    return join(this.#root, pluginId, "published", digest(allocId), digest(externalId));
  }

  async isHere(use: Use): Promise<boolean> {
    return (await this.#others(use)).includes(digest(use.allocId));
  }

  /** Recorded before the plugin is called, so that a possible mount is always known. */
  async add(use: Use): Promise<void> {
    const directory = this.#directory(use);
    await mkdir(directory, { recursive: true, mode: 0o711 });
    await (await open(join(directory, digest(use.allocId)), "w", 0o600)).close();
    await syncDirectory(directory);
    await mkdir(dirname(this.target(use)), { recursive: true, mode: 0o711 });
    await mkdir(this.staging(use), { recursive: true, mode: 0o711 });
  }

  /** Removed after the plugin has confirmed the unpublish. @returns whether no use remains */
  async remove(use: Use): Promise<boolean> {
    const directory = this.#directory(use);
    await rm(join(directory, digest(use.allocId)), { force: true });
    // Never recursive: the content would be the volume's.
    await removeIfEmpty(this.target(use));
    await removeIfEmpty(dirname(this.target(use)));
    return (await this.#others(use)).length === 0;
  }

  async forget(use: Use): Promise<void> {
    await removeIfEmpty(this.staging(use));
    await removeIfEmpty(this.#directory(use));
  }

  async #others(use: Use): Promise<string[]> {
    try {
      return await readdir(this.#directory(use));
    } catch (failure) {
      if (codeOf(failure) === "ENOENT") return [];
      throw failure;
    }
  }

  #directory({ pluginId, externalId }: Omit<Use, "allocId">): string {
    return join(this.#root, pluginId, "uses", digest(externalId));
  }
}

async function removeIfEmpty(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (failure) {
    if (!["ENOENT", "ENOTEMPTY", "ENOTDIR", "EBUSY"].includes(codeOf(failure) ?? "")) throw failure;
  }
}
