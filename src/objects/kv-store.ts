import { upperBound } from "../access/token-store.ts";
import { mergePatch, parseLossless } from "../http/json.ts";
import { checkCustomMetadata } from "../kv/custom-metadata.ts";
import { kvMigrations } from "../kv/schema.ts";
import {
  DEFAULT_CONFIG,
  deletionAt,
  type KvConfig,
  keptVersions,
  liveness,
  type SecretRow,
  timestamp,
  type VersionRow,
  type VersionView,
} from "../kv/version.ts";
import { ok, type Refusal, type Result, refuse } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { guarded } from "../sealing/guarded.ts";
import { StoredObject } from "./stored-object.ts";
import { syncDestination } from "./stubs.ts";

/** What a read of one version finds. `data` is the secret's JSON text, exactly as written. */
export type ReadVersion =
  | { readonly ok: true; readonly state: "lives"; readonly data: string; readonly metadata: VersionView }
  | { readonly ok: true; readonly state: "gone"; readonly metadata: VersionView };

export interface Written {
  readonly metadata: VersionView;
  /** The destinations that were told, so that the Worker can try their pushes at once. */
  readonly watchers: readonly string[];
}

export interface MetadataSettings {
  readonly max_versions?: number | null | undefined;
  readonly cas_required?: boolean | null | undefined;
  /** Seconds. */
  readonly delete_version_after?: number | null | undefined;
  readonly custom_metadata?: Readonly<Record<string, string | null>> | null | undefined;
}

export interface MetadataView {
  readonly row: SecretRow;
  readonly versions: readonly { version: number; created: number; deletion: number | null; destroyed: boolean }[];
}

/** Which kinds of write the caller holds; whether one is a create is known only here. */
export interface WriteRights {
  readonly create: boolean;
  readonly update: boolean;
}

const WATCHERS_TOLD_INLINE = 8;
const MAX_VERSIONS_LIMIT = 10_000;

/** Owner of the secrets of one KV mount: versions, metadata, and who watches which path. Named by the mount's uuid. */
export class KvStore extends StoredObject {
  readonly #keys: DataKeys;
  readonly #mount: string;

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, kv: kvMigrations },
      { changed: (lane) => this.#deliverChanged(lane) },
    );
    this.#mount = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(this.sql, this.#mount, () => this.env.MASTER_KEY);
    this.#keys.sealedBecause();
  }

  // ---- data ----

  /**
   * Writes a new version.
   * @param data JSON text of an object; @param cas the version the caller expects to replace, null = not given
   */
  put(path: string, data: string, cas: number | null, rights: WriteRights): Result<Written> {
    return guarded(() => {
      const secret = this.#secret(path);
      return this.#refusesWrite(secret, cas, rights) ?? this.#write(path, secret, data);
    });
  }

  /** Writes a new version: the newest with a JSON merge patch applied. */
  patch(path: string, patch: string, cas: number | null): Result<Written> | Exclude<ReadVersion, { state: "lives" }> {
    return guarded((): Result<Written> | Exclude<ReadVersion, { state: "lives" }> => {
      const secret = this.#secret(path);
      if (!secret || secret.current_version === 0) return refuse("missing");
      const newest = this.#open(secret, secret.current_version);
      if (!newest.ok) return newest;
      if (newest.state === "gone") return newest;
      const refused = this.#refusesWrite(secret, cas, { create: true, update: true });
      if (refused) return refused;
      const merged = mergePatch(parseLossless(newest.data), parseLossless(patch));
      return this.#write(path, secret, JSON.stringify(merged));
    });
  }

  /** @param version 0 = the newest */
  read(path: string, version: number): ReadVersion | Refusal {
    return guarded(() => {
      const secret = this.#secret(path);
      return secret ? this.#open(secret, version || secret.current_version) : refuse("missing");
    });
  }

  /** Deletes the newest version so that it can be undeleted. Nothing there counts as deleted. */
  deleteNewest(path: string): Result<Written["watchers"]> {
    const secret = this.#secret(path);
    return secret ? this.deleteVersions(path, [secret.current_version]) : ok([]);
  }

  deleteVersions(path: string, versions: readonly number[]): Result<Written["watchers"]> {
    return this.#change(path, versions, (version, now) =>
      this.sql.exec(
        `UPDATE versions SET deletion = ? WHERE path = ? AND version = ? AND sealed IS NOT NULL
         AND (deletion IS NULL OR deletion > ?)`,
        now,
        path,
        version,
        now,
      ),
    );
  }

  undelete(path: string, versions: readonly number[]): Result<Written["watchers"]> {
    return this.#change(path, versions, (version) =>
      this.sql.exec(
        "UPDATE versions SET deletion = NULL WHERE path = ? AND version = ? AND sealed IS NOT NULL",
        path,
        version,
      ),
    );
  }

  destroyVersions(path: string, versions: readonly number[]): Result<Written["watchers"]> {
    return this.#change(path, versions, (version) =>
      this.sql.exec("UPDATE versions SET sealed = NULL WHERE path = ? AND version = ?", path, version),
    );
  }

  // ---- metadata ----

  metadata(path: string): Result<MetadataView> {
    const row = this.#secret(path);
    if (!row) return refuse("missing");
    const versions = this.sql
      .exec<{ version: number; created: number; deletion: number | null; destroyed: number }>(
        "SELECT version, created, deletion, sealed IS NULL AS destroyed FROM versions WHERE path = ? ORDER BY version",
        path,
      )
      .toArray()
      .map((version) => ({ ...version, destroyed: version.destroyed === 1 }));
    return ok({ row, versions });
  }

  /**
   * Sets metadata; creates the path without a version when `rights` are given and it is absent.
   * @param patch merges custom metadata key by key, null clears
   * @returns warnings
   */
  setMetadata(path: string, changes: MetadataSettings, patch: boolean, rights: WriteRights | null): Result<string[]> {
    const secret = this.#secret(path);
    if (!secret && !rights) return refuse("missing");
    if (rights && !(secret ? rights.update : rights.create)) return refuse("denied", "permission denied");
    const base = secret ?? emptySecret(path, Date.now());
    const before = base.custom_metadata === null ? {} : (JSON.parse(base.custom_metadata) as Record<string, string>);
    const custom = mergeCustom(before, changes.custom_metadata, patch);
    const checked = checkCustomMetadata(custom ?? {});
    if (!checked.ok) return checked;
    const next: SecretRow = {
      ...base,
      updated: Date.now(),
      max_versions: merge(changes.max_versions, base.max_versions, patch),
      cas_required: Number(merge(changes.cas_required, base.cas_required === 1, patch)),
      delete_version_after: merge(changes.delete_version_after, base.delete_version_after, patch),
      custom_metadata: custom && Object.keys(custom).length > 0 ? JSON.stringify(custom) : null,
    };
    if (next.max_versions > MAX_VERSIONS_LIMIT) return refuse("invalid", `max_versions: at most ${MAX_VERSIONS_LIMIT}`);
    this.commit(() => this.#store(next));
    const overruled = changes.cas_required === false && this.config().cas_required;
    return ok(overruled ? ['"cas_required" set to false, but the mount requires check-and-set for every write'] : []);
  }

  /** Removes a path with all its versions. */
  deleteMetadata(path: string): Result<Written["watchers"]> {
    const watchers = this.commit(() => {
      this.sql.exec("DELETE FROM versions WHERE path = ?", path);
      this.sql.exec("DELETE FROM secrets WHERE path = ?", path);
      return this.#tellWatchers(path);
    });
    return ok(this.#drained(watchers));
  }

  /**
   * One page of the names directly below a folder, sorted; a name with a trailing slash is a folder.
   * Costs one index look-up a name, however many paths lie inside the folders.
   * @param after a name; the page starts behind it
   */
  list(folder: string, after: string, limit: number): { keys: string[]; more: boolean } {
    const keys: string[] = [];
    const end = upperBound(folder);
    let from = after === "" ? folder : afterName(folder + after);
    while (keys.length < limit) {
      const [next] = this.sql
        .exec<{ path: string }>(
          "SELECT path FROM secrets WHERE path >= ? AND path < ? ORDER BY path LIMIT 1",
          from,
          end,
        )
        .toArray();
      if (!next) return { keys, more: false };
      const slash = next.path.indexOf("/", folder.length);
      const name = slash < 0 ? next.path : next.path.slice(0, slash + 1);
      if (name !== folder) keys.push(name.slice(folder.length));
      from = afterName(name);
    }
    return { keys, more: true };
  }

  // ---- mount ----

  config(): KvConfig {
    const rows = this.sql.exec<{ value: string }>("SELECT value FROM settings WHERE name = 'config'").toArray();
    return rows[0] ? (JSON.parse(rows[0].value) as KvConfig) : DEFAULT_CONFIG;
  }

  setConfig(changes: Partial<KvConfig>): Result<null> {
    const next = { ...this.config(), ...changes };
    if (next.max_versions > MAX_VERSIONS_LIMIT) return refuse("invalid", `max_versions: at most ${MAX_VERSIONS_LIMIT}`);
    this.commit(() => this.#set("config", JSON.stringify(next)));
    return ok(null);
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  /** The mount is gone: forgets every secret and tells those who watched. Idempotent. */
  async destroy(): Promise<void> {
    this.commit(() => {
      this.#set("gone", "1");
      for (const { path } of this.sql.exec<{ path: string }>("SELECT DISTINCT path FROM watchers").toArray()) {
        this.#tellWatchers(path);
      }
      this.sql.exec("DELETE FROM versions");
      this.sql.exec("DELETE FROM secrets");
      this.sql.exec("DELETE FROM data_keys");
    });
    await this.outbox.drain("changed");
  }

  // ---- sync ----

  /** Tells `destination` from now on when `path` changes. Idempotent. @returns the newest living version, or null */
  watch(path: string, destination: string): number | null {
    this.commit(() =>
      this.sql.exec("INSERT OR IGNORE INTO watchers (path, destination) VALUES (?, ?)", path, destination),
    );
    return this.#newestLiving(path)?.version ?? null;
  }

  unwatch(path: string, destination: string): void {
    this.commit(() => this.sql.exec("DELETE FROM watchers WHERE path = ? AND destination = ?", path, destination));
  }

  /** The newest living version, which is what a destination should hold; `value` null when there is none. */
  newest(path: string): Result<{ version: number; data: string } | null> {
    return guarded(() => {
      const row = this.#newestLiving(path);
      return ok(row ? { version: row.version, data: this.#text(row) } : null);
    });
  }

  /** Delivers what waits to be told, and resolves when it was tried. */
  async flush(): Promise<void> {
    await this.outbox.drain("changed");
  }

  // ---- inside ----

  protected override ownDeadline(): null {
    return null;
  }

  protected override async onAlarm(): Promise<void> {}

  #refusesWrite(secret: SecretRow | null, cas: number | null, rights: WriteRights): Refusal | null {
    if (this.#gone()) return refuse("missing");
    if (!(secret ? rights.update : rights.create)) return refuse("denied", "permission denied");
    if (cas === null) {
      const required = this.config().cas_required || secret?.cas_required === 1;
      return required ? refuse("invalid", "check-and-set parameter required for this call") : null;
    }
    return cas === (secret?.current_version ?? 0)
      ? null
      : refuse("invalid", "check-and-set parameter did not match the current version");
  }

  #write(path: string, before: SecretRow | null, data: string): Result<Written> {
    const now = Date.now();
    const config = this.config();
    const secret = before ?? emptySecret(path, now);
    const version = secret.current_version + 1;
    const kept = keptVersions(secret.max_versions, config.max_versions);
    const prunes = version - secret.oldest_version >= kept;
    const row: VersionRow = {
      path,
      version,
      created: now,
      deletion: deletionAt(now, secret.delete_version_after, config.delete_version_after),
      sealed: null,
    };
    const watchers = this.commit(() => {
      this.sql.exec(
        "INSERT INTO versions (path, version, created, deletion, sealed) VALUES (?, ?, ?, ?, ?)",
        path,
        version,
        now,
        row.deletion,
        this.#keys.seal(data, this.#context(path, version)),
      );
      if (prunes) this.sql.exec("DELETE FROM versions WHERE path = ? AND version <= ?", path, version - kept);
      this.#store({
        ...secret,
        updated: now,
        current_version: version,
        oldest_version: prunes ? version - kept + 1 : secret.oldest_version,
      });
      return this.#tellWatchers(path);
    });
    return ok({ metadata: view(secret, { ...row, destroyed: false }), watchers: this.#drained(watchers) });
  }

  #change(
    path: string,
    versions: readonly number[],
    change: (version: number, now: number) => void,
  ): Result<Written["watchers"]> {
    if (!this.#secret(path)) return ok([]);
    const now = Date.now();
    const watchers = this.commit(() => {
      for (const version of versions) change(version, now);
      this.sql.exec("UPDATE secrets SET updated = ? WHERE path = ?", now, path);
      return this.#tellWatchers(path);
    });
    return ok(this.#drained(watchers));
  }

  #open(secret: SecretRow, version: number): ReadVersion | Refusal {
    const [row] = this.sql
      .exec<VersionRow>("SELECT * FROM versions WHERE path = ? AND version = ?", secret.path, version)
      .toArray();
    if (!row) return refuse("missing");
    const metadata = view(secret, { ...row, destroyed: row.sealed === null });
    if (liveness({ deletion: row.deletion, destroyed: row.sealed === null }, Date.now()) !== "lives") {
      return { ok: true, state: "gone", metadata };
    }
    return { ok: true, state: "lives", data: this.#text(row), metadata };
  }

  #text(row: VersionRow): string {
    if (row.sealed === null) throw new Error("a destroyed version has no text");
    return this.#keys.openText(row.sealed, this.#context(row.path, row.version));
  }

  #newestLiving(path: string): VersionRow | null {
    const [row] = this.sql
      .exec<VersionRow>(
        `SELECT * FROM versions WHERE path = ? AND sealed IS NOT NULL AND (deletion IS NULL OR deletion > ?)
         ORDER BY version DESC LIMIT 1`,
        path,
        Date.now(),
      )
      .toArray();
    return row ?? null;
  }

  #secret(path: string): SecretRow | null {
    return this.sql.exec<SecretRow>("SELECT * FROM secrets WHERE path = ?", path).toArray()[0] ?? null;
  }

  #store(row: SecretRow): void {
    this.sql.exec(
      `INSERT INTO secrets (path, created, updated, current_version, oldest_version, max_versions, cas_required,
         delete_version_after, custom_metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (path) DO UPDATE SET updated = excluded.updated, current_version = excluded.current_version,
         oldest_version = excluded.oldest_version, max_versions = excluded.max_versions,
         cas_required = excluded.cas_required, delete_version_after = excluded.delete_version_after,
         custom_metadata = excluded.custom_metadata`,
      row.path,
      row.created,
      row.updated,
      row.current_version,
      row.oldest_version,
      row.max_versions,
      row.cas_required,
      row.delete_version_after,
      row.custom_metadata,
    );
  }

  /** One waiting row a destination and path, however often the path changes: what counts is the newest state. */
  #tellWatchers(path: string): string[] {
    const watchers = this.sql
      .exec<{ destination: string }>("SELECT destination FROM watchers WHERE path = ?", path)
      .toArray()
      .map((row) => row.destination);
    for (const destination of watchers) this.outbox.enlistLatest("changed", `${destination}\n${path}`, null);
    return watchers;
  }

  /** Starts telling the watchers without holding up the answer. @returns those worth trying at once */
  #drained(watchers: readonly string[]): readonly string[] {
    if (watchers.length > 0) this.ctx.waitUntil(this.outbox.drain("changed"));
    return watchers.slice(0, WATCHERS_TOLD_INLINE);
  }

  async #deliverChanged(lane: string): Promise<void> {
    const [destination = "", path = ""] = lane.split("\n");
    await syncDestination(this.env, destination).changed(this.#mount, path);
  }

  #gone(): boolean {
    return this.sql.exec("SELECT 1 FROM settings WHERE name = 'gone'").toArray().length > 0;
  }

  #set(name: string, value: string): void {
    this.sql.exec(
      "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
      name,
      value,
    );
  }

  #context(path: string, version: number): string {
    return `kv ${this.#mount} ${version} ${path}`;
  }
}

const emptySecret = (path: string, now: number): SecretRow => ({
  path,
  created: now,
  updated: now,
  current_version: 0,
  oldest_version: 0,
  max_versions: 0,
  cas_required: 0,
  delete_version_after: 0,
  custom_metadata: null,
});

const view = (
  secret: SecretRow,
  version: Omit<VersionRow, "sealed" | "path"> & { destroyed: boolean },
): VersionView => ({
  created_time: timestamp(version.created),
  custom_metadata:
    secret.custom_metadata === null ? null : (JSON.parse(secret.custom_metadata) as Record<string, string>),
  deletion_time: timestamp(version.deletion),
  destroyed: version.destroyed,
  version: version.version,
});

/** The first path behind `name`, and behind everything inside it when it is a folder. */
const afterName = (name: string): string => (name.endsWith("/") ? `${name.slice(0, -1)}0` : `${name}\u0000`);

/** A setting that is absent stays, and so does null unless it came in a patch, where it means the default. */
function merge<T extends number | boolean>(change: T | null | undefined, before: T, patch: boolean): T {
  if (change === undefined || (change === null && !patch)) return before;
  return change ?? ((typeof before === "number" ? 0 : false) as T);
}

function mergeCustom(
  before: Record<string, string>,
  change: MetadataSettings["custom_metadata"],
  patch: boolean,
): Record<string, string> | null {
  if (change === undefined) return before;
  if (change === null) return patch ? null : before;
  const base = patch ? before : {};
  const entries = Object.entries({ ...base, ...change }).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  );
  return Object.fromEntries(entries);
}
