import * as z from "zod";
import type { MetadataView } from "../../contracts/kv-store.ts";
import { timestamp } from "../../kv/version.ts";
import { goDuration } from "../../lib/go-duration.ts";
import type { Result } from "../../lib/result.ts";
import { badRequest, notFound } from "../../platform/http/errors.ts";
import * as query from "../../platform/http/query-fields.ts";
import { keyPage } from "../server/key-page.ts";
import type { Asked, MountCall } from "../server/route.ts";
import { answer, store } from "./shared.ts";

/**
 * Lists of KV mounts: names of a folder, or with SCAN every path below it
 * (https://openbao.org/api-docs/secret/kv/kv-v2/#list-secrets).
 */

type ListCall = MountCall<never, "path">;

const LIST_PAGE = 5_000;
const DETAILED_PAGE = 200;
/** Longest answer with metadata, in characters; it is built in memory. */
const MAX_DETAILED = 16 * 1024 * 1024;

/** During a gradual deployment, the store may be of a version without attributions and versions of metadata. */
export const metadataData = ({ row, versions }: MetadataView) => ({
  versions: Object.fromEntries(
    versions.map((version) => [
      version.version,
      {
        created_time: timestamp(version.created),
        deletion_time: timestamp(version.deletion),
        destroyed: version.destroyed === 1,
        ...(version.created_by && { created_by: JSON.parse(version.created_by) }),
        ...(version.deleted_by && { deleted_by: JSON.parse(version.deleted_by) }),
      },
    ]),
  ),
  current_version: row.current_version,
  current_metadata_version: row.metadata_version ?? 0,
  oldest_version: row.oldest_version,
  created_time: timestamp(row.created),
  updated_time: timestamp(row.updated),
  max_versions: row.max_versions,
  cas_required: row.cas_required === 1,
  metadata_cas_required: row.metadata_cas_required === 1,
  delete_version_after: goDuration(row.delete_version_after),
  custom_metadata: row.custom_metadata === null ? null : JSON.parse(row.custom_metadata),
});

function folderOf({ params: { path: text = "" } }: ListCall): string {
  return text === "" || text.endsWith("/") ? text : `${text}/`;
}

/**
 * The names of the page that a request asks for, in parts.
 * @param kept chooses among the names of a part; those left out do not count
 */
async function* pages(
  call: ListCall,
  size: number,
  kept = async (keys: string[]): Promise<string[]> => keys,
): AsyncGenerator<string[]> {
  const folder = folderOf(call);
  const { after: first, limit } = keyPage(call.query);
  let left = limit;
  let after = first;
  for (let more = true; more && left > 0; ) {
    const page = await store(call).list(folder, after, Math.min(size, left), call.scan === true);
    const keys = page.keys.length > 0 ? await kept(page.keys) : [];
    if (keys.length > 0) yield keys;
    left -= keys.length;
    after = page.keys.at(-1) ?? after;
    more = page.more;
  }
}

/** Names of a folder, or of everything below it; `after` and `limit` select a part. */
export async function list(call: ListCall): Promise<Response> {
  const keys: string[] = [];
  for await (const page of pages(call, LIST_PAGE)) for (const key of page) keys.push(key);
  if (keys.length === 0) throw notFound();
  return answer(call, { keys });
}

export const MetadataListQuery = z.object({ exclude_deleted: query.flag() });

/** Like `list`; on demand without secrets whose newest version is deleted, or will be at a set time, as upstream. */
export async function metadataList(call: ListCall & Asked<typeof MetadataListQuery>): Promise<Response> {
  if (!call.asked.exclude_deleted) return list(call);
  const folder = folderOf(call);
  const kept = async (page: string[]) => {
    const secrets = page.filter((key) => !key.endsWith("/"));
    const found = await store(call).metadataOf(secrets.map((key) => folder + key));
    const left = new Set(secrets.filter((_key, at) => hasDeletion(found[at])));
    return page.filter((key) => !left.has(key));
  };
  const keys: string[] = [];
  for await (const page of pages(call, DETAILED_PAGE, kept)) keys.push(...page);
  if (keys.length === 0) throw notFound();
  return answer(call, { keys });
}

function hasDeletion(view: Result<MetadataView> | undefined): boolean {
  if (!view?.ok) return true;
  const { row, versions } = view.value;
  const newest = versions.find(({ version }) => version === row.current_version);
  return newest !== undefined && newest.deletion !== null;
}

/**
 * Like `list`, with the metadata of each secret. It needs the right of the list alone, as in OpenBao.
 * @throws RequestError 400 when the answer would be too long
 */
export async function detailedList(call: ListCall): Promise<Response> {
  const folder = folderOf(call);
  const keys: string[] = [];
  const info: Record<string, unknown> = {};
  let length = 0;
  for await (const page of pages(call, DETAILED_PAGE)) {
    const secrets = page.filter((key) => !key.endsWith("/"));
    const found = await store(call).metadataOf(secrets.map((key) => folder + key));
    const metadata = new Map(secrets.map((key, at) => [key, found[at]]));
    for (const key of page) {
      const view = metadata.get(key);
      // Deleted since the names were read.
      if (view?.ok === false) continue;
      keys.push(key);
      info[key] = view ? metadataData(view.value) : {};
      length += JSON.stringify(info[key]).length;
    }
    if (length > MAX_DETAILED) throw badRequest("limit: the answer would be too long; ask for less at a time");
  }
  if (keys.length === 0) throw notFound();
  return answer(call, { keys, key_info: info });
}
