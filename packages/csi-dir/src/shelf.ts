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

/** Two changes within one tick of the file system clock yield the same modification time. */
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
 * Records with data, one directory each: `<kind>/<id>` with `record.json` and `data`. They are created and removed by
 * a single rename, so none is ever partial. `<kind>-by-name` maps a name to its id before the record exists, so a
 * repeated creation yields the same record. Several processes may share a root: only the list of ids is cached, keyed
 * by the directory's modification time.
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
    // Traversable for users of volumes, but not listable.
    await mkdir(this.#things, { recursive: true, mode: 0o711 });
    await mkdir(this.#names, { recursive: true, mode: 0o700 });
  }

  isId(text: string): boolean {
    return this.#id.test(text);
  }

  data(id: string): string {
    return join(this.#things, id, "data");
  }

  /** Undefined when missing. */
  async find(id: string): Promise<T | undefined> {
    if (!this.isId(id)) return undefined;
    const text = await readIfThere(join(this.#things, id, "record.json"));
    return text === undefined ? undefined : this.#options.schema.parse(JSON.parse(text));
  }

  async named(name: string): Promise<T | undefined> {
    const id = await readIfThere(this.#nameFile(name));
    return id === undefined ? undefined : this.find(id);
  }

  /** In order of creation. Costs one `stat` while the directory is unchanged. */
  async ids(): Promise<readonly string[]> {
    const { mtimeNs: changed, mtimeMs } = await stat(this.#things, { bigint: true });
    if (this.#listed?.changed === changed) return this.#listed.ids;
    const isSettled = BigInt(Date.now()) > mtimeMs + BigInt(CLOCK_TICK_MS);
    const ids = (await readdir(this.#things)).filter((id) => this.isId(id)).sort();
    this.#listed = isSettled ? { changed, ids } : undefined;
    return ids;
  }

  /** The existing or reserved id of a name. */
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

  /** Creates a record. @param fill fills its empty data directory */
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

  /** Releases the name only after the removal is durable. */
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
