import type * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import type { Granularity, UpdatePolicy } from "../../contracts/sync-tasks.ts";
import type { Settings } from "../../platform/settings.ts";
import type { ClientAssertion } from "../../providers/identity-token.ts";
import type { Send } from "../../providers/outcome.ts";
import { type DestinationDescription, fromDescription } from "./description.ts";

/**
 * The interface between secret sync and the adapters of destination types: the objects they push, their outcomes, and
 * the rules of a type (names, tags, pace). Implemented by one file per type in this folder.
 */

/** The tag that marks every object as ours; its value is empty. */
export const MARKER_TAG = "hashicorp:vault";

/** One external object as recorded. */
export interface KnownObject {
  /** The name at the destination, already normalised with the type's `naming`. */
  name: string;
  /** The reference returned by the last successful `put` of this object; null when there is none or it is uncertain. */
  reference: string | null;
}

/** The desired state of one external object. The adapter pushes it over any existing state: the last write wins. */
export interface ExternalObject extends KnownObject {
  /** The secret content, UTF-8 text. Never logged, never part of an outcome. */
  value: string;
  /** The secret's keys with their texts, for granularity `secret-path` of types with `takesData`. Handled like `value`. */
  data?: Readonly<Record<string, string>> | undefined;
  /** The complete set of desired tags, built-in marker included. */
  tags: Record<string, string>;
  /**
   * One per intent: an association at one generation. A repeat of the same intent has the same token, so a push whose
   * answer was lost is recognised. Not guessable (a keyed hash or random), because providers show ids made from it to
   * people without access to the value.
   */
  idempotencyToken: string;
  /** Whether an earlier push of this object succeeded: a hint for the first call to try. */
  knownToExist: boolean;
  /** Start of the first push with unknown outcome since the last known one (ms since 1970); absent for none. */
  unsureSince?: number | undefined;
  /** Tag keys of earlier pushes: those not in `tags` are removed, all foreign tags stay. */
  previousTagKeys: string[];
  /** The last push wrote exactly `tags`, and nothing has made them uncertain since: an update need not send them. */
  tagsWritten?: boolean;
  /** The media type of the value. */
  contentType: "application/json" | "text/plain";
  updatePolicy: UpdatePolicy;
}

/** An object to inspect. */
export interface ToInspect extends KnownObject {
  /** The tags that it carries after our last push; absent when they are uncertain. Other tags may be there, too. */
  tags?: Readonly<Record<string, string>> | undefined;
  /** The content of our last push, for types whose values can be read back; absent when it is not known. */
  desired?: Pick<ExternalObject, "value" | "data"> | undefined;
}

/** An object to remove. */
export interface ObsoleteObject extends KnownObject {
  /** Remove the object only if it is ours (by its marker; for types without one, by our record). Otherwise return ok. */
  ownedOnly: boolean;
  /** The same for repeats of a removal, and for no push; absent for a removal that is part of another operation. */
  idempotencyToken?: string | undefined;
}

/** The deployment's settings that adapters read. */
export type ProviderSettings = { [K in keyof Settings]?: Settings[K] | undefined };

export interface CallContext {
  settings: ProviderSettings;
  /**
   * Sends one request; adapters have no other way to call a provider. All calls of an operation share one deadline.
   * While syncing is paused it returns a failure with code "paused" instead, which the adapter returns like any other.
   */
  send: Send;
  /** The custom application that `appOf` named, with its private key (PEM). */
  app?: { appId: string; privateKey: string };
  /** Signs identity tokens of the destination, when it has `identity_token_audience`. */
  identity?: ClientAssertion;
  /** The cluster id of this service, by which a type that can lead to a service like this one recognises itself. */
  clusterId?: () => Promise<string>;
}

/**
 * The outcome of `put`. `reference`: an id or version that lets the adapter recognise the object next time (up to 512
 * characters, never secret). `left`: update policy `if-not-exists` found an object and left it. `owed`: the object is as
 * desired, but a clean-up failed, such as the destruction of the replaced value; `cleanUp` tries it again.
 */
export type Put = { outcome: "ok"; reference?: string; left?: true; owed?: Failure } | Failure;

/** The outcome of `remove` and `probe`. */
export type Done = { outcome: "ok" } | Failure;

/** The outcome of an operation that ends with this answer. */
export const doneBy = (answer: { ok: true } | { ok: false; outcome: Failure }): Done =>
  answer.ok ? { outcome: "ok" } : answer.outcome;

/**
 * The outcome of `inspect`. `unchanged`: the state of our last push, by version or time of change; `changed`: another
 * writer has changed the object or its tags since; `present`: the object exists, without further evidence. `owned`:
 * whether it carries our marker, null when the type has no marker.
 */
export type Inspection =
  | { outcome: "ok"; state: "absent" | "unchanged" | "changed" | "present"; owned: boolean | null }
  | Failure;

/** The rules of a type for names. */
export interface Naming {
  /** Matches one permitted character, anchored; without the flags `g` and `y`, which make `test` stateful. */
  allowed: RegExp;
  /** Characters. */
  maxLength: number;
  /** Replaces each forbidden character; itself permitted. */
  replacement: string;
  /** Further rules for the whole name, such as another first character; applied last, before the cut. */
  adapt?(name: string): string;
  /** Two names with equal collision keys are one object to the provider; default: the name itself. */
  collisionKey?(name: string): string;
  /** The provider's refusal of this name, one sentence; null when the name is valid. */
  refuse?(name: string): string | null;
}

/** The write rate of one destination: `burst` at once, then `perMinute`. Counts objects pushed or removed, not calls. */
export interface Pace {
  readonly atOnce: number;
  readonly burst: number;
  readonly perMinute: number;
}

interface DestinationTypeCommon<Connection> {
  /** Names, fields and texts of the type; `type`, `sensitive` and `immutable` are derived from it (`fromDescription`). */
  readonly description: DestinationDescription;
  /** The type in paths and responses, such as "cloud-a-sm". */
  readonly type: string;
  /** The create body's own fields. Reads show values as given and leave out unset fields. */
  readonly connection: z.ZodType<Connection>;
  /** The connection with one spelling per value and defaults filled in. Used by all provider calls. */
  resolve?(connection: Connection): Connection;
  /** Fields that reads show as "*****". */
  readonly sensitive: readonly string[];
  /**
   * The namespaces of names at the provider, as derived from the connection. Destinations of the type with a common
   * target write to the same objects. Empty for kind `stored`.
   */
  targets(connection: Connection, settings: ProviderSettings): readonly string[];
  /** Fields whose resolved value cannot change after the destination was created. */
  readonly immutable: readonly string[];
  readonly defaults: { granularity: Granularity; template: Record<Granularity, string> };
  readonly naming: Naming;
  /** Whether a secret pushed as one object is passed as a map, too: for targets whose objects have keys. */
  readonly takesData?: true;
  /** The largest value that fits, in UTF-8 bytes. */
  readonly maxValueBytes: number;
  readonly pace: Pace;
  /** The refusal of a set of tags (marker included), one sentence; null when valid. Absent: the type has no tags. */
  checkTags?(tags: Record<string, string>): string | null;
  /** The refusal of a change beyond `immutable`, one sentence; null when the change is allowed. */
  checkChange?(before: Connection, after: Connection): string | null;
  /** The deployment's refusal of a connection (a host, a missing default), one sentence; null when it is allowed. */
  checkSettings?(connection: Connection, settings: ProviderSettings): string | null;
  /** The custom application (`sys/sync/repo-host-apps`) that a connection uses, or null. */
  appOf?(connection: Connection): string | null;
  /** Connection details as a read shows them beyond what is stored, such as nested copies. */
  shown?(connection: Connection): Record<string, unknown>;
}

/** The outcomes of a call for many objects, by name; a failure is that of every object. */
export type Batched<Outcome> = ReadonlyMap<string, Outcome> | Failure;

/**
 * Writes of many objects in one call, for targets where each call is a deployment or a restart. A refused batch is tried
 * in halves and then object by object, so one bad object does not keep the others from being written.
 */
export interface Batching<Connection> {
  /** How long a ready task waits for others. */
  readonly windowMs: number;
  /** The most objects of one call. */
  readonly most: number;
  putMany(objects: readonly ExternalObject[], connection: Connection, context: CallContext): Promise<Batched<Put>>;
  removeMany(objects: readonly ObsoleteObject[], connection: Connection, context: CallContext): Promise<Batched<Done>>;
}

/** Reads the objects at a target, foreign ones included, for import. */
export interface Reading<Connection> {
  /** One page of names. @param cursor empty for the first page */
  list(cursor: string, connection: Connection, context: CallContext): Promise<Listing>;
  /** Whether values can be read by this connection; absent: by each. */
  shows?(connection: Connection): boolean;
  /** Reads the content of an object. Absent for types whose provider shows no values. */
  read?(name: string, connection: Connection, context: CallContext): Promise<ReadObject>;
}

/** `next`: the cursor of the next page; null on the last one. */
export type Listing = { outcome: "ok"; names: readonly string[]; next: string | null } | Failure;

/** `content` is null when the object is absent. */
export type ReadObject = { outcome: "ok"; content: Pick<ExternalObject, "value" | "data"> | null } | Failure;

/** A destination at a provider. The methods call the provider's API and never throw. */
export interface RemoteDestinationType<Connection> extends DestinationTypeCommon<Connection> {
  readonly kind: "remote";
  /** Absent: each object is a call. */
  readonly batch?: Batching<Connection>;
  /** Absent: nothing can be imported. */
  readonly reading?: Reading<Connection>;
  /** Makes the object exist with this value and these tags. */
  put(object: ExternalObject, connection: Connection, context: CallContext): Promise<Put>;
  /** Tries the owed clean-up of an object that is as desired. Present for types whose `put` may return `owed`. */
  cleanUp?(
    object: Pick<ExternalObject, "name" | "reference">,
    connection: Connection,
    context: CallContext,
  ): Promise<Put>;
  /** Makes the object not exist. Already absent is `ok`. */
  remove(object: ObsoleteObject, connection: Connection, context: CallContext): Promise<Done>;
  /** Reads the state of an object without changing it; its value only for types with `reads: "value"`. */
  inspect(object: ToInspect, connection: Connection, context: CallContext): Promise<Inspection>;
  /**
   * Verifies the connection without changing anything. The failure's message names the fault of the credentials, the
   * permissions or the target in one sentence.
   * @param sample an external name of this destination, of an existing object of ours if there is one
   */
  probe(connection: Connection, context: CallContext, sample?: string): Promise<Done>;
}

type Derived = "kind" | "connection" | keyof ReturnType<typeof fromDescription>;
type Own<Connection> = Omit<RemoteDestinationType<Connection>, Derived> & { readonly immutable?: readonly string[] };

/** A destination type from its description, its connection's schema, and its own rules and operations. */
export const remoteType = <Connection>(
  description: DestinationDescription,
  connection: () => z.ZodType<Connection>,
  own: Own<NoInfer<Connection>>,
): RemoteDestinationType<Connection> => ({
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return connection();
  },
  ...own,
});

/** A destination whose objects are stored in `SyncDestination` itself, without provider calls. */
export interface StoredDestinationType<Connection> extends DestinationTypeCommon<Connection> {
  readonly kind: "stored";
}

/**
 * One type of destination. `Connection` is the output type of the schema `connection`; the methods accept parsed values
 * only.
 */
export type DestinationType<Connection> = RemoteDestinationType<Connection> | StoredDestinationType<Connection>;
