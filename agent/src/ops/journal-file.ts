import { type FileHandle, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { syncDirectory } from "../files.ts";
import { codeOf, textOf, warn } from "../log.ts";

interface JournalFileOptions {
  /** Applies each line in order at start. @returns whether the line is intact */
  read: (line: string) => boolean;
  /** The lines of the current state, which replace a grown file. Applying a line twice is harmless. */
  snapshot: () => string[];
  /** The file is not compacted below this size in bytes. */
  replaceAbove: number;
}

/**
 * An append-only file of lines. Each line is on disk before `append` resolves; concurrent lines share one write and
 * one sync. A line torn by a crash or a full disk is cut off. Damage elsewhere is an error, since it would lose
 * accepted operations.
 */
export class JournalFile {
  readonly #path: string;
  #file: FileHandle;
  readonly #options: JournalFileOptions;
  #length: number;
  #replaceAt: number;
  /** The file ends in a partial line of a failed write. */
  #torn = false;
  #waiting: Array<{ line: string; resolve: () => void; reject: (failure: unknown) => void }> = [];
  #writing: Promise<void> | undefined;

  private constructor(path: string, file: FileHandle, options: JournalFileOptions, length: number) {
    this.#path = path;
    this.#file = file;
    this.#options = options;
    this.#length = length;
    this.#replaceAt = options.replaceAbove;
  }

  /** @throws when a line in the middle is damaged */
  static async open(path: string, options: JournalFileOptions): Promise<JournalFile> {
    const file = await openOrCreate(path);
    try {
      const content = await file.readFile();
      let length = 0;
      let bad: number | undefined;
      for (let number = 1, start = 0; start < content.length; number++) {
        const end = content.indexOf(10, start);
        const whole = end >= 0 && options.read(content.toString("utf8", start, end));
        if (whole && bad !== undefined) throw new Error(`line ${bad} of ${path} is damaged`);
        if (!whole) bad ??= number;
        start = end < 0 ? content.length : end + 1;
        if (whole) length = start;
      }
      if (length < content.length) {
        await file.truncate(length);
        await file.sync();
      }
      return new JournalFile(path, file, options, length);
    } catch (failure) {
      await file.close();
      throw failure;
    }
  }

  /** @throws when the line could not be written; it is then not in the file */
  append(line: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** Replaces the file now. Called before the first `append`. */
  compact(): Promise<void> {
    return this.#replace();
  }

  async #write(): Promise<void> {
    // Appends of one event form one batch.
    await null;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0);
      try {
        await this.#writeAll(Buffer.from(batch.map(({ line }) => `${line}\n`).join("")));
        for (const { resolve } of batch) resolve();
      } catch (failure) {
        // Cut at once, so that no refused line survives a crash. If that fails, before the next line.
        await this.#cutTorn().catch(() => {});
        for (const { reject } of batch) reject(failure);
      }
      if (this.#length > this.#replaceAt) await this.#replace();
    }
    this.#writing = undefined;
  }

  async #writeAll(bytes: Buffer): Promise<void> {
    await this.#cutTorn();
    this.#torn = true;
    let written = 0;
    while (written < bytes.length) {
      const { bytesWritten } = await this.#file.write(bytes, written, bytes.length - written, this.#length + written);
      written += bytesWritten;
    }
    await this.#file.datasync();
    this.#torn = false;
    this.#length += bytes.length;
  }

  async #cutTorn(): Promise<void> {
    if (this.#torn) await this.#file.truncate(this.#length);
    this.#torn = false;
  }

  /** A failed compaction leaves the file as it was. */
  async #replace(): Promise<void> {
    const next = `${this.#path}.next`;
    const content = Buffer.from(
      this.#options
        .snapshot()
        .map((line) => `${line}\n`)
        .join(""),
    );
    try {
      const file = await open(next, "w", 0o600);
      try {
        await file.writeFile(content);
        await file.sync();
        await rename(next, this.#path);
      } catch (failure) {
        await file.close();
        throw failure;
      }
      const old = this.#file;
      this.#file = file;
      this.#length = content.length;
      this.#torn = false;
      await old.close();
      await syncDirectory(dirname(this.#path));
    } catch (failure) {
      warn("journal_not_compacted", { message: textOf(failure) });
    }
    this.#replaceAt = Math.max(this.#options.replaceAbove, 2 * this.#length);
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
  }
}

async function openOrCreate(path: string): Promise<FileHandle> {
  try {
    return await open(path, "r+");
  } catch (failure) {
    if (codeOf(failure) !== "ENOENT") throw failure;
    const file = await open(path, "wx+", 0o600);
    await syncDirectory(dirname(path));
    return file;
  }
}
