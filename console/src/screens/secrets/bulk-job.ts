/**
 * Bulk actions on secrets: one request after another with the caller's rights. The tab's storage keeps names and
 * outcomes, never a value, so that a reload continues with the items that are left. Each action may run twice on an
 * item: a crash between an item and its mark repeats the item.
 */
import { ApiError, api, isTokenRefused } from "../../api/client.ts";
import { secretsNamespace } from "../../api/namespaces.ts";
import { caller } from "../../api/session.ts";
import { inParallel } from "../../lib/parallel.ts";
import { syncWord } from "../../lib/sync-status.ts";
import { isFailing, setSecret, worstOf } from "../sync/reads.ts";
import { isSame, readNewest, type SecretData } from "./reads.ts";

interface Engine {
  readonly mount: string;
  readonly version: 1 | 2;
}

export type BulkAction =
  | { readonly kind: "delete"; readonly isForever: boolean }
  | (Engine & { readonly kind: "copy" | "move"; readonly folder: string })
  | { readonly kind: "sync"; readonly type: string; readonly name: string };

export interface BulkItem {
  readonly path: string;
  readonly state: "left" | "done" | "refused";
  /** Why it was refused, or a note about what was done. */
  readonly note?: string;
}

export interface BulkJob extends Engine {
  /** The caller who began it: another one in the same tab does not see it. */
  readonly owner: string;
  readonly namespace: string;
  /** Folder of the selection: the part of a path that a copy replaces. */
  readonly folder: string;
  readonly action: BulkAction;
  readonly items: readonly BulkItem[];
}

/** Items of a job: their names have room in the storage of a tab. */
export const MAX_ITEMS = 10_000;
const MAX_CONCURRENT = 4;
const KEY = "sallyport.bulk";

export const owner = (): string => `${caller.value?.namespace ?? ""}/${caller.value?.name ?? ""}`;

/** The unfinished or unread job of this tab and caller; of a token that may not look itself up there is none. */
export function storedJob(): BulkJob | null {
  try {
    const job = JSON.parse(sessionStorage.getItem(KEY) ?? "null") as BulkJob | null;
    const isOwn = caller.value?.accessor && job?.owner === owner() && job.namespace === secretsNamespace.value;
    return isOwn && Array.isArray(job.items) ? job : null;
  } catch {
    return null;
  }
}

export function storeJob(job: BulkJob | null): void {
  if (job === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, JSON.stringify(job));
}

export const targetOf = ({ folder, action }: Pick<BulkJob, "folder" | "action">, path: string): string =>
  action.kind === "copy" || action.kind === "move" ? action.folder + path.slice(folder.length) : path;

/**
 * Performs the items that are left, a few at a time, until the last one or until the signal aborts. An item that was
 * begun is finished. `onItem` gets each outcome.
 * @throws ApiError when the service is away, throttles, or has ended the session
 */
export async function runJob(job: BulkJob, signal: AbortSignal, onItem: (item: BulkItem) => void): Promise<void> {
  const left = job.items.filter(({ state }) => state === "left");
  let outage: ApiError | null = null;
  await inParallel(left, MAX_CONCURRENT, async ({ path }) => {
    if (signal.aborted || outage) return;
    try {
      const note = await perform(job, path);
      onItem({ path, state: "done", ...(note && { note }) });
    } catch (failure) {
      // Without the service nothing is known of the item: it is left, and so are the others.
      if (failure instanceof ApiError && isOutage(failure)) outage = failure;
      else onItem({ path, state: "refused", note: failure instanceof Error ? failure.message : String(failure) });
    }
  });
  if (outage) throw outage;
}

/** The session has ended, too: the next one continues. */
const isOutage = (failure: ApiError): boolean =>
  failure.isOffline || failure.status === 429 || failure.status >= 502 || isTokenRefused(failure);

async function perform(job: BulkJob, path: string): Promise<string> {
  const { action } = job;
  switch (action.kind) {
    case "delete":
      return remove(job, path, action.isForever);
    case "sync":
      return sync(job, path, action);
    default:
      return transfer(job, path, targetOf(job, path), action);
  }
}

const at = (mount: string, path: string) => ({ mount, path: { path }, quiet: true }) as const;

async function remove({ mount, version }: Engine, path: string, isForever: boolean): Promise<string> {
  if (version === 1) await api("DELETE /v1/kv-v1/{path}", at(mount, path));
  else if (isForever) await api("DELETE /v1/secret/metadata/{path}", at(mount, path));
  else await api("DELETE /v1/secret/data/{path}", at(mount, path));
  return "";
}

async function sync(
  { mount }: BulkJob,
  path: string,
  { type, name }: { readonly type: string; readonly name: string },
): Promise<string> {
  const { data } = await setSecret({ type, name }, mount, path);
  const worst = "associated_secrets" in data ? worstOf(Object.values(data.associated_secrets)) : undefined;
  if (worst && isFailing(worst.sync_status)) throw new Error(worst.error_message ?? syncWord(worst.sync_status));
  return worst ? syncWord(worst.sync_status) : "";
}

const isCasRefused = (failure: unknown): boolean =>
  failure instanceof ApiError && failure.status === 400 && /check-and-set/.test(failure.message);

interface Newest {
  readonly data: SecretData;
  /** Null in version 1, where only the values tell of a change. */
  readonly number: number | null;
  readonly custom: Readonly<Record<string, string>>;
}

/** The newest values of a secret; null without. */
export async function newestOf({ mount, version }: Engine, path: string): Promise<Newest | null> {
  if (version === 1) {
    const read = { ...at(mount, path), accept: [404], sensitive: true };
    const { data } = (await api("GET /v1/kv-v1/{path}", read)) as { readonly data?: SecretData };
    return data ? { data, number: null, custom: {} } : null;
  }
  const found = await readNewest({ mount, path });
  if (!found?.data) return null;
  const { custom_metadata: custom } = found.metadata as { readonly custom_metadata?: Record<string, string> | null };
  return { data: found.data, number: found.metadata.version, custom: custom ?? {} };
}

/** Writes a secret that does not exist. In version 1 nothing refuses one that was written since the read. */
async function create(engine: Engine, path: string, data: SecretData): Promise<boolean> {
  if (engine.version === 1) {
    if (await newestOf(engine, path)) return false;
    await api("POST /v1/kv-v1/{path}", { ...at(engine.mount, path), body: data, sensitive: true });
    return true;
  }
  try {
    const body = { data, options: { cas: 0 } };
    await api("POST /v1/secret/data/{path}", { ...at(engine.mount, path), body, sensitive: true });
    return true;
  } catch (failure) {
    if (isCasRefused(failure)) return false;
    throw failure;
  }
}

/**
 * Copies the newest version with its custom metadata, and for a move deletes the source if it is still what was copied.
 * @returns a note about what was done, or nothing
 */
export async function transfer(
  from: Engine,
  path: string,
  target: string,
  to: Engine & { readonly kind: "copy" | "move" },
): Promise<string> {
  if (to.mount === from.mount && target === path) throw new Error("source and target are the same");
  const source = await newestOf(from, path);
  if (!source) {
    if (to.kind === "move" && (await newestOf(to, target))) return "was moved before";
    throw new Error("the source has no values");
  }
  let note = "";
  let custom: Newest["custom"] = to.version === 2 ? source.custom : {};
  if (!(await create(to, target, source.data))) {
    const found = await newestOf(to, target);
    if (!found || !isSame(found.data, source.data)) throw new Error("the target exists, and was not changed");
    note = "the target had the same values";
    // A target without metadata may be of an attempt that ended before it was written.
    if (Object.keys(found.custom).length > 0) {
      if (Object.keys(custom).length > 0 && !isSame(found.custom, custom)) {
        note += ", and keeps its own metadata";
        if (to.kind === "move") throw new Error(`${note}; the source was kept`);
      }
      custom = {};
    }
  }
  if (Object.keys(custom).length > 0)
    await api("POST /v1/secret/metadata/{path}", { ...at(to.mount, target), body: { custom_metadata: custom } });
  if (to.kind === "copy") return note;
  const now = await newestOf(from, path);
  if (now?.number !== source.number || !isSame(now.data, source.data))
    throw new Error("copied, but the source has changed meanwhile and was kept");
  await remove(from, path, true);
  return note;
}
