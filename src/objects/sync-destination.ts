import { note } from "../audit/actions.ts";
import { settings } from "../env.ts";
import type { AssociationListing } from "../listings/destinations.ts";
import { textOf, warn } from "../log.ts";
import { countedSeries } from "../metrics/counted.ts";
import { destinationMeasures } from "../metrics/measures.ts";
import { type Series, series } from "../metrics/series.ts";
import { ok, type Refusal, type Result, refuse } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { guarded } from "../sealing/guarded.ts";
import { type Admitted, admitSet, PURGING } from "../sync/admission.ts";
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
import { Copies } from "../sync/copies.ts";
import type { Definition } from "../sync/definition.ts";
import {
  announceAll,
  announceAssociation,
  announceDestination,
  announceWatch,
  Deliveries,
  drainAssociation,
} from "../sync/deliveries.ts";
import { Desk } from "../sync/desk.ts";
import {
  type DestinationKey,
  DestinationRecord,
  type DestinationView,
  type Found,
} from "../sync/destination-record.ts";
import type { DestinationType } from "../sync/destinations/index.ts";
import { Pause } from "../sync/pause.ts";
import {
  copyRecords,
  type KeysOf,
  type PlannedCopy,
  plannedCopies,
  previewed,
  type RecordsPage,
} from "../sync/preview.ts";
import { Purge } from "../sync/purge.ts";
import { Scan } from "../sync/scan.ts";
import { type AssociationRow, destinationMigrations } from "../sync/schema.ts";
import { type Granted, type Need, Share } from "../sync/share.ts";
import { StoredObjects, type StoredObjectView } from "../sync/stored-objects.ts";
import { Doorbell } from "../work/doorbell.ts";
import type { Claim } from "../work/task.ts";
import { WorkList, workMigrations } from "../work/work-list.ts";
import { StoredObject } from "./stored-object.ts";
import { kvStore, syncControl } from "./stubs.ts";

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
  readonly #deliveries: Deliveries;
  readonly #pause = new Pause(() => syncControl(this.env).mayRun());
  readonly #self: string;
  /** Applications that writes on their way are about to use. */
  readonly #claimed: string[] = [];

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      {
        data_keys: dataKeyMigrations,
        work: workMigrations,
        destination: destinationMigrations,
        measures: destinationMeasures,
      },
      {
        watch: (lane) => this.#deliveries.watch(lane),
        listing: () => this.#deliveries.listing(),
        associations: (_lane, rows) => this.#deliveries.associations(rows),
        relist: (_lane, rows) => this.#deliveries.relist(rows),
        "key-holder": () => this.#deliveries.keyHolder(),
        app: () => this.#deliveries.app(),
      },
    );
    const { sql } = this;
    const commit = <T>(change: () => T): T => this.commit(change);
    const want = (row: AssociationRow, wish: "present" | "absent", now: number): void => this.#want(row, wish, now);
    this.#self = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(sql, `sync-destination ${this.#self}`, () => this.env.MASTER_KEY);
    this.#record = new DestinationRecord(sql, this.#keys, this.#self);
    this.#work = new WorkList(sql);
    this.#copies = new Copies(sql);
    this.#associations = new Associations(sql, this.#work, this.#copies);
    this.#objects = new StoredObjects(sql, this.#keys, `sync-destination ${this.#self}`);
    this.#breaker = new Breaker(sql);
    this.#share = new Share({ sql, work: this.#work, commit, exchange: (need) => this.#exchange(need) });
    const parts = {
      sql,
      commit,
      want,
      record: this.#record,
      work: this.#work,
      copies: this.#copies,
      associations: this.#associations,
      objects: this.#objects,
      breaker: this.#breaker,
    };
    this.#purge = new Purge({
      ...parts,
      forget: (row) => announceAssociation(this.outbox, secretOf(row)),
      ended: () => {
        announceDestination(this.outbox, true);
        note("destination-ended", { destination: this.#self });
      },
      cleared: () => this.#scan.end(),
    });
    this.#scan = new Scan({
      ...parts,
      everyMs: settings(env).SYNC_SCAN_MS,
      newest: (mount, names) => kvStore(this.env, mount).newestVersions(names),
      want: (row, now) => want(row, row.wish, now),
    });
    this.#desk = new Desk({ ...parts, purge: this.#purge });
    this.#deliveries = new Deliveries({
      ...parts,
      env,
      outbox: () => this.outbox,
      self: this.#self,
      usedApp: () => this.#usedApp(),
      rekey: (term) => this.rekey(term),
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
    const app = appIn(defined.value);
    if (app !== null) {
      this.#claimed.push(app);
      const claimed = await syncControl(this.env)
        .claimApp(key.namespace, this.#self, app)
        .finally(() => this.#claimed.splice(this.#claimed.indexOf(app), 1));
      if (!claimed.ok) return claimed;
    }
    const written = guarded((): Result<Configured> => {
      // Once more: another write may have come in between.
      const again = this.#record.define(key, body, mode, settings(this.env));
      if (!again.ok) return again;
      if (appIn(again.value) !== app) return refuse("conflict", "another write came in between; try again");
      if (!this.#record.row() && this.#purge.find()) {
        return refuse("conflict", "a destination of this name is still being deleted; try again in a moment");
      }
      const now = Date.now();
      this.commit(() => {
        announceDestination(this.outbox, !this.#record.row());
        this.#record.store(key, word ?? key.type, again.value.definition, now);
        this.#tryAgain(now);
      });
      const state = this.read();
      return state.ok ? ok({ state: state.value, warnings: again.value.warnings }) : state;
    });
    await this.outbox.drain();
    return written;
  }

  /** What it calls the provider with has been repaired elsewhere. */
  repaired(): void {
    if (this.#record.row()) this.commit(() => this.#tryAgain(Date.now()));
  }

  /** What was repaired gets its chance at once. */
  #tryAgain(now: number): void {
    this.#breaker.close();
    this.#work.unpause();
    if (this.#associations.any()) this.#scan.restart(now);
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
        `destination has ${counted(n)}; remove them first, or delete it with purge=true, which removes their secrets there`,
      );
    }
    this.commit(() => this.#purge.begin({ removes: some && purge, force }, Date.now()));
    if (this.#share.isWorthAsking()) this.ctx.waitUntil(this.#ask());
    // Whoever deletes next what the destination stood in the way of (its namespace, its application) finds it gone.
    await Promise.all(["listing", "app", "key-holder"].map((topic) => this.outbox.drain(topic)));
    return ok(null);
  }

  /** Whether the destination uses a custom application, or is about to. @throws Sealed */
  needsApp(name: string): boolean {
    return this.#claimed.includes(name) || this.#usedApp() === name;
  }

  // ---- associations ----

  /**
   * Wishes a secret to be here, or here again. The caller performs the work that this leaves.
   * @param keys the secret's top-level keys, for destinations with one object a key
   */
  async set(secret: SecretRef, keys: readonly string[] = []): Promise<Result<AssociationsPage>> {
    const id = associationId(secret);
    const refused = this.#admit(secret, keys);
    if (!refused.ok) return refused;
    const reserved = !this.#work.find(id);
    if (reserved && !(await this.#share.reserve())) {
      return refuse("unavailable", "the sync queue is at capacity; nothing was recorded");
    }
    try {
      // Once more: something may have changed while there was a question for room.
      const written = guarded(() => this.#recordSet(secret, keys));
      if (!written.ok) return written;
    } finally {
      if (reserved) this.#share.release();
    }
    await drainAssociation(this.outbox, secret);
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

  /** Secrets of a mount have changed in some way: what is here must be made their newest state. Never refused: it waits for room. */
  async changed(mountUuid: string, secretNames: readonly string[]): Promise<void> {
    const rows = secretNames
      .flatMap((secretName) => this.#associations.ofSecret(mountUuid, secretName))
      .filter((row) => row.wish === "present");
    if (rows.length === 0) return;
    const now = Date.now();
    const rings = this.#pause.until() <= now && this.#bell.lift(now);
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
      const admitted = this.#admit(secret, keys);
      if (!admitted.ok) return admitted;
      const { steps, found } = admitted;
      const id = associationId(secret);
      return ok(plannedCopies(id, this.#copies.of(id), steps, found.row.deletion_policy));
    });
  }

  /** What a configuration would do to the associations once they are set again: one page of them. */
  previewConfigure(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    mode: "write" | "patch",
    page: { readonly after: string; readonly keys: KeysOf | null },
  ): Result<ReturnType<typeof previewed>> {
    return guarded(() => {
      const defined = this.#record.define(key, body, mode, settings(this.env));
      if (!defined.ok) return defined;
      const rows = { record: this.#record, associations: this.#associations, copies: this.#copies };
      return ok(previewed(rows, key, defined.value, page));
    });
  }

  /** One page of the objects that are recorded, to be compared with the provider. */
  copyRecords(after: string, limit: number): Result<RecordsPage> {
    if (!this.#record.row()) return refuse("missing");
    const page = copyRecords({ associations: this.#associations, copies: this.#copies }, after, limit);
    return page ? ok(page) : refuse("invalid", "after: must be what an earlier answer said in next");
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
    this.#bell.answered();
    await this.#settle(results);
    const idle: Turn = { running: true, permitMs: 0, setup: null, tasks: [], retryInMs: null };
    if (places <= 0) return idle;
    if (this.#work.queued() === 0 && this.#work.waiting() > 0) await this.#ask();
    if (this.#work.queued() === 0) return idle;
    if (!(await this.#pause.mayRun())) return { ...idle, running: false };
    return guarded((): Turn => {
      const found = this.#record.find();
      if (!found) return idle;
      const due = this.#desk.due(found, Date.now());
      // Nothing to hand out, as for most of those who ask in a burst: without a transaction.
      if (only === undefined && (due === null || due > Date.now())) {
        return { ...idle, retryInMs: due === null ? null : due - Date.now() };
      }
      // Opened before anything is leased, so that a sealed service leases nothing.
      const setup = this.#record.setup(found);
      const now = Date.now();
      const tasks = this.commit(() => this.#desk.claim(found, places, now, only));
      const next = this.#desk.due(found, now);
      return {
        running: true,
        permitMs: this.#pause.permitMs(now),
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

  // ---- listings ----

  /**
   * Has the listings brought in line with what is here.
   * @param listed what they say is associated, to be looked at, too @returns whether all has been told
   */
  async relist(listed: readonly AssociationListing[] | null): Promise<boolean> {
    this.commit(() => {
      if (listed === null) announceAll(this.outbox);
      for (const { mount, secret } of listed ?? []) this.outbox.enlist("associations", "", { mount, secret });
    });
    for (const topic of ["listing", "relist", "associations"]) await this.outbox.drain(topic);
    return !["listing", "relist", "associations"].some((topic) => this.outbox.holds(topic));
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override rolledBack(): void {
    for (const part of [this.#record, this.#breaker, this.#share, this.#purge, this.#scan]) part.forget();
    this.#work.forgetKept();
  }

  protected override measured(): Series[] {
    return [
      series("sallyport_sync_pending", this.#work.queued(), "queued"),
      series("sallyport_sync_pending", this.#work.waiting(), "waiting"),
      ...countedSeries(this.sql),
    ];
  }

  protected override ownDeadline(): number | null {
    const found = this.#record.find();
    const due = [found && this.#workDue(found), this.#share.due(), found && this.#scan.due(), this.#purge.due()];
    const times = due.filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  protected override async onAlarm(now: number): Promise<void> {
    await this.#endSome();
    const share = this.#share.due();
    if (share !== null && share <= now) await this.#ask();
    const found = this.#record.find();
    const ready = found && this.#workDue(found);
    if (ready !== null && ready <= now && this.#bell.lift(now)) await this.#bell.ring();
    // Last, because mounts that do not answer must hold up nothing else.
    await this.#scan.step(now);
    if (this.#work.waiting() > 0) await this.#ask();
  }

  #workDue(found: Found): number | null {
    const ready = this.#desk.due(found, Date.now());
    return this.#bell.due(ready === null ? null : Math.max(ready, this.#pause.until()));
  }

  #admit(secret: SecretRef, keys: readonly string[]): Admitted | Refusal {
    return admitSet({ record: this.#record, copies: this.#copies, purge: this.#purge }, secret, keys);
  }

  #recordSet(secret: SecretRef, keys: readonly string[]): Result<null> {
    const admitted = this.#admit(secret, keys);
    if (!admitted.ok) return admitted;
    const now = Date.now();
    this.commit(() => {
      if (this.#associations.find(associationId(secret))) announceWatch(this.outbox, secret);
      else {
        this.#scan.begin(now);
        announceAssociation(this.outbox, secret);
      }
      this.#associations.set(secret, admitted.naming, admitted.steps, now, true);
      this.#bell.expectClaimWithin(INLINE_MS, now);
    });
    return ok(null);
  }

  /** Room that is missing is asked for after the commit. */
  #want(row: AssociationRow, wish: "present" | "absent", now: number): void {
    this.#share.expectAsk(now);
    this.#associations.want(row.id, wish, now, this.#share.hasRoom());
  }

  async #settle(results: readonly SyncResult[]): Promise<void> {
    if (results.length > 0) {
      const gone = this.commit(() => {
        const ended = this.#desk.settle(results, Date.now());
        for (const row of ended) announceAssociation(this.outbox, secretOf(row));
        return ended;
      });
      if (gone.length > 0) await Promise.all([this.outbox.drain("watch"), this.outbox.drain("associations")]);
      if (this.#share.isWorthAsking()) this.ctx.waitUntil(this.#ask());
    }
    await this.#endSome();
  }

  /** One step of an ending that is on its way. */
  async #endSome(): Promise<void> {
    if (this.#purge.due() === null) return;
    this.commit(() => this.#purge.step(Date.now()));
    if (this.#work.waiting() > 0 || this.#share.isWorthAsking()) await this.#ask();
    if (!this.#record.row()) await this.outbox.drain();
  }

  /** Brings the share of the queue in line. Never rejects: the alarm asks again. */
  async #ask(): Promise<void> {
    try {
      await this.#share.ask();
    } catch (failure) {
      warn("share-failed", { destination: this.#self, because: textOf(failure) });
    }
  }

  async #exchange(need: Need): Promise<Granted> {
    const sent = Date.now();
    const answer = await syncControl(this.env).share(this.#self, need);
    this.#pause.learn(answer, sent);
    return answer;
  }

  #usedApp(): string | null {
    const found = this.#record.find();
    return found && appIn({ type: found.type, definition: this.#record.definition(found.row) });
  }
}

const isoOf = (at: number): string => new Date(at).toISOString();
const appIn = ({ type, definition }: { type: DestinationType<unknown>; definition: Definition }): string | null =>
  type.appOf?.(definition.connection) ?? null;
const counted = (n: number): string =>
  n === 1 ? "an association" : `${n < PAGE ? n : `${PAGE} or more`} associations`;
