import type { NewEvent } from "../events/event.ts";
import type { Report, ReportedTopic } from "./report.ts";
import type { Stamp, Stamped } from "./stamp.ts";

/** A stored object as reads show it: `body` is its JSON text with its indexes. */
export interface ReportedObject {
  readonly namespace: string;
  readonly id: string;
  readonly body: string;
  readonly modifyIndex: number;
}

export interface ReportedPage {
  readonly rows: readonly ReportedObject[];
  /** Where the following page starts: namespace and id of its first row. */
  readonly next: readonly [namespace: string, id: string] | null;
}

export interface ReportedQuery {
  readonly topic: ReportedTopic;
  /** null = all of them. */
  readonly namespace: string | null;
  readonly jobId?: string;
  readonly nodeId?: string;
  /** Namespace and id of the first row wanted. */
  readonly from: readonly [namespace: string, id: string];
  readonly limit: number;
}

interface Row extends Record<string, SqlStorageValue> {
  namespace: string;
  id: string;
  body: string;
  create_index: number | null;
  modify_index: number | null;
}

const MAX_PAGE_BYTES = 4 * 1024 * 1024;

/** The newest of each object that schedulers report: jobs, allocations, evaluations, deployments and what else has a topic. */
export class Reported implements Stamped {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Takes a report in, inside the caller's transaction, and answers the event that tells of it. */
  take({ topic, namespace, id, ...report }: Report): NewEvent {
    const [known] = this.#sql
      .exec<{ create_index: number | null }>(
        "SELECT create_index FROM reported WHERE topic = ? AND namespace = ? AND id = ?",
        topic,
        namespace,
        id,
      )
      .toArray();
    if (report.deleted) {
      this.#sql.exec("DELETE FROM reported WHERE topic = ? AND namespace = ? AND id = ?", topic, namespace, id);
    } else {
      this.#sql.exec(
        `INSERT INTO reported (topic, namespace, id, job_id, node_id, deployment_id, eval_id, terminal, body)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (topic, namespace, id) DO UPDATE SET job_id = excluded.job_id, node_id = excluded.node_id,
           deployment_id = excluded.deployment_id, eval_id = excluded.eval_id, terminal = excluded.terminal,
           body = excluded.body`,
        ...[topic, namespace, id, report.jobId, report.nodeId, report.deploymentId, report.evalId],
        report.terminal ? 1 : 0,
        report.body,
      );
    }
    const created = known?.create_index ?? null;
    return {
      ...{ Topic: topic, Type: report.type, Key: id, Namespace: namespace, FilterKeys: report.filterKeys },
      Payload: payloadText(report, created),
    };
  }

  /** Gives an object the index of the line that told of it. */
  stamp({ table, row: [namespace = "", id = ""] }: Stamp, index: number): void {
    this.#sql.exec(
      `UPDATE reported SET create_index = ifnull(create_index, ?), modify_index = ?
       WHERE topic = ? AND namespace = ? AND id = ?`,
      ...[index, index, table, namespace, id],
    );
  }

  /** The object of a topic with this id, in whatever namespace; the first one if several have one of that id. */
  find(topic: ReportedTopic, id: string, namespace: string | null = null): ReportedObject | null {
    const [row] = this.#sql
      .exec<Row>(
        `SELECT * FROM reported WHERE topic = ?1 AND id = ?2 AND (?3 IS NULL OR namespace = ?3) ORDER BY namespace LIMIT 1`,
        topic,
        id,
        namespace,
      )
      .toArray();
    return row ? objectOf(row) : null;
  }

  /** One page, by namespace and id; shorter than `limit` when its rows are large. */
  page({ topic, namespace, jobId, nodeId, from: [fromNamespace, fromId], limit }: ReportedQuery): ReportedPage {
    const cursor = this.#sql.exec<Row>(
      `SELECT namespace, id, body, create_index, modify_index FROM reported
       WHERE topic = ?1 AND (namespace, id) >= (?2, ?3) AND (?4 IS NULL OR namespace = ?4)
         AND (?5 IS NULL OR job_id = ?5) AND (?6 IS NULL OR node_id = ?6)
       ORDER BY namespace, id LIMIT ?7`,
      ...[topic, namespace !== null && fromNamespace < namespace ? namespace : fromNamespace, fromId, namespace],
      ...[jobId ?? null, nodeId ?? null, limit + 1],
    );
    const rows: ReportedObject[] = [];
    let bytes = 0;
    for (const row of cursor) {
      if (rows.length === limit || (rows.length > 0 && bytes + row.body.length > MAX_PAGE_BYTES)) {
        return { rows, next: [row.namespace, row.id] };
      }
      bytes += row.body.length;
      rows.push(objectOf(row));
    }
    return { rows, next: null };
  }
}

const objectOf = ({ namespace, id, body, create_index, modify_index }: Row): ReportedObject => ({
  namespace,
  id,
  body: `${body.slice(0, -1)},"CreateIndex":${create_index ?? 0},"ModifyIndex":${modify_index ?? create_index ?? 0}}`,
  modifyIndex: modify_index ?? 0,
});

/** The payload's text, cut where the index of its line belongs. */
function payloadText(
  { wrapper, body, extra }: Pick<Report, "wrapper" | "body" | "extra">,
  created: number | null,
): string[] {
  const head = `{"${wrapper}":${body.slice(0, -1)},"CreateIndex":`;
  const tail = `}${extra}}`;
  return created === null ? [head, ',"ModifyIndex":', tail] : [`${head}${created},"ModifyIndex":`, tail];
}
