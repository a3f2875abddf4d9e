import type { KvStoreApi } from "../contracts/kv-store.ts";
import type { GivenBack } from "../contracts/read-lease.ts";
import type { StoredObjectApi } from "../contracts/stored-objects.ts";
import { sealed } from "../platform/crypto/refuse-if-sealed.ts";
import { type MethodTable, quick } from "../platform/durable/rpc-methods.ts";
import { expiringSecrets } from "./expiring.ts";
import type { KvParts } from "./kv-parts.ts";
import { listFolder, listPaths } from "./listing.ts";

/**
 * A method about a path, its first parameter. Its answer is held back while changes of the path that it may include are
 * not settled with replicas: see `LeaseOwner`.
 */
const held =
  <Given extends [path: string, ...unknown[]], Answer>(method: (parts: KvParts, ...given: Given) => Answer) =>
  (parts: KvParts, ...given: Given): Answer =>
    parts.leases.hold(method(parts, ...given), given[0]);

/** As `held`, of a small write: those that arrive together are one commit, after which their answers are held. */
const quickWrite = <Given extends [path: string, ...unknown[]], Answer>(
  method: (parts: KvParts, ...given: Given) => Answer,
) => quick(method, ({ leases }: KvParts, answer: Answer, ...[path]: Given) => leases.hold(answer, path));

/** As `held`, of an answer that may include changes of any path. */
const heldOfAny =
  <Given extends unknown[], Answer>(method: (parts: KvParts, ...given: Given) => Answer) =>
  (parts: KvParts, ...given: Given): Answer =>
    parts.leases.hold(method(parts, ...given), null);

/** The parts, for a change of a key that the caller's replica gave back. */
function taking(parts: KvParts, givenBack: GivenBack | undefined): KvParts {
  if (givenBack) parts.leases.takeBack(givenBack);
  return parts;
}

/** RPC methods of `KvStore`. */
export const kvMethods: MethodTable<Omit<KvStoreApi, keyof StoredObjectApi>, KvParts> = {
  // ---- data ----
  put: quickWrite(
    sealed((parts, path, data, cas, rights, by, back) => taking(parts, back).writes.put(path, data, cas, rights, by)),
  ),
  patch: quickWrite(
    sealed((parts, path, patch, cas, by, back) => taking(parts, back).writes.patch(path, patch, cas, by)),
  ),
  read: held(sealed(({ reads }, path, version) => reads.version(path, version))),
  readFor: ({ reads, leases }, holder, path, version, question) =>
    leases.hold(
      reads.versionFor(path, version, () => leases.grant(holder, path, question)),
      path,
    ),
  deleteNewest: quickWrite((parts, path, by, back) => taking(parts, back).writes.deleteNewest(path, by)),
  deleteVersions: quickWrite(({ writes }, path, versions, by) => writes.delete(path, versions, by)),
  undelete: quickWrite(({ writes }, path, versions) => writes.undelete(path, versions)),
  destroyVersions: quickWrite(({ writes }, path, versions, by) => writes.destroy(path, versions, by)),

  // ---- data, by the API of version 1 ----
  putUnversioned: quickWrite(
    sealed((parts, path, data, rights, back) => taking(parts, back).unversioned.put(path, data, rights)),
  ),
  deleteUnversioned: quickWrite((parts, path, back) => taking(parts, back).unversioned.delete(path)),
  enableVersioning: heldOfAny(({ mount }) => mount.enableVersioning()),

  // ---- metadata ----
  metadata: held(({ metadata }, path) => metadata.read(path)),
  metadataOf: heldOfAny(({ metadata }, paths) => paths.map((path) => metadata.read(path))),
  setMetadata: held(({ metadata }, ...given) => metadata.set(...given)),
  deleteMetadata: held(({ writes }, path) => writes.deletePath(path)),
  list: heldOfAny(({ object }, folder, after, limit, deep = false) =>
    (deep ? listPaths : listFolder)(object.sql, folder, after, limit),
  ),
  expiring: heldOfAny(({ object }, until, limit) => expiringSecrets(object.sql, until, limit)),

  // ---- mount ----
  config: heldOfAny(({ state }) => state.get().config),
  setConfig: heldOfAny(({ mount }, changes) => mount.setConfig(changes)),
  rekey: ({ mount }, term) => mount.rekey(term),
  publishEvents: ({ published }, epoch) => published.begin(epoch),
  moved: ({ mount }, path, seq) => mount.moved(path, seq),
  movedTo: ({ state }) => state.get().moved?.path ?? null,
  destroy: heldOfAny(({ mount }) => mount.destroy()),

  // ---- sync ----
  follow: ({ mount }, destination, prefixes) => mount.follow(destination, prefixes),
  survey: ({ state, followers }, ...given) =>
    state.get().gone ? { gone: true, candidates: [], next: null } : followers.survey(...given),
  surveyOf: ({ followers }, paths) => followers.surveyOf(paths),
  watch: held(({ mount }, path, destination) => mount.watch(path, destination)),
  watchMany: heldOfAny(({ mount }, ...given) => mount.watchMany(...given)),
  unwatch: ({ mount }, path, destination) => mount.unwatch(path, destination),
  newest: held(sealed(({ reads }, path) => reads.newest(path))),
  newestOf: heldOfAny(({ reads }, paths) => reads.newestOf(paths)),
  newestVersions: heldOfAny(({ reads }, paths) => reads.newestVersions(paths)),
  relistNames: ({ names }, deadline) => names.relist(deadline),
  flush: ({ object }) => object.outbox.drain("changed"),
};
