import type { MetadataCheck, MetadataSettings, MetadataView, WriteRights } from "../contracts/kv-store.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { KvRecords } from "./kv-records.ts";
import { changeSettings, checkMetadataVersion, namesSetting } from "./settings.ts";
import { emptySecret } from "./version.ts";

/** Metadata of paths: settings, custom metadata, and the list of versions. */
export class SecretMetadata {
  constructor(private readonly records: KvRecords) {}

  read(path: string): Result<MetadataView> {
    const { secrets } = this.records;
    const row = secrets.find(path);
    return row ? ok({ row, versions: secrets.summaries(path) }) : refuse("missing");
  }

  /**
   * Sets metadata; creates the path without a version when `rights` are given and it is absent. Changes nothing
   * without a setting.
   * @param patch merges custom metadata by key, null clears
   * @returns warnings
   */
  set(
    path: string,
    changes: MetadataSettings & MetadataCheck,
    patch: boolean,
    rights: WriteRights | null,
  ): Result<string[]> {
    const { object, secrets, state, events, delivery, names } = this.records;
    const secret = secrets.find(path);
    if (state.get().gone || (!secret && !rights)) return refuse("missing");
    if (rights && !(secret ? rights.update : rights.create)) return refuse("denied", "permission denied");
    if (!namesSetting(changes)) return ok([]);
    const { config } = state.get();
    const stale = checkMetadataVersion(secret, changes, config);
    if (stale) return stale;
    const now = Date.now();
    const next = changeSettings(secret ?? emptySecret(path, now), changes, patch, now);
    if (!next.ok) return next;
    const isFollowed = object.commit(() => {
      state.markVersioned();
      secrets.store(next.value);
      if (!secret) names.changed(path);
      events.record("SecretMetadataWritten", path, { Operation: patch ? "metadata-patch" : "metadata-write" });
      return delivery.enlistFollowers(path);
    }, [path]);
    if (isFollowed) object.waitUntil(object.outbox.drain("matching"));
    const mandated = (["cas_required", "metadata_cas_required"] as const).filter(
      (name) => changes[name] === false && config[name],
    );
    return ok(mandated.map((name) => `"${name}" set to false, but the mount requires check-and-set for every write`));
  }
}
