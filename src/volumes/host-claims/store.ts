import type { ClaimPage, ClaimQuery, StoredClaim } from "../../contracts/host-volumes.ts";
import { upperBound } from "../../lib/text-range.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import type { RowOf } from "../../platform/durable/row-of.ts";

/**
 * The table's name in index backfills. Claims have no event topic: the line of the causing change advances their
 * index.
 */
export const VOLUME_CLAIM = "VolumeClaim";

/** The unique key of a claim. */
type Claimant = Pick<StoredClaim, "namespace" | "jobId" | "taskGroup" | "volumeId">;

const COLUMNS = `id, namespace, job_id AS jobId, task_group AS taskGroup, volume_id AS volumeId, volume_name AS volumeName,
  alloc_id AS allocId, create_index AS createIndex, modify_index AS modifyIndex`;

/** Upper bound of rows a page examines, independent of its page size. */
const MAX_ROWS_EXAMINED = 5_000;

/**
 * Owns table `volume_claims`. Read by `VolumeClaims` and the list route; a page costs one index walk of at most 5,000
 * rows.
 */
export class ClaimStore implements IndexedRows {
  constructor(private readonly sql: SqlStorage) {}

  find(id: string): StoredClaim | null {
    return this.#rows("WHERE id = ?", id).toArray()[0] ?? null;
  }

  of({ volumeId, namespace, jobId, taskGroup }: Claimant): StoredClaim | null {
    const claimant = "WHERE volume_id = ? AND namespace = ? AND job_id = ? AND task_group = ?";
    return this.#rows(claimant, volumeId, namespace, jobId, taskGroup).toArray()[0] ?? null;
  }

  /**
   * One page in order of namespace and id, or by id alone for a prefix over all namespaces (one index seek). A page
   * can be shorter than `limit` when few rows match.
   */
  page(query: ClaimQuery): ClaimPage {
    const { index, where, values, columns } = selection(query);
    const cursor = this.#rows(
      `${index} ${where.length === 0 ? "" : `WHERE ${where.join(" AND ")}`}
       ORDER BY ${columns.map((column) => `${column} ${query.reverse ? "DESC" : "ASC"}`).join(", ")}`,
      ...values,
    );
    const rows: StoredClaim[] = [];
    let seen = 0;
    for (const row of cursor) {
      if (rows.length === query.limit || seen === MAX_ROWS_EXAMINED) return { rows, next: [row.namespace, row.id] };
      seen += 1;
      if (matches(row, query)) rows.push(row);
    }
    return { rows, next: null };
  }

  insert({ id, namespace, jobId, taskGroup, volumeId, volumeName, allocId }: StoredClaim): void {
    this.sql.exec(
      "INSERT INTO volume_claims VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)",
      id,
      namespace,
      jobId,
      taskGroup,
      volumeId,
      volumeName,
      allocId,
    );
  }

  move(id: string, allocId: string): void {
    this.sql.exec("UPDATE volume_claims SET alloc_id = ? WHERE id = ?", allocId, id);
  }

  /** Sets the name of a volume in its claims. @returns their ids */
  rename(volumeId: string, name: string): string[] {
    const sql = "UPDATE volume_claims SET volume_name = ? WHERE volume_id = ? RETURNING id";
    return this.sql
      .exec<{ id: string }>(sql, name, volumeId)
      .toArray()
      .map(({ id }) => id);
  }

  remove(id: string): void {
    this.sql.exec("DELETE FROM volume_claims WHERE id = ?", id);
  }

  /** @returns whether there were any */
  removeOfJob(namespace: string, jobId: string): boolean {
    const sql = "DELETE FROM volume_claims WHERE job_id = ? AND namespace = ?";
    return this.sql.exec(sql, jobId, namespace).rowsWritten > 0;
  }

  /** @returns whether there were any */
  removeOfVolume(volumeId: string): boolean {
    return this.sql.exec("DELETE FROM volume_claims WHERE volume_id = ?", volumeId).rowsWritten > 0;
  }

  /** Sets a claim's index to that of the line that created or moved it. */
  setIndex({ row: [id = ""] }: IndexBackfill, index: number): void {
    this.sql.exec(
      "UPDATE volume_claims SET create_index = ifnull(create_index, ?1), modify_index = ?1 WHERE id = ?2",
      index,
      id,
    );
  }

  #rows(selection: string, ...values: readonly string[]): SqlStorageCursor<RowOf<StoredClaim>> {
    return this.sql.exec<RowOf<StoredClaim>>(`SELECT ${COLUMNS} FROM volume_claims ${selection}`, ...values);
  }
}

interface Selection {
  readonly index: string;
  readonly where: readonly string[];
  readonly values: readonly string[];
  readonly columns: readonly string[];
}

/** The query of each kind of list; every kind is a walk along one index. */
function selection(query: ClaimQuery): Selection {
  const { namespace, prefix, from, reverse } = query;
  const everywhere = namespace === null;
  const byIdAlone = everywhere && prefix !== "";
  const where: string[] = [];
  const values: string[] = [];
  const add = (condition: string, ...given: readonly string[]) => {
    where.push(condition);
    values.push(...given);
  };
  const narrowing = byIdAlone ? undefined : NARROWING.find(([, name]) => query[name] !== undefined);
  if (narrowing) add(`${narrowing[0]} = ?`, query[narrowing[1]] ?? "");
  // Named explicitly: with two usable indexes, SQLite may choose the wider one.
  const index = byIdAlone ? "" : `INDEXED BY volume_claims_${narrowing?.[2] ?? "in_order"}`;
  if (!everywhere) add("namespace = ?", namespace);
  if (everywhere && !byIdAlone) {
    if (from[0] !== "") add(`(namespace, id) ${reverse ? "<=" : ">="} (?, ?)`, ...from);
    return { index, where, values, columns: ["namespace", "id"] };
  }
  // At most one bound per side: with two, SQLite may start the walk at either.
  const [, id] = from;
  const end = upperBound(prefix);
  const begun = id !== "" && (reverse ? prefix === "" || id < end : id > prefix);
  if (begun) add(`id ${reverse ? "<=" : ">="} ?`, id);
  if (prefix !== "" && (reverse || !begun)) add("id >= ?", prefix);
  if (prefix !== "" && (!reverse || !begun)) add("id < ?", end);
  return { index, where, values, columns: ["id"] };
}

/** The columns and indexes that narrow a walk. Remaining conditions are checked on each row. */
const NARROWING = [
  ["job_id", "jobId", "by_job"],
  ["volume_name", "volumeName", "by_name"],
  ["task_group", "taskGroup", "by_group"],
] as const;

function matches(claim: StoredClaim, query: ClaimQuery): boolean {
  return NARROWING.every(([, name]) => query[name] === undefined || claim[name] === query[name]);
}
