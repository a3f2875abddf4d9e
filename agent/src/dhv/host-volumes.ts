import { isDeepStrictEqual } from "node:util";
import { type HostVolumeCreate, type HostVolumeDelete, type HostVolumeRegister, uuid } from "@sallyport/agent-protocol";
import { KeyedQueue } from "../keyed-queue.ts";
import { isPluginAway, pluginFault, restorePauseMs, textFault } from "./checks.ts";
import { findExecutable, type PluginSite } from "./executable.ts";
import type { HostVolume, HostVolumesOptions, PluginStatus } from "./host-volume.ts";
import { MKDIR, MkdirPlugin } from "./mkdir.ts";
import { during, type Failure, fail, type Outcome, oneLine, systemFailure, systemText } from "./outcome.ts";
import { checkRegistered } from "./paths.ts";
import { type CreatedVolume, type HostVolumePlugin, PLUGIN_LIMITS } from "./plugin.ts";
import { Records, recordsDir, type VolumeRecord } from "./records.ts";

interface Volume {
  readonly record: VolumeRecord;
  readonly problem: string | undefined;
  /** Failed restores so far, and when the next one may run (ms since 1970). */
  readonly failures?: { readonly count: number; readonly retryAt: number };
}

/** Concurrent restores per plugin. */
const MAX_CONCURRENT_RESTORES = 8;
const MAX_REASON_LENGTH = 1024;
const NOT_RESTORED = "it has not been restored since the agent started";

/**
 * The host volumes of one node. Operations on one volume run in sequence. Each intent is on disk before the plugin
 * runs, so `restore` or a repeated operation completes it after a crash. Operations return defects and disk errors as
 * outcomes; the other methods throw when records are unreadable.
 *
 *   (none) --create--> creating --> ready --delete--> deleting --> (none)
 *                         |           ^ register
 *                         +-- refused: (none)
 */
export class HostVolumes {
  #options: HostVolumesOptions;
  #site: PluginSite;
  readonly #records: Records;
  readonly #mkdir: HostVolumePlugin;
  readonly #queue = new KeyedQueue();
  readonly #volumes = new Map<string, Volume>();
  /** Volumes as they are shown, so that one that has not changed is the same object. */
  readonly #shown = new WeakMap<Volume, HostVolume>();
  /** Reasons of unreadable records, by id. */
  readonly #unreadable = new Map<string, string>();
  /** Reserved names: of existing volumes and of running creations. */
  readonly #names = new Map<string, string>();
  #loaded: Promise<void> | undefined;

  constructor(options: HostVolumesOptions) {
    this.#options = options;
    this.#site = siteOf(options);
    this.#records = new Records(recordsDir(options.stateDir), this.#site.step);
    this.#mkdir = new MkdirPlugin(options.volumesDir, this.#site.step);
  }

  /** Replaces what the node permits; running operations continue with what they began with. */
  configure(permitted: Pick<HostVolumesOptions, "pluginDir" | "allowed" | "registerRoots">): void {
    this.#options = { ...this.#options, ...permitted };
    this.#site = siteOf(this.#options);
  }

  /** Creates a volume with its plugin, or updates an existing one. */
  create(request: HostVolumeCreate): Promise<Outcome<CreatedVolume>> {
    const doing = `error creating volume "${request.id}" with plugin "${oneLine(request.pluginId, 128)}"`;
    return this.#exclusively(request.id, doing, async () => {
      const old = this.#volumes.get(request.id)?.record;
      const fault = textFault(request) ?? pluginFault(old, request.pluginId);
      if (fault !== undefined) return fault;
      const found = await this.#plugin(request.pluginId);
      // An interrupted creation may have happened, and runs again once the plugin is there.
      if (!found.ok) return during(doing, old?.state === "creating" ? { ...found, outcome: "unknown" } : found);
      return this.#named(request, old, async () => {
        const made = await this.#create(found.plugin, request, old);
        return made.ok ? made : during(doing, made);
      });
    });
  }

  /** Registers an existing directory as a volume. It is never deleted from disk. */
  register({ id, name, namespace, hostPath }: HostVolumeRegister): Promise<Outcome<CreatedVolume>> {
    return this.#exclusively(id, `error registering volume "${id}"`, async () => {
      const request = { id, name, namespace, pluginId: "", parameters: {}, capacityMin: 0, capacityMax: 0 };
      const old = this.#volumes.get(id)?.record;
      const fault = textFault(request) ?? pluginFault(old, "");
      if (fault !== undefined) return fault;
      const checked = await this.#checkRegistered(id, hostPath);
      if (!checked.ok) return checked;
      return this.#named(request, old, async () => {
        const stored = await this.#store({ state: "ready", request, path: hostPath, bytes: 0 });
        return stored.ok ? { ok: true, path: hostPath, bytes: 0 } : during(`error registering volume "${id}"`, stored);
      });
    });
  }

  /**
   * Deletes a created volume, or removes the record of a registered one. An unknown id succeeds. With `force`, the
   * record is removed even if the plugin is unavailable or its outcome unknown; a refusal of the plugin stands.
   */
  delete({ id, force = false }: HostVolumeDelete): Promise<Outcome> {
    return this.#exclusively(id, `error deleting volume "${id}"`, async () => {
      const record = this.#volumes.get(id)?.record;
      if (record === undefined) return { ok: true };
      // Its path is unknown, and running its creation again to find it would contradict giving it up.
      if (force && record.state === "creating") return this.#giveUp(record, "its creation has not finished");
      const deleted = await this.#delete(record);
      if (deleted.ok || !force || (deleted.outcome === "failed" && !isPluginAway(deleted))) return deleted;
      return this.#giveUp(record, deleted.message);
    });
  }

  /** Removes the record of a volume that may still exist on disk. */
  async #giveUp({ request: { id } }: VolumeRecord, because: string): Promise<Outcome> {
    this.#site.log(`volume "${id}" is given up, and what is left of it stays: ${because}`);
    await this.#drop(id);
    return { ok: true };
  }

  /**
   * Recreates every unusable volume with its plugin and completes interrupted deletions. A failure affects only its
   * own volume; `volumes` shows the reason. Repeatable: a failing plugin is retried with growing pauses.
   */
  async restore(): Promise<void> {
    await this.#load();
    const waiting = new Map<string, string[]>();
    const now = this.#now();
    for (const [id, { record, problem, failures }] of this.#volumes) {
      if (problem === undefined || (failures && failures.retryAt > now)) continue;
      const { pluginId } = record.request;
      const ids = waiting.get(pluginId);
      if (ids === undefined) waiting.set(pluginId, [id]);
      else ids.push(id);
    }
    // Concurrent, so that a hanging plugin blocks only its own volumes.
    await Promise.all([...waiting.values()].map((ids) => this.#restoreAll(ids)));
  }

  /** The version of the built-in and every allowed plugin, or why it is unusable. */
  fingerprint(): Promise<PluginStatus[]> {
    const names = new Set([MKDIR, ...this.#options.allowed.map(({ name }) => name)]);
    return Promise.all(
      [...names].map(async (name) => {
        const found = await this.#plugin(name);
        const status = found.ok ? await found.plugin.fingerprint() : found;
        if (status.ok) return { name, ...status };
        return { name, ...during(`error fingerprinting plugin "${oneLine(name, 128)}"`, status) };
      }),
    );
  }

  /** The volumes of this node by id. */
  async volumes(): Promise<HostVolume[]> {
    await this.#load();
    const known = [...this.#volumes.values()].map((volume) => this.#show(volume));
    const unreadable = [...this.#unreadable].map(
      ([id, problem]): HostVolume => ({ id, name: id, namespace: "", pluginId: "", path: "", bytes: 0, problem }),
    );
    return [...known, ...unreadable].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  #show(volume: Volume): HostVolume {
    const known = this.#shown.get(volume);
    if (known) return known;
    const { record, problem } = volume;
    const { id, name, namespace, pluginId } = record.request;
    const { path, bytes } = record.state === "creating" ? { path: "", bytes: 0 } : record;
    const shown = { id, name, namespace, pluginId, path, bytes, problem };
    this.#shown.set(volume, shown);
    return shown;
  }

  /** Runs an operation after all earlier ones of the volume. */
  #exclusively<T extends object>(id: string, doing: string, operation: () => Promise<Outcome<T>>): Promise<Outcome<T>> {
    // The id becomes part of paths.
    if (!uuid.safeParse(id).success) return Promise.resolve(fail("invalid", `invalid ID "${oneLine(id, 64)}"`));
    return this.#queue.run(id, async () => {
      try {
        await this.#load();
        const unreadable = this.#unreadable.get(id);
        return unreadable === undefined ? await operation() : fail("internal", `${doing}: ${unreadable}`);
      } catch (failure) {
        return during(doing, systemFailure(failure, "internal", "unknown"));
      }
    });
  }

  /** Reserves the requested name during `operation`, and afterwards if the volume has it. */
  async #named<T extends object>(
    { id, name }: HostVolumeCreate,
    old: VolumeRecord | undefined,
    operation: () => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    const holder = this.#names.get(name) ?? id;
    if (holder !== id) return fail("conflict", "volume name already exists on this node");
    this.#names.set(name, id);
    try {
      return await operation();
    } finally {
      this.#release(id, name);
      if (old !== undefined) this.#release(id, old.request.name);
    }
  }

  #release(id: string, name: string): void {
    if (this.#names.get(name) === id && this.#volumes.get(id)?.record.request.name !== name) this.#names.delete(name);
  }

  async #create(
    plugin: HostVolumePlugin,
    request: HostVolumeCreate,
    old: VolumeRecord | undefined,
  ): Promise<Outcome<CreatedVolume>> {
    if (old?.state !== "ready") {
      const begun = await this.#store({ state: "creating", request });
      if (!begun.ok) return begun;
    }
    // An existing volume keeps its record until the update succeeds, so it stays usable.
    const made = await plugin.create(request);
    if (!made.ok) {
      await this.#creationFailed(made, request, old);
      return made;
    }
    const stored = await this.#store({ state: "ready", request, path: made.path, bytes: made.bytes });
    if (stored.ok) return made;
    if (old?.state === "ready") return stored;
    const undone = await plugin.delete(request, made.path);
    if (undone.ok) {
      await this.#drop(request.id);
      return stored;
    }
    const both = fail(stored.kind, `${stored.message}; nor can it be undone: ${undone.message}`, "unknown");
    await this.#creationFailed(both, request, old);
    return both;
  }

  /** Removes the record of a volume that does not exist. A possibly existing one is kept, so that it can be deleted. */
  async #creationFailed(
    { outcome, message }: Failure,
    request: HostVolumeCreate,
    old: VolumeRecord | undefined,
  ): Promise<void> {
    if (old?.state === "ready") return;
    if (outcome === "unknown") this.#recordFailure(request.id, `its creation has not finished: ${message}`);
    // The refusal of this request does not cover an earlier one that was interrupted.
    else if (old !== undefined && !isDeepStrictEqual(old.request, request)) await this.#store(old);
    else await this.#drop(request.id);
  }

  async #delete(record: VolumeRecord): Promise<Outcome> {
    const { id, pluginId } = record.request;
    if (pluginId === "") {
      await this.#drop(id);
      return { ok: true };
    }
    const doing = `error deleting volume "${id}" with plugin "${pluginId}"`;
    const found = await this.#plugin(pluginId);
    if (!found.ok) return during(doing, found);
    const place = await this.#placeOf(found.plugin, record);
    if (!place.ok && place.outcome === "unknown") return during(doing, place);
    if (place.ok) {
      const { path, bytes } = place;
      // Stored before the deletion, so that after a crash no record shows a deleted volume as ready.
      const begun = await this.#store({ state: "deleting", request: record.request, path, bytes });
      if (!begun.ok) return during(doing, begun);
      const gone = await found.plugin.delete(record.request, path);
      if (!gone.ok) {
        if (gone.outcome === "failed" && record.state === "ready") await this.#store(record);
        else this.#recordFailure(id, `its deletion has not finished: ${gone.message}`);
        return during(doing, gone);
      }
    }
    await this.#drop(id);
    return { ok: true };
  }

  /** The path of a volume. An interrupted creation is completed first, since only its result contains the path. */
  async #placeOf(plugin: HostVolumePlugin, record: VolumeRecord): Promise<Outcome<CreatedVolume>> {
    if (record.state === "creating") return plugin.create(record.request);
    return { ok: true, path: record.path, bytes: record.bytes };
  }

  async #restoreAll(ids: string[]): Promise<void> {
    const next = async (): Promise<void> => {
      for (let id = ids.pop(); id !== undefined; id = ids.pop()) await this.#restore(id);
    };
    await Promise.all(Array.from({ length: MAX_CONCURRENT_RESTORES }, next));
  }

  async #restore(id: string): Promise<void> {
    const restored = await this.#exclusively(id, `error restoring volume "${id}"`, async () => {
      const volume = this.#volumes.get(id);
      if (volume === undefined || volume.problem === undefined) return { ok: true };
      return this.#recreate(volume.record);
    });
    if (restored.ok) return;
    if (isPluginAway(restored)) this.#setProblem(id, restored.message);
    else this.#recordFailure(id, restored.message);
    this.#site.log(restored.message);
  }

  async #recreate(record: VolumeRecord): Promise<Outcome> {
    if (record.state === "deleting") return this.#delete(record);
    const { id, pluginId } = record.request;
    if (pluginId === "" && record.state === "ready") {
      const checked = await this.#checkRegistered(id, record.path);
      if (checked.ok) this.#setProblem(id, undefined);
      return checked;
    }
    const doing = `error restoring volume "${id}" with plugin "${pluginId}"`;
    const found = await this.#plugin(pluginId);
    if (!found.ok) return during(doing, found);
    const made = await found.plugin.create(record.request);
    if (!made.ok) return during(doing, made);
    const { path, bytes } = made;
    const now: VolumeRecord = { state: "ready", request: record.request, path, bytes };
    if (!isDeepStrictEqual(now, record)) return this.#store(now);
    this.#setProblem(id, undefined);
    return { ok: true };
  }

  async #checkRegistered(id: string, path: string): Promise<Outcome> {
    const checked = await checkRegistered(this.#options.registerRoots, path);
    return checked.ok ? checked : during(`could not verify host path for "${id}"`, checked);
  }

  async #plugin(name: string): Promise<Outcome<{ readonly plugin: HostVolumePlugin }>> {
    if (name === MKDIR) return { ok: true, plugin: this.#mkdir };
    const allowed = this.#options.allowed.find((plugin) => plugin.name === name);
    if (allowed === undefined) return fail("forbidden", `plugin is not allowed on this node: "${oneLine(name, 128)}"`);
    try {
      return await findExecutable(this.#site, allowed);
    } catch (failure) {
      return fail("unavailable", `plugin cannot be read: ${systemText(failure)}`);
    }
  }

  /** Reads the records once; the next caller retries after a failure. */
  #load(): Promise<void> {
    this.#loaded ??= this.#readRecords().catch((failure) => {
      this.#loaded = undefined;
      throw failure;
    });
    return this.#loaded;
  }

  async #readRecords(): Promise<void> {
    for (const [id, record] of await this.#records.load()) {
      if (typeof record === "string") {
        this.#unreadable.set(id, record);
        this.#site.log(`volume "${id}": ${record}`);
      } else {
        this.#volumes.set(id, { record, problem: NOT_RESTORED });
        this.#names.set(record.request.name, id);
      }
    }
  }

  async #store(record: VolumeRecord): Promise<Outcome> {
    try {
      await this.#records.write(record);
    } catch (failure) {
      return during("the node cannot store it", systemFailure(failure, "internal"));
    }
    const problems = { creating: "it is being created", deleting: "it is being deleted", ready: undefined };
    this.#volumes.set(record.request.id, { record, problem: problems[record.state] });
    return { ok: true };
  }

  /** Removes a volume's record and releases its name. */
  async #drop(id: string): Promise<void> {
    await this.#records.remove(id);
    const name = this.#volumes.get(id)?.record.request.name;
    this.#volumes.delete(id);
    if (name !== undefined) this.#release(id, name);
  }

  #setProblem(id: string, problem: string | undefined): void {
    const volume = this.#volumes.get(id);
    if (volume === undefined) return;
    this.#volumes.set(id, { ...volume, problem: problem?.slice(0, MAX_REASON_LENGTH).toWellFormed() });
  }

  /** Counts a failed run of the plugin. */
  #recordFailure(id: string, problem: string): void {
    this.#setProblem(id, problem);
    const volume = this.#volumes.get(id);
    if (volume === undefined) return;
    const count = (volume.failures?.count ?? 0) + 1;
    this.#volumes.set(id, { ...volume, failures: { count, retryAt: this.#now() + restorePauseMs(count) } });
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }
}

function siteOf(options: HostVolumesOptions): PluginSite {
  const { volumesDir, registerRoots, limits, log = () => {}, step = () => {} } = options;
  return { ...options, roots: [volumesDir, ...registerRoots], limits: { ...PLUGIN_LIMITS, ...limits }, log, step };
}
