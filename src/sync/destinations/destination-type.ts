import type * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import type { Granularity, UpdatePolicy } from "../../contracts/sync-tasks.ts";
import type { Settings } from "../../platform/settings.ts";
import type { Send } from "../../providers/outcome.ts";

/** The tag that marks every object as ours; its value is empty. */
export const MARKER_TAG = "hashicorp:vault";

/** One external object, as far as we know of it. */
export interface KnownObject {
  /** The name at the destination, already normalised with the type's `naming`. */
  name: string;
  /** What the last successful `put` of this object handed back; null when there was none, or it is not known. */
  reference: string | null;
}

/** What one external object should be. The adapter makes it so, whatever is there now: the last write wins. */
export interface ExternalObject extends KnownObject {
  /** The secret content, UTF-8 text. Never logged, never part of an outcome. */
  value: string;
  /** The complete set of tags we want on it, built-in marker included. */
  tags: Record<string, string>;
  /**
   * One per intent: an association at one generation. A repeat of the same intent brings the same token, so a push
   * whose answer was lost is recognised. It must not be guessable (a keyed hash or random): providers show ids
   * made from it to people who may not read the value.
   */
  idempotencyToken: string;
  /** Whether an earlier push of this object succeeded. Only a hint which call to try first. */
  knownToExist: boolean;
  /** When the first push of unknown outcome since the last known one began (ms since 1970); absent when there was none. */
  unsureSince?: number | undefined;
  /** Tag keys that we wrote before: those no longer in `tags` are removed, all other foreign tags stay. */
  previousTagKeys: string[];
  /** What the value is. */
  contentType: "application/json" | "text/plain";
  updatePolicy: UpdatePolicy;
}

/** An object to remove. */
export interface ObsoleteObject extends KnownObject {
  /** Leave it alone, and answer ok, unless it can be told to be ours (its marker; where a type has none, our record). */
  ownedOnly: boolean;
}

/** The deployment's settings that adapters read (design, section 4). */
export type ProviderSettings = { [K in keyof Settings]?: Settings[K] | undefined };

export interface CallContext {
  settings: ProviderSettings;
  /**
   * Sends one request: the only way out. Keeps the deadline of the whole operation, all its calls together, and sends nothing
   * once syncing is paused (a failure with code "paused", which an adapter passes on like any other).
   */
  send: Send;
  /** The custom application that `appOf` named, with its private key (PEM). */
  app?: { appId: string; privateKey: string };
}

/**
 * What `put` did. `reference`: whatever the adapter wants to be given next time to find or recognise this object (an id, a
 * version; up to 512 characters, never anything secret). `left`: update policy `if-not-exists` found an object and left it.
 */
export type Put = { outcome: "ok"; reference?: string; left?: true } | Failure;

/** What `remove` and `probe` did. */
export type Done = { outcome: "ok" } | Failure;

/**
 * What `inspect` saw. `unchanged`: it is what our last push left, as far as the provider lets us tell (a version, a time of
 * change); `changed`: somebody else has written it since; `present`: it is there and nothing more can be said. `owned`:
 * whether it carries our marker, null when that cannot be told.
 */
export type Inspection =
  | { outcome: "ok"; state: "absent" | "unchanged" | "changed" | "present"; owned: boolean | null }
  | Failure;

/** How a type spells names. */
export interface Naming {
  /** Matches one permitted character, anchored; no `g` or `y` flag, since those make `test` remember. */
  allowed: RegExp;
  /** Characters. */
  maxLength: number;
  /** Stands for each character that is not permitted; itself permitted. */
  replacement: string;
  /** What else the provider wants of the whole name, such as another first character; applied last, before the cut. */
  adapt?(name: string): string;
  /** Two names with equal folds are one object to the provider; default: the name itself. */
  collisionKey?(name: string): string;
  /** Why the provider would never take this name, one sentence; null when it would. */
  refuse?(name: string): string | null;
}

/** How fast writes may go to one destination: `burst` at once, then `perMinute`. Objects pushed or removed, not calls. */
export interface Pace {
  readonly atOnce: number;
  readonly burst: number;
  readonly perMinute: number;
}

interface DestinationTypeCommon<Connection> {
  /** The word in paths and answers, such as "cloud-a-sm". */
  readonly type: string;
  /** The create body's own fields. Values stay as they were given, unset fields are absent: reads answer them like that. */
  readonly connection: z.ZodType<Connection>;
  /** What the given values mean: one spelling of each, defaults filled in. All uses of a connection see this. */
  resolve?(connection: Connection): Connection;
  /** Fields that a read answers as "*****". */
  readonly sensitive: readonly string[];
  /**
   * The places that names live in, as far as the connection tells: destinations of the type with one in common write to the
   * same objects. Empty for a destination that keeps its objects itself.
   */
  targets(connection: Connection, settings: ProviderSettings): readonly string[];
  /** Fields that cannot change their meaning after the destination was created. */
  readonly immutable: readonly string[];
  readonly defaults: { granularity: Granularity; template: Record<Granularity, string> };
  readonly naming: Naming;
  /** The largest value that fits, in UTF-8 bytes. */
  readonly maxValueBytes: number;
  readonly pace: Pace;
  /** Why the complete set of tags (marker included) is not acceptable, one sentence; null when it is. Absent: takes no tags. */
  checkTags?(tags: Record<string, string>): string | null;
  /** Why `after` may not replace `before` although no immutable field differs, one sentence; null when it may. */
  checkChange?(before: Connection, after: Connection): string | null;
  /** Why the deployment does not allow this connection (a host, a missing default), one sentence; null when it does. */
  checkSettings?(connection: Connection, settings: ProviderSettings): string | null;
  /** The custom application (`sys/sync/repo-host-apps`) that a connection uses, or null. */
  appOf?(connection: Connection): string | null;
  /** Connection details as a read shows them beyond what is stored, such as nested copies. */
  shown?(connection: Connection): Record<string, unknown>;
}

/** A destination outside: its methods call its API. None ever throws. */
export interface RemoteDestinationType<Connection> extends DestinationTypeCommon<Connection> {
  readonly kind: "remote";
  /** Makes the object exist with this value and these tags. */
  put(object: ExternalObject, connection: Connection, context: CallContext): Promise<Put>;
  /** Makes the object not exist. Already absent is `ok`. */
  remove(object: ObsoleteObject, connection: Connection, context: CallContext): Promise<Done>;
  /** Looks at an object without changing it. Never reads its value. */
  inspect(object: KnownObject, connection: Connection, context: CallContext): Promise<Inspection>;
  /**
   * Tries the connection without changing anything. The failure's message says in one sentence what is wrong with the
   * credentials, the permissions or the target.
   * @param sample a name as pushes here have; that of an object of ours if there is one
   */
  probe(connection: Connection, context: CallContext, sample?: string): Promise<Done>;
}

/** A destination that is the `SyncDestination` object's own storage: there is nothing to call. */
export interface StoredDestinationType<Connection> extends DestinationTypeCommon<Connection> {
  readonly kind: "stored";
}

/**
 * Everything the rest of the service knows about one type of destination. `Connection` is what `connection`
 * parses to; the methods are only ever given such a value.
 */
export type DestinationType<Connection> = RemoteDestinationType<Connection> | StoredDestinationType<Connection>;
