import type { DestinationKey } from "../contracts/destination.ts";
import { kvStore, syncControl } from "../contracts/stubs.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import type { AssociationListing } from "../listings/destinations.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { guarded } from "../platform/crypto/refuse-if-sealed.ts";
import type { Claim } from "../platform/durable/lease.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { Doorbell } from "../platform/durable/wake-up.ts";
import { WorkList, workMigrations } from "../platform/durable/work-queue.ts";
import { note } from "../platform/observability/audit/actions.ts";
import { destinationMeasures } from "../platform/observability/metrics/measures.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";
import { announceAll, announceAssociation, announceDestination, Deliveries } from "../sync/announcements.ts";
import {
  type AssociationView,
  associationId,
  type CopyTask,
  type SecretRef,
  type Setup,
  type Turn,
} from "../sync/association.ts";
import { Associations, secretOf } from "../sync/associations.ts";
import { type AssociationsPage, associationsPage } from "../sync/associations-page.ts";
import { Breaker } from "../sync/breaker.ts";
import { Configuration, type Configured, type DestinationState } from "../sync/configuration.ts";
import { Wishes } from "../sync/desired-state.ts";
import { DestinationRecord, type Found } from "../sync/destination-record.ts";
import type { Granularity } from "../sync/destinations/destination-type.ts";
import { wantedCopies } from "../sync/external-name.ts";
import { type Contest, Neighbours } from "../sync/neighbours.ts";
import type { DestinationParts } from "../sync/parts.ts";
import { Pause } from "../sync/pause.ts";
import { Turns } from "../sync/poll.ts";
import {
  copyRecords,
  type KeysOf,
  type PlannedCopy,
  plannedCopies,
  previewed,
  type RecordsPage,
} from "../sync/preview.ts";
import { Purge } from "../sync/purge.ts";
import { type Granted, type Need, Share } from "../sync/queue-quota.ts";
import { Copies } from "../sync/remote-objects.ts";
import { Scan } from "../sync/resync.ts";
import { type AssociationRow, destinationMigrations } from "../sync/schema.ts";
import { StoredObjects, type StoredObjectView } from "../sync/stored-objects.ts";
import { Desk } from "../sync/task-scheduler.ts";

const PAGE = 1_000;

/**
 * Owner of one destination: its connection details, its associations, and what still has to be done there. Its parts, in
 * `src/sync`, decide; this is their surface.
 */
export class SyncDestination extends StoredObject {
  readonly #keys: DataKeys;
  readonly #parts: DestinationParts;
  readonly #configuration: Configuration;
  readonly #wishes: Wishes;
  readonly #turns: Turns;
  readonly #deliveries: Deliveries;

  protected override get kind() {
    return "sync-destination" as const;
  }

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
        targets: () => this.#deliveries.targets(),
      },
    );
    const self = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(this.sql, `sync-destination ${self}`, () => this.env.MASTER_KEY);
    this.#parts = this.#assemble(self);
    this.#configuration = new Configuration(this.#parts);
    this.#wishes = new Wishes(this.#parts);
    this.#turns = new Turns(this.#parts);
    this.#deliveries = new Deliveries(this.#parts, {
      usedApp: () => this.#configuration.usedApp(),
      rekey: (term) => this.rekey(term),
    });
  }

  #assemble(self: string): DestinationParts {
    const { sql, env, outbox } = this;
    const commit = <T>(change: () => T): T => this.commit(change);
    const pause = new Pause(() => syncControl(env).mayRun());
    const work = new WorkList(sql, { failedLast: true });
    const copies = new Copies(sql);
    const associations = new Associations(sql, work, copies);
    const exchange = async (need: Need): Promise<Granted> => {
      const sent = Date.now();
      const answer = await syncControl(env).share(self, need);
      pause.learn(answer, sent);
      return answer;
    };
    const share = new Share({ self, sql, work, commit, exchange });
    const want = (row: AssociationRow, wish: "present" | "absent", now: number, failed = false): void => {
      share.expectAsk(now);
      associations.want(row.id, wish, now, share.hasRoom(), failed);
    };
    const stores = {
      sql,
      commit,
      want,
      work,
      copies,
      associations,
      record: new DestinationRecord(sql, this.#keys, self),
      objects: new StoredObjects(sql, this.#keys, `sync-destination ${self}`),
      breaker: new Breaker(sql),
    };
    const scan = new Scan({
      ...stores,
      everyMs: settings(env).SYNC_SCAN_MS,
      newest: (mount, names) => kvStore(env, mount).newestVersions(names),
      want: (row, now, failed) => want(row, row.wish, now, failed),
    });
    const purge = new Purge({
      ...stores,
      forget: (row) => announceAssociation(outbox, secretOf(row)),
      ended: () => {
        announceDestination(outbox, true);
        note("destination-ended", { destination: self });
      },
      cleared: () => {
        scan.end();
        outbox.enlistLatest("key-holder", "", null);
      },
    });
    const neighbours = new Neighbours({ ...stores, env, self });
    const place = (found: Found): string => neighbours.place(found);
    const desk = new Desk({ ...stores, purge, place });
    const bell = new Doorbell(env.SYNC_WORK, self);
    const behind = (work: Promise<unknown>): void => this.ctx.waitUntil(work);
    return { ...stores, env, self, outbox, share, pause, purge, scan, desk, bell, neighbours, place, behind };
  }

  // ---- the destination ----

  configure(...given: Parameters<Configuration["write"]>): Promise<Result<Configured>> {
    return this.#configuration.write(...given);
  }

  repaired(): void {
    this.#configuration.repaired();
  }

  read(): Result<DestinationState> {
    return this.#configuration.read();
  }

  /**
   * Deletes the destination. With associations only when asked to: `purge` removes their objects first, behind the answer;
   * `force` deletes even if that fails, and without `purge` leaves the objects where they are. One that is gone counts as
   * deleted.
   */
  async delete({ purge: removes, force } = { purge: false, force: false }): Promise<Result<null>> {
    const { record, associations, purge, share } = this.#parts;
    if (!record.row()) return ok(null);
    const some = associations.any();
    if (some && !removes && !force) {
      const n = associations.count(PAGE);
      return refuse(
        "in-use",
        `destination has ${counted(n)}; remove them first, or delete it with purge=true, which removes their secrets there`,
      );
    }
    this.commit(() => purge.begin({ removes: some && removes, force }, Date.now()));
    if (share.isWorthAsking()) this.ctx.waitUntil(share.tryAsk());
    // Whoever deletes next what the destination stood in the way of (its namespace, its application) finds it gone.
    await Promise.all(["listing", "app", "targets", "key-holder"].map((topic) => this.outbox.drain(topic)));
    return ok(null);
  }

  /** Whether the destination uses a custom application, or is about to. @throws Sealed */
  needsApp(name: string): boolean {
    return this.#configuration.needsApp(name);
  }

  // ---- associations ----

  set(secret: SecretRef, keys: readonly string[] = []): Promise<Result<AssociationsPage>> {
    return this.#wishes.set(secret, keys);
  }

  remove(...given: Parameters<Wishes["remove"]>): Promise<Result<AssociationsPage>> {
    return this.#wishes.remove(...given);
  }

  changed(mountUuid: string, secretNames: readonly string[]): Promise<void> {
    return this.#wishes.changed(mountUuid, secretNames);
  }

  /** The accessor of an association by the mount's path, for mounts that are gone. */
  accessorOf(mountPath: string, secretName: string): string | null {
    return this.#parts.associations.ofPath(mountPath, secretName)?.mount_accessor ?? null;
  }

  /** The entries of a secret, by the path that its mount had when it was set. */
  ofSecret(mountPath: string, secretName: string): (readonly [string, AssociationView])[] {
    const { record, associations, breaker } = this.#parts;
    const row = record.row() ? associations.ofPath(mountPath, secretName) : null;
    return row ? associations.views(row, breaker.view()?.openUntil ?? 0) : [];
  }

  /** The associations named, or one page of all of them. */
  associations(ids: readonly string[] | null, after?: string, limit?: number): Result<AssociationsPage> {
    return associationsPage(this.#parts, ids, after, limit);
  }

  /** Objects of a destination that keeps them itself, with their values. */
  storedObjects(after: string): Result<StoredObjectView[]> {
    const { record, objects } = this.#parts;
    return guarded(() => (record.find()?.type.kind === "stored" ? ok(objects.page(after, PAGE)) : refuse("missing")));
  }

  // ---- looking ahead, and looking again ----

  /** What setting a secret would do. */
  async previewSet(secret: SecretRef, keys: readonly string[]): Promise<Result<PlannedCopy[]>> {
    const before = guarded(() => this.#wishes.admit(secret, keys));
    if (!before.ok) return before;
    const taken = await this.#parts.neighbours.look(before.unclaimed);
    return guarded(() => {
      const admitted = this.#wishes.admit(secret, keys, taken);
      if (!admitted.ok) return admitted;
      const { steps, found } = admitted;
      const id = associationId(secret);
      return ok(plannedCopies(id, this.#parts.copies.of(id), steps, found.row.deletion_policy));
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
      const defined = this.#parts.record.define(key, body, mode, settings(this.env));
      return defined.ok ? ok(previewed(this.#parts, key, defined.value, page)) : defined;
    });
  }

  /** One page of the objects that are recorded, to be compared with the provider. */
  copyRecords(after: string, limit: number): Result<RecordsPage> {
    if (!this.#parts.record.row()) return refuse("missing");
    const page = copyRecords(this.#parts, after, limit);
    return page ? ok(page) : refuse("invalid", "after: must be what an earlier answer said in next");
  }

  /** What calling the provider takes. */
  setup(): Result<Setup> {
    const { record } = this.#parts;
    return guarded(() => {
      const found = record.find();
      return found ? ok(record.setup(found)) : refuse("missing");
    });
  }

  /** An external name: that of an object which is there, else one that a secret of no importance would have. */
  sampleName(): string | null {
    const { record, copies, associations } = this.#parts;
    const found = record.find();
    return found && (copies.anyPushed() ?? sampleOf(found, record, associations.page("", 1)[0]));
  }

  // ---- work ----

  turn(...given: Parameters<Turns["take"]>): Promise<Turn | Refusal> {
    return this.#turns.take(...given);
  }

  plan(claim: Claim, keys: readonly string[] | null): Promise<CopyTask[] | null> {
    return this.#turns.plan(claim, keys);
  }

  /** Another destination, which writes to the same place, asks for names. */
  contest(...given: Parameters<Neighbours["contest"]>): Contest {
    return this.#parts.neighbours.contest(...given);
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
    for (const topic of LISTED) await this.outbox.drain(topic);
    return !LISTED.some((topic) => this.outbox.holds(topic));
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override rolledBack(): void {
    const { record, breaker, share, purge, scan, work, associations } = this.#parts;
    for (const part of [record, breaker, share, purge, scan]) part.forget();
    for (const part of [work, associations]) part.forgetKept();
  }

  protected override measured(): Series[] {
    return [
      series("sallyport_sync_pending", this.#parts.work.queued(), "queued"),
      series("sallyport_sync_pending", this.#parts.work.waiting(), "waiting"),
      ...countedSeries(this.sql),
    ];
  }

  protected override ownDeadline(): number | null {
    const { record, share, scan, purge } = this.#parts;
    const due = [this.#workDue(), share.due(), record.find() && scan.due(), purge.due()];
    const times = due.filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  protected override async onAlarm(now: number): Promise<void> {
    const { share, work, bell, scan } = this.#parts;
    await this.#turns.endSome();
    // One that is older than the register of targets makes itself known.
    await this.#parts.neighbours.tryRegister();
    const asks = share.due();
    if (asks !== null && asks <= now) await share.tryAsk();
    const ready = this.#workDue();
    if (ready !== null && ready <= now && bell.lift(now)) await bell.ring();
    // Last, because mounts that do not answer must hold up nothing else.
    await scan.step(now);
    if (work.waiting() > 0) await share.tryAsk();
  }

  /** When somebody should be rung for, who does what is ready then. */
  #workDue(): number | null {
    const { record, desk, bell, pause } = this.#parts;
    const found = record.find();
    const ready = found && desk.due(found, Date.now());
    return found && bell.due(ready === null ? null : Math.max(ready, pause.until()));
  }
}

/** What names a secret would have beside those of `row`, or in a mount that is made up. */
function sampleOf(found: Found, record: DestinationRecord, row: AssociationRow | undefined): string | null {
  const naming = { granularity: found.row.granularity as Granularity, template: found.row.template };
  const made = { mountUuid: "", mountAccessor: "kv_00000000", mountPath: "kv/" };
  const secret = { ...(row ? secretOf(row) : made), secretName: "sallyport-check" };
  return wantedCopies(record.scope(found.row, naming), found.type, secret, ["key"])[0]?.name || null;
}

const LISTED = ["listing", "relist", "associations"];
const counted = (n: number): string =>
  n === 1 ? "an association" : `${n < PAGE ? n : `${PAGE} or more`} associations`;
