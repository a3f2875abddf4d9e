import type { CopyResult, CopyTask } from "./association.ts";
import { statusFor } from "./association.ts";
import type { WantedCopy } from "./external-name.ts";
import type { CopyRow } from "./schema.ts";

/** One step from the objects that are recorded to those that are wanted. */
export type Step =
  | { readonly kind: "add"; readonly copy: WantedCopy; readonly blocked: string | null; readonly takenOver: boolean }
  | { readonly kind: "keep"; readonly copy: WantedCopy; readonly blocked: string | null; readonly takenOver: boolean }
  /** It is or may be outside, and has to go. */
  | { readonly kind: "retire"; readonly row: CopyRow }
  /** It is not outside, or another row speaks for it now. */
  | { readonly kind: "drop"; readonly row: CopyRow };

const keyOf = (subKey: string, name: string): string => `${subKey}\n${name}`;

/**
 * How to get from the recorded objects of one association to the wanted ones. Pure.
 * @param holder which other association holds a name (by its fold), null for none
 */
export function planCopies(
  rows: readonly CopyRow[],
  wanted: readonly WantedCopy[],
  holder: (fold: string) => string | null,
): Step[] {
  const recorded = new Map(rows.map((row) => [keyOf(row.sub_key, row.external_name), row]));
  const count = Map.groupBy(wanted, (copy) => copy.fold);
  const liveFolds = new Set(wanted.map((copy) => copy.fold));
  const kept = new Set<string>();
  const steps = wanted.map((copy): Step => {
    const key = keyOf(copy.subKey, copy.name);
    kept.add(key);
    const blocked = refusal(copy, (count.get(copy.fold)?.length ?? 0) > 1, holder(copy.fold));
    // An object that had to go under this very name goes on living as this one.
    const takenOver = rows.some((row) => row.fold === copy.fold && keyOf(row.sub_key, row.external_name) !== key);
    return { kind: recorded.has(key) ? "keep" : "add", copy, blocked, takenOver };
  });
  const leftover = rows.filter((row) => !kept.has(keyOf(row.sub_key, row.external_name)));
  return [
    ...leftover.map((row): Step => ({ kind: liveFolds.has(row.fold) || !mayBeOurs(row) ? "drop" : "retire", row })),
    ...steps,
  ];
}

function refusal(copy: WantedCopy, ambiguous: boolean, holder: string | null): string | null {
  if (copy.refused !== null) return copy.refused;
  if (ambiguous) return `several keys of the secret would be called ${JSON.stringify(copy.name)}`;
  return holder === null ? null : `external name ${JSON.stringify(copy.name)} is taken by the association of ${holder}`;
}

/** Values of `ours`: never tried; a push went out, and who knows; a push succeeded. */
const UNTRIED = 0;
const MAYBE = 1;
const OURS = 2;

/** Whether something of ours is or may be outside under this name. */
export const mayBeOurs = (row: CopyRow): boolean => row.ours !== UNTRIED;

/** The external objects of a destination's associations. Methods that write are called inside the object's transaction. */
export class Copies {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  of(association: string): CopyRow[] {
    return this.#sql.exec<CopyRow>("SELECT * FROM copies WHERE association = ?", association).toArray();
  }

  /** The objects that an association should have, as opposed to those that must go. */
  live(association: string): CopyRow[] {
    return this.of(association).filter((row) => row.obsolete === 0);
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

  /** What `planCopies` says for an association. */
  plan(association: string, wanted: readonly WantedCopy[]): Step[] {
    return planCopies(this.of(association), wanted, (fold) => this.holder(fold, association));
  }

  apply(association: string, steps: readonly Step[], now: number): void {
    for (const step of steps) {
      if (step.kind === "drop") this.#delete(step.row);
      else if (step.kind === "retire") this.#update(step.row, "obsolete = 1");
      else this.#want(association, step, now);
    }
  }

  #want(association: string, { copy, blocked, takenOver }: Step & { kind: "add" | "keep" }, now: number): void {
    const trouble = blocked === null ? null : { code: "name_collision", message: blocked };
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
    if (takenOver) this.#update(row, "ours = max(ours, ?), known = 0, fingerprint = NULL", MAYBE);
    if (trouble) {
      this.#update(
        row,
        "blocked = ?, status = 'CLIENT_SIDE_ERROR', error_code = ?, error_message = ?, updated = ?",
        trouble.message,
        trouble.code,
        trouble.message,
        now,
      );
    } else this.#update(row, "blocked = NULL");
  }

  /**
   * A claim of the association goes out. From now until its result is in, nothing is known of its objects, and they may carry
   * the new tags as well as the old.
   */
  claimed(rows: readonly CopyRow[], tagKeys: readonly string[]): void {
    for (const row of rows) {
      if (row.blocked !== null) continue;
      const tags = row.obsolete === 1 ? row.tag_keys : JSON.stringify([...new Set([...tagKeysOf(row), ...tagKeys])]);
      this.#update(row, "known = 0, tag_keys = ?, ours = max(ours, ?)", tags, row.obsolete === 1 ? UNTRIED : MAYBE);
    }
  }

  /** Whatever is outside is pushed again. */
  askAgain(association: string): void {
    this.#sql.exec("UPDATE copies SET fingerprint = NULL WHERE association = ?", association);
  }

  /** What a task did to one object, or failed to do. `version`: what is outside now. */
  record(
    association: string,
    result: CopyResult,
    outside: { readonly version: number | null; readonly tagKeys: readonly string[] },
    now: number,
  ): void {
    const row = this.of(association).find(
      ({ sub_key, external_name }) => sub_key === result.subKey && external_name === result.name,
    );
    if (!row) return;
    const isGone = result.state === "absent" || result.state === "retained";
    if (isGone && row.obsolete === 1) this.#delete(row);
    else if (isGone) this.#recordGone(row, now);
    else if (result.state === "untouched") this.#update(row, "known = 1");
    else if (result.state === "failed") this.#recordFailed(row, result, now);
    else this.#recordThere(row, result, outside, now);
  }

  #recordGone(row: CopyRow, now: number): void {
    this.#update(
      row,
      `ours = 0, known = 1, version = NULL, fingerprint = NULL, reference = NULL, tag_keys = '[]', left_alone = 0,
       status = 'UNSYNCED', error_code = NULL, error_message = NULL, updated = ?`,
      now,
    );
  }

  #recordFailed(row: CopyRow, { trouble }: CopyResult, now: number): void {
    if (!trouble) return;
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
    row: CopyRow,
    { state, fingerprint, reference }: CopyResult,
    { version, tagKeys }: { readonly version: number | null; readonly tagKeys: readonly string[] },
    now: number,
  ): void {
    const left = state === "left";
    this.#update(
      row,
      `known = 1, ours = ?, left_alone = ?, version = ?, fingerprint = ?, reference = ?, tag_keys = ?,
       status = 'SYNCED', error_code = NULL, error_message = NULL, updated = ?`,
      left && row.ours !== OURS ? UNTRIED : OURS,
      left ? 1 : 0,
      version,
      fingerprint ?? row.fingerprint,
      reference ?? (state === "kept" ? row.reference : null),
      JSON.stringify(left ? [] : tagKeys),
      now,
    );
  }

  forget(association: string): void {
    this.#sql.exec("DELETE FROM copies WHERE association = ?", association);
  }

  #update(
    row: Pick<CopyRow, "association" | "sub_key" | "external_name">,
    assignments: string,
    ...values: SqlStorageValue[]
  ): void {
    this.#sql.exec(
      `UPDATE copies SET ${assignments} WHERE association = ? AND sub_key = ? AND external_name = ?`,
      ...values,
      row.association,
      row.sub_key,
      row.external_name,
    );
  }

  #delete(row: Pick<CopyRow, "association" | "sub_key" | "external_name">): void {
    this.#sql.exec(
      "DELETE FROM copies WHERE association = ? AND sub_key = ? AND external_name = ?",
      row.association,
      row.sub_key,
      row.external_name,
    );
  }
}

export const tagKeysOf = (row: CopyRow): string[] => JSON.parse(row.tag_keys) as string[];

/** An object as a Worker gets it. */
export const copyTask = (row: CopyRow): CopyTask => ({
  subKey: row.sub_key,
  name: row.external_name,
  obsolete: row.obsolete === 1,
  ours: mayBeOurs(row),
  outside: row.known === 1 ? row.version : undefined,
  knownToExist: row.ours === OURS && row.version !== null,
  fingerprint: row.fingerprint,
  reference: row.reference,
  previousTagKeys: tagKeysOf(row),
  blocked: row.blocked !== null,
});
