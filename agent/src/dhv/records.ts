import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { hostVolumeCreate, uuid } from "@sallyport/agent-protocol";
import * as z from "zod";
import { syncDirectory } from "../files.ts";
import { systemText } from "./outcome.ts";
import type { Step } from "./plugin.ts";

const place = { path: z.string(), bytes: z.int().nonnegative() };

/**
 * What a node remembers of a volume. `creating`: the plugin was told to, and where the volume is, is not known yet.
 * `ready`: it exists. `deleting`: it may be gone, wholly or in part. A volume without a plugin was registered.
 */
const record = z.discriminatedUnion("state", [
  z.object({ state: z.literal("creating"), request: hostVolumeCreate }),
  z.object({ state: z.literal("ready"), request: hostVolumeCreate.extend({ pluginId: z.string() }), ...place }),
  z.object({ state: z.literal("deleting"), request: hostVolumeCreate, ...place }),
]);
export type VolumeRecord = z.infer<typeof record>;

const ENDING = ".json";

/** One JSON file a volume; a file is replaced as a whole, and is on the disk when its promise is fulfilled. */
export class Records {
  readonly #directory: string;
  readonly #step: Step;

  constructor(directory: string, step: Step) {
    this.#directory = directory;
    this.#step = step;
  }

  /** Every record by the volume's id, or in words why it cannot be read. */
  async load(): Promise<Map<string, VolumeRecord | string>> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const records = new Map<string, VolumeRecord | string>();
    for (const file of await readdir(this.#directory)) {
      const id = file.slice(0, -ENDING.length);
      if (file.endsWith(ENDING) && uuid.safeParse(id).success) records.set(id, await this.#read(id));
      else if (file.endsWith(".tmp")) await rm(join(this.#directory, file), { force: true });
    }
    return records;
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
    return join(this.#directory, id + ENDING);
  }

  async #read(id: string): Promise<VolumeRecord | string> {
    try {
      const parsed = record.safeParse(JSON.parse(await readFile(this.#file(id), "utf8")));
      if (!parsed.success) return "its record on this node has another form";
      return parsed.data.request.id === id ? parsed.data : "its record on this node is of another volume";
    } catch (failure) {
      return `its record on this node cannot be read: ${systemText(failure)}`;
    }
  }
}
