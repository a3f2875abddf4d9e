import type { Refusal, Result } from "../lib/result.ts";
import type { CustomMetadataChange } from "../platform/http/custom-metadata.ts";
import type { Wire } from "../wire/infer.ts";
import type * as schemas from "../wire/kv.ts";
import type { GivenBack, Leased } from "./read-lease.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** The caller's write capabilities; the store decides whether a write is a create. */
export interface WriteRights {
  readonly create: boolean;
  readonly update: boolean;
}

/** The caller behind a version. */
export type Attribution = Wire<typeof schemas.Attribution>;
/** The caller of a change, from its token. */
export type Actor = Pick<Attribution, "actor" | "entity_id">;

export type VersionView = Wire<typeof schemas.Version>;

export interface Written {
  readonly metadata: VersionView;
  /** The notified destinations, so that the Worker can push at once. */
  readonly watchers: readonly string[];
}

export interface GoneVersion {
  readonly ok: true;
  readonly state: "gone";
  readonly metadata: VersionView;
}

/** The result of reading one version. `data` is the JSON text exactly as written. */
export type ReadVersion =
  | { readonly ok: true; readonly state: "lives"; readonly data: string; readonly metadata: VersionView }
  | GoneVersion;

/** Secrets of a mount that expire until a moment by `custom_metadata.expires_at`, the earliest first. */
export interface ExpiringSecrets {
  /** `at`: ms since 1970. */
  readonly secrets: readonly { readonly path: string; readonly at: number }[];
  /** Whether there are no further ones beyond the limit. */
  readonly isWhole: boolean;
}

export interface MetadataView {
  readonly row: SecretRow;
  readonly versions: readonly VersionSummary[];
}

export interface SecretRow extends Record<string, SqlStorageValue> {
  path: string;
  created: number;
  updated: number;
  current_version: number;
  oldest_version: number;
  max_versions: number;
  cas_required: number;
  delete_version_after: number;
  custom_metadata: string | null;
  metadata_cas_required: number;
  /** The number of writes of its metadata. */
  metadata_version: number;
}

export interface VersionSummary extends Record<string, SqlStorageValue> {
  version: number;
  created: number;
  deletion: number | null;
  /** 1 = the data is destroyed permanently. */
  destroyed: number;
  /** JSON texts of `Attribution`; null for versions of earlier releases, and for ends by time. */
  created_by: string | null;
  deleted_by: string | null;
}

/** The settings of a path. Absent means unchanged; null in a patch restores the default. */
export interface MetadataSettings {
  readonly max_versions?: number | null | undefined;
  readonly cas_required?: boolean | null | undefined;
  /** Seconds. */
  readonly delete_version_after?: number | null | undefined;
  readonly custom_metadata?: CustomMetadataChange | null | undefined;
  readonly metadata_cas_required?: boolean | null | undefined;
}

/** The version of the metadata that a write replaces; 0 for none. */
export interface MetadataCheck {
  readonly metadata_cas?: number | undefined;
}

/** One page of the names directly below a folder; a name with a trailing slash is a folder itself. */
export interface ListedPage {
  readonly keys: string[];
  readonly more: boolean;
}

/** Settings of a mount. `delete_version_after` in seconds; a negative value disables the feature for the mount. */
export interface KvConfig {
  readonly max_versions: number;
  readonly cas_required: boolean;
  readonly delete_version_after: number;
  readonly metadata_cas_required: boolean;
}

/** The newest living version of a secret. */
export interface NewestVersion {
  readonly version: number;
  readonly data: string;
}

/** A secret as rules of secret sync see it. `customMetadata`: JSON text of a map, null without. */
export interface SurveyedSecret {
  readonly path: string;
  readonly customMetadata: string | null;
}

export interface SurveyPage {
  /** The mount was deleted. */
  readonly gone: boolean;
  readonly candidates: readonly SurveyedSecret[];
  /** The path after which the next page begins; null on the last page. */
  readonly next: string | null;
}

/** The newest living version of a watched path. */
export interface WatchedVersion {
  readonly version: number;
  /** When it was written, ms since 1970. */
  readonly created: number;
}

/** The methods of `KvStore` that other objects and Workers call. */
export interface KvStoreApi extends StoredObjectApi {
  /**
   * Writes a new version.
   * @param data JSON text of an object; @param cas the version the caller expects to replace, null = not given
   * @param givenBack by the replica that authorized the caller
   */
  put(
    path: string,
    data: string,
    cas: number | null,
    rights: WriteRights,
    by?: Actor,
    givenBack?: GivenBack,
  ): Result<Written>;
  /** Writes a new version: the newest with a JSON merge patch applied. @param givenBack as of `put` */
  patch(
    path: string,
    patch: string,
    cas: number | null,
    by?: Actor,
    givenBack?: GivenBack,
  ): Result<Written> | GoneVersion;
  /** @param version 0 = the newest */
  read(path: string, version: number): ReadVersion | Refusal;
  /**
   * Like `read`, for a replica, which may answer equal reads while its lease runs.
   * @param holder its instance; @param question the number of its question
   */
  readFor(holder: string, path: string, version: number, question?: number): Leased<ReadVersion | Refusal>;
  /** Soft-deletes the newest version. Idempotent. @param givenBack as of `put` */
  deleteNewest(path: string, by?: Actor, givenBack?: GivenBack): Result<Written["watchers"]>;
  deleteVersions(path: string, versions: readonly number[], by?: Actor): Result<Written["watchers"]>;
  undelete(path: string, versions: readonly number[]): Result<Written["watchers"]>;
  destroyVersions(path: string, versions: readonly number[], by?: Actor): Result<Written["watchers"]>;
  /**
   * Sets the value of a path by the API of version 1.
   * @param data JSON text of an object
   * @param givenBack as of `put`
   * @returns `conflict` when the mount was upgraded to version 2
   */
  putUnversioned(path: string, data: string, rights: WriteRights, givenBack?: GivenBack): Result<null>;
  /** Deletes a path by the API of version 1. Idempotent. @returns `conflict` as `putUnversioned` */
  deleteUnversioned(path: string, givenBack?: GivenBack): Result<null>;
  /** Refuses writes of the API of version 1 from now on. Idempotent. */
  enableVersioning(): void;
  metadata(path: string): Result<MetadataView>;
  /**
   * Sets metadata; creates the path without a version when `rights` are given and it is absent.
   * @param patch merges custom metadata key by key, null clears
   * @returns warnings
   */
  setMetadata(
    path: string,
    changes: MetadataSettings & MetadataCheck,
    patch: boolean,
    rights: WriteRights | null,
  ): Result<string[]>;
  /** Removes a path with all its versions. */
  deleteMetadata(path: string): Result<Written["watchers"]>;
  /** As `metadata`, of several paths. */
  metadataOf(paths: readonly string[]): Result<MetadataView>[];
  /**
   * One sorted page of the names below a folder.
   * @param after the last name of the previous page
   * @param deep every path below, relative to the folder; else the names directly below
   */
  list(folder: string, after: string, limit: number, deep?: boolean): ListedPage;
  /** Secrets that expire until a moment (ms since 1970) by their custom metadata. */
  expiring(until: number, limit: number): ExpiringSecrets;
  config(): KvConfig;
  setConfig(changes: Omit<MetadataSettings, "custom_metadata">): void;
  rekey(term: number): void;
  /** Publishes events for subscribers to event notifications from now on. @param epoch grows with each time they begin */
  publishEvents(epoch: number): void;
  /** Records a move of the mount and notifies the watching destinations. @param seq grows with each move */
  moved(path: string, seq: number): void;
  /** Returns the mount's path after its last move; null for a mount that never moved. */
  movedTo(): string | null;
  /** Deletes every secret of a removed mount and notifies its watchers. Idempotent. */
  destroy(): Promise<void>;
  /** Subscribes `destination` to changes of `path`. Idempotent. @returns the newest living version, or null */
  watch(path: string, destination: string): number | null;
  unwatch(path: string, destination: string): void;
  /** As `watch` and `unwatch`, of many paths. @returns the newest living version of each watched path, or null */
  watchMany(destination: string, begun: readonly string[], ended: readonly string[]): (WatchedVersion | null)[];
  /** Returns the newest living version, the desired state of destinations; null for none. */
  newest(path: string): Result<NewestVersion | null>;
  /** As `newest`, of several paths. */
  newestOf(paths: readonly string[]): Result<NewestVersion | null>[];
  /** Returns the newest living version of each path; null for none. */
  newestVersions(paths: readonly string[]): (number | null)[];
  /** Reports secrets that are made, removed or changed in their metadata below `prefixes` to `destination`. Idempotent. */
  follow(destination: string, prefixes: readonly string[]): void;
  /** One page of the secrets below a prefix, with their metadata. @param after the last path of the previous page */
  survey(prefix: string, after: string, limit: number): SurveyPage;
  /** The given secrets; null for those that do not exist. */
  surveyOf(paths: readonly string[]): (SurveyedSecret | null)[];
  /** Compares the names in D1 with the secrets. @param deadline ms since 1970 @returns whether all were compared by then */
  relistNames(deadline: number): Promise<boolean>;
  /** Attempts every pending notification once. */
  flush(): Promise<void>;
}
