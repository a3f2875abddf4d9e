/** What an allocation that runs asks for and could not claim yet. */
export interface Ask {
  readonly namespace: string;
  readonly allocId: string;
  readonly nodeId: string;
  readonly jobId: string;
  readonly taskGroup: string;
}

interface Row extends Record<string, SqlStorageValue> {
  namespace: string;
  alloc_id: string;
  node_id: string;
  job_id: string;
  task_group: string;
}

/** Stands for a volume's name while the job that says it is not known. */
const UNKNOWN = "";
const ANY_VERSION = -1;

/** The rows of what allocations wait for. */
export class ClaimAsks {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** An allocation asks for a volume that is not there. */
  forVolume(ask: Ask, volumeName: string): void {
    this.#insert(ask, volumeName, ANY_VERSION);
  }

  /** What an allocation asks for is said by a job, in this version of it if one is given, that is not there. */
  forJob(ask: Ask, version: number | null): void {
    this.#insert(ask, UNKNOWN, version ?? ANY_VERSION);
  }

  /** Whether anybody waits for a job. */
  areForJob(namespace: string, jobId: string): boolean {
    const sql = "SELECT 1 FROM claim_asks WHERE namespace = ? AND job_id = ? AND volume_name = ? LIMIT 1";
    return this.#sql.exec(sql, namespace, jobId, UNKNOWN).toArray().length > 0;
  }

  /** Takes out those who waited for this version of a job, and answers the ones that are of these groups. */
  takeForJob(namespace: string, jobId: string, version: number | null, groups: readonly string[]): Ask[] {
    const which = `namespace = ? AND job_id = ? AND volume_name = ? ${version === null ? "" : "AND job_version IN (-1, ?)"}`;
    const values = [namespace, jobId, UNKNOWN, ...(version === null ? [] : [version])];
    const asks = groups.flatMap((group) =>
      this.#sql
        .exec<Row>(`SELECT * FROM claim_asks WHERE ${which} AND task_group = ? ORDER BY row`, ...values, group)
        .toArray(),
    );
    this.#sql.exec(`DELETE FROM claim_asks WHERE ${which}`, ...values);
    return asks.map(askOf);
  }

  /** Takes out those who waited for a volume, in the order in which they came. */
  takeForVolume(nodeId: string, namespace: string, name: string): Ask[] {
    const which = "node_id = ? AND namespace = ? AND volume_name = ?";
    const asks = this.#sql
      .exec<Row>(`SELECT * FROM claim_asks WHERE ${which} ORDER BY row`, nodeId, namespace, name)
      .toArray();
    if (asks.length > 0) this.#sql.exec(`DELETE FROM claim_asks WHERE ${which}`, nodeId, namespace, name);
    return asks.map(askOf);
  }

  forgetAllocation(namespace: string, allocId: string): void {
    this.#sql.exec("DELETE FROM claim_asks WHERE namespace = ? AND alloc_id = ?", namespace, allocId);
  }

  forgetJob(namespace: string, jobId: string): void {
    this.#sql.exec("DELETE FROM claim_asks WHERE namespace = ? AND job_id = ?", namespace, jobId);
  }

  #insert({ namespace, allocId, nodeId, jobId, taskGroup }: Ask, volumeName: string, version: number): void {
    this.#sql.exec(
      `INSERT INTO claim_asks (namespace, alloc_id, node_id, job_id, job_version, task_group, volume_name)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      ...[namespace, allocId, nodeId, jobId, version, taskGroup, volumeName],
    );
  }
}

const askOf = ({ namespace, alloc_id, node_id, job_id, task_group }: Row): Ask => ({
  ...{ namespace, allocId: alloc_id, nodeId: node_id, jobId: job_id, taskGroup: task_group },
});
