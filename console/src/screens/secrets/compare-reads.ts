/** Two sides of a comparison: names, outcomes without values, and copies across by check-and-set. */
import { api, isDenied } from "../../api/client.ts";
import { secretsNamespace } from "../../api/namespaces.ts";
import { inParallel } from "../../lib/parallel.ts";
import { isSame, listFolder, readNewest, type SecretData, type Version } from "./reads.ts";

export interface Side {
  readonly namespace: string;
  readonly mount: string;
  /** A secret, or a folder without the slash at its end; empty for the whole engine. */
  readonly path: string;
}

export interface Outcome {
  /** Path below that of the side; empty for the secret at the path itself. */
  readonly name: string;
  readonly state: "same" | "differs" | "only-left" | "only-right" | "unread";
  /** Number of keys that differ, or why a side was not read. */
  readonly note: string;
}

export interface Found {
  readonly outcomes: readonly Outcome[];
  /** Folders whose names the caller may not list, and those behind the bound. */
  readonly refused: number;
  readonly left: number;
}

/** Requests for names on each side, and secrets that are read, before the comparison ends. */
const MAX_LISTS = 300;
export const MAX_SECRETS = 1_000;
const MAX_CONCURRENT = 6;

export const placeOf = ({ namespace, mount, path }: Side, name: string) => ({
  namespace,
  mount,
  path: name === "" ? path : path === "" ? name : `${path}/${name}`,
});

/** A side in words: the namespace where it is not the selected one. */
export const sideText = ({ namespace, mount, path }: Side): string =>
  `${namespace === secretsNamespace.value ? "" : `${namespace || "root"}: `}${mount}/${path}`;

interface Names {
  readonly names: Set<string>;
  refused: number;
  left: number;
}

/** Names of all secrets below the side's path. @throws ApiError when the path itself may not be listed */
async function readNames({ namespace, mount, path }: Side, signal: AbortSignal): Promise<Names> {
  const found: Names = { names: new Set(), refused: 0, left: 0 };
  const root = path === "" ? "" : `${path}/`;
  const queue: { folder: string; after: string | null }[] = [{ folder: "", after: null }];
  const at = { path: mount, version: 2, namespace, description: "", details: null } as const;
  for (let lists = 0; queue.length > 0 && lists < MAX_LISTS; lists++) {
    const next = queue.shift() as { folder: string; after: string | null };
    try {
      const page = await listFolder(at, root + next.folder, next.after, signal);
      for (const name of page.names)
        if (name.endsWith("/")) queue.push({ folder: next.folder + name, after: null });
        else found.names.add(next.folder + name);
      if (page.next !== null) queue.unshift({ folder: next.folder, after: page.next });
    } catch (failure) {
      if (signal.aborted || !isDenied(failure) || next.folder === "") throw failure;
      found.refused++;
    }
  }
  found.left = queue.length;
  return found;
}

/** Keys that only one side has, or whose values differ. */
export function differingKeys(left: SecretData, right: SecretData): string[] {
  const names = [...new Set([...Object.keys(left), ...Object.keys(right)])].sort();
  return names.filter((name) => JSON.stringify(left[name]) !== JSON.stringify(right[name]));
}

function outcomeOf(name: string, left: Version | null, right: Version | null): Outcome | null {
  const [one, other] = [left?.data ?? null, right?.data ?? null];
  if (one === null && other === null) return null;
  if (other === null) return { name, state: "only-left", note: "" };
  if (one === null) return { name, state: "only-right", note: "" };
  if (isSame(one, other)) return { name, state: "same", note: "" };
  return { name, state: "differs", note: String(differingKeys(one, other).length) };
}

/** Compares one secret; its values are dropped. Null where neither side has values. */
export async function compareOne(left: Side, right: Side, name: string, signal?: AbortSignal): Promise<Outcome | null> {
  try {
    const [one, other] = await Promise.all([left, right].map((side) => readNewest(placeOf(side, name), signal)));
    return outcomeOf(name, one ?? null, other ?? null);
  } catch (failure) {
    if (signal?.aborted || !isDenied(failure)) throw failure;
    return { name, state: "unread", note: failure.message };
  }
}

/** Compares all secrets of both sides. `onRead` gets how many are done and how many there are. */
export async function compare(
  left: Side,
  right: Side,
  signal: AbortSignal,
  onRead: (done: number, total: number) => void,
): Promise<Found> {
  const [one, other] = await Promise.all([readNames(left, signal), readNames(right, signal)]);
  const all = [...one.names.union(other.names)].sort();
  // The path may name a secret, too.
  const names = [...(left.path !== "" && right.path !== "" ? [""] : []), ...all.slice(0, MAX_SECRETS)];
  let done = 0;
  const outcomes = await inParallel(names, MAX_CONCURRENT, async (name) => {
    const outcome = await compareOne(left, right, name, signal);
    onRead(++done, names.length);
    return outcome;
  });
  return {
    outcomes: outcomes
      .filter((outcome) => outcome !== null)
      // A folder is not a secret that the caller may not read.
      .filter(({ name, state }) => !(name === "" && state === "unread" && all.length > 0)),
    refused: one.refused + other.refused,
    left: one.left + other.left + Math.max(0, all.length - MAX_SECRETS),
  };
}

/**
 * Copies keys of a version to the other side, where they replace those of the version that was shown.
 * @param keys null copies the whole secret
 * @throws ApiError when the target has changed since
 */
export async function copyAcross(
  source: Version,
  target: Version | null,
  { namespace, mount, path }: Side,
  keys: readonly string[] | null,
): Promise<void> {
  const from = source.data ?? {};
  const picked = Object.fromEntries((keys ?? Object.keys(from)).map((key) => [key, from[key]]));
  const data = keys === null ? picked : { ...target?.data, ...picked };
  await api("POST /v1/secret/data/{path}", {
    namespace,
    mount,
    path: { path },
    body: { data, options: { cas: target?.metadata.version ?? 0 } },
    sensitive: true,
  });
}
