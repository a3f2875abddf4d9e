import type { WorkList } from "../work/work-list.ts";
import {
  type AssociationView,
  associationId,
  type SecretRef,
  type SyncResult,
  type SyncStatus,
} from "./association.ts";
import type { AssociationRow } from "./schema.ts";

/** Values of `known`: what is outside is not certain; it is as recorded; whatever it is, a push was asked for. */
const UNSURE = 0;
const CERTAIN = 1;
const ASKED = 2;

/**
 * The associations of one destination: what should be there, and what is known to be there. A changed wish leaves work in
 * `work` under the association's id. Methods that write are called inside the object's transaction.
 */
export class Associations {
  readonly #sql: SqlStorage;
  readonly #work: WorkList;

  constructor(sql: SqlStorage, work: WorkList) {
    this.#sql = sql;
    this.#work = work;
  }

  find(id: string): AssociationRow | null {
    return this.#where("id = ?", id)[0] ?? null;
  }

  ofSecret(mountUuid: string, secretName: string): AssociationRow[] {
    return this.#where("mount_uuid = ? AND secret_name = ?", mountUuid, secretName);
  }

  /** By the path that the mount had, for mounts that are gone. */
  ofPath(mountPath: string, secretName: string): AssociationRow | null {
    return this.#where("secret_name = ? AND mount_path = ?", secretName, mountPath)[0] ?? null;
  }

  page(after: string, limit: number): AssociationRow[] {
    return this.#where("id > ? ORDER BY id LIMIT ?", after, limit);
  }

  count(): number {
    return this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM associations").one().n;
  }

  /** Who else holds an external name. One still to be removed for another secret is held, too. */
  holderOf(name: string, id: string): AssociationRow | null {
    const [holder] = this.#where("external_name = ? AND id <> ?", name, id);
    if (holder) return holder;
    return this.#where("stale_names <> '[]' AND id <> ?", id).find((row) => staleNamesOf(row).includes(name)) ?? null;
  }

  /** The wish that a secret be here under this name, or be pushed here again whatever is there. */
  set(secret: SecretRef, externalName: string, now: number): void {
    const id = associationId(secret);
    const before = this.find(id);
    if (!before) this.#insert(id, secret, externalName, now);
    else if (before.external_name !== externalName) this.#rename(before, externalName);
    this.#sql.exec("UPDATE associations SET known = ? WHERE id = ?", ASKED, id);
    this.want(id, "present", now);
  }

  /** A new wish, or the old one again: the work starts over. */
  want(id: string, wish: "present" | "absent", now: number): void {
    this.#sql.exec(
      `UPDATE associations SET wish = ?, intent = intent + 1, status = 'PENDING', error_code = NULL, error_message = NULL,
         updated = ? WHERE id = ?`,
      wish,
      now,
      id,
    );
    this.#work.want(id, now);
  }

  /** What the destination's configuration was blamed for gets another chance. */
  wantRefused(now: number): void {
    const refused = this.#sql
      .exec<{ id: string; wish: "present" | "absent" }>(
        "SELECT id, wish FROM associations WHERE status = 'CLIENT_SIDE_ERROR'",
      )
      .toArray();
    for (const { id, wish } of refused) this.want(id, wish, now);
  }

  /**
   * A claim of the row goes out. From now until its result is in, nothing is known of the object outside, and it may carry
   * the new tags as well as the old.
   */
  claimed(row: AssociationRow, tagKeys: readonly string[]): void {
    const keys = new Set([...tagKeysOf(row), ...tagKeys]);
    const tags = JSON.stringify([...keys]);
    this.#sql.exec("UPDATE associations SET known = ?, tag_keys = ? WHERE id = ?", UNSURE, tags, row.id);
  }

  /** What a task did outside. A push that was asked for since stays asked for. */
  record(row: AssociationRow, result: SyncResult): void {
    const removed = new Set(result.removedNames);
    const stale = staleNamesOf(row).filter((name) => !removed.has(name));
    // It may have got another name meanwhile, of which nothing is known.
    const current = result.externalName === row.external_name;
    this.#sql.exec(
      "UPDATE associations SET known = ?, stale_names = ?, tag_keys = ?, synced_version = ? WHERE id = ?",
      row.known === ASKED || !current ? row.known : CERTAIN,
      JSON.stringify(stale),
      JSON.stringify(current && result.version !== null ? result.tagKeys : []),
      current ? result.version : null,
      row.id,
    );
  }

  /** How a task ended. */
  conclude(id: string, status: SyncStatus, failure: { code: string; message: string } | null, now: number): void {
    this.#sql.exec(
      "UPDATE associations SET status = ?, error_code = ?, error_message = ?, updated = ? WHERE id = ?",
      status,
      failure?.code ?? null,
      failure?.message ?? null,
      now,
      id,
    );
  }

  delete(id: string): void {
    this.#sql.exec("DELETE FROM associations WHERE id = ?", id);
    this.#work.forget(id);
  }

  view(row: AssociationRow): AssociationView {
    const work = this.#work.find(row.id);
    const waits = work !== null && work.attempts > 0;
    return {
      accessor: row.mount_accessor,
      secret_name: row.secret_name,
      external_name: row.external_name,
      sync_status: row.status,
      updated_at: new Date(row.updated).toISOString(),
      ...(row.error_code !== null && { error_code: row.error_code, error_message: row.error_message ?? "" }),
      ...(row.synced_version !== null && { synced_version: row.synced_version }),
      ...(waits && { attempts: work.attempts }),
      ...(waits && !work.claimed && { next_attempt_at: new Date(work.readyAt).toISOString() }),
    };
  }

  #insert(id: string, secret: SecretRef, externalName: string, now: number): void {
    this.#sql.exec(
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
    const stale = new Set([...staleNamesOf(row), row.external_name]);
    stale.delete(name);
    this.#sql.exec(
      "UPDATE associations SET external_name = ?, stale_names = ?, tag_keys = '[]', synced_version = NULL WHERE id = ?",
      name,
      JSON.stringify([...stale]),
      row.id,
    );
  }

  #where(condition: string, ...values: SqlStorageValue[]): AssociationRow[] {
    return this.#sql.exec<AssociationRow>(`SELECT * FROM associations WHERE ${condition}`, ...values).toArray();
  }
}

/** Whether the object outside is known to be what `synced_version` says. */
export const isCertain = (row: AssociationRow): boolean => row.known === CERTAIN;
export const staleNamesOf = (row: AssociationRow): string[] => JSON.parse(row.stale_names) as string[];
export const tagKeysOf = (row: AssociationRow): string[] => JSON.parse(row.tag_keys) as string[];
