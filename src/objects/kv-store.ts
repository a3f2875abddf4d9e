import type {
  Actor,
  GoneVersion,
  KvConfig,
  KvStoreApi,
  ListedPage,
  MetadataSettings,
  MetadataView,
  ReadVersion,
  SecretRow,
  SurveyedSecret,
  SurveyPage,
  WriteRights,
  Written,
} from "../contracts/kv-store.ts";
import type { Leased } from "../contracts/read-lease.ts";
import { Followers } from "../kv/followers.ts";
import { listFolder, listPaths } from "../kv/listing.ts";
import { MountState } from "../kv/mount-state.ts";
import { PublishedEvents } from "../kv/published-events.ts";
import { kvMigrations } from "../kv/schema.ts";
import { type ChangeDetails, type SecretChange, SecretEvents } from "../kv/secret-events.ts";
import { Secrets } from "../kv/secrets.ts";
import { changeConfig, changeSettings } from "../kv/settings.ts";
import { UnversionedSecrets } from "../kv/unversioned.ts";
import { attribution, deletionAt, emptySecret, keptVersions, lives, versionView } from "../kv/version.ts";
import { WatchDelivery } from "../kv/watch-delivery.ts";
import { Watchers } from "../kv/watchers.ts";
import { refusesWrite } from "../kv/write-check.ts";
import { earliest } from "../lib/earliest.ts";
import { mergePatch, parseLossless } from "../lib/json.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { type ChangedKeys, NOTHING, StoredObject } from "../platform/durable/stored-object.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { eventDelivery, ServiceEvents } from "../publishing/service-events.ts";
import { holdAnswers } from "../read-leases/hold-answers.ts";
import { LeaseOwner } from "../read-leases/lease-owner.ts";

const MAX_INLINE_WATCHERS = 8;
const EXPIRED_PER_ALARM = 500;
/** A patch may grow a secret; beyond this size its sealed form would not fit a row. */
const MAX_DATA_BYTES = 1024 * 1024;

type Change = (now: number) => boolean;
type Newest = Result<{ version: number; data: string } | null>;

/**
 * Owns the secrets of one KV mount: versions, metadata, and the destinations that watch each path. Named by the mount's
 * uuid. A write is one transaction, and one outbox row per watching destination.
 */
export class KvStore extends StoredObject implements KvStoreApi {
  readonly #keys: DataKeys;
  readonly #mount: string;
  readonly #secrets: Secrets;
  readonly #watchers: Watchers;
  readonly #followers: Followers;
  readonly #delivery: WatchDelivery;
  readonly #state: MountState;
  readonly #unversioned: UnversionedSecrets;
  readonly #events: SecretEvents;
  readonly #published: PublishedEvents;
  readonly #leases: LeaseOwner;

  protected override get kind() {
    return "kv-store" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, kv: kvMigrations },
      {
        event: eventDelivery(() => this.#events),
        changed: (lane, rows) => this.#delivery.changed(lane, rows),
        moved: (destination) => this.#delivery.moved(destination),
        matching: (destination, rows) => this.#delivery.matching(destination, rows),
      },
    );
    this.#mount = ctx.id.name ?? ctx.id.toString();
    this.#leases = new LeaseOwner(env, ctx.storage, this.#mount, () => this.arm());
    this.#state = new MountState(this.sql);
    this.#published = new PublishedEvents(env, this.#state, (change) => this.commit(change, NOTHING));
    const events = ServiceEvents.ofMount(env, this.#mount, () => this.outbox);
    this.#events = new SecretEvents(events, this.#published);
    this.#secrets = new Secrets(this.sql);
    this.#watchers = new Watchers(this.sql);
    this.#followers = new Followers(this.sql);
    this.#delivery = new WatchDelivery(this.env, this.#mount, this.#watchers, this.#followers, this.outbox);
    this.#keys = new DataKeys(this.sql, this.#mount, () => this.env.MASTER_KEY);
    this.#unversioned = new UnversionedSecrets({
      secrets: this.#secrets,
      state: this.#state,
      commit: (change, path) => this.commit(change, [path]),
      seal: (data, path) => this.#keys.seal(data, this.#context(path, 1)),
      events: this.#events,
    });
  }

  // ---- data ----

  /** Writes a new version. @param data JSON text of an object; @param cas expected current version, null = not given */
  put(path: string, data: string, cas: number | null, rights: WriteRights, by?: Actor): Result<Written> {
    return refuseIfSealed(() => {
      const secret = this.#secrets.find(path);
      const refused = refusesWrite(this.#state.get(), secret, cas, rights);
      return refused ?? this.#write(path, secret, data, "SecretWritten", by);
    });
  }

  /** Writes a new version: the newest one with a JSON merge patch applied. */
  patch(path: string, patch: string, cas: number | null, by?: Actor): Result<Written> | GoneVersion {
    return refuseIfSealed((): Result<Written> | GoneVersion => {
      const newest = this.#open(path, 0);
      if (!newest.ok || newest.state === "gone") return newest;
      const secret = this.#secrets.find(path);
      const refused = refusesWrite(this.#state.get(), secret, cas, { create: true, update: true });
      if (refused) return refused;
      const merged = mergePatch(parseLossless(newest.data), parseLossless(patch));
      return this.#write(path, secret, JSON.stringify(merged), "SecretPatched", by);
    });
  }

  /** @param version 0 = the newest */
  read(path: string, version: number): ReadVersion | Refusal {
    return refuseIfSealed(() => this.#open(path, version));
  }

  readFor(holder: string, path: string, version: number): Leased<ReadVersion | Refusal> {
    const answer = refuseIfSealed(() => this.#open(path, version));
    const reusable = answer.ok || answer.reason === "missing";
    return this.hold({ answer, lease: reusable ? this.#leases.grant(holder, path) : null }, path);
  }

  /** Soft-deletes the newest version. A missing path counts as deleted. */
  deleteNewest(path: string, by?: Actor): Result<Written["watchers"]> {
    const secret = this.#secrets.find(path);
    if (!secret) return ok([]);
    const versions = [secret.current_version];
    const details = { Versions: versions, Operation: "data-delete" } as const;
    return this.#change("SecretDeleted", path, (now) => this.#secrets.delete(path, versions, now, by), details);
  }

  deleteVersions(path: string, versions: readonly number[], by?: Actor): Result<Written["watchers"]> {
    return this.#change("SecretDeleted", path, (now) => this.#secrets.delete(path, versions, now, by), {
      Versions: versions,
    });
  }

  undelete(path: string, versions: readonly number[]): Result<Written["watchers"]> {
    return this.#change("SecretUndeleted", path, () => this.#secrets.undelete(path, versions), {
      Versions: versions,
    });
  }

  destroyVersions(path: string, versions: readonly number[], by?: Actor): Result<Written["watchers"]> {
    return this.#change("SecretDestroyed", path, () => this.#secrets.destroy(path, versions, by), {
      Versions: versions,
    });
  }

  // ---- data, by the API of version 1 ----

  putUnversioned(path: string, data: string, rights: WriteRights): Result<null> {
    return refuseIfSealed(() => this.#unversioned.put(path, data, rights));
  }

  deleteUnversioned(path: string): Result<null> {
    return this.#unversioned.delete(path);
  }

  enableVersioning(): void {
    this.commit(() => this.#state.set("engine", "versioned"));
  }

  // ---- metadata ----

  metadata(path: string): Result<MetadataView> {
    const row = this.#secrets.find(path);
    return row ? ok({ row, versions: this.#secrets.summaries(path) }) : refuse("missing");
  }

  /**
   * Sets metadata; creates the path without a version when `rights` are given and it is absent.
   * @param patch merges custom metadata by key, null clears
   * @returns warnings
   */
  setMetadata(path: string, changes: MetadataSettings, patch: boolean, rights: WriteRights | null): Result<string[]> {
    const secret = this.#secrets.find(path);
    if (this.#state.get().gone || (!secret && !rights)) return refuse("missing");
    if (rights && !(secret ? rights.update : rights.create)) return refuse("denied", "permission denied");
    const now = Date.now();
    const next = changeSettings(secret ?? emptySecret(path, now), changes, patch, now);
    if (!next.ok) return next;
    const isFollowed = this.commit(() => {
      this.#state.markVersioned();
      this.#secrets.store(next.value);
      this.#events.record("SecretMetadataWritten", path, { Operation: patch ? "metadata-patch" : "metadata-write" });
      return this.#delivery.enlistFollowers(path);
    }, [path]);
    if (isFollowed) this.ctx.waitUntil(this.outbox.drain("matching"));
    const overruled = changes.cas_required === false && this.#state.get().config.cas_required;
    return ok(overruled ? ['"cas_required" set to false, but the mount requires check-and-set for every write'] : []);
  }

  /** Deletes a path with all its versions. */
  deleteMetadata(path: string): Result<Written["watchers"]> {
    const changed = this.#change("SecretMetadataDeleted", path, () => {
      const removed = this.#secrets.remove(path);
      if (removed) this.#delivery.enlistFollowers(path);
      return removed;
    });
    if (this.outbox.holds("matching")) this.ctx.waitUntil(this.outbox.drain("matching"));
    return changed;
  }

  metadataOf(paths: readonly string[]): Result<MetadataView>[] {
    return paths.map((path) => this.metadata(path));
  }

  /** One page of the names below a folder, sorted; without `deep` directly below. @param after the last name before */
  list(folder: string, after: string, limit: number, deep = false): ListedPage {
    return (deep ? listPaths : listFolder)(this.sql, folder, after, limit);
  }

  // ---- mount ----

  config(): KvConfig {
    return this.#state.get().config;
  }

  setConfig(changes: Omit<MetadataSettings, "custom_metadata">): void {
    const config = JSON.stringify(changeConfig(this.#state.get().config, changes));
    this.commit(() => {
      this.#state.markVersioned();
      this.#state.set("config", config);
      this.#events.recordConfig();
    });
  }

  rekey(term: number): void {
    if (!this.#state.get().gone) this.commit(() => this.#keys.rotate(term, Date.now()), NOTHING);
  }

  publishEvents(epoch: number): void {
    this.#published.begin(epoch);
  }

  moved(path: string, seq: number): void {
    if (seq <= (this.#state.get().moved?.seq ?? 0)) return;
    this.commit(() => {
      this.#state.set("moved", JSON.stringify({ path, seq }));
      const concerned = new Set([...this.#watchers.destinations(), ...this.#followers.of(null)]);
      for (const destination of concerned) this.#delivery.enlistMoved(destination);
    }, NOTHING);
    this.ctx.waitUntil(this.outbox.drain("moved"));
  }

  movedTo(): string | null {
    return this.#state.get().moved?.path ?? null;
  }

  /** Destroys every secret of the mount and notifies its watchers. Idempotent. */
  async destroy(): Promise<void> {
    this.commit(() => {
      this.#state.set("gone", "1");
      this.#secrets.clear();
      for (const path of this.#watchers.paths()) this.#delivery.enlist(path);
      this.#delivery.enlistFollowers(null);
      this.sql.exec("DELETE FROM data_keys");
    });
    await Promise.all(["changed", "matching"].map((topic) => this.outbox.drain(topic)));
  }

  // ---- sync ----

  follow(destination: string, prefixes: readonly string[]): void {
    this.commit(() => this.#followers.set(destination, prefixes), NOTHING);
  }

  survey(prefix: string, after: string, limit: number): SurveyPage {
    if (this.#state.get().gone) return { gone: true, candidates: [], next: null };
    return this.#followers.survey(prefix, after, limit);
  }

  surveyOf(paths: readonly string[]): (SurveyedSecret | null)[] {
    return this.#followers.surveyOf(paths);
  }

  /** Notifies `destination` of future changes of `path`. Idempotent. @returns the newest live version, or null */
  watch(path: string, destination: string): number | null {
    const now = Date.now();
    const { moved } = this.#state.get();
    this.commit(() => {
      this.#watchers.add(path, destination, now);
      // The destination may have recorded the path before the move.
      if (moved) this.#delivery.enlistMoved(destination);
    }, NOTHING);
    if (moved) this.ctx.waitUntil(this.outbox.drain("moved"));
    return this.#secrets.newestLiving(path, now)?.version ?? null;
  }

  unwatch(path: string, destination: string): void {
    this.commit(() => this.#watchers.remove(path, destination), NOTHING);
  }

  /** The newest live version, which a destination should hold; `value` is null without one. */
  newest(path: string): Newest {
    return refuseIfSealed(() => {
      const row = this.#secrets.newestLiving(path, Date.now());
      if (!row || row.sealed === null) return ok(null);
      return ok({ version: row.version, data: this.#keys.openText(row.sealed, this.#context(path, row.version)) });
    });
  }

  /** As `newest`, of several paths. */
  newestOf(paths: readonly string[]): Newest[] {
    return paths.map((path) => this.newest(path));
  }

  /** The newest live version of each path, or null. */
  newestVersions(paths: readonly string[]): (number | null)[] {
    return paths.map((path) => this.#secrets.newestLiving(path, Date.now())?.version ?? null);
  }

  /** Delivers pending announcements; resolves after the attempt. */
  async flush(): Promise<void> {
    await this.outbox.drain("changed");
  }

  // ---- replicas ----

  /** Holds back an answer about a path, or about any, that includes changes which replicas do not know. */
  protected hold<T>(answer: T, path: string | null): T {
    return this.#leases.hold(answer, path);
  }

  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    this.#leases.changeAll();
    return this.hold(swapped, null);
  }

  protected override onChange(keys: ChangedKeys): void {
    this.#leases.change(keys);
  }

  protected override onRollback(): void {
    this.#leases.rolledBack();
    this.#followers.forget();
  }

  // ---- inside ----

  protected override onAnyAlarm(): void {
    this.#leases.review();
  }

  protected override ownDeadline(): number | null {
    return earliest(this.#watchers.nextExpiry(), this.#leases.nextReview());
  }

  /** Expiry of a version is a change like any other for its watchers. */
  protected override async onAlarm(now: number): Promise<void> {
    const { expired, enlisted } = this.commit(() => {
      const expired = this.#watchers.takeExpired(now, EXPIRED_PER_ALARM);
      return { expired, enlisted: expired.flatMap((path) => this.#delivery.enlist(path)) };
    }, NOTHING);
    for (const secret of expired) recordAction("version-expired", { mount: this.#mount, secret });
    if (enlisted.length > 0) await this.outbox.drain("changed");
  }

  #write(path: string, before: SecretRow | null, data: string, type: SecretChange, by?: Actor): Result<Written> {
    if (data.length > MAX_DATA_BYTES / 3 && Buffer.byteLength(data) > MAX_DATA_BYTES) {
      return refuse("too-large", `data: the secret would be larger than ${MAX_DATA_BYTES} bytes`);
    }
    const now = Date.now();
    const { config } = this.#state.get();
    const secret = before ?? emptySecret(path, now);
    const version = secret.current_version + 1;
    const kept = keptVersions(secret.max_versions, config.max_versions);
    const prunes = version - secret.oldest_version >= kept;
    const deletion = deletionAt(now, secret.delete_version_after, config.delete_version_after);
    const sealed = this.#keys.seal(data, this.#context(path, version));
    const operation = type === "SecretPatched" ? "patch" : version === 1 ? "create" : "update";
    const row = { path, version, created: now, deletion, sealed, created_by: attribution(by, operation) };
    let isFollowed = false;
    const watchers = this.commit(() => {
      this.#state.markVersioned();
      this.#secrets.insert(row);
      if (prunes) this.#secrets.prune(path, version - kept);
      const oldest = prunes ? version - kept + 1 : secret.oldest_version;
      this.#secrets.store({ ...secret, updated: now, current_version: version, oldest_version: oldest });
      this.#events.record(type, path, { Version: version, CurrentVersion: version, OldestVersion: oldest });
      // Rules match a secret from its first version on.
      isFollowed = version === 1 && this.#delivery.enlistFollowers(path);
      return this.#delivery.enlist(path);
    }, [path]);
    if (isFollowed) this.ctx.waitUntil(this.outbox.drain("matching"));
    return ok({ metadata: versionView(row, secret.custom_metadata), watchers: this.#announce(watchers) });
  }

  /**
   * Changes versions of a path and notifies its watchers if something changed.
   * @param change returns whether it changed something
   * @param details of the event, beside the versions of the path
   */
  #change(type: SecretChange, path: string, change: Change, details: ChangeDetails = {}): Result<Written["watchers"]> {
    const now = Date.now();
    const watchers = this.commit(() => {
      this.#state.markVersioned();
      const secret = this.#secrets.find(path);
      if (!change(now)) return [];
      this.#secrets.touch(path, now);
      const versions = { CurrentVersion: secret?.current_version, OldestVersion: secret?.oldest_version };
      this.#events.record(type, path, { ...versions, ...details });
      return this.#delivery.enlist(path);
    }, [path]);
    return ok(this.#announce(watchers));
  }

  #open(path: string, version: number): ReadVersion | Refusal {
    const row = this.#secrets.version(path, version);
    if (!row) return refuse("missing");
    const metadata = versionView(row, row.custom_metadata);
    if (row.sealed === null || !lives(row, Date.now())) return { ok: true, state: "gone", metadata };
    const data = this.#keys.openText(row.sealed, this.#context(path, row.version));
    return { ok: true, state: "lives", data, metadata };
  }

  /** Starts delivery to the watchers without delaying the answer. @returns those to notify within the request */
  #announce(watchers: readonly string[]): readonly string[] {
    if (watchers.length > 0) this.ctx.waitUntil(this.outbox.drain("changed"));
    return watchers.slice(0, MAX_INLINE_WATCHERS);
  }

  /** Sealing context of a version: it cannot be opened elsewhere. */
  #context(path: string, version: number): string {
    return `kv ${this.#mount} ${version} ${path}`;
  }
}

// The first parameter is the path.
holdAnswers(KvStore, (path) => path, [
  ...(["put", "patch", "read", "deleteNewest", "deleteVersions", "undelete", "destroyVersions"] as const),
  ...(["putUnversioned", "deleteUnversioned", "metadata", "setMetadata", "deleteMetadata", "watch", "newest"] as const),
]);
holdAnswers(KvStore, () => null, [
  ...(["list", "config", "setConfig", "enableVersioning", "destroy", "newestOf", "newestVersions"] as const),
]);
