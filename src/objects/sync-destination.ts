import { createHash } from "node:crypto";
import { projectDestination } from "../listings/destinations.ts";
import { ok, type Refusal, type Result, refuse } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { guarded } from "../sealing/guarded.ts";
import {
  type AssociationView,
  associationId,
  endingOf,
  type SecretRef,
  type SyncResult,
  type SyncStatus,
  type SyncTask,
} from "../sync/association.ts";
import { Associations, isCertain, staleNamesOf, tagKeysOf } from "../sync/associations.ts";
import { type Definition, define, effectiveTemplate, masked, tagsOf, typeOf } from "../sync/definition.ts";
import type { DestinationType } from "../sync/destinations/index.ts";
import { externalName } from "../sync/external-name.ts";
import { type AssociationRow, type DestinationRow, destinationMigrations } from "../sync/schema.ts";
import { StoredObjects, type StoredObjectView } from "../sync/stored-objects.ts";
import { Doorbell } from "../work/doorbell.ts";
import type { Claim } from "../work/task.ts";
import { WorkList, workMigrations } from "../work/work-list.ts";
import { StoredObject } from "./stored-object.ts";
import { accessControl, kvStore } from "./stubs.ts";

export interface DestinationKey {
  readonly namespace: string;
  readonly type: string;
  readonly name: string;
}

export interface DestinationView {
  readonly name: string;
  readonly type: string;
  readonly connection_details: Record<string, unknown>;
  readonly options: {
    readonly granularity_level: string;
    readonly secret_name_template: string;
    readonly custom_tags: Readonly<Record<string, string>>;
  };
}

export interface AssociationsView {
  readonly store_name: string;
  readonly store_type: string;
  readonly associated_secrets: Record<string, AssociationView>;
  readonly sync_operation_counters: Partial<Record<SyncStatus, number>>;
}

/** The request that states a wish also performs it; the doorbell keeps quiet for that long. */
const INLINE_MS = 2_500;
const PAGE = 1_000;

/** Owner of one destination: its connection details, its associations, and what still has to be done there. */
export class SyncDestination extends StoredObject {
  readonly #keys: DataKeys;
  readonly #work: WorkList;
  readonly #associations: Associations;
  readonly #objects: StoredObjects;
  readonly #bell: Doorbell;
  readonly #self: string;

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, work: workMigrations, destination: destinationMigrations },
      {
        watch: (lane) => this.#deliverWatch(lane),
        listing: (lane) => this.#deliverListing(lane),
        "key-holder": () => this.#deliverKeyHolder(),
      },
    );
    this.#self = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(this.sql, `sync-destination ${this.#self}`, () => this.env.MASTER_KEY);
    this.#work = new WorkList(this.sql);
    this.#associations = new Associations(this.sql, this.#work);
    this.#objects = new StoredObjects(this.sql, this.#keys, `sync-destination ${this.#self}`);
    this.#bell = new Doorbell(env.SYNC_WORK, this.#self);
  }

  // ---- the destination ----

  /** Creates the destination, or changes what the body names. */
  async configure(key: DestinationKey, body: Readonly<Record<string, unknown>>): Promise<Result<DestinationView>> {
    const written = guarded((): Result<DestinationView> => {
      const type = typeOf(key.type);
      if (!type)
        return refuse("missing", `unsupported path: no destination type ${JSON.stringify(key.type.slice(0, 64))}`);
      const row = this.#row();
      const defined = define(type, body, row ? this.#definition(row) : null);
      if (!defined.ok) return defined;
      const definition = defined.value;
      const now = Date.now();
      this.commit(() => {
        this.sql.exec(
          `INSERT INTO destination (id, namespace, type, name, granularity, template, custom_tags, connection, created, updated)
           VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET granularity = excluded.granularity, template = excluded.template,
             custom_tags = excluded.custom_tags, connection = excluded.connection, updated = excluded.updated`,
          key.namespace,
          key.type,
          key.name,
          definition.granularity,
          definition.template,
          JSON.stringify(definition.customTags),
          this.#keys.seal(JSON.stringify(definition.connection), this.#context("connection")),
          now,
          now,
        );
        if (!row) this.outbox.enlistLatest("key-holder", this.#self, null);
        this.outbox.enlistLatest("listing", this.#lane(key), null);
        // A repaired configuration gets its chance at once.
        this.#associations.wantRefused(now);
      });
      return this.read();
    });
    await this.outbox.drain();
    return written;
  }

  read(): Result<DestinationView> {
    return guarded(() => {
      const found = this.#found();
      if (!found) return refuse("missing");
      const { row, type } = found;
      const definition = this.#definition(row);
      return ok({
        name: row.name,
        type: row.type,
        connection_details: masked(type, definition.connection),
        options: {
          granularity_level: definition.granularity,
          secret_name_template: effectiveTemplate(type, definition),
          custom_tags: definition.customTags,
        },
      });
    });
  }

  /** Deletes a destination without associations. One that is gone already counts as deleted. */
  async delete(): Promise<Result<null>> {
    const row = this.#row();
    if (!row) return ok(null);
    const n = this.#associations.count();
    if (n > 0) return refuse("in-use", `destination has ${n} associations; remove them first`);
    this.commit(() => {
      this.sql.exec("DELETE FROM destination");
      this.outbox.enlistLatest("listing", this.#lane(row), null);
      this.outbox.enlistLatest("key-holder", this.#self, null);
    });
    await this.outbox.drain();
    return ok(null);
  }

  // ---- associations ----

  /** Wishes a secret to be here, or here again. The caller performs the work that this leaves. */
  async set(secret: SecretRef): Promise<Result<AssociationsView>> {
    const id = associationId(secret);
    const lane = watchLane(secret.mountUuid, secret.secretName);
    const written = guarded((): Result<null> => {
      const found = this.#found();
      if (!found) return refuse("missing");
      const name = externalName(found.row, found.type, secret);
      const holder = this.#associations.holderOf(name, id);
      if (holder)
        return refuse("invalid", `external name ${JSON.stringify(name)} is taken by the association of ${holder.id}`);
      const now = Date.now();
      this.commit(() => {
        this.#associations.set(secret, name, now);
        this.outbox.enlistLatest("watch", lane, null);
        this.#bell.expectClaimWithin(INLINE_MS, now);
      });
      return ok(null);
    });
    if (!written.ok) return written;
    await this.outbox.drain("watch", lane);
    return this.associations([id]);
  }

  /** Wishes a secret to be gone from here. No association is a success. */
  remove(secret: Pick<SecretRef, "mountAccessor" | "secretName">): Result<AssociationsView> {
    if (!this.#row()) return refuse("missing");
    const id = associationId(secret);
    const now = Date.now();
    if (this.#associations.find(id)) {
      this.commit(() => {
        this.#associations.want(id, "absent", now);
        this.#bell.expectClaimWithin(INLINE_MS, now);
      });
    }
    return this.associations([id]);
  }

  /** The accessor of an association by the mount's path, for mounts that are gone. */
  accessorOf(mountPath: string, secretName: string): string | null {
    return this.#associations.ofPath(mountPath, secretName)?.mount_accessor ?? null;
  }

  /** The associations named, or one page of all of them. */
  associations(ids: readonly string[] | null, after = ""): Result<AssociationsView> {
    const destination = this.#row();
    if (!destination) return refuse("missing");
    const rows = ids
      ? ids.map((id) => this.#associations.find(id)).filter((row) => row !== null)
      : this.#associations.page(after, PAGE);
    const counters: Partial<Record<SyncStatus, number>> = {};
    for (const { status } of rows) counters[status] = (counters[status] ?? 0) + 1;
    return ok({
      store_name: destination.name,
      store_type: destination.type,
      associated_secrets: Object.fromEntries(rows.map((row) => [row.id, this.#associations.view(row)])),
      sync_operation_counters: counters,
    });
  }

  /** A secret of a mount has changed in some way: what is here must be made its newest state. */
  changed(mountUuid: string, secretName: string): void {
    const rows = this.#associations.ofSecret(mountUuid, secretName).filter((row) => row.wish === "present");
    if (rows.length === 0) return;
    const now = Date.now();
    const rings = this.#bell.lift(now);
    this.commit(() => {
      for (const row of rows) this.#associations.want(row.id, "present", now);
    });
    // Behind the answer: whoever told us has done its part once this is stored.
    if (rings) this.ctx.waitUntil(this.#bell.ring());
  }

  /** Objects of a destination that keeps them itself, with their values. */
  storedObjects(after: string): Result<StoredObjectView[]> {
    return guarded(() =>
      this.#found()?.type.kind === "stored" ? ok(this.#objects.page(after, PAGE)) : refuse("missing"),
    );
  }

  // ---- work ----

  /** Hands out what is ready to be done, each under a lease. `only` names one association. */
  claim(limit: number, only?: string): SyncTask[] | Refusal {
    return guarded((): SyncTask[] => {
      this.#bell.answered();
      const found = this.#found();
      if (!found) return [];
      // Opened before anything is leased, so that a sealed service leases nothing.
      const definition = this.#definition(found.row);
      return this.commit(() =>
        this.#work.claim(limit, Date.now(), only).flatMap((claim) => {
          const row = this.#associations.find(claim.id);
          if (!row) {
            this.#work.forget(claim.id);
            return [];
          }
          this.#associations.claimed(row, Object.keys(tagsOf(definition)));
          return [task(claim, row, definition, found.type)];
        }),
      );
    });
  }

  /** Takes the results of tasks. What came too late, or answers an older wish, changes nothing. */
  async settle(results: readonly SyncResult[]): Promise<void> {
    this.commit(() => {
      for (const result of results) this.#settleOne(result, Date.now());
    });
    await this.outbox.drain("watch");
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override ownDeadline(): number | null {
    return this.#bell.due(this.#work.nextReady());
  }

  protected override async onAlarm(now: number): Promise<void> {
    const ready = this.#work.nextReady();
    if (ready !== null && ready <= now && this.#bell.lift(now)) await this.#bell.ring();
  }

  #settleOne(result: SyncResult, now: number): void {
    const row = this.#associations.find(result.claim.id);
    const found = this.#found();
    if (!row || !found) return;
    const { status, ending } = endingOf(result);
    const settled = this.#work.settle(result.claim, ending, now);
    if (settled === "stale") return;
    const superseded = settled === "superseded";
    // What happened outside is recorded even when the wish has changed since. In our own storage it happens here and now,
    // so then it does not happen at all.
    const effective = result.outcome.outcome === "ok" && !(superseded && found.type.kind === "stored");
    if (effective) this.#associations.record(row, result);
    if (effective && found.type.kind === "stored") this.#store(result, found.row, now);
    if (superseded) return;
    if (settled === "done" && row.wish === "absent") {
      this.#associations.delete(row.id);
      this.outbox.enlistLatest("watch", watchLane(row.mount_uuid, row.secret_name), null);
      return;
    }
    this.#associations.conclude(row.id, status, result.outcome.outcome === "ok" ? null : result.outcome, now);
  }

  #store(result: SyncResult, destination: DestinationRow, now: number): void {
    for (const name of result.removedNames) this.#objects.remove(name);
    if (result.value === undefined) return;
    this.#objects.put(result.externalName, result.value, tagsOf({ customTags: customTagsOf(destination) }), now);
  }

  #row(): DestinationRow | null {
    return this.sql.exec<DestinationRow>("SELECT * FROM destination").toArray()[0] ?? null;
  }

  #found(): { row: DestinationRow; type: DestinationType<unknown> } | null {
    const row = this.#row();
    const type = row ? typeOf(row.type) : undefined;
    return row && type ? { row, type } : null;
  }

  #definition(row: DestinationRow): Definition {
    return {
      granularity: row.granularity as Definition["granularity"],
      template: row.template,
      customTags: customTagsOf(row),
      connection: JSON.parse(this.#keys.openText(row.connection, this.#context("connection"))) as Record<
        string,
        unknown
      >,
    };
  }

  /**
   * Has the mount tell us about a secret for as long as an association wants it. Decided at the moment of delivery, in one
   * lane a secret, so that coming and going never cross.
   */
  async #deliverWatch(lane: string): Promise<(() => void) | undefined> {
    const [mountUuid = "", secretName = ""] = lane.split("\n");
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
        if (missed && row.wish === "present") this.#associations.want(row.id, "present", Date.now());
      }
    };
  }

  async #deliverListing(lane: string): Promise<void> {
    const key = JSON.parse(lane) as DestinationKey;
    await projectDestination(this.env.LISTINGS, key, this.#row() !== null);
  }

  async #deliverKeyHolder(): Promise<void> {
    const term = await accessControl(this.env).holdsKeys("sync-destination", this.#self, this.#row() !== null);
    this.rekey(term);
  }

  #lane({ namespace, type, name }: DestinationKey): string {
    return JSON.stringify({ namespace, type, name });
  }

  #context(what: string): string {
    return `sync-destination ${this.#self} ${what}`;
  }
}

const watchLane = (mountUuid: string, secretName: string): string => `${mountUuid}\n${secretName}`;

const customTagsOf = (row: DestinationRow): Record<string, string> =>
  JSON.parse(row.custom_tags) as Record<string, string>;

function task(claim: Claim, row: AssociationRow, definition: Definition, type: DestinationType<unknown>): SyncTask {
  return {
    claim,
    type: type.type,
    connection: definition.connection,
    wish: row.wish,
    mountUuid: row.mount_uuid,
    secretName: row.secret_name,
    externalName: row.external_name,
    staleNames: staleNamesOf(row),
    tags: tagsOf(definition),
    previousTagKeys: tagKeysOf(row),
    ...(isCertain(row) && { outside: row.synced_version }),
    knownToExist: row.synced_version !== null,
    idempotencyToken: createHash("sha256").update(`${row.seed} ${row.intent}`).digest("hex"),
  };
}
