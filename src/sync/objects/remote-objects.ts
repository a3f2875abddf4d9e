import type { ObjectResult, ObjectTask, SyncResult } from "../../contracts/sync-tasks.ts";
import type { DesiredObject } from "../associations/external-name.ts";
import { texts } from "../rows.ts";
import { isUnsure } from "../scheduler/retry-policy.ts";
import type { RemoteObjectRow } from "../schema.ts";
import { statusFor } from "../sync-status.ts";
import { MAYBE, mayBeOurs, OURS, UNTRIED } from "./object-ownership.ts";
import { type DesiredStep, NONE_TAKEN, planObjects, type Step, type TakenNames } from "./object-plan.ts";

/** Whether the name was checked with all destinations that share these targets. */
const isClaimed = ({ claimed }: RemoteObjectRow, place: string): boolean => (claimed ?? "") === place;

/** Whether the row holds its name; a blocked row without an object does not. */
const isHeld = (row: RemoteObjectRow): boolean => row.blocked === null || mayBeOurs(row);

/** Whether the last push is known to have made the object. */
const isPushed = ({ ours, version }: RemoteObjectRow): boolean => ours === OURS && version !== null;

/** Collision keys of recorded and desired objects that another destination may own. Pure. */
export function unclaimed(rows: readonly RemoteObjectRow[], wanted: readonly DesiredObject[], place: string): string[] {
  if (place === "") return [];
  const held = rows.filter(isHeld);
  const claimed = new Set(held.filter((row) => isClaimed(row, place)).map(({ fold }) => fold));
  const all = new Set([...held.map(({ fold }) => fold), ...wanted.map(({ collisionKey }) => collisionKey)]);
  return [...all.difference(claimed)];
}

/**
 * The remote objects of a destination's associations (table `copies`): what exists or may exist at the provider under
 * which name. Owned by `SyncDestination`. Costs one row per object. Methods that write are called
 * inside the object's transaction.
 */
export class RemoteObjects {
  constructor(private readonly sql: SqlStorage) {}

  of(association: string): RemoteObjectRow[] {
    return this.sql.exec<RemoteObjectRow>("SELECT * FROM copies WHERE association = ?", association).toArray();
  }

  /** The desired objects of an association, without obsolete ones. */
  live(association: string): RemoteObjectRow[] {
    return this.of(association).filter((row) => row.obsolete === 0);
  }

  /** Live objects of all associations after a position, ordered by association and key. */
  livePage(from: { readonly association: string; readonly subKey: string }, limit: number): RemoteObjectRow[] {
    return this.sql
      .exec<RemoteObjectRow>(
        `SELECT * FROM copies WHERE (association, sub_key) > (?, ?) AND obsolete = 0
         ORDER BY association, sub_key LIMIT ?`,
        from.association,
        from.subKey,
        limit,
      )
      .toArray();
  }

  /** The name of any object that certainly exists, or null. */
  anyPushed(): string | null {
    const query = "SELECT external_name FROM copies WHERE ours = ? AND version IS NOT NULL AND left_alone = 0 LIMIT 1";
    return texts(this.sql, query, OURS)[0] ?? null;
  }

  /** Whether a clean-up of one of its objects is owed. */
  owes(association: string): boolean {
    const query = "SELECT 1 FROM copies WHERE association = ? AND owed IS NOT NULL LIMIT 1";
    return this.sql.exec(query, association).toArray().length > 0;
  }

  /** The other association that holds a name, including names of obsolete objects; null for none. */
  holder(collisionKey: string, association: string): string | null {
    const query =
      "SELECT association FROM copies WHERE fold = ? AND association <> ? AND (blocked IS NULL OR ours > 0) LIMIT 1";
    return texts(this.sql, query, collisionKey, association)[0] ?? null;
  }

  /** Plans the steps of an association from its recorded objects. */
  plan(association: string, wanted: readonly DesiredObject[], taken = NONE_TAKEN): Step[] {
    return planObjects(this.of(association), wanted, (collisionKey) => this.holder(collisionKey, association), taken);
  }

  /** Applies a plan. @param place the targets with which the names were checked */
  apply(association: string, steps: readonly Step[], now: number, place = ""): void {
    for (const step of steps) {
      if (step.kind === "drop") this.#delete(step.row);
      else if (step.kind === "retire") this.#update(step.row, "obsolete = 1");
      else this.#setDesired(association, step, now, place);
    }
  }

  /** Records the result of a check with the neighbours: names in `taken` are theirs, the others are claimed. */
  claimNames(association: string, taken: TakenNames, place: string): void {
    for (const row of this.of(association).filter((one) => mayBeOurs(one) && !isClaimed(one, place))) {
      if (taken.has(row.fold)) this.#disown(row);
      else this.#update(row, "claimed = ?", place);
    }
  }

  /** The associations that hold a name. `surely`: at least one of them pushed it, or may have, under a checked name. */
  holdersOf(collisionKey: string, place: string) {
    const rows = this.sql
      .exec<RemoteObjectRow>("SELECT * FROM copies WHERE fold = ?", collisionKey)
      .toArray()
      .filter(isHeld);
    return {
      associations: [...new Set(rows.map(({ association }) => association))],
      surely: rows.some((row) => mayBeOurs(row) && isClaimed(row, place)),
    };
  }

  /** Gives up the claim of a name: it is checked with the neighbours again before its next use. */
  yieldName(collisionKey: string): void {
    this.sql.exec("UPDATE copies SET claimed = NULL WHERE fold = ?", collisionKey);
  }

  /** Marks the object under this name as another destination's. */
  #disown(row: Key): void {
    this.#update(
      row,
      `claimed = NULL, ours = ?, known = 0, version = NULL, fingerprint = NULL, reference = NULL, tag_keys = '[]',
       tags_written = NULL, left_alone = 0, retained = 0, unsure_since = NULL, owed = NULL`,
      UNTRIED,
    );
  }

  #setDesired(
    association: string,
    { copy, blocked, elsewhere, adoptedFrom }: DesiredStep,
    now: number,
    place: string,
  ): void {
    this.sql.exec(
      `INSERT INTO copies (association, sub_key, external_name, fold, status, updated) VALUES (?1, ?2, ?3, ?4, 'PENDING', ?5)
       ON CONFLICT (association, sub_key, external_name) DO UPDATE SET obsolete = 0`,
      association,
      copy.subKey,
      copy.name,
      copy.collisionKey,
      now,
    );
    const row = { association, sub_key: copy.subKey, external_name: copy.name };
    if (adoptedFrom.length > 0) this.#adopt(row, adoptedFrom);
    if (elsewhere) this.#disown(row);
    if (blocked !== null) {
      this.#update(
        row,
        "blocked = ?, status = 'CLIENT_SIDE_ERROR', error_code = ?, error_message = ?, updated = ?",
        blocked,
        copy.refused === null ? "name_collision" : "name_invalid",
        blocked,
        now,
      );
    } else this.#update(row, "blocked = NULL, claimed = ?", place);
  }

  /** Adopts the object pushed for other rows of this name; its content is uncertain. */
  #adopt(row: Key, rows: readonly RemoteObjectRow[]): void {
    const own = this.#find(row)?.tag_keys ?? "[]";
    const tags = new Set([own, ...rows.map((one) => one.tag_keys)].flatMap(parseKeys));
    const unsure = [this.#find(row), ...rows].map((one) => one?.unsure_since ?? null).filter((at) => at !== null);
    this.#update(
      row,
      "ours = max(ours, ?), known = 0, fingerprint = NULL, tag_keys = ?, tags_written = NULL, unsure_since = ?",
      MAYBE,
      JSON.stringify([...tags]),
      unsure.length === 0 ? null : Math.min(...unsure),
    );
  }

  /**
   * Records that the association was leased. Until the result is in, the state of its objects is uncertain. They may carry
   * the new tags as well as the old, so a push after a lost result sends them again. Names not checked with the
   * neighbours are not pushed under the lease.
   */
  leased(rows: readonly RemoteObjectRow[], tagKeys: readonly string[], now: number, place = ""): void {
    for (const row of rows) {
      const pushed = row.obsolete === 0 && row.blocked === null && isClaimed(row, place);
      const tags = pushed ? JSON.stringify([...new Set([...parseKeys(row.tag_keys), ...tagKeys])]) : row.tag_keys;
      this.#update(
        row,
        `known = 0, tag_keys = ?, ours = max(ours, ?), unsure_since = coalesce(unsure_since, ?)${pushed ? ", tags_written = NULL" : ""}`,
        tags,
        pushed ? MAYBE : UNTRIED,
        pushed ? now : null,
      );
    }
  }

  /** Forces the next task to push all objects, tags included. */
  forgetFingerprints(association: string): void {
    this.sql.exec("UPDATE copies SET fingerprint = NULL, tags_written = NULL WHERE association = ?", association);
  }

  /** Records the result for one object. @param outside the version at the provider now, and the tags pushed */
  record(association: string, result: ObjectResult, outside: Outside, now: number): void {
    const row = this.#find({ association, sub_key: result.subKey, external_name: result.name });
    if (!row) return;
    const isRefused = result.state === "failed";
    if (result.notOurs) this.#update(row, "ours = ?, retained = ?", UNTRIED, isRefused ? 0 : row.retained);
    const isThere = result.state === "pushed" || result.state === "kept";
    // A push of unknown outcome keeps the value recorded by its lease.
    const isUncertain = result.trouble !== undefined && isUnsure(result.trouble);
    if (!isThere && !isUncertain) this.#update(row, "unsure_since = ?", result.unsureSince ?? null);
    const isGone = result.state === "absent" || result.state === "retained";
    if (isGone && row.obsolete === 1) this.#delete(row);
    else if (isGone) this.#recordGone(row, result, now);
    else if (result.state === "left") this.#recordLeft(row, outside.version, now);
    else if (isThere) this.#recordThere(row, result, outside, now);
    else if (result.state === "untouched") {
      this.#update(
        row,
        "known = max(known, ?), tags_written = ?",
        result.certain ? 1 : 0,
        result.tagsWritten ?? row.tags_written,
      );
    }
    if (result.trouble) {
      const { code, message } = result.trouble;
      const failure = "status = ?, error_code = ?, error_message = ?, updated = ?";
      this.#update(row, failure, statusFor(result.trouble), code, message, now);
    }
  }

  #recordGone(row: RemoteObjectRow, { state, uncalled }: ObjectResult, now: number): void {
    const staysRetained = row.retained === 1 && (state === "retained" || uncalled);
    const retained = staysRetained || (state === "retained" && isPushed(row));
    this.#update(
      row,
      `ours = 0, retained = ?, known = 1, version = NULL, fingerprint = NULL, reference = NULL, tag_keys = '[]', left_alone = 0,
       tags_written = NULL, owed = NULL, status = 'UNSYNCED', error_code = NULL, error_message = NULL, updated = ?`,
      retained ? 1 : 0,
      now,
    );
  }

  #recordThere(
    row: RemoteObjectRow,
    { state, fingerprint, reference, unsureSince, owed }: ObjectResult,
    { version, tagKeys, tagsDigest }: Outside,
    now: number,
  ): void {
    this.#update(
      row,
      `known = 1, ours = ?, left_alone = 0, retained = 0, version = ?, fingerprint = ?, reference = ?, tag_keys = ?,
       tags_written = ?, unsure_since = ?, owed = ?, status = 'SYNCED', error_code = NULL, error_message = NULL,
       updated = ?`,
      OURS,
      version,
      fingerprint ?? null,
      reference ?? (state === "kept" ? row.reference : null),
      JSON.stringify(tagKeys),
      tagsDigest ?? null,
      unsureSince ?? null,
      owed?.message ?? null,
      now,
    );
  }

  /** Records an object left alone, without a fingerprint: the next task checks it again. */
  #recordLeft(row: RemoteObjectRow, version: number | null, now: number): void {
    this.#update(
      row,
      `known = 1, ours = ?, left_alone = 1, version = ?, fingerprint = NULL, tags_written = NULL,
       status = 'SYNCED', error_code = NULL, error_message = NULL, updated = ?`,
      row.ours === OURS ? OURS : UNTRIED,
      version,
      now,
    );
  }

  forget(association: string): void {
    this.sql.exec("DELETE FROM copies WHERE association = ?", association);
  }

  #find(row: Key): RemoteObjectRow | undefined {
    return this.sql.exec<RemoteObjectRow>(`SELECT * FROM copies WHERE ${AT_KEY}`, ...keyOf(row)).toArray()[0];
  }

  #update(row: Key, assignments: string, ...values: SqlStorageValue[]): void {
    this.sql.exec(`UPDATE copies SET ${assignments} WHERE ${AT_KEY}`, ...values, ...keyOf(row));
  }

  #delete(row: Key): void {
    this.sql.exec(`DELETE FROM copies WHERE ${AT_KEY}`, ...keyOf(row));
  }
}

type Key = Pick<RemoteObjectRow, "association" | "sub_key" | "external_name">;

const AT_KEY = "association = ? AND sub_key = ? AND external_name = ?";
const keyOf = ({ association, sub_key, external_name }: Key): string[] => [association, sub_key, external_name];

type Outside = Pick<SyncResult, "version" | "tagKeys" | "tagsDigest">;

const parseKeys = (keys: string): string[] => JSON.parse(keys) as string[];

const OWNERSHIP = ["no", "maybe", "certainly"] as const;

/** The task for one object. */
export const objectTask = (row: RemoteObjectRow, place: string): ObjectTask => ({
  subKey: row.sub_key,
  name: row.external_name,
  obsolete: row.obsolete === 1,
  ours: OWNERSHIP[row.ours] ?? "maybe",
  outside: row.known === 1 ? row.version : undefined,
  knownToExist: isPushed(row) || row.retained === 1,
  fingerprint: row.fingerprint,
  reference: row.reference,
  previousTagKeys: parseKeys(row.tag_keys),
  tagsWritten: row.tags_written,
  blocked: row.blocked !== null,
  owed: row.owed !== null,
  unsureSince: row.unsure_since,
  unclaimed: !isClaimed(row, place),
});
