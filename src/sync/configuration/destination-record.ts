import { createHash, randomBytes } from "node:crypto";
import type { DestinationKey } from "../../contracts/destination.ts";
import type { DestinationView, InspectSetup } from "../../contracts/sync-destination.ts";
import type { Setup, UpdatePolicy } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { settings } from "../../platform/settings.ts";
import { syncSubjectOf } from "../../rpc/token-subjects.ts";
import type { SetNaming } from "../associations/associations.ts";
import type { NamingScope } from "../associations/external-name.ts";
import type { ProviderSettings } from "../destinations/destination-type.ts";
import type { DestinationType } from "../destinations/index.ts";
import { freshUntil } from "../fresh-rights.ts";
import { SingleRow } from "../rows.ts";
import type { DestinationRow } from "../schema.ts";
import type { SyncEvents } from "../sync-events.ts";
import {
  type Defined,
  type Definition,
  define,
  effectiveTemplate,
  masked,
  resolved,
  tagsOf,
  typeOf,
} from "./definition.ts";

export interface Found {
  readonly row: DestinationRow;
  readonly type: DestinationType<unknown>;
}

/** The part of a setup that calls need which change nothing. @param key with the type as its creator spells it */
export function inspectSetup(
  { namespace, name, word }: Pick<DestinationRow, "namespace" | "name" | "word">,
  type: DestinationType<unknown>,
  { connection, networking, origin, updatePolicy }: Definition,
): InspectSetup {
  const { identity_token_audience: audience, identity_token_ttl: ttlSeconds = 0 } = connection;
  const setup = { namespace, type: type.type, connection: resolved(type, connection), networking, updatePolicy };
  if (typeof audience !== "string" || audience === "") return setup;
  const subject = syncSubjectOf(namespace, word, name);
  return { ...setup, federation: { namespace, origin, subject, audience, ttlSeconds: Number(ttlSeconds) } };
}

/**
 * The stored destination: one row with its sealed connection. Owned by `SyncDestination`; row and setup are cached.
 * Methods that write are called inside the object's transaction.
 */
export class DestinationRecord {
  readonly #row: SingleRow<DestinationRow>;
  #setup: Setup | undefined;
  /** Cache of the targets, by setup. */
  #targets: { readonly setup: Setup; readonly digests: string[] } | null = null;

  /** @param object sealed fields are bound to its name */
  constructor(
    private readonly object: ObjectContext,
    private readonly keys: DataKeys,
    private readonly events: SyncEvents,
  ) {
    this.#row = new SingleRow(object.sql, "destination");
  }

  row(): DestinationRow | null {
    return this.#row.get();
  }

  /** Drops the cached row after a write or a rollback. */
  forget(): void {
    this.#row.forget();
    this.#setup = undefined;
  }

  find(): Found | null {
    const row = this.row();
    const type = row ? typeOf(row.type) : undefined;
    return row && type ? { row, type } : null;
  }

  /** @throws Sealed */
  definition(row: DestinationRow): Definition {
    return {
      granularity: row.granularity as Definition["granularity"],
      granularityGiven: row.granularity_given === 1,
      template: row.template,
      customTags: JSON.parse(row.custom_tags) as Record<string, string>,
      updatePolicy: row.update_policy as UpdatePolicy,
      deletionPolicy: row.deletion_policy as Definition["deletionPolicy"],
      credentialsEnd: row.credentials_end,
      networking: JSON.parse(row.networking) as Definition["networking"],
      origin: row.origin,
      connection: JSON.parse(this.keys.openText(row.connection, this.#context("connection"))) as Record<
        string,
        unknown
      >,
    };
  }

  /**
   * Validates a create, update or patch body.
   * @param mode `patch`: a JSON merge patch, which creates nothing
   * @throws Sealed
   */
  define(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    mode: "write" | "patch",
    settings: ProviderSettings,
    origin = "",
  ): Result<Defined & { readonly type: DestinationType<unknown> }> {
    const type = typeOf(key.type);
    if (!type)
      return refuse("missing", `unsupported path: no destination type ${JSON.stringify(key.type.slice(0, 64))}`);
    const row = this.row();
    const before = row ? this.definition(row) : null;
    if (mode === "patch" && !before) return refuse("missing");
    const defined = define(type, { body, mode, origin }, before, settings);
    return defined.ok ? ok({ ...defined.value, type }) : defined;
  }

  /** @param word the type as the creator spells it; later writes keep it. @throws Sealed */
  store({ namespace, type, name }: DestinationKey, word: string, definition: Definition, now: number): void {
    const row = this.row();
    this.events.destination(row ? "DestinationUpdated" : "DestinationCreated");
    const isSame = row && JSON.stringify(this.definition(row).connection) === JSON.stringify(definition.connection);
    this.#row.put({
      ...(row ?? { namespace, type, name, word, created: now }),
      granularity: definition.granularity,
      template: definition.template,
      custom_tags: JSON.stringify(definition.customTags),
      connection: this.keys.seal(JSON.stringify(definition.connection), this.#context("connection")),
      updated: now,
      update_policy: definition.updatePolicy,
      deletion_policy: definition.deletionPolicy,
      fingerprint_key: row?.fingerprint_key ?? this.keys.seal(randomBytes(32), this.#context("fingerprint key")),
      granularity_given: definition.granularityGiven ? 1 : 0,
      networking: JSON.stringify(definition.networking),
      origin: definition.origin,
      rights_changed: isSame ? row.rights_changed : now,
      credentials_end: definition.credentialsEnd,
    });
    this.forget();
  }

  /** Begins the time in which refusals of rights are retried. */
  renewRights(now: number): void {
    this.object.sql.exec("UPDATE destination SET rights_changed = ?", now);
    this.forget();
  }

  delete(): void {
    this.#row.delete();
    this.events.destination("DestinationDeleted");
    this.forget();
  }

  /** @throws Sealed */
  view({ row, type }: Found): DestinationView {
    const definition = this.definition(row);
    return {
      name: row.name,
      type: row.type,
      granularity_given: definition.granularityGiven,
      connection_details: { ...type.shown?.(definition.connection), ...masked(type, definition.connection) },
      options: {
        granularity_level: definition.granularity,
        secret_name_template: effectiveTemplate(type, definition),
        custom_tags: definition.customTags,
        update_policy: definition.updatePolicy,
        deletion_policy: definition.deletionPolicy,
        ...(definition.credentialsEnd !== null && {
          credentials_expire_at: new Date(definition.credentialsEnd).toISOString(),
        }),
        ...definition.networking,
      },
    };
  }

  /** The settings that tasks need. @throws Sealed */
  setup(found: Found): Setup {
    this.#setup ??= this.#makeSetup(found);
    return this.#setup;
  }

  /** The targets joined to one text, empty for none. @throws Sealed */
  place(found: Found): string {
    return placeOf(this.targets(found));
  }

  /** Targets as SHA-256 digests, because a target may contain connection details. @throws Sealed */
  targets(found: Found): string[] {
    const setup = this.setup(found);
    if (this.#targets?.setup === setup) return this.#targets.digests;
    const digests = found.type
      .targets(setup.connection, settings(this.object.env))
      .map((target) =>
        createHash("sha256")
          .update(JSON.stringify([found.type.type, target]))
          .digest("hex"),
      )
      .sort();
    this.#targets = { setup, digests };
    return digests;
  }

  #makeSetup({ row, type }: Found): Setup {
    const definition = this.definition(row);
    return {
      ...inspectSetup({ ...row, word: row.word || row.type }, type, definition),
      tags: tagsOf(definition),
      retain: definition.deletionPolicy === "retain",
      // A destination older than fingerprints gets a key with its next write; until then every object is pushed.
      fingerprintKey:
        row.fingerprint_key === null
          ? randomBytes(32).toString("hex")
          : Buffer.from(this.keys.open(row.fingerprint_key, this.#context("fingerprint key"))).toString("hex"),
      atOnce: type.pace.atOnce,
      freshUntil: freshUntil(row),
      ...(type.kind === "remote" && type.batch && { batch: type.batch.most }),
    };
  }

  /** All tags of an object at this destination. */
  tags(row: DestinationRow): Record<string, string> {
    return tagsOf({ customTags: JSON.parse(row.custom_tags) as Record<string, string> });
  }

  /** The inputs of external names, for the given naming. */
  scope(row: DestinationRow, naming: SetNaming): NamingScope {
    return { namespace: row.namespace, name: row.name, word: row.word || row.type, ...naming };
  }

  #context(what: string): string {
    return `sync-destination ${this.object.name} ${what}`;
  }
}

/** Targets joined to one text, as rows record it. */
export const placeOf = (targets: readonly string[]): string => targets.join(" ");
