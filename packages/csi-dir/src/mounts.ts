import { createHash } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { readIfThere, replaceFile, type Step, syncDirectory, unlessMissing } from "./files.ts";
import type { Scratch } from "./scratch.ts";

const mount = z.object({
  kind: z.enum(["staged", "published"]),
  volumeId: z.string(),
  nodeId: z.string(),
  /** The staging path or the target path. */
  path: z.string(),
  readonly: z.boolean(),
  mode: z.int(),
});
export type Mount = z.infer<typeof mount>;

/** The uses of volumes on nodes: one file per use, in one directory per volume. */
export class Mounts {
  readonly #directory: string;
  readonly #scratch: Scratch;
  readonly #step: Step;

  constructor(directory: string, { scratch, step }: { scratch: Scratch; step: Step }) {
    this.#directory = directory;
    this.#scratch = scratch;
    this.#step = step;
  }

  async prepare(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
  }

  async find(volumeId: string, nodeId: string, path: string): Promise<Mount | undefined> {
    return this.#read(this.#file(volumeId, nodeId, path));
  }

  async of(volumeId: string): Promise<Mount[]> {
    const directory = join(this.#directory, volumeId);
    const files = (await unlessMissing(readdir(directory))) ?? [];
    const mounts = await Promise.all(files.map((file) => this.#read(join(directory, file))));
    return mounts.filter((found) => found !== undefined);
  }

  async put(mount: Mount): Promise<void> {
    await mkdir(join(this.#directory, mount.volumeId), { recursive: true, mode: 0o700 });
    const file = this.#file(mount.volumeId, mount.nodeId, mount.path);
    await replaceFile(file, JSON.stringify(mount), this.#scratch.path());
    await this.#step("mount noted");
  }

  async remove({ volumeId, nodeId, path }: Mount): Promise<void> {
    await rm(this.#file(volumeId, nodeId, path), { force: true });
    await syncDirectory(join(this.#directory, volumeId));
    await this.#step("mount forgotten");
  }

  /** Removes the uses of a deleted volume, which has none left. */
  async forget(volumeId: string): Promise<void> {
    await rm(join(this.#directory, volumeId), { recursive: true, force: true });
  }

  async #read(file: string): Promise<Mount | undefined> {
    const text = await readIfThere(file);
    return text === undefined ? undefined : mount.parse(JSON.parse(text));
  }

  #file(volumeId: string, nodeId: string, path: string): string {
    return join(this.#directory, volumeId, createHash("sha256").update(`${nodeId}\n${path}`).digest("hex"));
  }
}
