/** Reads of mounts and secrets. Version 1 and version 2 of the engine differ in their paths only here. */
import { api, isMissing, type Schemas } from "../../api/client.ts";
import { secretsNamespace } from "../../api/namespaces.ts";
import type { KvMount } from "./addresses.ts";

interface OtherMount {
  readonly path: string;
  readonly type: string;
  readonly description: string;
}

export interface Mounts {
  readonly kv: readonly KvMount[];
  readonly others: readonly OtherMount[];
}

/** Engines that hold nothing of people's own. */
const INTERNAL = new Set(["cubbyhole", "identity", "system"]);

export async function readMounts(signal?: AbortSignal): Promise<Mounts> {
  const { data } = await api("GET /v1/sys/internal/ui/mounts", { signal });
  const all = Object.entries(data.secret).map(([path, mount]) => ({ ...mount, path: path.replace(/\/$/, "") }));
  const kv = all
    .filter(({ type }) => type === "kv")
    .map((mount): KvMount => {
      const details = "accessor" in mount ? mount : null;
      return {
        path: mount.path,
        description: mount.description,
        version: mount.options?.["version"] === "2" ? 2 : 1,
        details,
      };
    });
  return { kv, others: all.filter(({ type }) => type !== "kv" && !INTERNAL.has(type)) };
}

const FOLDER_PAGE = 1_000;

interface FolderPage {
  /** Names in the folder; those of folders end with a slash. */
  readonly names: readonly string[];
  /** The name behind which the next page begins; null on the last one. */
  readonly next: string | null;
}

/** A page of a folder. @param folder empty, or with a slash at its end */
export async function listFolder(
  { path: mount, version, namespace }: KvMount,
  folder: string,
  after: string | null,
  signal?: AbortSignal,
): Promise<FolderPage> {
  const query = { limit: FOLDER_PAGE, ...(after === null ? {} : { after }) };
  const shared = { mount, query, signal, ...(namespace !== undefined && { namespace }) };
  const path = folder.replace(/\/$/, "");
  try {
    const { data } = await (version === 2
      ? path === ""
        ? api("LIST /v1/secret/metadata", shared)
        : api("LIST /v1/secret/metadata/{path}", { ...shared, path: { path } })
      : path === ""
        ? api("LIST /v1/kv-v1", shared)
        : api("LIST /v1/kv-v1/{path}", { ...shared, path: { path } }));
    const names = data.keys;
    return { names, next: names.length >= FOLDER_PAGE ? (names.at(-1) ?? null) : null };
  } catch (failure) {
    // An empty folder is none.
    if (isMissing(failure)) return { names: [], next: null };
    throw failure;
  }
}

/** Folders that the caller may list and secrets that it may read, as its rules name them, where it may not list all. */
export async function namedByRules({ path: mount, version }: KvMount, signal?: AbortSignal): Promise<string[]> {
  const rules = (await api("GET /v1/sys/internal/ui/resultant-acl", { signal, quiet: true })).data;
  // Paths of the rules are relative to the root namespace.
  const namespace = secretsNamespace.peek();
  const at = `${namespace && `${namespace}/`}${mount}/`;
  const [lists, reads] = version === 2 ? [`${at}metadata/`, `${at}data/`] : [at, at];
  const named = (all: typeof rules.exact_paths, right: string, start: string): string[] =>
    Object.entries(all).flatMap(([path, { capabilities }]) =>
      path.startsWith(start) && path !== start && !/[+]/.test(path) && (capabilities as string[]).includes(right)
        ? [path.slice(start.length)]
        : [],
    );
  const folders = [...named(rules.glob_paths, "list", lists), ...named(rules.exact_paths, "list", lists)]
    .map((path) => path.slice(0, path.lastIndexOf("/") + 1))
    .filter(Boolean);
  const isOutermost = (folder: string): boolean =>
    !folders.some((other) => other !== folder && folder.startsWith(other));
  const secrets = named(rules.exact_paths, "read", reads).filter(
    (path) => !path.endsWith("/") && !folders.some((folder) => path.startsWith(folder)),
  );
  return [...new Set([...folders.filter(isOutermost), ...secrets])].sort();
}

export type SecretData = Readonly<Record<string, unknown>>;

export interface Version {
  /** Null for a version that is deleted or destroyed. */
  readonly data: SecretData | null;
  readonly metadata: Schemas["SecretVersion"];
}

/** One version of a secret; 0 is the newest. Null when there is no such secret. */
export async function readVersion(
  mount: string,
  path: string,
  version: number,
  signal?: AbortSignal,
): Promise<Version | null> {
  const query = version > 0 ? { version } : {};
  const { data } = (await api("GET /v1/secret/data/{path}", {
    mount,
    path: { path },
    query,
    signal,
    accept: [404],
    sensitive: true,
  })) as { data?: Version };
  return data ?? null;
}

interface SecretPlace {
  readonly mount: string;
  readonly path: string;
  /** Where it is not the selected one. */
  readonly namespace?: string;
}

/** The newest version, read in the background. Null when there is no such secret. */
export async function readNewest({ path, ...at }: SecretPlace, signal?: AbortSignal): Promise<Version | null> {
  const read = { ...at, path: { path }, signal, accept: [404], sensitive: true, quiet: true };
  return ((await api("GET /v1/secret/data/{path}", read)) as { data?: Version }).data ?? null;
}

export const isSame = (one: SecretData, other: SecretData): boolean => sorted(one) === sorted(other);

const sorted = (data: SecretData): string => JSON.stringify(Object.entries(data).sort(([a], [b]) => (a < b ? -1 : 1)));

/** Metadata of a secret, versions included. Null when there is no such secret. */
export async function readMetadata(
  mount: string,
  path: string,
  signal?: AbortSignal,
): Promise<Schemas["SecretMetadata"] | null> {
  try {
    return (await api("GET /v1/secret/metadata/{path}", { mount, path: { path }, signal })).data;
  } catch (failure) {
    if (isMissing(failure)) return null;
    throw failure;
  }
}

export type VersionState = "live" | "deleted" | "destroyed";

export function stateOf({
  deletion_time,
  destroyed,
}: {
  readonly deletion_time: string;
  readonly destroyed: boolean;
}): VersionState {
  if (destroyed) return "destroyed";
  return deletion_time !== "" && Date.parse(deletion_time) <= Date.now() ? "deleted" : "live";
}
