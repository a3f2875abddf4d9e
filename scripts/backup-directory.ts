/** Backups as files of a directory. A file appears under its name when it is whole and on the disk. */
import {
  closeSync,
  createWriteStream,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeStream } from "node:stream/web";
import { type BackupStore, isBackupName, type Stored } from "./backup-store.ts";

const PARTIAL = /^sallyport-\w+\.snapshot\.partial$/;

export class DirectoryStore implements BackupStore {
  readonly #dir: string;
  #isPrepared = false;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async names(): Promise<string[]> {
    try {
      this.#prepare();
      return readdirSync(this.#dir).filter(isBackupName).sort();
    } catch (failure) {
      throw new Error(`BACKUP_DIR ${this.#dir} cannot be used: ${(failure as Error).message}`);
    }
  }

  /** Makes the directory, and removes files that a crash has left; once, with the first use. */
  #prepare(): void {
    if (this.#isPrepared) return;
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(this.#dir)) if (PARTIAL.test(name)) rmSync(join(this.#dir, name));
    this.#isPrepared = true;
  }

  async put(name: string, content: ReadableStream<Uint8Array>): Promise<Stored> {
    const path = join(this.#dir, name);
    const source = Readable.fromWeb(content as NodeStream);
    try {
      await pipeline(source, createWriteStream(`${path}.partial`, { mode: 0o600, flush: true }));
      renameSync(`${path}.partial`, path);
      synchronise(this.#dir);
    } catch (failure) {
      rmSync(`${path}.partial`, { force: true });
      throw failure;
    }
    return { place: path, bytes: statSync(path).size };
  }

  async remove(name: string): Promise<void> {
    rmSync(join(this.#dir, name), { force: true });
  }
}

/** Makes a renamed file durable. */
function synchronise(dir: string): void {
  const handle = openSync(dir, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
