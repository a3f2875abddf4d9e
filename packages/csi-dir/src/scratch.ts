import { randomUUID } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** Where things are before they are in place, and after they have left it. Each process keeps its own. */
export class Scratch {
  readonly #directory: string;

  constructor(root: string) {
    this.#directory = join(root, "tmp");
  }

  /** Removes what processes that are gone have left. */
  async prepare(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    for (const name of await readdir(this.#directory))
      if (!isAlive(Number.parseInt(name, 10))) await rm(join(this.#directory, name), { recursive: true, force: true });
  }

  /** A path that nobody uses. */
  path(): string {
    return join(this.#directory, `${process.pid}-${randomUUID()}`);
  }
}

/** A process with our own number was an earlier life: in a container each has the same. */
function isAlive(pid: number): boolean {
  if (!(pid > 0) || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (failure) {
    return failure instanceof Error && "code" in failure && failure.code === "EPERM";
  }
}
