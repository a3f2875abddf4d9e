/**
 * Reads tables `reported` and `job_versions` for the other folders of the cluster registry: volumes, nodes and
 * namespaces. Every statement is an index seek or a walk over one index, except where its comment says otherwise.
 */

/** Live allocations of a job, as the end of a statement: namespace and job id. */
export const FROM_LIVE_OF_JOB =
  "FROM reported WHERE topic = 'Allocation' AND namespace = ? AND job_id = ? AND terminal = 0";

/** Whether the allocation of a row of `table` is live, as a condition. */
export const isLiveIn = (table: string): string =>
  `EXISTS (SELECT 1 FROM reported WHERE topic = 'Allocation' AND reported.namespace = ${table}.namespace
  AND reported.id = alloc_id AND terminal = 0)`;

/** Ids of the live allocations of the rows of `table` for which a condition holds. */
export const liveAllocationsOf = (table: string, condition: string): string =>
  `SELECT reported.id FROM ${table} CROSS JOIN reported
     ON topic = 'Allocation' AND reported.namespace = ${table}.namespace AND reported.id = alloc_id
   WHERE ${condition} AND terminal = 0`;

/** Names of jobs and allocations that keep a namespace from being deleted: one of each. */
export const JOB_IN_NAMESPACE = `SELECT id AS name FROM reported WHERE topic = 'Job' AND namespace = ?
      AND ifnull(json_extract(body, '$.Status'), '') <> 'dead' LIMIT 1`;
export const ALLOCATION_IN_NAMESPACE =
  "SELECT id AS name FROM reported WHERE topic = 'Allocation' AND namespace = ? AND terminal = 0 LIMIT 1";

/** Whether an allocation is terminal; null when it is unknown. */
export function isTerminal(sql: SqlStorage, namespace: string, id: string): boolean | null {
  const [allocation] = sql
    .exec<{ terminal: number }>(
      "SELECT terminal FROM reported WHERE topic = 'Allocation' AND namespace = ? AND id = ?",
      namespace,
      id,
    )
    .toArray();
  return allocation ? allocation.terminal === 1 : null;
}

/** The task groups of a job in one version, as JSON. */
export interface JobGroups extends Record<string, SqlStorageValue> {
  version: number | null;
  groups: string | null;
}

const JOB_GROUPS = "job_version AS version, json_extract(body, '$.TaskGroups') AS groups";
/** An allocation's copy of its job may have no groups. */
const EARLIER_GROUPS = `SELECT version, json_extract(body, '$.TaskGroups') AS groups FROM job_versions
  WHERE namespace = ? AND job_id = ? AND gone = 0 AND json_type(body, '$.TaskGroups') = 'array'`;

export const hasJob = (sql: SqlStorage, namespace: string, id: string): boolean =>
  isFound(sql, "SELECT 1 FROM reported WHERE topic = 'Job' AND namespace = ? AND id = ?", namespace, id);

/** The task groups of a job's newest version; null for an unknown job. */
function newestGroups(sql: SqlStorage, namespace: string, id: string): JobGroups | null {
  const [job] = sql
    .exec<JobGroups>(
      `SELECT ${JOB_GROUPS} FROM reported WHERE topic = 'Job' AND namespace = ? AND id = ?`,
      namespace,
      id,
    )
    .toArray();
  return job ?? null;
}

/**
 * The task groups of a job in the version of an allocation; null while that version is unknown. Without a version, of
 * the job or of the allocation, those of the newest one.
 */
export function groupsOfVersion(
  sql: SqlStorage,
  namespace: string,
  id: string,
  version: number | null,
): JobGroups | null {
  const newest = newestGroups(sql, namespace, id);
  if (version === null || (newest && (newest.version ?? version) === version)) return newest;
  const [earlier] = sql.exec<JobGroups>(`${EARLIER_GROUPS} AND version = ?`, namespace, id, version).toArray();
  return earlier ?? null;
}

/** The task groups of a job in each of its stored versions. */
export function groupsOfVersions(sql: SqlStorage, namespace: string, id: string): JobGroups[] {
  const newest = newestGroups(sql, namespace, id);
  const earlier = sql.exec<JobGroups>(EARLIER_GROUPS, namespace, id).toArray();
  return newest ? [newest, ...earlier] : earlier;
}

/** A live allocation, as far as its requests for volumes need it. */
export interface LiveAllocation extends Record<string, SqlStorageValue> {
  id: string;
  job_id: string | null;
  node_id: string | null;
  name: string | null;
  task_group: string | null;
  /** As reported, else as determined at its placement; null when unknown. */
  job_version: number | null;
}

const LIVE_ALLOCATION = `id, job_id, node_id, json_extract(body, '$.Name') AS name,
  json_extract(body, '$.TaskGroup') AS task_group, job_version`;

export const liveOfJob = (sql: SqlStorage, namespace: string, jobId: string): LiveAllocation[] =>
  sql.exec<LiveAllocation>(`SELECT ${LIVE_ALLOCATION} ${FROM_LIVE_OF_JOB}`, namespace, jobId).toArray();

export const liveOnNode = (sql: SqlStorage, nodeId: string, namespace: string): LiveAllocation[] =>
  sql
    .exec<LiveAllocation>(
      `SELECT ${LIVE_ALLOCATION} FROM reported INDEXED BY reported_live
       WHERE topic = 'Allocation' AND terminal = 0 AND node_id = ? AND namespace = ?`,
      nodeId,
      namespace,
    )
    .toArray();

/** Whether live allocations run on a node. @param ignoreSystemJobs leaves out those of system jobs */
export function runsAllocations(sql: SqlStorage, nodeId: string, ignoreSystemJobs: boolean): boolean {
  const counts = ignoreSystemJobs
    ? `AND ifnull(json_extract(running.body, '$.JobType'), ifnull((
         SELECT json_extract(job.body, '$.Type') FROM reported AS job
         WHERE job.topic = 'Job' AND job.namespace = running.namespace AND job.id = running.job_id), ''))
       NOT IN ('system', 'sysbatch')`
    : "";
  return isFound(
    sql,
    `SELECT 1 FROM reported AS running
     WHERE running.topic = 'Allocation' AND running.terminal = 0 AND running.node_id = ? ${counts} LIMIT 1`,
    nodeId,
  );
}

/** A stored node pool. */
export interface PoolRow extends Record<string, SqlStorageValue> {
  id: string;
  body: string;
  create_index: number | null;
  modify_index: number | null;
}

/** Node pools in order of their names. */
export const poolRows = (sql: SqlStorage, from: string, limit: number): PoolRow[] =>
  sql
    .exec<PoolRow>(
      `SELECT id, body, create_index, modify_index FROM reported
       WHERE topic = 'NodePool' AND namespace = '' AND id >= ? ORDER BY id LIMIT ?`,
      from,
      limit,
    )
    .toArray();

export const hasPool = (sql: SqlStorage, pool: string): boolean =>
  isFound(sql, "SELECT 1 FROM reported WHERE topic = 'NodePool' AND id = ? LIMIT 1", pool);

/** Whether a job that still runs is in a pool. Costs a walk over all jobs. */
export const poolHasJobs = (sql: SqlStorage, pool: string): boolean =>
  isFound(
    sql,
    `SELECT 1 FROM reported WHERE topic = 'Job' AND json_extract(body, '$.NodePool') = ?
      AND ifnull(json_extract(body, '$.Status'), '') <> 'dead' LIMIT 1`,
    pool,
  );

const isFound = (sql: SqlStorage, query: string, ...values: readonly string[]): boolean =>
  sql.exec(query, ...values).toArray().length > 0;
