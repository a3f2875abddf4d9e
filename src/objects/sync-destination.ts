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
import { type Definition, define, effectiveTemplate, masked, tagsOf, typeOf } from "../sync/definition.ts";
import type { DestinationType } from "../sync/destinations/index.ts";
import { baseName, normalise, parseTemplate, render } from "../sync/naming.ts";
import { type AssociationRow, type DestinationRow, destinationMigrations } from "../sync/schema.ts";
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
  readonly #bell: Doorbell;
  readonly #self: string;

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, work: workMigrations, destination: destinationMigrations },
      {
        watch: (id) => this.#deliverWatch(id),
        unwatch: (lane) => this.#deliverUnwatch(lane),
        listing: (lane) => this.#deliverListing(lane),
        "key-holder": () => this.#deliverKeyHolder(),
      },
    );
    this.#self = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(this.sql, `sync-destination ${this.#self}`, () => this.env.MASTER_KEY);
    this.#work = new WorkList(this.sql);
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
        for (const failed of this.#where("status = 'CLIENT_SIDE_ERROR' AND wish = 'present'")) this.#want(failed, now);
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
    const { n } = this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM associations").one();
    if (n > 0) return refuse("in-use", `destination has ${n} associations; remove them first`);
    this.commit(() => {
      this.sql.exec("DELETE FROM destination");
      this.outbox.enlistLatest("listing", this.#lane(row as DestinationKey), null);
    });
    await this.outbox.drain("listing");
    return ok(null);
  }

  // ---- associations ----

  /** Wishes a secret to be here, or here again. The caller performs the work that this leaves. */
  async set(secret: SecretRef): Promise<Result<AssociationsView>> {
    const written = guarded((): Result<string> => {
      const found = this.#found();
      if (!found) return refuse("missing");
      const id = associationId(secret);
      const name = this.#externalName(found.row, found.type, secret);
      // A name still to be removed for another secret is taken, too.
      const [holder] = this.#where(
        "id <> ? AND (external_name = ? OR instr(stale_names, ?) > 0)",
        id,
        name,
        JSON.stringify(name),
      );
      if (holder)
        return refuse("invalid", `external name ${JSON.stringify(name)} is taken by the association of ${holder.id}`);
      const [before] = this.#where("id = ?", id);
      const now = Date.now();
      this.commit(() => {
        if (before && before.external_name !== name) this.#rename(before, name);
        if (!before) this.#insert(id, secret, name, now);
        const [row] = this.#where("id = ?", id);
        if (row) this.#want({ ...row, wish: "present" }, now);
        this.outbox.enlistLatest("watch", id, null);
        this.#bell.expectClaimWithin(INLINE_MS, now);
      });
      return ok(id);
    });
    if (!written.ok) return written;
    await this.outbox.drain("watch");
    return this.associations([written.value]);
  }

  /** Wishes a secret to be gone from here. No association is a success. */
  remove(secret: Pick<SecretRef, "mountAccessor" | "secretName">): Result<AssociationsView> {
    if (!this.#row()) return refuse("missing");
    const id = associationId(secret);
    const now = Date.now();
    const [row] = this.#where("id = ?", id);
    if (row) {
      this.commit(() => {
        this.#want({ ...row, wish: "absent" }, now);
        this.#bell.expectClaimWithin(INLINE_MS, now);
      });
    }
    return this.associations([id]);
  }

  /** The accessor of an association by the mount's path, for mounts that are gone. */
  accessorOf(mountPath: string, secretName: string): string | null {
    const [row] = this.#where("mount_path = ? AND secret_name = ?", mountPath, secretName);
    return row?.mount_accessor ?? null;
  }

  /** The associations named, or one page of all of them. */
  associations(ids: readonly string[] | null, after = ""): Result<AssociationsView> {
    const row = this.#row();
    if (!row) return refuse("missing");
    const rows = ids
      ? ids.flatMap((id) => this.#where("id = ?", id))
      : this.#where("id > ? ORDER BY id LIMIT ?", after, PAGE);
    const counters: Partial<Record<SyncStatus, number>> = {};
    for (const { status } of rows) counters[status as SyncStatus] = (counters[status as SyncStatus] ?? 0) + 1;
    return ok({
      store_name: row.name,
      store_type: row.type,
      associated_secrets: Object.fromEntries(rows.map((association) => [association.id, this.#view(association)])),
      sync_operation_counters: counters,
    });
  }

  /** A secret of a mount has changed in some way: what is here must be made its newest state. */
  async changed(mountUuid: string, secretName: string): Promise<void> {
    const rows = this.#where("mount_uuid = ? AND secret_name = ? AND wish = 'present'", mountUuid, secretName);
    if (rows.length === 0) return;
    const now = Date.now();
    this.commit(() => {
      for (const row of rows) this.#want(row, now);
    });
    await this.#bell.ring(now);
  }

  /** Objects of a destination that keeps them itself, with their values. */
  storedObjects(
    after: string,
  ): Result<{ name: string; value: string; tags: Record<string, string>; updated_at: string }[]> {
    return guarded(() => {
      const found = this.#found();
      if (found?.type.kind !== "stored") return refuse("missing");
      const rows = this.sql
        .exec<{ name: string; value: ArrayBuffer; tags: string; updated: number }>(
          "SELECT * FROM stored_objects WHERE name > ? ORDER BY name LIMIT ?",
          after,
          PAGE,
        )
        .toArray();
      return ok(
        rows.map((row) => ({
          name: row.name,
          value: this.#keys.openText(row.value, this.#context(`object ${row.name}`)),
          tags: JSON.parse(row.tags) as Record<string, string>,
          updated_at: new Date(row.updated).toISOString(),
        })),
      );
    });
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
      const claims = this.commit(() => this.#work.claim(limit, Date.now(), only));
      return claims.flatMap((claim) => {
        const [row] = this.#where("id = ?", claim.id);
        return row ? [this.#task(claim, row, definition, found.type)] : [];
      });
    });
  }

  /** Takes the results of tasks. What came too late, or answers an older wish, changes nothing. */
  async settle(results: readonly SyncResult[]): Promise<void> {
    this.commit(() => {
      for (const result of results) this.#settleOne(result, Date.now());
    });
    await this.outbox.drain("unwatch");
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
    if (ready !== null && ready <= now) await this.#bell.ring(now);
  }

  #settleOne(result: SyncResult, now: number): void {
    const [row] = this.#where("id = ?", result.claim.id);
    if (!row) return;
    const { status, ending } = endingOf(result);
    const settled = this.#work.settle(result.claim, ending, now);
    if (settled === "stale") return;
    const succeeded = result.outcome.outcome === "ok";
    // What happened outside is recorded even when the wish has changed since.
    if (succeeded) this.#recordEffect(row, result, now);
    if (settled === "superseded") return;
    if (settled === "done" && row.wish === "absent") {
      this.sql.exec("DELETE FROM associations WHERE id = ?", row.id);
      this.outbox.enlistLatest("unwatch", `${row.mount_uuid}\n${row.secret_name}`, null);
      return;
    }
    const failure = result.outcome.outcome === "ok" ? null : result.outcome;
    this.sql.exec(
      "UPDATE associations SET status = ?, error_code = ?, error_message = ?, updated = ? WHERE id = ?",
      status,
      failure?.code ?? null,
      failure?.message ?? null,
      now,
      row.id,
    );
  }

  #recordEffect(row: AssociationRow, result: SyncResult, now: number): void {
    const removed = new Set(result.removedNames);
    const stale = (JSON.parse(row.stale_names) as string[]).filter((name) => !removed.has(name));
    const present = result.version !== null;
    this.sql.exec(
      "UPDATE associations SET known = ?, stale_names = ?, tag_keys = ?, synced_version = ? WHERE id = ?",
      Number(present),
      JSON.stringify(stale),
      JSON.stringify(present ? Object.keys(tagsOf(this.#customTags())) : []),
      result.version,
      row.id,
    );
    for (const name of removed) this.sql.exec("DELETE FROM stored_objects WHERE name = ?", name);
    if (result.value !== undefined) {
      this.sql.exec(
        `INSERT INTO stored_objects (name, value, tags, updated) VALUES (?, ?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value, tags = excluded.tags, updated = excluded.updated`,
        row.external_name,
        this.#keys.seal(result.value, this.#context(`object ${row.external_name}`)),
        JSON.stringify(tagsOf(this.#customTags())),
        now,
      );
    }
  }

  #task(claim: Claim, row: AssociationRow, definition: Definition, type: DestinationType<unknown>): SyncTask {
    return {
      claim,
      type: type.type,
      connection: definition.connection,
      wish: row.wish as "present" | "absent",
      mountUuid: row.mount_uuid,
      secretName: row.secret_name,
      externalName: row.external_name,
      staleNames: JSON.parse(row.stale_names) as string[],
      tags: tagsOf(definition),
      previousTagKeys: JSON.parse(row.tag_keys) as string[],
      knownToExist: row.known === 1,
      idempotencyToken: createHash("sha256").update(`${row.seed} ${row.intent}`).digest("hex"),
    };
  }

  #insert(id: string, secret: SecretRef, externalName: string, now: number): void {
    this.sql.exec(
      `INSERT INTO associations (id, mount_uuid, mount_accessor, mount_path, secret_name, wish, intent, seed, external_name,
         stale_names, tag_keys, known, status, updated) VALUES (?, ?, ?, ?, ?, 'present', 0, ?, ?, '[]', '[]', 0, 'PENDING', ?)`,
      id,
      secret.mountUuid,
      secret.mountAccessor,
      secret.mountPath,
      secret.secretName,
      crypto.randomUUID(),
      externalName,
      now,
    );
  }

  /** The old name is removed outside even if no push of it has been confirmed: one may be on its way. */
  #rename(row: AssociationRow, name: string): void {
    const stale = new Set([...(JSON.parse(row.stale_names) as string[]), row.external_name]);
    stale.delete(name);
    this.sql.exec(
      "UPDATE associations SET external_name = ?, stale_names = ?, known = 0, tag_keys = '[]' WHERE id = ?",
      name,
      JSON.stringify([...stale]),
      row.id,
    );
  }

  /** A new wish, or the old one again: the work starts over. */
  #want(row: AssociationRow, now: number): void {
    this.sql.exec(
      `UPDATE associations SET wish = ?, intent = intent + 1, status = 'PENDING', error_code = NULL, error_message = NULL,
         updated = ? WHERE id = ?`,
      row.wish,
      now,
      row.id,
    );
    this.#work.want(row.id, now);
  }

  #externalName(row: DestinationRow, type: DestinationType<unknown>, secret: SecretRef): string {
    const template = parseTemplate(effectiveTemplate(type, { template: row.template, granularity: "secret-path" }));
    // Templates are checked when they are written, so this one parses.
    if (!template.ok) throw new Error(template.message);
    const mount = secret.mountPath.replace(/\/$/, "");
    const name = render(template.template, {
      DestinationType: row.type,
      DestinationName: row.name,
      NamespacePath: row.namespace,
      NamespaceBaseName: baseName(row.namespace),
      NamespaceID: row.namespace === "" ? "root" : row.namespace.replace(/\/$/, ""),
      MountPath: mount,
      MountBaseName: baseName(mount),
      MountAccessor: secret.mountAccessor,
      SecretPath: secret.secretName,
      SecretBaseName: baseName(secret.secretName),
      SecretKey: "",
    });
    return normalise(name, type.naming);
  }

  #view(row: AssociationRow): AssociationView {
    const work = this.#work.find(row.id);
    return {
      accessor: row.mount_accessor,
      secret_name: row.secret_name,
      external_name: row.external_name,
      sync_status: row.status as SyncStatus,
      updated_at: new Date(row.updated).toISOString(),
      ...(row.error_code !== null && { error_code: row.error_code, error_message: row.error_message ?? "" }),
      ...(row.synced_version !== null && { synced_version: row.synced_version }),
      ...(work &&
        work.attempts > 0 && { attempts: work.attempts, next_attempt_at: new Date(work.readyAt).toISOString() }),
    };
  }

  #row(): DestinationRow | null {
    return this.sql.exec<DestinationRow>("SELECT * FROM destination").toArray()[0] ?? null;
  }

  #found(): { row: DestinationRow; type: DestinationType<unknown> } | null {
    const row = this.#row();
    const type = row ? typeOf(row.type) : undefined;
    return row && type ? { row, type } : null;
  }

  #customTags(): Pick<Definition, "customTags"> {
    return { customTags: JSON.parse(this.#row()?.custom_tags ?? "{}") as Record<string, string> };
  }

  #definition(row: DestinationRow): Definition {
    return {
      granularity: row.granularity as Definition["granularity"],
      template: row.template,
      customTags: JSON.parse(row.custom_tags) as Record<string, string>,
      connection: JSON.parse(this.#keys.openText(row.connection, this.#context("connection"))) as Record<
        string,
        unknown
      >,
    };
  }

  #where(condition: string, ...values: SqlStorageValue[]): AssociationRow[] {
    return this.sql.exec<AssociationRow>(`SELECT * FROM associations WHERE ${condition}`, ...values).toArray();
  }

  async #deliverWatch(id: string): Promise<void> {
    const [row] = this.#where("id = ?", id);
    if (!row || row.wish === "absent") return;
    await kvStore(this.env, row.mount_uuid).watch(row.secret_name, this.#self);
  }

  async #deliverUnwatch(lane: string): Promise<void> {
    const [mountUuid = "", secretName = ""] = lane.split("\n");
    // The association may have come back meanwhile.
    if (this.#where("mount_uuid = ? AND secret_name = ?", mountUuid, secretName).length > 0) return;
    await kvStore(this.env, mountUuid).unwatch(secretName, this.#self);
  }

  async #deliverListing(lane: string): Promise<void> {
    const key = JSON.parse(lane) as DestinationKey;
    await projectDestination(this.env.LISTINGS, key, this.#row() !== null);
  }

  async #deliverKeyHolder(): Promise<void> {
    const term = await accessControl(this.env).holdsKeys("sync-destination", this.#self);
    this.rekey(term);
  }

  #lane({ namespace, type, name }: DestinationKey): string {
    return JSON.stringify({ namespace, type, name });
  }

  #context(what: string): string {
    return `sync-destination ${this.#self} ${what}`;
  }
}
