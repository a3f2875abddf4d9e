import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere, replaceFile } from "./files.ts";
import type { Scratch } from "./scratch.ts";

/** The nodes that have served volumes of this root. */
export class Nodes {
  readonly #directory: string;
  readonly #scratch: Scratch;

  constructor(directory: string, scratch: Scratch) {
    this.#directory = directory;
    this.#scratch = scratch;
  }

  async prepare(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
  }

  async add(id: string): Promise<void> {
    await replaceFile(this.#file(id), id, this.#scratch.path());
  }

  async has(id: string): Promise<boolean> {
    return (await readIfThere(this.#file(id))) !== undefined;
  }

  #file(id: string): string {
    return join(this.#directory, createHash("sha256").update(id).digest("hex"));
  }
}
