import { type Api, ApiError, encoded } from "../api.ts";
import { canonicalJson } from "../json.ts";
import {
  DEFAULT_VERSIONS,
  type History,
  type Mount,
  type Settings,
  settingsIn,
  type Versions,
  valueIn,
  versionsIn,
} from "./history.ts";

/**
 * Brings one secret of the service to the history of its source. There is no record of the progress: each run compares
 * the versions that exist, and appends the next ones with check-and-set, so that a version cannot be written twice.
 * Costs two reads here for a secret that is complete, and one write for each version otherwise.
 */

type Outcome =
  /** `blank`: versions whose value the source no longer has. They exist here as destroyed ones. */
  | { readonly kind: "written"; readonly versions: number; readonly blank: number }
  | { readonly kind: "unchanged" }
  | { readonly kind: "differs"; readonly reason: string };

export interface Rules {
  /** Values of version 1 that differ are replaced. */
  readonly overwrite: boolean;
  /** How many versions before the oldest one may be written and destroyed to keep version numbers. */
  readonly maxGap: number;
  /** How many versions the mount keeps. */
  readonly mountVersions: number;
}

/** Stands for a version whose value the source no longer has, until it is destroyed. */
const BLANK = "{}";
/** How often a secret is compared again without a new version, because a write did not find the version before it. */
const ROUNDS = 5;

class Conflict extends Error {}

/** @throws ApiError */
export async function writeSecret(
  api: Api,
  mount: Mount,
  name: string,
  source: History,
  rules: Rules,
): Promise<Outcome> {
  if (mount.version === 1) return writeValue(api, mount, name, source, rules);
  const target = new Target(api, mount, name);
  let [first, reached, stuck] = [-1, -1, 0];
  for (;;) {
    try {
      const blank = await complete(target, source, rules);
      const versions = source.current - (first < 0 ? target.current : first);
      return versions + target.changes > 0 ? { kind: "written", versions, blank } : { kind: "unchanged" };
    } catch (failure) {
      if (failure instanceof Conflict) return { kind: "differs", reason: failure.message };
      // Another writer, or a repeated request whose first answer was lost.
      if (!isMismatch(failure)) throw failure;
      if (first < 0) first = target.current;
      stuck = target.current > reached ? 0 : stuck + 1;
      if (stuck === ROUNDS) throw failure;
      reached = target.current;
    }
  }
}

const isMismatch = (failure: unknown): boolean =>
  failure instanceof ApiError && failure.status === 400 && failure.reason.includes("check-and-set");

/** The secret in the service. */
class Target {
  readonly #api: Api;
  readonly #mount: string;
  readonly #name: string;
  /** Writes other than versions. */
  changes = 0;
  /** The newest version when the secret was compared. */
  current = 0;

  constructor(api: Api, mount: Mount, name: string) {
    this.#api = api;
    this.#mount = mount.path;
    this.#name = name;
  }

  #path(kind: string): string {
    return encoded(`${this.#mount}${kind}/${this.#name}`);
  }

  async state(): Promise<(Versions & { readonly settings: Settings }) | null> {
    const fields = await this.#api.fields(this.#path("metadata"));
    const versions = fields && versionsIn(fields);
    this.current = versions?.current ?? 0;
    return fields && versions && { ...versions, settings: settingsIn(fields) };
  }

  async value(version: number): Promise<string | null> {
    return valueIn(await this.#api.read(this.#path("data"), { version: String(version) }));
  }

  async append(version: number, value: string): Promise<void> {
    const body = `{"options":{"cas":${version - 1}},"data":${value}}`;
    await this.#api.call("POST", this.#path("data"), { body });
  }

  async set(settings: Settings): Promise<void> {
    await this.#api.write(this.#path("metadata"), { ...settings, custom_metadata: settings.custom_metadata ?? {} });
    this.changes += 1;
  }

  async destroy(versions: readonly number[]): Promise<void> {
    await this.#api.write(this.#path("destroy"), { versions }, "PUT");
    this.changes += 1;
  }
}

/** @returns the number of versions without a value that it wrote @throws Conflict, ApiError */
async function complete(target: Target, source: History, { maxGap, mountVersions }: Rules): Promise<number> {
  const state = await target.state();
  const { current } = target;
  if (current > source.current) throw new Conflict(`has ${current} versions here, and ${source.current} at the source`);
  const blanks = await compare(target, source, state);
  const oldest = Math.min(...source.states.keys(), source.current + 1);
  if (current < source.current && oldest - 1 > maxGap)
    throw new Conflict(`${oldest - 1} versions before the oldest one: more than --max-gap`);

  const kept = source.current - oldest + 1;
  const limit = Math.max(source.settings.max_versions, mountVersions) || DEFAULT_VERSIONS;
  const needsRoom = current < source.current && (oldest > 1 || kept > limit);
  // Settings first: `delete_version_after` concerns later versions only.
  const during = needsRoom ? { ...source.settings, max_versions: Math.max(1, kept) } : source.settings;
  if (!isEqual(state?.settings, during) && (state !== null || !isEmpty(during) || source.current === 0))
    await target.set(during);
  let blank = 0;
  for (let version = current + 1; version <= source.current; version++) {
    const value = source.states.get(version) === "live" ? await source.value(version) : null;
    await target.append(version, value ?? BLANK);
    if (value !== null) continue;
    blank += 1;
    // Earlier ones are removed already.
    if (version > source.current - Math.max(during.max_versions, mountVersions, oldest > 1 ? 0 : limit))
      blanks.push(version);
  }
  if (blanks.length > 0) await target.destroy(blanks);
  if (!isEqual(during, source.settings)) await target.set(source.settings);
  return blank;
}

/** @returns blank versions of an interrupted run, which are to be destroyed @throws Conflict */
async function compare(target: Target, source: History, state: Versions | null): Promise<number[]> {
  const blanks: number[] = [];
  for (const [version, here] of state?.states ?? []) {
    if (version > source.current) break;
    const there = source.states.get(version);
    if (here !== "live") {
      if (there === "live") throw new Conflict(`version ${version} is ${here} here, and live at the source`);
      continue;
    }
    const value = await target.value(version);
    const isBlank = value !== null && canonicalJson(value) === BLANK;
    if (there === "live") {
      const wanted = await source.value(version);
      if (wanted === null || value === null || canonicalJson(wanted) !== canonicalJson(value))
        throw new Conflict(`version ${version} has another value here`);
    } else if (isBlank) blanks.push(version);
    else throw new Conflict(`version ${version} is live here, and ${there ?? "removed"} at the source`);
  }
  return blanks;
}

async function writeValue(
  api: Api,
  mount: Mount,
  name: string,
  source: History,
  { overwrite }: Rules,
): Promise<Outcome> {
  const path = encoded(mount.path + name);
  const wanted = await source.value(source.current);
  if (wanted === null) return { kind: "differs", reason: "deleted at the source while it was read" };
  const found = await api.read(path);
  if (found !== null && canonicalJson(found) === canonicalJson(wanted)) return { kind: "unchanged" };
  if (found !== null && !overwrite)
    return { kind: "differs", reason: "has another value here: --overwrite replaces it" };
  await api.call("POST", path, { body: wanted });
  return { kind: "written", versions: 1, blank: 0 };
}

const isEqual = (a: Settings | undefined, b: Settings): boolean => a !== undefined && textOf(a) === textOf(b);

const isEmpty = (settings: Settings): boolean => textOf(settings) === textOf(settingsIn({}));

const textOf = (settings: Settings): string => canonicalJson(JSON.stringify(settings));
