import type { Actor, GoneVersion, KvConfig, SecretRow, WriteRights, Written } from "../contracts/kv-store.ts";
import { mergePatch, parseLossless } from "../lib/json.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import type { KvRecords } from "./kv-records.ts";
import type { ChangeDetails, SecretChange } from "./secret-events.ts";
import type { SecretReads } from "./secret-reads.ts";
import { attribution, deletionAt, emptySecret, keptVersions, versionView } from "./version.ts";

const MAX_INLINE_WATCHERS = 8;
/** A patch may grow a secret; beyond this size its sealed form would not fit a row. */
const MAX_DATA_BYTES = 1024 * 1024;

type Change = (now: number) => boolean;

/**
 * Changes of versions by the API of version 2. A write is one transaction, and one outbox row per watching destination;
 * it answers with those to notify within the request.
 */
export class SecretWrites {
  constructor(
    private readonly records: KvRecords,
    private readonly reads: SecretReads,
  ) {}

  /** Writes a new version. @param data JSON text of an object; @param cas expected current version, null = not given */
  put(path: string, data: string, cas: number | null, rights: WriteRights, by?: Actor): Result<Written> {
    const { secrets, state } = this.records;
    const secret = secrets.find(path);
    return refusesWrite(state.get(), secret, cas, rights) ?? this.#write(path, secret, data, "SecretWritten", by);
  }

  /** Writes a new version: the newest one with a JSON merge patch applied. */
  patch(path: string, patch: string, cas: number | null, by?: Actor): Result<Written> | GoneVersion {
    const { secrets, state } = this.records;
    const newest = this.reads.version(path, 0);
    if (!newest.ok || newest.state === "gone") return newest;
    const secret = secrets.find(path);
    const refused = refusesWrite(state.get(), secret, cas, { create: true, update: true });
    if (refused) return refused;
    const merged = mergePatch(parseLossless(newest.data), parseLossless(patch));
    return this.#write(path, secret, JSON.stringify(merged), "SecretPatched", by);
  }

  /** Soft-deletes the newest version. A missing path counts as deleted. */
  deleteNewest(path: string, by?: Actor): Result<Written["watchers"]> {
    const secret = this.records.secrets.find(path);
    return secret ? this.delete(path, [secret.current_version], by, "data-delete") : ok([]);
  }

  /** @param operation of the event */
  delete(
    path: string,
    versions: readonly number[],
    by?: Actor,
    operation: ChangeDetails["Operation"] = "delete",
  ): Result<Written["watchers"]> {
    const change: Change = (now) => this.records.secrets.delete(path, versions, now, by);
    return this.#change("SecretDeleted", path, change, { Versions: versions, Operation: operation });
  }

  /** Brings versions back, for the time that `delete_version_after` gives a version that is written now. */
  undelete(path: string, versions: readonly number[]): Result<Written["watchers"]> {
    const { secrets, state } = this.records;
    const bringBack: Change = (now) => {
      const after = secrets.find(path)?.delete_version_after ?? 0;
      return secrets.undelete(path, versions, deletionAt(now, after, state.get().config.delete_version_after));
    };
    return this.#change("SecretUndeleted", path, bringBack, { Versions: versions });
  }

  destroy(path: string, versions: readonly number[], by?: Actor): Result<Written["watchers"]> {
    const change: Change = () => this.records.secrets.destroy(path, versions, by);
    return this.#change("SecretDestroyed", path, change, { Versions: versions });
  }

  /** Deletes a path with all its versions. */
  deletePath(path: string): Result<Written["watchers"]> {
    const { secrets, delivery, names, object } = this.records;
    const changed = this.#change("SecretMetadataDeleted", path, () => {
      const removed = secrets.remove(path);
      if (removed) {
        names.changed(path);
        delivery.enlistFollowers(path);
      }
      return removed;
    });
    if (object.outbox.holds("matching")) object.waitUntil(object.outbox.drain("matching"));
    return changed;
  }

  #write(path: string, before: SecretRow | null, data: string, type: SecretChange, by?: Actor): Result<Written> {
    if (data.length > MAX_DATA_BYTES / 3 && Buffer.byteLength(data) > MAX_DATA_BYTES) {
      return refuse("too-large", `data: the secret would be larger than ${MAX_DATA_BYTES} bytes`);
    }
    const { object, secrets, state, sealing, events, delivery, names } = this.records;
    const now = Date.now();
    const { config } = state.get();
    const secret = before ?? emptySecret(path, now);
    const version = secret.current_version + 1;
    const kept = keptVersions(secret.max_versions, config.max_versions);
    const prunes = version - secret.oldest_version >= kept;
    const deletion = deletionAt(now, secret.delete_version_after, config.delete_version_after);
    const sealed = sealing.seal(data, path, version);
    const operation = type === "SecretPatched" ? "patch" : version === 1 ? "create" : "update";
    const row = { path, version, created: now, deletion, sealed, created_by: attribution(by, operation) };
    let isFollowed = false;
    const watchers = object.commit(() => {
      state.markVersioned();
      secrets.insert(row);
      if (prunes) secrets.prune(path, version - kept);
      const oldest = prunes ? version - kept + 1 : secret.oldest_version;
      secrets.store({ ...secret, updated: now, current_version: version, oldest_version: oldest });
      events.record(type, path, { Version: version, CurrentVersion: version, OldestVersion: oldest });
      // Rules match a secret from its first version on.
      isFollowed = version === 1 && delivery.enlistFollowers(path);
      if (!before) names.changed(path);
      return delivery.enlist(path);
    }, [path]);
    if (isFollowed) object.waitUntil(object.outbox.drain("matching"));
    return ok({ metadata: versionView(row, secret.custom_metadata), watchers: this.#announce(watchers) });
  }

  /**
   * Changes versions of a path and notifies its watchers if something changed.
   * @param change returns whether it changed something
   * @param details of the event, beside the versions of the path
   */
  #change(type: SecretChange, path: string, change: Change, details: ChangeDetails = {}): Result<Written["watchers"]> {
    const { object, secrets, state, events, delivery } = this.records;
    const now = Date.now();
    const watchers = object.commit(() => {
      state.markVersioned();
      const secret = secrets.find(path);
      if (!change(now)) return [];
      secrets.touch(path, now);
      const versions = { CurrentVersion: secret?.current_version, OldestVersion: secret?.oldest_version };
      events.record(type, path, { ...versions, ...details });
      return delivery.enlist(path);
    }, [path]);
    return ok(this.#announce(watchers));
  }

  /** Starts delivery to the watchers without delaying the answer. @returns those to notify within the request */
  #announce(watchers: readonly string[]): readonly string[] {
    const { object } = this.records;
    if (watchers.length > 0) object.waitUntil(object.outbox.drain("changed"));
    return watchers.slice(0, MAX_INLINE_WATCHERS);
  }
}

/**
 * The refusal of a new version by the mount's state, the caller's rights or check-and-set; null when it may be written.
 */
function refusesWrite(
  { gone, config }: { readonly gone: boolean; readonly config: KvConfig },
  secret: SecretRow | null,
  cas: number | null,
  rights: WriteRights,
): Refusal | null {
  if (gone) return refuse("missing");
  if (!(secret ? rights.update : rights.create)) return refuse("denied", "permission denied");
  if (cas === null) {
    const required = config.cas_required || secret?.cas_required === 1;
    return required ? refuse("invalid", "check-and-set parameter required for this call") : null;
  }
  return cas === (secret?.current_version ?? 0)
    ? null
    : refuse("invalid", "check-and-set parameter did not match the current version");
}
