import { constants, mkdir, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { HostVolumeCreate } from "@sallyport/agent-protocol";
import { syncDirectory } from "../files.ts";
import { during, fail, type Outcome, oneLine, systemFailure } from "./outcome.ts";
import { lstatIfThere } from "./paths.ts";
import type { CreatedVolume, HostVolumePlugin, Step } from "./plugin.ts";

export const MKDIR = "mkdir";

interface Rights {
  readonly mode: number;
  /** -1 keeps the current owner. */
  readonly uid: number;
  readonly gid: number;
}

/** The built-in plugin: a volume is a directory in the volumes directory, named by its id. */
export class MkdirPlugin implements HostVolumePlugin {
  readonly #volumesDir: string;
  readonly #step: Step;

  constructor(volumesDir: string, step: Step) {
    this.#volumesDir = volumesDir;
    this.#step = step;
  }

  async fingerprint() {
    return { ok: true, version: "0.0.1" } as const;
  }

  async create({ id, parameters }: HostVolumeCreate): Promise<Outcome<CreatedVolume>> {
    const rights = rightsOf(parameters);
    if (!rights.ok) return rights;
    const path = join(this.#volumesDir, id);
    try {
      await mkdir(this.#volumesDir, { recursive: true });
      const found = await lstatIfThere(path);
      if (found !== undefined && !found.isDirectory())
        return fail("plugin", "something that is not a directory is in its place");
      return found ? { ok: true, path, bytes: 0 } : await this.#make(path, this.#unfinished(id), rights);
    } catch (failure) {
      return refused(failure);
    }
  }

  /** A symbolic link in place of the volume is removed itself, not its target. */
  async delete({ id }: HostVolumeCreate): Promise<Outcome> {
    try {
      await rm(this.#unfinished(id), { recursive: true, force: true });
      await this.#step("unfinished directory removed");
      await rm(join(this.#volumesDir, id), { recursive: true, force: true });
      await this.#step("directory removed");
      return { ok: true };
    } catch (failure) {
      return refused(failure);
    }
  }

  /** Renamed into place last: a directory with the final name is complete, after any number of crashes. */
  async #make(path: string, unfinished: string, { mode, uid, gid }: Rights): Promise<Outcome<CreatedVolume>> {
    try {
      await rm(unfinished, { recursive: true, force: true });
      await mkdir(unfinished, { mode: 0o700 });
      await this.#step("directory made");
      // Through the file handle, so that a symbolic link cannot be swapped in.
      const directory = await open(unfinished, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      try {
        // chmod instead of the mode of mkdir, which the umask reduces.
        await directory.chmod(mode);
        await this.#step("mode set");
        if (uid !== -1 || gid !== -1) await directory.chown(uid, gid);
        await this.#step("owner set");
        await directory.sync();
      } finally {
        await directory.close();
      }
      await rename(unfinished, path);
      await this.#step("directory named");
      await syncDirectory(this.#volumesDir);
      return { ok: true, path, bytes: 0 };
    } catch (failure) {
      await rm(unfinished, { recursive: true, force: true });
      return refused(failure);
    }
  }

  #unfinished(id: string): string {
    return join(this.#volumesDir, `.${id}.unfinished`);
  }
}

/** The failed system call and its error. */
function refused(failure: unknown) {
  const call = failure instanceof Error && "syscall" in failure ? String(failure.syscall) : MKDIR;
  return during(call, systemFailure(failure, "plugin"));
}

const HIGHEST_ID = 2 ** 32 - 2;

function rightsOf({ mode = "0700", uid, gid, ...others }: Readonly<Record<string, string>>): Outcome<Rights> {
  const unknown = Object.keys(others)[0];
  if (unknown !== undefined) return fail("invalid", `unknown mkdir parameter: "${oneLine(unknown, 128)}"`);
  if (!/^[0-7]{1,5}$/.test(mode) || Number.parseInt(mode, 8) > 0o7777)
    return fail("invalid", "mkdir parameter mode is not an octal number up to 7777");
  for (const [name, value] of Object.entries({ uid, gid }))
    if (value !== undefined && !(/^\d{1,10}$/.test(value) && Number(value) <= HIGHEST_ID))
      return fail("invalid", `mkdir parameter ${name} is not a number from 0 to ${HIGHEST_ID}`);
  return { ok: true, mode: Number.parseInt(mode, 8), uid: Number(uid ?? -1), gid: Number(gid ?? -1) };
}
