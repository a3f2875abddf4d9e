import { randomUUID } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/**
 * Temporary paths for objects before they are moved into place and after their removal. Paths are unique per process.
 */
export class Scratch {
  readonly #directory: string;

  constructor(root: string) {
    this.#directory = join(root, "tmp");
  }

  /** Removes the paths of dead processes. */
  async prepare(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    for (const name of await readdir(this.#directory))
      if (!isAlive(Number.parseInt(name, 10))) await rm(join(this.#directory, name), { recursive: true, force: true });
  }

  /** An unused path. */
  path(): string {
    return join(this.#directory, `${process.pid}-${randomUUID()}`);
  }
}

/** A process with our own id was an earlier run: in a container every run has the same id. */
function isAlive(pid: number): boolean {
  if (!(pid > 0) || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (failure) {
    return failure instanceof Error && "code" in failure && failure.code === "EPERM";
  }
}
