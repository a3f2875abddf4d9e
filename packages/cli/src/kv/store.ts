import { z } from "zod";
import { membersOf } from "../../../relay/src/json-text.ts";
import { mapLimit } from "../../../relay/src/wait.ts";
import { type Api, ApiError, encoded } from "../api.ts";
import { Failure } from "../command.ts";
import { checkToken } from "../connect.ts";

/**
 * Secrets of both versions of KV by one path, as `secret/app/db`. Values are JSON texts, because a parsed number loses
 * digits beyond 2^53.
 */

/** A secret or a folder of a mount. */
export interface Place {
  /** Ends with a slash. */
  readonly mount: string;
  readonly version: 1 | 2;
  /** Below the mount; empty for the mount itself. */
  readonly name: string;
}

/** JSON texts by key. */
export type Data = ReadonlyMap<string, string>;

export interface Secret {
  readonly data: Data;
  /** 0 in version 1 of KV. */
  readonly version: number;
  /** Null in version 1 of KV. */
  readonly metadata: string | null;
}

const mountSchema = z.object({
  path: z.string(),
  type: z.string(),
  options: z.object({ version: z.string().nullish() }).nullish(),
});

const actorSchema = z.object({ actor: z.string() }).nullish();

const versionSchema = z.object({
  created_time: z.string(),
  deletion_time: z.string(),
  destroyed: z.boolean(),
  created_by: actorSchema,
  deleted_by: actorSchema,
});

const historySchema = z.object({
  current_version: z.number(),
  versions: z.record(z.string(), versionSchema),
  custom_metadata: z.record(z.string(), z.string()).nullish(),
  max_versions: z.number().default(0),
  cas_required: z.boolean().default(false),
  delete_version_after: z.string().default("0s"),
});
export type History = z.infer<typeof historySchema>;

/** The whole path that a person reads. */
export const shown = ({ mount, name }: Place): string => `${mount}${name}`;

export const isFolder = (path: string): boolean => path.endsWith("/");

/** The secret is not at the version that a write replaces. */
export class OtherVersion extends Failure {}

const LISTS_AT_ONCE = 8;

/** Both versions of KV in one namespace. Costs one request more for the first use of a mount. */
export class Kv {
  readonly #api: Api;
  readonly #mounts: { path: string; version: 1 | 2 }[] = [];

  constructor(api: Api) {
    this.#api = api;
  }

  /** @throws Failure for a path in no KV mount that the token may use */
  async at(path: string): Promise<Place> {
    // The service reads several slashes as one: two spellings of a secret must not pass for two secrets.
    const cut = path.replace(/\/{2,}/g, "/").replace(/^\//, "");
    const known = this.#mounts.find((mount) => `${cut}/`.startsWith(mount.path));
    const { path: mount, version } = known ?? (await this.#mountOf(cut));
    return { mount, version, name: cut.slice(mount.length) };
  }

  /** Like `at` for a secret, which is no folder. @throws Failure */
  async secretAt(path: string): Promise<Place> {
    const place = await this.at(path);
    if (place.name === "" || isFolder(path)) throw new Failure(`${path} is a folder: name a secret`);
    return place;
  }

  async #mountOf(path: string): Promise<{ path: string; version: 1 | 2 }> {
    const fields = await this.#api
      .fields(`sys/internal/ui/mounts/${encoded(path.replace(/\/+$/, ""))}`)
      .catch((failure) => {
        if (failure instanceof ApiError && failure.status === 403) return null;
        throw failure;
      });
    const found = mountSchema.safeParse(fields);
    if (!found.success) await checkToken(this.#api);
    if (!found.success)
      throw new Failure(`${path}: no mount that the token may use has this path: \`sallyport kv list\` shows them`);
    const { path: mount, type, options } = found.data;
    if (type !== "kv" && type !== "generic") throw new Failure(`${mount} is a mount of type ${type}, not of KV`);
    const known = { path: mount, version: options?.version === "2" ? (2 as const) : (1 as const) };
    this.#mounts.push(known);
    return known;
  }

  /** Null for a secret that does not exist, or whose version is deleted. @throws ApiError */
  async read(place: Place, version?: number): Promise<Secret | null> {
    if (place.version === 1) {
      if (version !== undefined) throw new Failure(`${shown(place)}: KV version 1 has no versions`);
      const text = await this.#api.read(requestPath(place, "data"));
      return text === null ? null : { data: membersOf(text), version: 0, metadata: null };
    }
    const query = version === undefined ? undefined : { version: String(version) };
    const text = await this.#api.read(requestPath(place, "data"), query);
    if (text === null) return null;
    const members = membersOf(text);
    const metadata = members.get("metadata") ?? "{}";
    const data = members.get("data") ?? "null";
    if (data === "null") return null;
    return { data: membersOf(data), version: Number(membersOf(metadata).get("version")), metadata };
  }

  /** @throws Failure with the next step when it does not exist */
  async mustRead(place: Place, version?: number): Promise<Secret> {
    const secret = await this.read(place, version);
    if (secret !== null) return secret;
    throw new Failure(`${shown(place)}: ${await this.whyNot(place, version)}`);
  }

  /** A deletion of a path without a secret succeeds, so it is checked before. @throws Failure */
  async mustExist(place: Place, versions: readonly number[] = []): Promise<void> {
    const found = await (place.version === 1 ? this.read(place) : this.history(place)).catch((failure: unknown) => {
      // A token may delete what it may not read.
      if (failure instanceof ApiError && failure.status === 403) return undefined;
      throw failure;
    });
    if (found === null) throw new Failure(`${shown(place)}: ${await this.whyNot(place)}`);
    const known = found !== undefined && "versions" in found ? found.versions : undefined;
    const missing = versions.filter((version) => known !== undefined && known[version] === undefined);
    if (missing.length > 0) throw new Failure(`${shown(place)} has no version ${missing.join(", ")}`);
  }

  /** The reason why a secret has no values, with the next step, as far as the token may look. */
  async whyNot(place: Place, version?: number): Promise<string> {
    const path = shown(place);
    const names = await this.list({ ...place, name: `${place.name}/` }).catch(() => []);
    const folder = names.length === 0 ? "" : `, but a folder: \`sallyport kv list ${path}/\` shows it`;
    const history = place.version === 1 ? null : await this.history(place).catch(() => undefined);
    if (history === null) return `no such secret${folder}`;
    const which = version === undefined ? "its newest version is deleted" : `version ${version} cannot be read`;
    return `${history === undefined ? "no such secret, or " : ""}${which}: \`sallyport kv history ${path}\` shows its versions`;
  }

  /**
   * Replaces the secret.
   * @param cas the version to replace; 0 creates
   * @returns the new version; 0 in version 1 of KV
   * @throws OtherVersion, ApiError
   */
  async write(place: Place, data: Data, cas?: number): Promise<number> {
    if (place.version === 1) {
      await this.#api.call("POST", requestPath(place, "data"), { body: objectText(data) });
      return 0;
    }
    const options = cas === undefined ? "" : `"options":{"cas":${cas}},`;
    return this.#versionOf("POST", place, `{${options}"data":${objectText(data)}}`).catch(async (failure: unknown) => {
      if (!(failure instanceof ApiError && /did not match the current version/.test(failure.reason))) throw failure;
      const current = (await this.history(place).catch(() => null))?.current_version;
      const where = current === undefined ? `is not at version ${cas}` : `is at version ${current}, not ${cas}`;
      throw new OtherVersion(`${shown(place)}: ${where}`);
    });
  }

  /** Changes the given keys; `null` removes one. A token without `patch` reads and replaces with check-and-set. */
  async patch(place: Place, changes: Data): Promise<number> {
    if (place.version === 2) {
      try {
        return await this.#versionOf("PATCH", place, `{"data":${objectText(changes)}}`);
      } catch (failure) {
        if (failure instanceof ApiError && failure.status === 404)
          throw new Failure(`${shown(place)}: ${await this.whyNot(place)}`);
        if (!(failure instanceof ApiError && (failure.status === 403 || failure.status === 405))) throw failure;
      }
    }
    const { data, version } = await this.mustRead(place);
    const merged = new Map([...data, ...changes].filter(([key]) => changes.get(key) !== "null"));
    return this.write(place, merged, version);
  }

  async #versionOf(method: "POST" | "PATCH", place: Place, body: string): Promise<number> {
    const { text } = await this.#api.call(method, requestPath(place, "data"), { body });
    return Number(membersOf(membersOf(text).get("data") ?? "{}").get("version"));
  }

  /** Null for a secret that does not exist. @throws ApiError, Failure for version 1 of KV */
  async history(place: Place): Promise<History | null> {
    if (place.version === 1) throw new Failure(`${shown(place)}: KV version 1 keeps no history`);
    const fields = await this.#api.fields(requestPath(place, "metadata"));
    return fields === null ? null : historySchema.parse(fields);
  }

  /** @throws Failure */
  async mustHistory(place: Place): Promise<History> {
    const history = await this.history(place);
    if (history === null) throw new Failure(`${shown(place)}: ${await this.whyNot(place)}`);
    return history;
  }

  /** The names in a folder. @throws ApiError */
  list(place: Place): Promise<string[]> {
    return this.#api.list(requestPath(place, "metadata").replace(/\/*$/, "/"));
  }

  /**
   * Every secret below a folder, or the secret itself, in the order of names.
   * @param isSkipped decides about folders that the token may not list; without it they are failures
   */
  async below(place: Place, isSkipped = (_folder: Place): boolean => false): Promise<Place[]> {
    if (place.name !== "" && !isFolder(place.name)) return [place];
    const found: Place[] = [];
    for (let folders = [place]; folders.length > 0; ) {
      const lists = await mapLimit(folders, LISTS_AT_ONCE, async (folder) => {
        const keys = await this.list(folder).catch((failure: unknown) => {
          if (failure instanceof ApiError && failure.status === 403 && isSkipped(folder)) return [];
          throw failure;
        });
        return keys.map((key) => ({ ...folder, name: `${folder.name}${key}` }));
      });
      folders = lists.flat().filter(({ name }) => isFolder(name));
      found.push(...lists.flat().filter(({ name }) => !isFolder(name)));
    }
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Deletes the newest version; in version 1 of KV the secret. */
  async remove(place: Place): Promise<void> {
    await this.#api.call("DELETE", requestPath(place, "data"));
  }

  async act(place: Place, action: "delete" | "undelete" | "destroy", versions: readonly number[]): Promise<void> {
    if (place.version === 1) throw new Failure(`${shown(place)}: KV version 1 has no versions`);
    await this.#api.write(requestPath(place, action), { versions }, action === "destroy" ? "PUT" : "POST");
  }

  /** Removes the secret with all its versions. */
  async removeAll(place: Place): Promise<void> {
    await this.#api.call("DELETE", requestPath(place, "metadata"));
  }

  /** Sets what describes the secret beside its versions. */
  async describe(
    place: Place,
    { custom_metadata, max_versions, cas_required, delete_version_after }: History,
  ): Promise<void> {
    const fields = { max_versions, cas_required, delete_version_after, ...(custom_metadata && { custom_metadata }) };
    await this.#api.write(requestPath(place, "metadata"), fields);
  }

  /** The paths of the mounts that the token may use, by their accessors. */
  async mountsByAccessor(): Promise<Record<string, string>> {
    const { secret = {} } = (await this.#api.fields("sys/internal/ui/mounts")) ?? {};
    const mounts = z
      .record(z.string(), z.object({ accessor: z.string().default("") }))
      .catch({})
      .parse(secret);
    return Object.fromEntries(Object.entries(mounts).map(([path, { accessor }]) => [accessor, path]));
  }

  /** The paths of the KV mounts that the token may use. */
  async mounts(): Promise<string[]> {
    const fields = (await this.#api.fields("sys/internal/ui/mounts")) ?? {};
    const mounts = z
      .record(z.string(), z.object({ type: z.string() }))
      .catch({})
      .parse(fields["secret"]);
    if (Object.keys(mounts).length === 0) await checkToken(this.#api);
    return Object.entries(mounts)
      .filter(([, { type }]) => type === "kv" || type === "generic")
      .map(([path]) => path)
      .sort();
  }
}

/** The path of a request below `v1/`. */
export function requestPath({ mount, version, name }: Place, kind: string): string {
  return version === 1 ? encoded(`${mount}${name}`) : `${encoded(mount)}${kind}/${encoded(name)}`;
}

export const objectText = (data: Data): string =>
  `{${[...data].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join()}}`;

/** A value as a person writes it: a string as it is, everything else as JSON. */
export const plain = (value: string): string => (value.startsWith('"') ? z.string().parse(JSON.parse(value)) : value);
