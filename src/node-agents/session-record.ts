import {
  type Fp,
  type Hello,
  MAX_VOLUMES,
  type NodeReport,
  type ReportedHostVolume,
  type VolumesChange,
} from "@sallyport/agent-protocol";
import type { AgentChange } from "../contracts/node-agents.ts";
import { Memo } from "../platform/durable/memo.ts";
import type { Link } from "./link.ts";

interface SessionRow extends Record<string, SqlStorageValue> {
  /** The connection in use: the one whose agent has been welcomed last. */
  live: string | null;
  /** How many connections there have been. */
  opened: number;
  since: number | null;
  boot: string;
  epoch: number;
  version: string;
  seen: number | null;
  lost: number | null;
  seq: number;
  check_due: number | null;
  holds_keys: number;
  revoked: number;
}

interface ReportRow extends Record<string, SqlStorageValue> {
  body: string;
  seq: number;
  told: number;
}

interface VolumeRow extends Record<string, SqlStorageValue> {
  id: string;
  body: string | null;
}

/** Its volumes have rows of their own. */
type ReportedNode = Omit<NodeReport, "HostVolumes">;

const IS_THERE = "body IS NOT NULL";

const nodeOf = ({ body }: ReportRow): ReportedNode => (JSON.parse(body) as { node: ReportedNode }).node;

function named(body: string): [name: string, volume: ReportedHostVolume] {
  const volume = JSON.parse(body) as ReportedHostVolume;
  return [volume.Name, volume];
}

/** What is stored of an agent's connections. Writes run inside the caller's transaction. */
export class SessionRecord {
  readonly #sql: SqlStorage;
  readonly #row: Memo<SessionRow>;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#row = new Memo(() => sql.exec<SessionRow>("SELECT * FROM session").one());
  }

  get row(): Readonly<SessionRow> {
    return this.#row.get();
  }

  /** What is kept of it in memory may not be true any more. */
  forget(): void {
    this.#row.forget();
  }

  /**
   * Notes that a connect token is used.
   * @param until when nobody would take it any more, ms @returns whether this is the first time; null when too many were used
   */
  useToken(jti: string, until: number, most: number, now: number): boolean | null {
    this.#sql.exec("DELETE FROM used_tokens WHERE until <= ?", now);
    if (this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM used_tokens").one().n >= most) return null;
    const used = this.#sql.exec("INSERT OR IGNORE INTO used_tokens VALUES (?, ?) RETURNING jti", jti, until);
    return used.toArray().length > 0;
  }

  /** One more connection. @returns its number */
  opened(checkDue: number): number {
    this.#write("UPDATE session SET opened = opened + 1, check_due = ifnull(check_due, ?)", checkDue);
    return this.row.opened;
  }

  /** A connection takes over, with what its agent says of itself. */
  begin({ id }: Link, { boot, epoch, agent, node, unavailableVolumes, held = [] }: Hello, now: number): void {
    this.#write(
      `UPDATE session SET live = ?, since = ?, boot = ?, epoch = ?, version = ?, seen = ?, lost = NULL, seq = seq + 1`,
      ...[id, now, boot, epoch, agent, now],
    );
    this.#keepReport(node);
    // Volumes of which the report says nothing stay as they were, if they are still there.
    const kept = new Set(held).difference(new Set(unavailableVolumes.map((volume) => volume.id)));
    this.#keepVolumes(Object.values(node.HostVolumes), kept);
  }

  /** Fields of the report have changed. */
  changed(node: Fp["node"], now: number): void {
    const { HostVolumes, ...fields } = node;
    this.#write("UPDATE session SET seen = ?, seq = seq + 1", now);
    if (Object.keys(fields).length > 0)
      this.#keepReport({ ...(this.report() as ReportedNode), ...(fields as Partial<ReportedNode>) });
    if (HostVolumes) this.#keepVolumes(Object.values(HostVolumes), new Set());
  }

  /** Whether the node would have more volumes after a change than a node has. */
  wouldExceed({ usable, unavailable, gone }: VolumesChange): boolean {
    const there = `FROM report_volumes WHERE ${IS_THERE}`;
    const { n } = this.#sql.exec<{ n: number }>(`SELECT count(*) AS n ${there}`).one();
    if (n + usable.length <= MAX_VOLUMES) return false;
    const isThere = new Set(
      this.#sql
        .exec<VolumeRow>(`SELECT id ${there}`)
        .toArray()
        .map(({ id }) => id),
    );
    for (const id of [...gone, ...unavailable.map((volume) => volume.id)]) isThere.delete(id);
    for (const { ID } of usable) isThere.add(ID);
    return isThere.size > MAX_VOLUMES;
  }

  /** Volumes have changed. */
  volumesChanged({ usable, unavailable, gone }: VolumesChange, now: number): void {
    this.#write("UPDATE session SET seen = ?, seq = seq + 1", now);
    for (const id of [...gone, ...unavailable.map((volume) => volume.id)]) this.#volumeGone(id);
    for (const volume of usable) this.#volumeIs(volume);
  }

  /** The connection is lost. @param seen when the agent was last heard of */
  lose(seen: number, now: number): void {
    this.#write(
      "UPDATE session SET live = NULL, since = NULL, lost = ?, seen = max(ifnull(seen, 0), ?), seq = seq + 1",
      now,
      seen,
    );
  }

  /** The registry has forgotten what it was told. */
  again(): void {
    this.#write("UPDATE session SET seq = seq + 1");
  }

  revoke(now: number): void {
    this.#write("UPDATE session SET live = NULL, since = NULL, lost = ?, revoked = 1, seq = seq + 1", now);
    this.#sql.exec("DELETE FROM report");
    this.#sql.exec("DELETE FROM report_volumes");
    this.#sql.exec("DELETE FROM used_tokens");
  }

  checkAt(due: number | null): void {
    this.#write("UPDATE session SET check_due = ?", due);
  }

  holdsKeys(): void {
    this.#write("UPDATE session SET holds_keys = 1");
  }

  /** What is reported of the node, but for its volumes. */
  report(): ReportedNode | null {
    const row = this.#reportRow();
    return row && nodeOf(row);
  }

  /** What the registry is to be told now; `whole`: with the report, whether it has that or not. */
  change({ whole = false } = {}): AgentChange {
    const { seq, since, seen, version } = this.row;
    const row = this.#reportRow();
    const known = { seq, connectedSince: since, seen, version };
    if (!row) return known;
    if (whole || row.told === 0) {
      const HostVolumes = Object.fromEntries(this.#volumes(0).flatMap(({ body }) => (body ? [named(body)] : [])));
      return { ...known, report: { node: { ...nodeOf(row), HostVolumes } } };
    }
    const changed = this.#volumes(row.told);
    const put = changed.flatMap(({ body }) => (body === null ? [] : [named(body)[1]]));
    const gone = changed.flatMap(({ id, body }) => (body === null ? [id] : []));
    return {
      ...known,
      ...(row.seq > row.told && { report: { node: nodeOf(row) } }),
      ...(changed.length > 0 && { volumes: { put, gone } }),
    };
  }

  /** The registry has been told of the changes up to this one. */
  told(seq: number): void {
    this.#sql.exec("UPDATE report SET told = max(told, ?)", seq);
    this.#sql.exec("DELETE FROM report_volumes WHERE seq <= ? AND body IS NULL", seq);
  }

  #write(statement: string, ...values: SqlStorageValue[]): void {
    this.#sql.exec(statement, ...values);
    this.#row.forget();
  }

  #keepReport({ HostVolumes: _, ...node }: ReportedNode & { readonly HostVolumes?: unknown }): void {
    this.#sql.exec(
      `INSERT INTO report VALUES (1, ?1, (SELECT seq FROM session), 0)
       ON CONFLICT (id) DO UPDATE SET body = excluded.body, seq = excluded.seq`,
      JSON.stringify({ node }),
    );
  }

  /** Takes a list of volumes for all that there are, but for some that stay as they were. */
  #keepVolumes(usable: readonly ReportedHostVolume[], kept: ReadonlySet<string>): void {
    const stay = new Set(usable.map(({ ID }) => ID)).union(kept);
    for (const { id } of this.#volumes(0)) if (!stay.has(id)) this.#volumeGone(id);
    for (const volume of usable) this.#volumeIs(volume);
  }

  #volumeIs(volume: ReportedHostVolume): void {
    this.#sql.exec(
      `INSERT INTO report_volumes VALUES (?, (SELECT seq FROM session), ?)
       ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE body IS NOT excluded.body`,
      volume.ID,
      JSON.stringify(volume),
    );
  }

  #volumeGone(id: string): void {
    this.#sql.exec(
      `UPDATE report_volumes SET seq = (SELECT seq FROM session), body = NULL WHERE id = ? AND ${IS_THERE}`,
      id,
    );
  }

  /** The volumes that have changed after change `seq`. */
  #volumes(seq: number): VolumeRow[] {
    return this.#sql.exec<VolumeRow>("SELECT id, body FROM report_volumes WHERE seq > ?", seq).toArray();
  }

  #reportRow(): ReportRow | null {
    return this.#sql.exec<ReportRow>("SELECT body, seq, told FROM report").toArray()[0] ?? null;
  }
}
