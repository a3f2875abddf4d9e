import type * as z from "zod";
import type { CloudASettings } from "../../providers/cloud-a.ts";
import type { Outcome } from "../../providers/outcome.ts";

/** What one external object should be. The adapter makes it so, whatever is there now: the last write wins. */
export interface ExternalObject {
  /** The name at the destination, already normalised with the type's `naming`. */
  name: string;
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
  /** Tag keys that we wrote before: those no longer in `tags` are removed, all other foreign tags stay. */
  previousTagKeys: string[];
}

/** The deployment's settings that adapters read (design, section 4). */
export type ProviderSettings = CloudASettings;

export interface CallContext {
  settings: ProviderSettings;
  /** How long the whole operation may take, all its calls together, in milliseconds. */
  deadlineMs: number;
}

export type Granularity = "secret-path" | "secret-key";

/** How a type spells names. */
export interface Naming {
  /** Matches one permitted character, anchored; no `g` or `y` flag, since those make `test` remember. */
  allowed: RegExp;
  /** Characters. */
  maxLength: number;
  /** Stands for each character that is not permitted; itself permitted. */
  replacement: string;
}

interface DestinationTypeCommon<Connection> {
  /** The word in paths and answers, such as "cloud-a-sm". */
  readonly type: string;
  /** The create body's own fields. Unknown fields are dropped, unset ones absent from the result. */
  readonly connection: z.ZodType<Connection>;
  /** Fields that a read answers as "*****". */
  readonly sensitive: readonly string[];
  /** Fields that cannot change after the destination was created. */
  readonly immutable: readonly string[];
  readonly defaults: { granularity: Granularity; template: Record<Granularity, string> };
  readonly naming: Naming;
  /** The largest value that fits, in UTF-8 bytes. */
  readonly maxValueBytes: number;
  /** Why the complete set of tags (marker included) is not acceptable, one sentence; null when it is. */
  checkTags?(tags: Record<string, string>): string | null;
  /** Why `after` may not replace `before` although no immutable field differs, one sentence; null when it may. */
  checkChange?(before: Connection, after: Connection): string | null;
}

/** A destination outside: `put` and `remove` call its API. Neither ever throws. */
export interface RemoteDestinationType<Connection> extends DestinationTypeCommon<Connection> {
  readonly kind: "remote";
  /** Makes the object exist with this value and these tags. */
  put(object: ExternalObject, connection: Connection, context: CallContext): Promise<Outcome>;
  /** Makes the object not exist. Already absent is `ok`. */
  remove(object: { name: string }, connection: Connection, context: CallContext): Promise<Outcome>;
}

/** A destination that is the `SyncDestination` object's own storage: there is nothing to call. */
export interface StoredDestinationType<Connection> extends DestinationTypeCommon<Connection> {
  readonly kind: "stored";
}

/**
 * Everything the rest of the service knows about one type of destination. `Connection` is what `connection`
 * parses to; `put`, `remove` and `checkChange` are only ever given such a value.
 */
export type DestinationType<Connection> = RemoteDestinationType<Connection> | StoredDestinationType<Connection>;
