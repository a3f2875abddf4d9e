import { createHash, randomBytes } from "node:crypto";
import { chmod, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type * as z from "zod";
import { readIfThere, replaceFile, type Step, syncDirectory, writeSynced } from "./files.ts";
import { codeOf } from "./refusal.ts";
import type { Scratch } from "./scratch.ts";

interface Named {
  readonly id: string;
  readonly name: string;
}

/** Two changes of a directory within one tick of the file system's clock leave the same time on it. */
const CLOCK_TICK_MS = 1_000;

interface ShelfOptions<T> {
  readonly root: string;
  readonly kind: "volumes" | "snapshots";
  readonly prefix: "vol" | "snap";
  readonly schema: z.ZodType<T>;
  readonly scratch: Scratch;
  readonly step: Step;
}

/**
 * Things that are a directory each: `<kind>/<id>` with `record.json` and `data`. They come and go by one rename, so there is
 * never half of one. `<kind>-by-name` knows the id of a name before the thing itself is there, so whoever repeats a
 * creation that was cut off makes the same thing. Several processes may share a root: memory holds only the list of ids, which is
 * read again when the directory has changed.
 */
export class Shelf<T extends Named> {
  readonly #options: ShelfOptions<T>;
  readonly #things: string;
  readonly #names: string;
  readonly #id: RegExp;
  #listed: { readonly changed: bigint; readonly ids: readonly string[] } | undefined;

  constructor(options: ShelfOptions<T>) {
    this.#options = options;
    this.#things = join(options.root, options.kind);
    this.#names = join(options.root, `${options.kind}-by-name`);
    this.#id = new RegExp(`^${options.prefix}-[0-9a-z]{11}-[0-9a-f]{8}$`);
  }

  async prepare(): Promise<void> {
    // Passed through by whoever uses a volume, and looked into by nobody else.
    await mkdir(this.#things, { recursive: true, mode: 0o711 });
    await mkdir(this.#names, { recursive: true, mode: 0o700 });
  }

  isId(text: string): boolean {
    return this.#id.test(text);
  }

  data(id: string): string {
    return join(this.#things, id, "data");
  }

  /** Undefined when there is none. */
  async find(id: string): Promise<T | undefined> {
    if (!this.isId(id)) return undefined;
    const text = await readIfThere(join(this.#things, id, "record.json"));
    return text === undefined ? undefined : this.#options.schema.parse(JSON.parse(text));
  }

  async named(name: string): Promise<T | undefined> {
    const id = await readIfThere(this.#nameFile(name));
    return id === undefined ? undefined : this.find(id);
  }

  /** In the order of creation. Costs one `stat` while the directory is unchanged. */
  async ids(): Promise<readonly string[]> {
    const { mtimeNs: changed, mtimeMs } = await stat(this.#things, { bigint: true });
    if (this.#listed?.changed === changed) return this.#listed.ids;
    const isSettled = BigInt(Date.now()) > mtimeMs + BigInt(CLOCK_TICK_MS);
    const ids = (await readdir(this.#things)).filter((id) => this.isId(id)).sort();
    this.#listed = isSettled ? { changed, ids } : undefined;
    return ids;
  }

  /** The id that the thing of this name has, or will have. */
  async idFor(name: string): Promise<string> {
    const { scratch, prefix, step } = this.#options;
    const known = await readIfThere(this.#nameFile(name));
    if (known !== undefined && this.isId(known)) return known;
    const micros = Math.round((performance.timeOrigin + performance.now()) * 1000);
    const id = `${prefix}-${micros.toString(36).padStart(11, "0")}-${randomBytes(4).toString("hex")}`;
    await replaceFile(this.#nameFile(name), id, scratch.path());
    await step("named");
    return id;
  }

  /** Makes a thing: `fill` gets the directory for its data, which is empty. */
  async add(record: T, fill: (data: string) => Promise<void>): Promise<void> {
    const { scratch, step } = this.#options;
    const building = scratch.path();
    try {
      const data = join(building, "data");
      await mkdir(data, { recursive: true });
      await chmod(building, 0o711);
      await fill(data);
      await chmod(data, 0o777);
      await step("filled");
      await writeSynced(join(building, "record.json"), JSON.stringify(record));
      await syncDirectory(building);
      await step("built");
      await rename(building, join(this.#things, record.id));
    } catch (failure) {
      await rm(building, { recursive: true, force: true });
      throw failure;
    }
    await step("in place");
    await syncDirectory(this.#things);
    await step("done");
  }

  async replace(record: T): Promise<void> {
    const { scratch, step } = this.#options;
    await replaceFile(join(this.#things, record.id, "record.json"), JSON.stringify(record), scratch.path());
    await step("replaced");
  }

  /** The name is free only when nothing of the thing can come back. */
  async remove({ id, name }: T): Promise<void> {
    const { scratch, step } = this.#options;
    const leaving = scratch.path();
    try {
      await rename(join(this.#things, id), leaving);
    } catch (failure) {
      if (codeOf(failure) !== "ENOENT") throw failure;
    }
    await step("out of place");
    await syncDirectory(this.#things);
    await rm(this.#nameFile(name), { force: true });
    await step("name free");
    await rm(leaving, { recursive: true, force: true });
    await step("gone");
  }

  #nameFile(name: string): string {
    return join(this.#names, createHash("sha256").update(name).digest("hex"));
  }
}
