import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { access, constants, lstat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { HostVolumeCreate } from "@sallyport/agent-protocol";
import * as z from "zod";
import { during, type Failure, fail, type Outcome, oneLine, systemText } from "./outcome.ts";
import { isBelow, isReallyBelow, lstatIfThere, pathFault } from "./paths.ts";
import type { CreatedVolume, HostVolumePlugin, PluginLimits, Step } from "./plugin.ts";
import { type Ended, execute } from "./run.ts";

/** A configured plugin: the file of that name in the plugin directory. */
export interface AllowedPlugin {
  readonly name: string;
  /** SHA-256 of the file in hexadecimal; other content is refused. */
  readonly sha256?: string | undefined;
}

/** The environment and limits of all executable plugins of a node. */
export interface PluginSite {
  readonly volumesDir: string;
  readonly pluginDir: string;
  readonly nodeId: string;
  readonly nodePool: string;
  /** Permitted locations of volumes: the volumes directory and the configured roots. */
  readonly roots: readonly string[];
  readonly limits: PluginLimits;
  /** Receives the plugins' stderr, which stays on the node. */
  readonly log: (line: string) => void;
  readonly step: Step;
}

export const PLUGIN_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Upper bound of invalid output quoted in a message. */
const MAX_QUOTED = 512;

/** Writable by group or others. */
const OTHERS_WRITE = 0o022;

/** The plugin of a configured file, if only the operator can have written that file. */
export async function findExecutable(
  site: PluginSite,
  { name, sha256 }: AllowedPlugin,
): Promise<Outcome<{ readonly plugin: HostVolumePlugin }>> {
  if (!PLUGIN_NAME.test(name)) return fail("forbidden", `not a name of a plugin: "${oneLine(name, 128)}"`);
  const file = join(site.pluginDir, name);
  const found = await lstatIfThere(file);
  if (found === undefined) return fail("missing", `no such plugin: "${name}"`);
  // Symbolic links are refused: their target could change without a change of the plugin directory.
  if (!found.isFile()) return fail("forbidden", `plugin is not a regular file: "${name}"`);
  if ((found.mode & OTHERS_WRITE) !== 0) return fail("forbidden", `plugin can be changed by others: "${name}"`);
  if (((await lstat(site.pluginDir)).mode & OTHERS_WRITE) !== 0)
    return fail("forbidden", `plugin directory can be changed by others: plugin "${name}" is not run`);
  if (!(await isExecutable(file))) return fail("unavailable", `plugin not executable: "${name}"`);
  if (sha256 !== undefined && (await digestOf(file)) !== sha256.toLowerCase())
    return fail("forbidden", `plugin is not the file that the configuration allows (sha256): "${name}"`);
  return { ok: true, plugin: new ExecutablePlugin(site, name, file) };
}

const isExecutable = (file: string) =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  );

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return hash.digest("hex");
}

const fingerprintAnswer = z.object({ version: z.string().regex(/^[\w.+~:-]{1,128}$/) });
const createAnswer = z.object({ path: z.string(), bytes: z.int().nonnegative().nullish() });
const errorAnswer = z.object({ error: z.string() });

class ExecutablePlugin implements HostVolumePlugin {
  readonly #site: PluginSite;
  readonly #name: string;
  readonly #file: string;

  constructor(site: PluginSite, name: string, file: string) {
    this.#site = site;
    this.#name = name;
    this.#file = file;
  }

  async fingerprint(): Promise<Outcome<{ version: string }>> {
    const ended = await this.#run("fingerprint", {}, this.#site.limits.fingerprintMs, "");
    if (!ended.ok) return ended;
    const answer = fingerprintAnswer.safeParse(jsonOf(ended.stdout));
    if (!answer.success) return fail("plugin", "answered without a version");
    return { ok: true, version: answer.data.version };
  }

  async create(volume: HostVolumeCreate): Promise<Outcome<CreatedVolume>> {
    const capacity = {
      DHV_CAPACITY_MIN_BYTES: String(volume.capacityMin),
      DHV_CAPACITY_MAX_BYTES: String(volume.capacityMax),
    };
    const ended = await this.#runFor("create", volume, capacity);
    await this.#site.step("plugin created");
    if (!ended.ok) return ended;
    const answer = createAnswer.safeParse(jsonOf(ended.stdout));
    // The plugin has exited, so nothing runs; a partial volume is the plugin's to find on the next create.
    if (!answer.success) return fail("plugin", `answered without a path${saidBy(ended.stdout)}`);
    const { path, bytes } = answer.data;
    const fault = await this.#faultOf(path);
    if (fault !== undefined) return fail("plugin", `answered a path that ${fault}${saidBy(ended.stdout)}`);
    return { ok: true, path, bytes: bytes ?? 0 };
  }

  async delete(volume: HostVolumeCreate, path: string): Promise<Outcome> {
    const ended = await this.#runFor("delete", volume, { DHV_CREATED_PATH: path });
    await this.#site.step("plugin deleted");
    return ended.ok ? { ok: true } : ended;
  }

  /** The fault of a path returned by the plugin. */
  async #faultOf(path: string): Promise<string | undefined> {
    const fault = pathFault(path);
    if (fault !== undefined) return fault;
    const outside = "is not below the volumes directory or an allowed root";
    const roots = this.#site.roots.filter((root) => isBelow(root, path));
    if (roots.length === 0) return outside;
    try {
      for (const root of roots) if (await isReallyBelow(root, path)) return undefined;
    } catch (failure) {
      return `cannot be used: ${systemText(failure)}`;
    }
    return outside;
  }

  #runFor(operation: "create" | "delete", volume: HostVolumeCreate, more: Record<string, string>) {
    const { volumesDir, pluginDir, nodeId, nodePool, limits } = this.#site;
    const parameters = Object.keys(volume.parameters).length === 0 ? null : volume.parameters;
    const environment = {
      DHV_VOLUMES_DIR: volumesDir,
      DHV_PLUGIN_DIR: pluginDir,
      DHV_NODE_POOL: nodePool,
      DHV_NODE_ID: nodeId,
      DHV_NAMESPACE: volume.namespace,
      DHV_VOLUME_NAME: volume.name,
      DHV_VOLUME_ID: volume.id,
      DHV_PARAMETERS: JSON.stringify(parameters),
      ...more,
    };
    return this.#run(operation, environment, limits.operationMs, ` "${volume.id}"`);
  }

  async #run(
    operation: string,
    environment: Record<string, string>,
    limitMs: number,
    subject: string,
  ): Promise<Outcome<{ stdout: string }>> {
    const { pluginDir, limits, log } = this.#site;
    const ended = await execute({
      file: this.#file,
      argument: operation,
      directory: pluginDir,
      environment: { DHV_OPERATION: operation, ...environment },
      limitMs,
      limits,
    });
    for (const line of ended.stderr.split("\n")) {
      const text = oneLine(line);
      if (text !== "") log(`plugin "${this.#name}" ${operation}${subject}: ${text}`);
    }
    return failureOf(ended, limitMs, limits) ?? { ok: true, stdout: ended.stdout };
  }
}

/** Why a run failed. The outcome is certain if the plugin exited, and unknown if it was killed. */
function failureOf({ how, stdout, flooded }: Ended, limitMs: number, limits: PluginLimits): Failure | undefined {
  switch (how.type) {
    case "exit":
      if (flooded) return fail("plugin", `wrote more than ${limits.stdoutBytes} bytes to stdout${saidBy(stdout)}`);
      if (how.code === 0) return undefined;
      return fail("plugin", `exit code ${how.code}${saidBy(stdout)}`);
    case "signal":
      return fail("plugin", `was killed by ${how.signal}${saidBy(stdout)}`, "unknown");
    case "timeout":
      return fail("timeout", `did not end within ${limitMs} ms`, "unknown");
    case "not-started":
      return during("could not be started", fail("plugin", systemText(how.failure)));
  }
}

/** The error in a plugin's output, or the beginning of invalid output. */
function saidBy(stdout: string): string {
  const answer = errorAnswer.safeParse(jsonOf(stdout));
  const said = answer.success ? oneLine(answer.data.error) : oneLine(stdout.slice(0, MAX_QUOTED), MAX_QUOTED);
  return said === "" ? "" : `: ${said}`;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
