import { settings } from "../env.ts";
import { type AssociationListing, projectAssociations, projectDestination } from "../listings/destinations.ts";
import { textOf, warn } from "../log.ts";
import type { OutboxRow } from "../outbox.ts";
import { ok, type Refusal, type Result, refuse } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { guarded } from "../sealing/guarded.ts";
import {
  type AssociationView,
  associationId,
  type CopyTask,
  type SecretRef,
  type Setup,
  type SyncResult,
  type Turn,
} from "../sync/association.ts";
import { Associations, secretOf } from "../sync/associations.ts";
import { Breaker } from "../sync/breaker.ts";
import { Copies, type Step } from "../sync/copies.ts";
import { Desk } from "../sync/desk.ts";
import {
  type DestinationKey,
  DestinationRecord,
  type DestinationView,
  type Found,
} from "../sync/destination-record.ts";
import type { Granularity } from "../sync/destinations/index.ts";
import { wantedCopies } from "../sync/external-name.ts";
import { type CopyRecord, copyRecords, type PlannedCopy, plannedCopies, previewed } from "../sync/preview.ts";
import { Purge } from "../sync/purge.ts";
import { Scan } from "../sync/scan.ts";
import { type AssociationRow, destinationMigrations } from "../sync/schema.ts";
import { type Granted, Share } from "../sync/share.ts";
import { StoredObjects, type StoredObjectView } from "../sync/stored-objects.ts";
import { Doorbell } from "../work/doorbell.ts";
import type { Claim } from "../work/task.ts";
import { WorkList, workMigrations } from "../work/work-list.ts";
import { StoredObject } from "./stored-object.ts";
import { accessControl, kvStore, syncControl } from "./stubs.ts";
import type { MayRun } from "./sync-control.ts";

/** A destination as a read shows it, with what goes on there. */
export interface DestinationState extends DestinationView {
  readonly purge_initiated_at?: string;
  readonly purge_error?: string;
  /** While failures in a row keep it from being tried at full speed. */
  readonly circuit_breaker?: { readonly failures: number; readonly next_attempt_at: string };
}

export interface Configured {
  readonly state: DestinationState;
  readonly warnings: readonly string[];
}

export interface AssociationsPage {
  readonly store_name: string;
  readonly store_type: string;
  readonly associated_secrets: readonly (readonly [key: string, view: AssociationView])[];
  /** Behind which association the next page begins; null on the last. */
  readonly next: string | null;
}

/** The request that states a wish also performs it; the doorbell keeps quiet for that long. */
const INLINE_MS = 2_500;
const PAGE = 1_000;
const ENDED_PER_STEP = 500;
/** While syncing is paused nobody rings. Going on is told by `SyncControl`, and looked at again after this long. */
const PAUSE_LOOK_MS = 60_000;
/** A permission that holds for less than this is asked for anew. */
const PERMIT_LEAST_MS = 20;

/** Owner of one destination: its connection details, its associations, and what still has to be done there. */
export class SyncDestination extends StoredObject {
  readonly #record: DestinationRecord;
  readonly #keys: DataKeys;
  readonly #work: WorkList;
  readonly #copies: Copies;
  readonly #associations: Associations;
  readonly #objects: StoredObjects;
  readonly #purge: Purge;
  readonly #scan: Scan;
  readonly #breaker: Breaker;
  readonly #share: Share;
  readonly #desk: Desk;
  readonly #bell: Doorbell;
  readonly #self: string;
  #pausedUntil = 0;
  #permitUntil = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, work: workMigrations, destination: destinationMigrations },
      {
        watch: (lane) => this.#deliverWatch(lane),
        listing: (lane) => this.#deliverListing(lane),
        associations: (_lane, rows) => this.#deliverAssociations(rows),
        "key-holder": () => this.#deliverKeyHolder(),
        app: (lane) => this.#deliverApp(lane),
      },
    );
    const { sql } = this;
    const commit = <T>(change: () => T): T => this.commit(change);
    this.#self = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(sql, `sync-destination ${this.#self}`, () => this.env.MASTER_KEY);
    this.#record = new DestinationRecord(sql, this.#keys, this.#self);
    this.#work = new WorkList(sql);
    this.#copies = new Copies(sql);
    this.#associations = new Associations(sql, this.#work, this.#copies);
    this.#objects = new StoredObjects(sql, this.#keys, `sync-destination ${this.#self}`);
    this.#purge = new Purge(sql);
    this.#breaker = new Breaker(sql);
    this.#share = new Share({ sql, work: this.#work, commit, exchange: (wanted) => this.#exchange(wanted) });
    this.#scan = new Scan({
      sql,
      commit,
      associations: this.#associations,
      work: this.#work,
      everyMs: settings(env).SYNC_SCAN_MS,
      newest: (mount, names) => kvStore(this.env, mount).newestVersions(names),
      want: (row, now) => this.#want(row, row.wish, now),
    });
    this.#desk = new Desk({
      record: this.#record,
      work: this.#work,
      copies: this.#copies,
      associations: this.#associations,
      objects: this.#objects,
      purge: this.#purge,
      breaker: this.#breaker,
    });
    this.#bell = new Doorbell(env.SYNC_WORK, this.#self);
  }

  // ---- the destination ----

  /**
   * Creates the destination, or changes what the body names.
   * @param word what the caller calls the type
   * @param mode `patch`: a JSON merge patch, which creates nothing
   */
  async configure(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    { word, mode = "write" }: { word?: string; mode?: "write" | "patch" } = {},
  ): Promise<Result<Configured>> {
    const defined = guarded(() => this.#record.define(key, body, mode, settings(this.env)));
    if (!defined.ok) return defined;
    const app = defined.value.type.appOf?.(defined.value.definition.connection) ?? null;
    if (app !== null) {
      const used = await syncControl(this.env).useApp(key.namespace, this.#self, app);
      if (!used.ok) return used;
    }
    const written = guarded((): Result<Configured> => {
      // Once more: another write may have come in between.
      const again = this.#record.define(key, body, mode, settings(this.env));
      if (!again.ok) return again;
      if (!this.#record.row() && this.#purge.find()) {
        return refuse("conflict", "a destination of this name is still being deleted; try again in a moment");
      }
      const now = Date.now();
      this.commit(() => {
        if (!this.#record.row()) this.outbox.enlistLatest("key-holder", this.#self, null);
        this.#record.store(key, word ?? key.type, again.value.definition, now);
        this.outbox.enlistLatest("listing", lane(key), null);
        this.outbox.enlistLatest("app", lane(key), null);
        // A repaired configuration gets its chance at once.
        this.#breaker.close();
        this.#work.unpause();
        if (this.#associations.any()) this.#scan.restart(now);
      });
      const state = this.read();
      return state.ok ? ok({ state: state.value, warnings: again.value.warnings }) : state;
    });
    await this.outbox.drain();
    return written;
  }

  read(): Result<DestinationState> {
    return guarded(() => {
      const found = this.#record.find();
      if (!found) return refuse("missing");
      const purge = this.#purge.find();
      const open = this.#breaker.view();
      return ok({
        ...this.#record.view(found),
        ...(purge && { purge_initiated_at: isoOf(purge.initiated), purge_error: purge.error ?? "" }),
        ...(open && { circuit_breaker: { failures: open.failures, next_attempt_at: isoOf(open.openUntil) } }),
      });
    });
  }

  /**
   * Deletes the destination. With associations only when asked to: `purge` removes their objects first, behind the answer;
   * `force` deletes even if that fails, and without `purge` leaves the objects where they are. One that is gone counts as
   * deleted.
   */
  async delete({ purge, force } = { purge: false, force: false }): Promise<Result<null>> {
    if (!this.#record.row()) return ok(null);
    const some = this.#associations.any();
    if (some && !purge && !force) {
      const n = this.#associations.count(PAGE);
      return refuse(
        "in-use",
        `destination has ${n < PAGE ? n : `${PAGE} or more`} associations; remove them first, or delete it with purge=true, which removes their secrets there`,
      );
    }
    this.commit(() => {
      if (some) this.#purge.begin(Date.now(), force);
      if (!some || !purge) this.#end();
    });
    await this.#endSome();
    await this.outbox.drain();
    return ok(null);
  }

  /** The custom application that the destination uses. @throws Sealed */
  usesApp(): string | null {
    const found = this.#record.find();
    return found ? (found.type.appOf?.(this.#record.definition(found.row).connection) ?? null) : null;
  }

  // ---- associations ----

  /**
   * Wishes a secret to be here, or here again. The caller performs the work that this leaves.
   * @param keys the secret's top-level keys, for destinations with one object a key
   */
  async set(secret: SecretRef, keys: readonly string[] = []): Promise<Result<AssociationsPage>> {
    const id = associationId(secret);
    const watched = watchLane(secret.mountUuid, secret.secretName);
    const refused = this.#refusesSet(secret, keys);
    if (refused) return refused;
    const reserved = !this.#work.find(id);
    if (reserved && !(await this.#share.reserve())) {
      return refuse("unavailable", "the sync queue is at capacity; nothing was recorded");
    }
    const written = guarded((): Result<null> => {
      const now = Date.now();
      const found = this.#record.find();
      const again = this.#refusesSet(secret, keys);
      if (!found || again) return again ?? refuse("missing");
      const naming = { granularity: found.row.granularity as Granularity, template: found.row.template };
      const steps = this.#plan(found, secret, keys);
      this.commit(() => {
        if (!this.#associations.find(id)) {
          this.#scan.begin(now);
          this.outbox.enlist("associations", "all", listingOf(secret));
        }
        this.#associations.set(secret, naming, steps, now, true);
        this.outbox.enlistLatest("watch", watched, null);
        this.#bell.expectClaimWithin(INLINE_MS, now);
      });
      return ok(null);
    });
    if (reserved) this.#share.release();
    if (!written.ok) return written;
    await Promise.all([this.outbox.drain("watch", watched), this.outbox.drain("associations")]);
    return this.associations([id]);
  }

  /** Wishes a secret to be gone from here. No association is a success. */
  async remove(secret: Pick<SecretRef, "mountAccessor" | "secretName">): Promise<Result<AssociationsPage>> {
    if (!this.#record.row()) return refuse("missing");
    if (this.#purge.runs()) return refuse("invalid", PURGING);
    const id = associationId(secret);
    const row = this.#associations.find(id);
    if (row) {
      const now = Date.now();
      this.commit(() => {
        this.#want(row, "absent", now);
        this.#bell.expectClaimWithin(INLINE_MS, now);
      });
      if (this.#work.waiting() > 0) await this.#ask();
    }
    return this.associations([id]);
  }

  /** The accessor of an association by the mount's path, for mounts that are gone. */
  accessorOf(mountPath: string, secretName: string): string | null {
    return this.#associations.ofPath(mountPath, secretName)?.mount_accessor ?? null;
  }

  /** The entries of a secret, by the path that its mount had when it was set. */
  ofSecret(mountPath: string, secretName: string): (readonly [string, AssociationView])[] {
    const row = this.#record.row() ? this.#associations.ofPath(mountPath, secretName) : null;
    return row ? this.#associations.views(row) : [];
  }

  /** The associations named, or one page of all of them. */
  associations(ids: readonly string[] | null, after = "", limit = PAGE): Result<AssociationsPage> {
    const destination = this.#record.row();
    if (!destination) return refuse("missing");
    const rows = ids
      ? ids.map((id) => this.#associations.find(id)).filter((row) => row !== null)
      : this.#associations.page(after, Math.min(limit, PAGE));
    return ok({
      store_name: destination.name,
      store_type: destination.type,
      associated_secrets: rows.flatMap((row) => this.#associations.views(row)),
      next: ids || rows.length < Math.min(limit, PAGE) ? null : (rows.at(-1)?.id ?? null),
    });
  }

  /** A secret of a mount has changed in some way: what is here must be made its newest state. Never refused: it waits for room. */
  async changed(mountUuid: string, secretName: string): Promise<void> {
    const rows = this.#associations.ofSecret(mountUuid, secretName).filter((row) => row.wish === "present");
    if (rows.length === 0) return;
    const now = Date.now();
    const rings = this.#pausedUntil <= now && this.#bell.lift(now);
    this.commit(() => {
      for (const row of rows) this.#want(row, "present", now);
    });
    if (this.#work.waiting() > 0) await this.#ask();
    // Behind the answer: whoever told us has done its part once this is stored.
    if (rings) this.ctx.waitUntil(this.#bell.ring());
  }

  /** Objects of a destination that keeps them itself, with their values. */
  storedObjects(after: string): Result<StoredObjectView[]> {
    return guarded(() =>
      this.#record.find()?.type.kind === "stored" ? ok(this.#objects.page(after, PAGE)) : refuse("missing"),
    );
  }

  // ---- looking ahead, and looking again ----

  /** What setting a secret would do. */
  previewSet(secret: SecretRef, keys: readonly string[]): Result<PlannedCopy[]> {
    return guarded(() => {
      const refused = this.#refusesSet(secret, keys);
      const found = this.#record.find();
      if (refused || !found) return refused ?? refuse("missing");
      return ok(plannedCopies(associationId(secret), this.#plan(found, secret, keys), found.row.deletion_policy));
    });
  }

  /** What a configuration would do to the associations once they are set again: one page of them. */
  previewConfigure(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    mode: "write" | "patch",
    after: string,
  ): Result<{ planned: PlannedCopy[]; warnings: readonly string[]; next: string | null }> {
    return guarded(() => {
      const defined = this.#record.define(key, body, mode, settings(this.env));
      if (!defined.ok) return defined;
      const { definition, type, warnings } = defined.value;
      const scope = {
        namespace: key.namespace,
        name: key.name,
        word: this.#record.row()?.word || key.type,
        ...definition,
      };
      return ok({ ...previewed(this.#associations, this.#copies, type, scope, definition, after), warnings });
    });
  }

  /** One page of the objects that are recorded, to be compared with the provider. */
  copyRecords(after: string, limit: number): Result<{ records: CopyRecord[]; next: string | null }> {
    if (!this.#record.row()) return refuse("missing");
    return ok(copyRecords(this.#associations, this.#copies, after, limit));
  }

  /** What calling the provider takes. */
  setup(): Result<Setup> {
    return guarded(() => {
      const found = this.#record.find();
      return found ? ok(this.#record.setup(found)) : refuse("missing");
    });
  }

  // ---- work ----

  /**
   * One turn of a Worker that performs the work here: takes the results of tasks (what came too late, or answers an older
   * wish, changes nothing) and hands out what is ready to be done, each task under a lease.
   * @param places how many tasks the Worker can take; @param only one association
   */
  async turn(results: readonly SyncResult[], places: number, only?: string): Promise<Turn | Refusal> {
    await this.#settle(results);
    this.#bell.answered();
    const idle: Turn = { running: true, permitMs: 0, setup: null, tasks: [], retryInMs: null };
    if (places <= 0 || this.#work.queued() === 0) return idle;
    if (!(await this.#mayRun())) return { ...idle, running: false };
    return guarded((): Turn => {
      const found = this.#record.find();
      if (!found) return idle;
      // Opened before anything is leased, so that a sealed service leases nothing.
      const setup = this.#record.setup(found);
      const now = Date.now();
      const tasks = this.commit(() => this.#desk.claim(found, places, now, only));
      const next = this.#desk.due(found, now);
      return {
        running: true,
        permitMs: Math.max(0, this.#permitUntil - now),
        setup,
        tasks,
        retryInMs: next === null ? null : Math.max(0, next - now),
      };
    });
  }

  /** The keys of a secret are others than its recorded objects: records what there is to be. Null: the claim is void. */
  plan(claim: Claim, keys: readonly string[]): CopyTask[] | null {
    const found = this.#record.find();
    return found ? this.commit(() => this.#desk.plan(found, claim, keys, Date.now())) : null;
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override ownDeadline(): number | null {
    const found = this.#record.find();
    const due = [found && this.#workDue(found), this.#share.due(), found && this.#scan.due(), this.#endDue()];
    const times = due.filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  protected override async onAlarm(now: number): Promise<void> {
    await this.#endSome();
    const share = this.#share.due();
    if (share !== null && share <= now) await this.#ask();
    await this.#scan.step(now);
    if (this.#work.waiting() > 0) await this.#ask();
    const found = this.#record.find();
    const ready = found && this.#workDue(found);
    if (ready !== null && ready <= now && this.#bell.lift(now)) await this.#bell.ring();
  }

  #workDue(found: Found): number | null {
    const ready = this.#desk.due(found, Date.now());
    return this.#bell.due(ready === null ? null : Math.max(ready, this.#pausedUntil));
  }

  /** Room that is missing is asked for after the commit. */
  #want(row: AssociationRow, wish: "present" | "absent", now: number): void {
    this.#share.expectAsk(now);
    this.#associations.want(row.id, wish, now, this.#share.hasRoom());
  }

  #refusesSet(secret: SecretRef, keys: readonly string[]): Refusal | null {
    const found = this.#record.find();
    if (!found) return refuse("missing");
    if (this.#purge.runs()) return refuse("invalid", PURGING);
    // One object that cannot be is a mistake to tell at once; of many, the others still can.
    const [blocked] = found.row.granularity === "secret-path" ? this.#plan(found, secret, keys).flatMap(blockedOf) : [];
    return blocked === undefined ? null : refuse("invalid", blocked);
  }

  #plan({ row, type }: Found, secret: SecretRef, keys: readonly string[]): Step[] {
    const naming = { granularity: row.granularity as Granularity, template: row.template };
    return this.#copies.plan(associationId(secret), wantedCopies(this.#record.scope(row, naming), type, secret, keys));
  }

  async #settle(results: readonly SyncResult[]): Promise<void> {
    if (results.length > 0) {
      const gone = this.commit(() => {
        const ended = this.#desk.settle(results, Date.now());
        for (const row of ended) this.#unlist(row);
        return ended;
      });
      if (gone.length > 0) await Promise.all([this.outbox.drain("watch"), this.outbox.drain("associations")]);
      if (this.#share.isSpare()) this.ctx.waitUntil(this.#ask());
    }
    await this.#endSome();
  }

  /** An association is gone: its mount need not tell us any more, and lists forget it. */
  #unlist(row: AssociationRow): void {
    this.outbox.enlistLatest("watch", watchLane(row.mount_uuid, row.secret_name), null);
    this.outbox.enlist("associations", "all", listingOf(secretOf(row)));
  }

  // ---- pause and capacity ----

  /** Never rejects: the alarm asks again. */
  async #ask(): Promise<void> {
    try {
      await this.#share.ask();
    } catch (failure) {
      warn("share-failed", { destination: this.#self, because: textOf(failure) });
    }
  }

  async #exchange(wanted: number): Promise<Granted> {
    const sent = Date.now();
    const answer = await syncControl(this.env).share(this.#self, wanted);
    this.#permitted(answer, sent);
    return answer;
  }

  async #mayRun(): Promise<boolean> {
    const sent = Date.now();
    if (this.#permitUntil - sent >= PERMIT_LEAST_MS) return true;
    const answer = await syncControl(this.env).mayRun();
    this.#permitted(answer, sent);
    return answer.running;
  }

  #permitted({ running, permitMs }: MayRun, sent: number): void {
    this.#permitUntil = running ? sent + permitMs : 0;
    this.#pausedUntil = running ? 0 : sent + PAUSE_LOOK_MS;
  }

  // ---- the end ----

  /** When an ending goes on by itself, or null. */
  #endDue(): number | null {
    const purge = this.#purge.find();
    if (!purge || purge.error !== null) return null;
    return purge.cursor !== null || !this.#record.row() || this.#work.queued() + this.#work.waiting() === 0 ? 0 : null;
  }

  /** One step of an ending: tells a page of associations to go, finishes, or clears away a page of what nobody sees any more. */
  async #endSome(): Promise<void> {
    if (this.#endDue() === null) return;
    const now = Date.now();
    const purge = this.#purge.find();
    this.commit(() => {
      if (!purge) return;
      if (!this.#record.row()) return this.#clearSome();
      if (purge.cursor !== null) {
        const page = this.#associations.page(purge.cursor, ENDED_PER_STEP);
        for (const row of page) this.#want(row, "absent", now);
        this.#purge.told(page.length < ENDED_PER_STEP ? null : (page.at(-1)?.id ?? null));
      } else if (purge.force || !this.#associations.any()) this.#end();
      else this.#purge.failed(this.#associations.failures());
    });
    if (this.#work.waiting() > 0) await this.#ask();
    if (!this.#record.row()) await this.outbox.drain();
  }

  /** The destination is gone. Associations that it still has are cleared away behind. */
  #end(): void {
    const row = this.#record.row();
    if (!row) return;
    this.#record.delete();
    this.#objects.clear();
    this.#breaker.close();
    this.outbox.enlistLatest("listing", lane(row), null);
    this.outbox.enlistLatest("app", lane(row), null);
    this.outbox.enlistLatest("key-holder", this.#self, null);
    this.#clearSome();
  }

  #clearSome(): void {
    const page = this.#associations.page("", ENDED_PER_STEP);
    for (const row of page) {
      this.#associations.delete(row.id);
      this.#unlist(row);
    }
    if (page.length === ENDED_PER_STEP) return;
    this.#purge.ended();
    this.#scan.end();
  }

  // ---- deliveries ----

  /**
   * Has the mount tell us about a secret for as long as an association wants it. Decided at the moment of delivery, in one
   * lane a secret, so that coming and going never cross.
   */
  async #deliverWatch(watched: string): Promise<(() => void) | undefined> {
    const [mountUuid = "", secretName = ""] = watched.split("\n");
    const kv = kvStore(this.env, mountUuid);
    if (this.#associations.ofSecret(mountUuid, secretName).length === 0) {
      await kv.unwatch(secretName, this.#self);
      return;
    }
    const newest = await kv.watch(secretName, this.#self);
    return () => {
      // A version written before the mount knew of us was told to nobody; a claim that is out may have read an older one.
      for (const row of this.#associations.ofSecret(mountUuid, secretName)) {
        const work = this.#work.find(row.id);
        const missed = work ? work.claimed : newest !== row.synced_version;
        if (missed && row.wish === "present") this.#want(row, "present", Date.now());
      }
    };
  }

  async #deliverListing(of: string): Promise<void> {
    await projectDestination(this.env.LISTINGS, JSON.parse(of) as DestinationKey, this.#record.row() !== null);
  }

  async #deliverAssociations(rows: OutboxRow[]): Promise<void> {
    const destination = this.#record.row();
    // Gone with all its associations, which its own listing takes away.
    if (!destination) return;
    const changes = rows.map(({ body }) => {
      const listed = JSON.parse(body) as AssociationListing;
      return { ...listed, exists: this.#associations.ofPath(listed.mount, listed.secret) !== null };
    });
    await projectAssociations(this.env.LISTINGS, destination, changes);
  }

  async #deliverApp(of: string): Promise<void> {
    const { namespace } = JSON.parse(of) as DestinationKey;
    const used = await syncControl(this.env).useApp(namespace, this.#self, this.usesApp());
    if (!used.ok) warn("app-missing", { destination: this.#self });
  }

  async #deliverKeyHolder(): Promise<void> {
    const holds = this.#record.row() !== null;
    const term = await accessControl(this.env).holdsKeys("sync-destination", this.#self, holds);
    this.rekey(term);
  }
}

const PURGING = "purge in progress: the destination is being deleted; associations can be neither set nor removed";

const watchLane = (mountUuid: string, secretName: string): string => `${mountUuid}\n${secretName}`;
const lane = ({ namespace, type, name }: DestinationKey): string => JSON.stringify({ namespace, type, name });
const isoOf = (at: number): string => new Date(at).toISOString();
const listingOf = ({ mountPath, secretName }: SecretRef): AssociationListing => ({
  mount: mountPath,
  secret: secretName,
});
const blockedOf = (step: Step): string[] => ("blocked" in step && step.blocked !== null ? [step.blocked] : []);
