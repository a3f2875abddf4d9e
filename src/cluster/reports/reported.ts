import type { NewEvent } from "../../contracts/event.ts";
import {
  type FullList,
  type Kept,
  type NamedObjects,
  type ObjectReport,
  REPORTED_TOPICS,
  type ReportedObject,
  type ReportedPage,
  type ReportedQuery,
  type ReportedTopic,
} from "../../contracts/reports.ts";
import { equalJson, isPlainObject, parseLossless } from "../../lib/json.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { SharedRead } from "../../platform/durable/blocking/shared-read.ts";
import { JobVersions } from "./job-versions.ts";
import { removalReport } from "./object-report.ts";
import { selection, tokenOf } from "./reported-order.ts";
import { memberOf } from "./topics/index.ts";

/** The effect of a report on its object. */
interface Applied {
  readonly event: NewEvent;
  /** The line that creates the object while it has no index; its index belongs at the event's first split. */
  readonly origin: number | null;
  readonly backfill: IndexBackfill;
  readonly before: Kept | null;
  readonly after: Kept | null;
}

interface ReportedRow extends Record<string, SqlStorageValue> {
  row: number;
  topic: string;
  namespace: string;
  id: string;
  job_id: string | null;
  node_id: string | null;
  terminal: number;
  tally: string | null;
  job_version: number | null;
  body: string;
  create_line: number | null;
  create_index: number | null;
  modify_index: number | null;
}

const MAX_PAGE_BYTES = 4 * 1024 * 1024;

/**
 * Owns table `reported`: the newest version of each object that schedulers report. Single writer: the cluster
 * registry. Read by the job, allocation, evaluation, deployment and service routes, drains and volume claims. A page
 * costs one index walk of at most 4 MiB.
 */
export class Reported implements IndexedRows {
  readonly versions: JobVersions;
  readonly #pages: SharedRead<ReportedPage>;

  constructor(private readonly sql: SqlStorage) {
    this.versions = new JobVersions(sql);
    this.#pages = new SharedRead(sql);
  }

  /** Applies a report; inside the caller's transaction. @returns its event */
  apply(report: ObjectReport): NewEvent {
    return this.applyAs(report, null).event;
  }

  /** Whether a report differs from what is stored. */
  changes({ topic, namespace, id, deleted, body, jobVersion }: ObjectReport): boolean {
    const known = this.#row(topic, namespace, id);
    if (deleted || !known) return deleted !== (known === null);
    if (jobVersion !== undefined && jobVersion !== known.job_version) return true;
    return known.body !== body && !equalJson(comparable(topic, known.body), comparable(topic, body));
  }

  /** @param line the number of the change's event line; null when unknown */
  applyAs(report: ObjectReport, line: number | null): Applied {
    const { topic, namespace, id } = report;
    const known = this.#row(topic, namespace, id);
    const body = report.deleted && known ? merged(known.body, report.body) : report.body;
    const jobVersion = this.#jobVersionOf(report, known);
    if (topic === "Job" && known && !report.deleted && known.job_version !== jobVersion) this.versions.replaced(known);
    if (report.deleted) this.#remove(known);
    else if (known) this.#update(known, report, jobVersion);
    else this.#insert(report, jobVersion, line);
    if (!report.deleted && report.job !== undefined && report.jobId !== null && jobVersion !== null)
      this.versions.learned(namespace, report.jobId, jobVersion, report.job);
    const created = known?.create_index ?? null;
    const promised = known && created === null ? known.create_line : null;
    return {
      event: {
        Topic: topic,
        Type: report.type,
        Key: id,
        Namespace: namespace,
        FilterKeys: report.filterKeys,
        Payload: payloadText({ topic, body, extra: report.extra }, created),
      },
      origin: promised === line ? null : promised,
      backfill: { table: topic, row: line === null ? [namespace, id] : [namespace, id, String(line)] },
      before: known && storedOf(known),
      after: report.deleted ? null : storedFrom(report, jobVersion),
    };
  }

  /** Sets an object's index to that of its event line, unless the object was recreated meanwhile. */
  setIndex({ table, row: [namespace = "", id = "", line] }: IndexBackfill, index: number): void {
    this.sql.exec(
      `UPDATE reported SET create_index = ifnull(create_index, ?1), modify_index = ?1
       WHERE topic = ?2 AND namespace = ?3 AND id = ?4 AND (?5 IS NULL OR ifnull(create_line, 0) <= ?5)`,
      index,
      table,
      namespace,
      id,
      line === undefined ? null : Number(line),
    );
    if (table === "Job") this.versions.setIndex(namespace, id, index);
  }

  /** The object with this id in the namespace; otherwise in any namespace, unless `only` is set. */
  find(topic: ReportedTopic, id: string, namespace = "", only = false): ReportedObject | null {
    const row = this.#row(topic, namespace, id) ?? (only ? null : this.#anywhere(topic, id));
    return row && shown(row, "");
  }

  /**
   * The objects with these ids, as `find`; null = in any namespace.
   * @returns also how many ids were processed: fewer when rows are large
   */
  named(topic: ReportedTopic, ids: readonly string[], namespace: string | null): NamedObjects {
    const objects: ReportedObject[] = [];
    let [looked, bytes] = [0, 0];
    for (const id of ids) {
      if (bytes > MAX_PAGE_BYTES) break;
      looked += 1;
      const object = namespace === null ? this.find(topic, id) : this.find(topic, id, namespace, true);
      if (!object) continue;
      bytes += object.body.length;
      objects.push(object);
    }
    return { objects, looked };
  }

  /** The ids of a topic in a namespace, oldest first. */
  ids({ topic, namespace }: FullList): string[] {
    return this.sql
      .exec<{ id: string }>("SELECT id FROM reported WHERE topic = ? AND namespace = ? ORDER BY row", topic, namespace)
      .toArray()
      .map(({ id }) => id);
  }

  /** The report of an object's removal; null when it does not exist. */
  removal({ topic, namespace }: FullList, id: string): ObjectReport | null {
    const known = this.#row(topic, namespace, id);
    return known && removalReport(topic, namespace, known.body);
  }

  /** The size of a stored object in bytes. */
  bytesOf({ topic, namespace, id }: Pick<ObjectReport, "topic" | "namespace" | "id">): number {
    const rows = this.sql.exec<{ bytes: number }>(
      "SELECT octet_length(body) AS bytes FROM reported WHERE topic = ? AND namespace = ? AND id = ?",
      topic,
      namespace,
      id,
    );
    return rows.toArray()[0]?.bytes ?? 0;
  }

  /** One page in the order of its list; shorter than `limit` when its rows are large. */
  page(query: ReportedQuery): ReportedPage {
    return this.#pages.of(query, () => this.#page(query));
  }

  #page(query: ReportedQuery): ReportedPage {
    const { where, values, orderBy, order } = selection(query);
    const cursor = this.sql.exec<ReportedRow>(
      `SELECT * FROM reported WHERE ${where} ORDER BY ${orderBy} LIMIT ?`,
      ...values,
      query.limit + 1,
    );
    const rows: ReportedObject[] = [];
    let bytes = 0;
    for (const row of cursor) {
      const token = tokenOf(order, row);
      if (rows.length === query.limit || (rows.length > 0 && bytes + row.body.length > MAX_PAGE_BYTES)) {
        return { rows, next: token };
      }
      bytes += row.body.length;
      rows.push(shown(row, token));
    }
    return { rows, next: null };
  }

  /** Deletes all objects of a deleted namespace; inside the caller's transaction. */
  forget(namespace: string): void {
    for (const topic of REPORTED_TOPICS) {
      this.sql.exec("DELETE FROM reported WHERE topic = ? AND namespace = ?", topic, namespace);
    }
    this.versions.forget(namespace);
  }

  #row(topic: ReportedTopic, namespace: string, id: string): ReportedRow | null {
    const rows = this.sql.exec<ReportedRow>(
      "SELECT * FROM reported WHERE topic = ? AND namespace = ? AND id = ?",
      topic,
      namespace,
      id,
    );
    return rows.toArray()[0] ?? null;
  }

  #anywhere(topic: ReportedTopic, id: string): ReportedRow | null {
    const rows = this.sql.exec<ReportedRow>(
      "SELECT * FROM reported WHERE topic = ? AND id = ? ORDER BY namespace LIMIT 1",
      topic,
      id,
    );
    return rows.toArray()[0] ?? null;
  }

  /**
   * The version of an object's job: as reported, else that of the deployment, else that of the job when the evaluation
   * placed the allocation. Null when unknown.
   */
  #jobVersionOf({ namespace, jobId, jobVersion, placedBy }: ObjectReport, known: ReportedRow | null): number | null {
    if (jobVersion !== undefined) return jobVersion;
    if (!placedBy || jobId === null) return known?.job_version ?? null;
    const deployed = placedBy.deployment === "" ? null : this.#row("Deployment", namespace, placedBy.deployment);
    if (deployed && deployed.job_version !== null) return deployed.job_version;
    if (known && known.job_version !== null && this.#isPlacedBy(known, placedBy.evaluation)) return known.job_version;
    return this.#row("Job", namespace, jobId)?.job_version ?? known?.job_version ?? null;
  }

  #isPlacedBy({ row }: ReportedRow, evaluation: string): boolean {
    const query = "SELECT 1 FROM reported WHERE row = ? AND ifnull(json_extract(body, '$.EvalID'), '') = ?";
    return this.sql.exec(query, row, evaluation).toArray().length > 0;
  }

  #insert(report: ObjectReport, jobVersion: number | null, line: number | null): void {
    const { topic, namespace, id, jobId, nodeId, terminal, tally, body } = report;
    this.sql.exec(
      `INSERT INTO reported (topic, namespace, id, job_id, node_id, terminal, tally, job_version, body, create_line)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      topic,
      namespace,
      id,
      jobId,
      nodeId,
      terminal ? 1 : 0,
      tally ?? null,
      jobVersion,
      body,
      line,
    );
  }

  #update(known: ReportedRow, { jobId, nodeId, terminal, tally, body }: ObjectReport, jobVersion: number | null): void {
    const moved = known.job_id !== jobId || known.node_id !== nodeId || known.terminal !== (terminal ? 1 : 0);
    const still = !moved && known.tally === (tally ?? null) && known.job_version === jobVersion;
    // Unchanged index columns are not written: the update costs one row instead of one per index.
    if (still) this.sql.exec("UPDATE reported SET body = ? WHERE row = ?", body, known.row);
    else {
      this.sql.exec(
        `UPDATE reported SET job_id = ?, node_id = ?, terminal = ?, tally = ?, job_version = ?, body = ?
         WHERE row = ?`,
        jobId,
        nodeId,
        terminal ? 1 : 0,
        tally ?? null,
        jobVersion,
        body,
        known.row,
      );
    }
  }

  #remove(known: ReportedRow | null): void {
    if (!known) return;
    this.sql.exec("DELETE FROM reported WHERE row = ?", known.row);
    if (known.topic === "Job") this.versions.deleted(known);
    if (known.topic === "Allocation" && known.job_id !== null)
      this.versions.allocationDeleted(known.namespace, known.job_id);
  }
}

const storedOf = ({ namespace, id, job_id, node_id, job_version, terminal, body }: ReportedRow): Kept => ({
  namespace,
  id,
  jobId: job_id,
  nodeId: node_id,
  jobVersion: job_version,
  terminal: terminal === 1,
  body,
});

const storedFrom = (
  { namespace, id, jobId, nodeId, terminal, body }: ObjectReport,
  jobVersion: number | null,
): Kept => ({
  namespace,
  id,
  jobId,
  nodeId,
  jobVersion,
  terminal,
  body,
});

const shown = (
  { namespace, id, job_id, job_version, body, create_index, modify_index }: ReportedRow,
  token: string,
): ReportedObject => ({
  namespace,
  id,
  jobId: job_id,
  jobVersion: job_version,
  token,
  body: `${body.slice(0, -1)},"CreateIndex":${create_index ?? 0},"ModifyIndex":${modify_index ?? create_index ?? 0}}`,
  modifyIndex: modify_index ?? 0,
});

/** An object without the fields that only some reports of it contain: events of allocations have no job. */
function comparable(topic: ReportedTopic, body: string): unknown {
  const object = parseLossless(body);
  if (topic !== "Allocation" || !isPlainObject(object)) return object;
  const { JobVersion: _version, JobType: _type, ...rest } = object;
  return rest;
}

/** The last version of an object: a removal report keeps the stored value of every omitted field. */
function merged(stored: string, reported: string): string {
  const [before, last] = [parseLossless(stored), parseLossless(reported)];
  return isPlainObject(before) && isPlainObject(last) ? JSON.stringify({ ...before, ...last }) : reported;
}

/**
 * The payload's text, split where indexes belong: the creation index, unless it is known, and the modification index.
 */
function payloadText(
  { topic, body, extra }: Pick<ObjectReport, "topic" | "body" | "extra">,
  created: number | null,
): string[] {
  const head = `{"${memberOf(topic)}":${body.slice(0, -1)},"CreateIndex":`;
  const tail = `}${extra}}`;
  return created === null ? [head, ',"ModifyIndex":', tail] : [`${head}${created},"ModifyIndex":`, tail];
}
