import type { ObjectResult, ObjectTask, Trouble } from "./association.ts";
import { isUnsure, statusFor } from "./association.ts";
import type { DesiredObject } from "./external-name.ts";
import type { RemoteObjectRow } from "./schema.ts";

/** An object that should be there. `blocked`: why it may not be pushed. */
interface Wanted {
  readonly copy: DesiredObject;
  readonly blocked: string | null;
  /** Another destination has the name: whatever is outside under it is not ours. */
  readonly elsewhere: boolean;
  /** Other rows of the same name, whose object goes on living as this one. */
  readonly adoptedFrom: readonly RemoteObjectRow[];
}

/** One step from the objects that are recorded to those that are wanted. */
export type Step =
  | ({ readonly kind: "add" | "keep" } & Wanted)
  /** It is or may be outside, and has to go. */
  | { readonly kind: "retire"; readonly row: RemoteObjectRow }
  /** It is not outside, or another row speaks for it now. */
  | { readonly kind: "drop"; readonly row: RemoteObjectRow };

const keyOf = (subKey: string, name: string): string => `${subKey}\n${name}`;
const keyOfRow = (row: RemoteObjectRow): string => keyOf(row.sub_key, row.external_name);

/** Which other destination has a name, by its fold. */
export type TakenNames = ReadonlyMap<string, string>;

export const NONE_TAKEN: TakenNames = new Map();

/**
 * How to get from the recorded objects of one association to the wanted ones. Pure.
 * @param holder which other association holds a name (by its fold), null for none
 */
export function planObjects(
  rows: readonly RemoteObjectRow[],
  wanted: readonly DesiredObject[],
  holder: (fold: string) => string | null,
  taken: TakenNames = NONE_TAKEN,
): Step[] {
  const recorded = new Set(rows.map(keyOfRow));
  const namesakes = Map.groupBy(rows, (row) => row.fold);
  const claimants = Map.groupBy(wanted, (copy) => copy.fold);
  const kept = new Set(wanted.map((copy) => keyOf(copy.subKey, copy.name)));
  const steps = wanted.map((copy): Step => {
    const key = keyOf(copy.subKey, copy.name);
    const ambiguous = (claimants.get(copy.fold)?.length ?? 0) > 1;
    const elsewhere = taken.get(copy.fold) ?? null;
    const blocked = refusal(copy, ambiguous, holder(copy.fold), elsewhere);
    const adoptedFrom = (namesakes.get(copy.fold) ?? []).filter((row) => keyOfRow(row) !== key && mayBeOurs(row));
    return { kind: recorded.has(key) ? "keep" : "add", copy, blocked, elsewhere: elsewhere !== null, adoptedFrom };
  });
  const leftover = rows.filter((row) => !kept.has(keyOfRow(row)));
  return [
    ...leftover.map((row): Step => ({ kind: claimants.has(row.fold) || !mayBeOurs(row) ? "drop" : "retire", row })),
    ...steps,
  ];
}

function refusal(
  copy: DesiredObject,
  ambiguous: boolean,
  holder: string | null,
  elsewhere: string | null,
): string | null {
  const name = JSON.stringify(copy.name);
  if (copy.refused !== null) return copy.refused;
  if (ambiguous) return `several keys of the secret would be called ${name}`;
  if (holder !== null) return `external name ${name} is taken by the association of ${holder}`;
  return elsewhere === null ? null : `external name ${name} is taken by ${elsewhere}, which writes to the same place`;
}

/** Values of `ours`: never tried; a push went out, and who knows; a push succeeded. */
const UNTRIED = 0;
const MAYBE = 1;
const OURS = 2;

/** Whether something of ours is or may be outside under this name. */
export const mayBeOurs = (row: RemoteObjectRow): boolean => row.ours !== UNTRIED;

/** Whether no other destination that writes to the same place has the name. */
const isClaimed = ({ claimed }: RemoteObjectRow, place: string): boolean => (claimed ?? "") === place;

/** Whether the destination has the name of a row, as opposed to one that only says why it may not be pushed. */
const isHeld = (row: RemoteObjectRow): boolean => row.blocked === null || mayBeOurs(row);

/** The names, of the recorded and the wanted objects of an association, that another destination may have. Pure. */
export function unclaimed(rows: readonly RemoteObjectRow[], wanted: readonly DesiredObject[], place: string): string[] {
  if (place === "") return [];
  const held = rows.filter(isHeld);
  const claimed = new Set(held.filter((row) => isClaimed(row, place)).map(({ fold }) => fold));
  const all = new Set([...held, ...wanted].map(({ fold }) => fold));
  return [...all.difference(claimed)];
}

/** The external objects of a destination's associations. Methods that write are called inside the object's transaction. */
export class RemoteObjects {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  of(association: string): RemoteObjectRow[] {
    return this.#sql.exec<RemoteObjectRow>("SELECT * FROM copies WHERE association = ?", association).toArray();
  }

  /** The objects that an association should have, as opposed to those that must go. */
  live(association: string): RemoteObjectRow[] {
    return this.of(association).filter((row) => row.obsolete === 0);
  }

  /** Live objects of all associations, in the order of association and key, behind a position. */
  livePage(from: { readonly association: string; readonly subKey: string }, limit: number): RemoteObjectRow[] {
    return this.#sql
      .exec<RemoteObjectRow>(
        `SELECT * FROM copies WHERE (association, sub_key) > (?, ?) AND obsolete = 0
         ORDER BY association, sub_key LIMIT ?`,
        from.association,
        from.subKey,
        limit,
      )
      .toArray();
  }

  /** The name of some object that is there for certain. */
  anyPushed(): string | null {
    const query =
      "SELECT external_name AS name FROM copies WHERE ours = ? AND version IS NOT NULL AND left_alone = 0 LIMIT 1";
    return this.#sql.exec<{ name: string }>(query, OURS).toArray()[0]?.name ?? null;
  }

  /** Which other association holds a name; one still to be removed for it is held, too. */
  holder(fold: string, association: string): string | null {
    const [held] = this.#sql
      .exec<{ association: string }>(
        "SELECT association FROM copies WHERE fold = ? AND association <> ? AND (blocked IS NULL OR ours > 0) LIMIT 1",
        fold,
        association,
      )
      .toArray();
    return held?.association ?? null;
  }

  /** What `planObjects` says for an association. */
  plan(association: string, wanted: readonly DesiredObject[], taken = NONE_TAKEN): Step[] {
    return planObjects(this.of(association), wanted, (fold) => this.holder(fold, association), taken);
  }

  /** @param place the targets at which the names were found to be free */
  apply(association: string, steps: readonly Step[], now: number, place = ""): void {
    for (const step of steps) {
      if (step.kind === "drop") this.#delete(step.row);
      else if (step.kind === "retire") this.#update(step.row, "obsolete = 1");
      else this.#setDesired(association, step, now, place);
    }
  }

  /** Other destinations were asked for what is or may be outside; `taken` is what they have. */
  claimNames(association: string, taken: TakenNames, place: string): void {
    for (const row of this.of(association).filter((one) => mayBeOurs(one) && !isClaimed(one, place))) {
      if (taken.has(row.fold)) this.#disown(row);
      else this.#update(row, "claimed = ?", place);
    }
  }

  /** The associations that have a name. `surely`: at least one has pushed it, or may have, where no other destination has it. */
  holdersOf(fold: string, place: string): { readonly associations: readonly string[]; readonly surely: boolean } {
    const rows = this.#sql.exec<RemoteObjectRow>("SELECT * FROM copies WHERE fold = ?", fold).toArray().filter(isHeld);
    return {
      associations: [...new Set(rows.map(({ association }) => association))],
      surely: rows.some((row) => mayBeOurs(row) && isClaimed(row, place)),
    };
  }

  /** Other destinations are asked for the name again before anything is done under it. */
  yieldName(fold: string): void {
    this.#sql.exec("UPDATE copies SET claimed = NULL WHERE fold = ?", fold);
  }

  /** What is outside under the name is another destination's. */
  #disown(row: Key): void {
    this.#update(
      row,
      `claimed = NULL, ours = ?, known = 0, version = NULL, fingerprint = NULL, reference = NULL, tag_keys = '[]',
       left_alone = 0, unsure_since = NULL`,
      UNTRIED,
    );
  }

  #setDesired(
    association: string,
    { copy, blocked, elsewhere, adoptedFrom }: Wanted,
    now: number,
    place: string,
  ): void {
    this.#sql.exec(
      `INSERT INTO copies (association, sub_key, external_name, fold, status, updated) VALUES (?1, ?2, ?3, ?4, 'PENDING', ?5)
       ON CONFLICT (association, sub_key, external_name) DO UPDATE SET obsolete = 0`,
      association,
      copy.subKey,
      copy.name,
      copy.fold,
      now,
    );
    const row = { association, sub_key: copy.subKey, external_name: copy.name };
    if (adoptedFrom.length > 0) this.#inherit(row, adoptedFrom);
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

  /** What is outside under this name was pushed for another row: with what, this one cannot tell. */
  #inherit(row: Key, rows: readonly RemoteObjectRow[]): void {
    const own = this.#find(row)?.tag_keys ?? "[]";
    const tags = new Set([own, ...rows.map((one) => one.tag_keys)].flatMap(parseKeys));
    const unsure = [this.#find(row), ...rows].map((one) => one?.unsure_since ?? null).filter((at) => at !== null);
    this.#update(
      row,
      "ours = max(ours, ?), known = 0, fingerprint = NULL, tag_keys = ?, unsure_since = ?",
      MAYBE,
      JSON.stringify([...tags]),
      unsure.length === 0 ? null : Math.min(...unsure),
    );
  }

  /**
   * A claim of the association goes out. From now until its result is in, nothing is known of its objects, and they may carry
   * the new tags as well as the old. What must first be asked for elsewhere is pushed by no such claim.
   */
  leased(rows: readonly RemoteObjectRow[], tagKeys: readonly string[], now: number, place = ""): void {
    for (const row of rows) {
      const pushed = row.obsolete === 0 && row.blocked === null && isClaimed(row, place);
      const tags = pushed ? JSON.stringify([...new Set([...parseKeys(row.tag_keys), ...tagKeys])]) : row.tag_keys;
      this.#update(
        row,
        "known = 0, tag_keys = ?, ours = max(ours, ?), unsure_since = coalesce(unsure_since, ?)",
        tags,
        pushed ? MAYBE : UNTRIED,
        pushed ? now : null,
      );
    }
  }

  /** Whatever is outside is pushed again. */
  forgetFingerprints(association: string): void {
    this.#sql.exec("UPDATE copies SET fingerprint = NULL WHERE association = ?", association);
  }

  /** What a task did to one object, or failed to do. `version`: what is outside now. */
  record(
    association: string,
    result: ObjectResult,
    outside: { readonly version: number | null; readonly tagKeys: readonly string[] },
    now: number,
  ): void {
    const row = this.#find({ association, sub_key: result.subKey, external_name: result.name });
    if (!row) return;
    if (result.notOurs) this.#update(row, "ours = ?", UNTRIED);
    // A push of unknown outcome keeps what its claim has recorded.
    if (!result.trouble || !isUnsure(result.trouble)) this.#update(row, "unsure_since = ?", result.unsureSince ?? null);
    const isGone = result.state === "absent" || result.state === "retained";
    if (isGone && row.obsolete === 1) this.#delete(row);
    else if (isGone) this.#recordGone(row, now);
    else if (result.state === "left") this.#recordLeft(row, outside.version, now);
    else if (result.state === "pushed" || result.state === "kept") this.#recordThere(row, result, outside, now);
    else if (result.certain) this.#update(row, "known = 1");
    if (result.trouble) this.#recordTrouble(row, result.trouble, now);
  }

  #recordGone(row: RemoteObjectRow, now: number): void {
    this.#update(
      row,
      `ours = 0, known = 1, version = NULL, fingerprint = NULL, reference = NULL, tag_keys = '[]', left_alone = 0,
       status = 'UNSYNCED', error_code = NULL, error_message = NULL, updated = ?`,
      now,
    );
  }

  #recordTrouble(row: RemoteObjectRow, trouble: Trouble, now: number): void {
    this.#update(
      row,
      "status = ?, error_code = ?, error_message = ?, updated = ?",
      statusFor(trouble),
      trouble.code,
      trouble.message,
      now,
    );
  }

  #recordThere(
    row: RemoteObjectRow,
    { state, fingerprint, reference }: ObjectResult,
    { version, tagKeys }: { readonly version: number | null; readonly tagKeys: readonly string[] },
    now: number,
  ): void {
    this.#update(
      row,
      `known = 1, ours = ?, left_alone = 0, version = ?, fingerprint = ?, reference = ?, tag_keys = ?,
       status = 'SYNCED', error_code = NULL, error_message = NULL, updated = ?`,
      OURS,
      version,
      fingerprint ?? null,
      reference ?? (state === "kept" ? row.reference : null),
      JSON.stringify(tagKeys),
      now,
    );
  }

  /** Without a fingerprint, since what is there is not what was to be pushed: the next push looks again. */
  #recordLeft(row: RemoteObjectRow, version: number | null, now: number): void {
    this.#update(
      row,
      `known = 1, ours = ?, left_alone = 1, version = ?, fingerprint = NULL,
       status = 'SYNCED', error_code = NULL, error_message = NULL, updated = ?`,
      row.ours === OURS ? OURS : UNTRIED,
      version,
      now,
    );
  }

  forget(association: string): void {
    this.#sql.exec("DELETE FROM copies WHERE association = ?", association);
  }

  #find(row: Key): RemoteObjectRow | undefined {
    return this.#sql
      .exec<RemoteObjectRow>(
        "SELECT * FROM copies WHERE association = ? AND sub_key = ? AND external_name = ?",
        row.association,
        row.sub_key,
        row.external_name,
      )
      .toArray()[0];
  }

  #update(row: Key, assignments: string, ...values: SqlStorageValue[]): void {
    this.#sql.exec(
      `UPDATE copies SET ${assignments} WHERE association = ? AND sub_key = ? AND external_name = ?`,
      ...values,
      row.association,
      row.sub_key,
      row.external_name,
    );
  }

  #delete(row: Key): void {
    this.#sql.exec(
      "DELETE FROM copies WHERE association = ? AND sub_key = ? AND external_name = ?",
      row.association,
      row.sub_key,
      row.external_name,
    );
  }
}

type Key = Pick<RemoteObjectRow, "association" | "sub_key" | "external_name">;

const parseKeys = (keys: string): string[] => JSON.parse(keys) as string[];

const OURS_IN_WORDS = ["no", "maybe", "certainly"] as const;

/** An object as a Worker gets it. */
export const objectTask = (row: RemoteObjectRow, place: string): ObjectTask => ({
  subKey: row.sub_key,
  name: row.external_name,
  obsolete: row.obsolete === 1,
  ours: OURS_IN_WORDS[row.ours] ?? "maybe",
  outside: row.known === 1 ? row.version : undefined,
  knownToExist: row.ours === OURS && row.version !== null,
  fingerprint: row.fingerprint,
  reference: row.reference,
  previousTagKeys: parseKeys(row.tag_keys),
  blocked: row.blocked !== null,
  unsureSince: row.unsure_since,
  unclaimed: !isClaimed(row, place),
});
