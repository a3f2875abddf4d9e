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

/** Ids come from outside and may be anything, so paths are made of their digests. */
const digest = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32);

/**
 * Who uses which volume on this node, as files: counted in memory, a restart would take volumes from those that use them. A
 * volume is staged at one place, and published at one for each allocation.
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

  /** Before the plugin is told: what may be there is known. */
  async add(use: Use): Promise<void> {
    const directory = this.#directory(use);
    await mkdir(directory, { recursive: true, mode: 0o711 });
    await (await open(join(directory, digest(use.allocId)), "w", 0o600)).close();
    await syncDirectory(directory);
    await mkdir(dirname(this.target(use)), { recursive: true, mode: 0o711 });
    await mkdir(this.staging(use), { recursive: true, mode: 0o711 });
  }

  /** After the plugin has said that it is gone. @returns whether nobody uses the volume any more */
  async remove(use: Use): Promise<boolean> {
    const directory = this.#directory(use);
    await rm(join(directory, digest(use.allocId)), { force: true });
    // Never what is in them: it would be the volume's.
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
