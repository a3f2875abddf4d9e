import { liveAllocationsOf } from "../../cluster/reports/view.ts";

/** Reads the tables `volume_claims` and `claim_asks` for host volumes and namespaces. Costs one index seek a call. */

/** A claim that keeps a namespace from being deleted. */
export const CLAIM_IN_NAMESPACE = "SELECT id AS name FROM volume_claims WHERE namespace = ? LIMIT 1";

/** Ids of the live allocations that hold a claim on a volume. */
export const holdersOf = (sql: SqlStorage, volumeId: string): string[] =>
  sql
    .exec<{ id: string }>(liveAllocationsOf("volume_claims", "volume_id = ?"), volumeId)
    .toArray()
    .map(({ id }) => id);

/** Whether an allocation outlives its deleted job, so that the names of its volumes are not known any more. */
export function outlivesJob(sql: SqlStorage, namespace: string, allocId: string): boolean {
  const mark = "SELECT 1 FROM claim_asks WHERE namespace = ? AND alloc_id = ? AND job_id = ''";
  return sql.exec(mark, namespace, allocId).toArray().length > 0;
}
