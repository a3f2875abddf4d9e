import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { hostVolumeCreate, uuid } from "@sallyport/agent-protocol";
import * as z from "zod";
import { syncDirectory } from "../files.ts";
import { codeOf } from "../log.ts";
import { systemText } from "./outcome.ts";
import type { Step } from "./plugin.ts";

const place = { path: z.string(), bytes: z.int().nonnegative() };

/**
 * The record of a volume. `creating`: the plugin was called, the path is unknown. `ready`: it exists. `deleting`: it
 * may be gone completely or partly. A volume without plugin was registered.
 */
const record = z.discriminatedUnion("state", [
  z.object({ state: z.literal("creating"), request: hostVolumeCreate }),
  z.object({ state: z.literal("ready"), request: hostVolumeCreate.extend({ pluginId: z.string() }), ...place }),
  z.object({ state: z.literal("deleting"), request: hostVolumeCreate, ...place }),
]);
export type VolumeRecord = z.infer<typeof record>;

const EXTENSION = ".json";

/** The directory of a node's records. */
export const recordsDir = (stateDir: string): string => join(stateDir, "host-volumes");

/** Every record by volume id, or why it is unreadable. Read-only, since an agent may be running. */
export async function readRecords(directory: string): Promise<Map<string, VolumeRecord | string>> {
  const files = await readdir(directory).catch((failure) => {
    if (codeOf(failure) === "ENOENT") return [];
    throw failure;
  });
  const records = new Map<string, VolumeRecord | string>();
  for (const file of files) {
    const id = file.slice(0, -EXTENSION.length);
    if (file.endsWith(EXTENSION) && uuid.safeParse(id).success) records.set(id, await readRecord(directory, id));
  }
  return records;
}

async function readRecord(directory: string, id: string): Promise<VolumeRecord | string> {
  try {
    const parsed = record.safeParse(JSON.parse(await readFile(join(directory, id + EXTENSION), "utf8")));
    if (!parsed.success) return "its record on this node has another form";
    return parsed.data.request.id === id ? parsed.data : "its record on this node is of another volume";
  } catch (failure) {
    return `its record on this node cannot be read: ${systemText(failure)}`;
  }
}

/** One JSON file per volume; files are replaced atomically and synced before the promise resolves. */
export class Records {
  readonly #directory: string;
  readonly #step: Step;

  constructor(directory: string, step: Step) {
    this.#directory = directory;
    this.#step = step;
  }

  /** As `readRecords`, but removes temporary files left by a crash. */
  async load(): Promise<Map<string, VolumeRecord | string>> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    for (const file of await readdir(this.#directory))
      if (file.endsWith(".tmp")) await rm(join(this.#directory, file), { force: true });
    return readRecords(this.#directory);
  }

  async write(value: VolumeRecord): Promise<void> {
    const file = this.#file(value.request.id);
    const temporary = `${file}.tmp`;
    try {
      const handle = await open(temporary, "w", 0o600);
      try {
        await handle.writeFile(JSON.stringify(value));
        await this.#step(`${value.state} written`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, file);
    } catch (failure) {
      await rm(temporary, { force: true });
      throw failure;
    }
    await this.#step(`${value.state} in place`);
    await syncDirectory(this.#directory);
    await this.#step(`${value.state} recorded`);
  }

  async remove(id: string): Promise<void> {
    await rm(this.#file(id), { force: true });
    await this.#step("record removed");
    await syncDirectory(this.#directory);
    await this.#step("record forgotten");
  }

  #file(id: string): string {
    return join(this.#directory, id + EXTENSION);
  }
}
