import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { replaceFile, syncDirectory } from "../files.ts";
import { codeOf } from "../log.ts";
import { PLACES, type Place } from "./mount-table.ts";

interface Use {
  readonly pluginId: string;
  readonly externalId: string;
  readonly allocId: string;
}

const published = z.object({
  pluginId: z.string(),
  externalId: z.string(),
  allocId: z.string(),
  /** The target path, and what the plugin made there. */
  path: z.string(),
  place: z.enum(PLACES),
  /** Empty for a plugin that does not stage. */
  staging: z.string(),
});
/** A volume that is published on this node. */
export type Published = z.infer<typeof published>;

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

  /** Records a completed publication, for inspections of the volume. */
  async published(use: Use, place: Place, staging: string): Promise<void> {
    const { pluginId, externalId, allocId } = use;
    const record: Published = { pluginId, externalId, allocId, path: this.target(use), place, staging };
    await replaceFile(join(this.#directory(use), digest(allocId)), JSON.stringify(record));
  }

  /** The published volumes of a plugin. Publications of agents before 0.2.0 have no record, and are missing. */
  async all(pluginId: string): Promise<Published[]> {
    const root = join(this.#root, pluginId, "uses");
    const found: Published[] = [];
    for (const volume of await entriesOf(root))
      for (const use of await entriesOf(join(root, volume))) {
        const content = await readFile(join(root, volume, use), "utf8").catch(() => "");
        const parsed = published.safeParse(content === "" ? null : jsonOf(content));
        if (parsed.success) found.push(parsed.data);
      }
    return found;
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
    return entriesOf(this.#directory(use));
  }

  #directory({ pluginId, externalId }: Omit<Use, "allocId">): string {
    return join(this.#root, pluginId, "uses", digest(externalId));
  }
}

async function entriesOf(directory: string): Promise<string[]> {
  try {
    // A record that is being replaced is no further use.
    return (await readdir(directory)).filter((name) => !name.endsWith(".next"));
  } catch (failure) {
    if (codeOf(failure) === "ENOENT") return [];
    throw failure;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function removeIfEmpty(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (failure) {
    if (!["ENOENT", "ENOTEMPTY", "ENOTDIR", "EBUSY"].includes(codeOf(failure) ?? "")) throw failure;
  }
}
