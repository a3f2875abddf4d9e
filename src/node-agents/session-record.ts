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
  /** The live connection: the last one that was welcomed. */
  live: string | null;
  /** The number of connections so far. */
  opened: number;
  since: number | null;
  boot: string;
  epoch: number;
  version: string;
  seen: number | null;
  lost: number | null;
  seq: number;
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

/** Volumes have their own rows. */
type ReportedNode = Omit<NodeReport, "HostVolumes">;

const IS_THERE = "body IS NOT NULL";
/** The part that the registry does not have; older rows of volumes that are gone are deleted. */
const UNTOLD = "seq > ifnull((SELECT told FROM report), 0)";
const UNTOLD_GONE = `SELECT count(*) FROM report_volumes WHERE ${UNTOLD} AND body IS NULL`;

const nodeOf = ({ body }: ReportRow): ReportedNode => (JSON.parse(body) as { node: ReportedNode }).node;

function named(body: string): [name: string, volume: ReportedHostVolume] {
  const volume = JSON.parse(body) as ReportedHostVolume;
  return [volume.Name, volume];
}

/**
 * Owns the session tables of one node: connection state, report and reported volumes. Writes run inside the caller's
 * transaction. Read by `Connections` and by the updates to the registry.
 */
export class SessionRecord {
  readonly #row: Memo<SessionRow>;

  constructor(private readonly sql: SqlStorage) {
    this.#row = new Memo(() => sql.exec<SessionRow>("SELECT * FROM session").one());
  }

  get row(): Readonly<SessionRow> {
    return this.#row.get();
  }

  /** Invalidates the memo after a rollback. */
  forget(): void {
    this.#row.forget();
  }

  /**
   * Records the use of a connect token.
   * @param until when the token expires, ms
   * @returns whether it is the first use; null when too many tokens are recorded
   */
  useToken(jti: string, until: number, most: number, now: number): boolean | null {
    this.sql.exec("DELETE FROM used_tokens WHERE until <= ?", now);
    if (this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM used_tokens").one().n >= most) return null;
    const used = this.sql.exec("INSERT OR IGNORE INTO used_tokens VALUES (?, ?) RETURNING jti", jti, until);
    return used.toArray().length > 0;
  }

  /** Counts a connection. @returns its ordinal */
  opened(): number {
    this.#write("UPDATE session SET opened = opened + 1");
    return this.row.opened;
  }

  /** Makes a connection live and stores its hello. */
  begin({ id }: Link, { boot, epoch, agent, node, unavailableVolumes, held = [] }: Hello, now: number): void {
    this.#write(
      `UPDATE session SET live = ?, since = ?, boot = ?, epoch = ?, version = ?, seen = ?, lost = NULL, seq = seq + 1`,
      id,
      now,
      boot,
      epoch,
      agent,
      now,
    );
    // A hello is the whole node. Agents of earlier releases omit these maps when they have no plugins.
    this.#keepReport({ CSIControllerPlugins: {}, CSINodePlugins: {}, ...node });
    // Volumes that the report lists as held are unchanged, if they still exist.
    const kept = new Set(held).difference(new Set(unavailableVolumes.map((volume) => volume.id)));
    this.#keepVolumes(Object.values(node.HostVolumes), kept);
  }

  /** Stores changed fields of the report. */
  changed(node: Fp["node"], now: number): void {
    const { HostVolumes, ...fields } = node;
    this.#write("UPDATE session SET seen = ?, seq = seq + 1", now);
    if (Object.keys(fields).length > 0)
      this.#keepReport({ ...(this.report() as ReportedNode), ...(fields as Partial<ReportedNode>) });
    if (HostVolumes) this.#keepVolumes(Object.values(HostVolumes), new Set());
  }

  /** Whether a change would exceed the volume limit of a node. Reads an index and the volumes of the change. */
  wouldExceed({ usable, unavailable, gone }: VolumesChange): boolean {
    const { n } = this.sql
      .exec<{ n: number }>(`SELECT (SELECT count(*) FROM report_volumes) - (${UNTOLD_GONE}) AS n`)
      .one();
    if (n + usable.length <= MAX_VOLUMES) return false;
    const isThere = (id: string) =>
      this.sql.exec(`SELECT 1 FROM report_volumes WHERE id = ? AND ${IS_THERE}`, id).toArray().length > 0;
    const leaving = new Set([...gone, ...unavailable.map((volume) => volume.id)]);
    const arriving = new Set(usable.map(({ ID }) => ID));
    const left = [...leaving].filter(isThere).length;
    const arrived = [...arriving].filter((id) => leaving.has(id) || !isThere(id)).length;
    return n - left + arrived > MAX_VOLUMES;
  }

  /** Stores changed volumes. */
  volumesChanged({ usable, unavailable, gone }: VolumesChange, now: number): void {
    this.#write("UPDATE session SET seen = ?, seq = seq + 1", now);
    for (const id of [...gone, ...unavailable.map((volume) => volume.id)]) this.#volumeGone(id);
    for (const volume of usable) this.#volumeIs(volume);
  }

  /** Records the loss of the connection. @param seen when the agent was last heard */
  lose(seen: number, now: number): void {
    this.#write(
      "UPDATE session SET live = NULL, since = NULL, lost = ?, seen = max(ifnull(seen, 0), ?), seq = seq + 1",
      now,
      seen,
    );
  }

  /** Forces a resend after the registry lost its state. */
  resend(): void {
    this.#write("UPDATE session SET seq = seq + 1");
  }

  revoke(now: number): void {
    this.#write("UPDATE session SET live = NULL, since = NULL, lost = ?, revoked = 1, seq = seq + 1", now);
    this.sql.exec("DELETE FROM report");
    this.sql.exec("DELETE FROM report_volumes");
    this.sql.exec("DELETE FROM used_tokens");
  }

  holdsKeys(): void {
    this.#write("UPDATE session SET holds_keys = 1");
  }

  /** The reported node without its volumes. */
  report(): ReportedNode | null {
    const row = this.#reportRow();
    return row && nodeOf(row);
  }

  /** The pending change for the registry. @param whole include the report even if the registry has it */
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

  /** Marks changes up to `seq` as delivered to the registry. */
  acknowledge(seq: number): void {
    this.sql.exec(`DELETE FROM report_volumes WHERE ${UNTOLD} AND seq <= ? AND body IS NULL`, seq);
    this.sql.exec("UPDATE report SET told = max(told, ?)", seq);
  }

  #write(statement: string, ...values: SqlStorageValue[]): void {
    this.sql.exec(statement, ...values);
    this.#row.forget();
  }

  #keepReport({ HostVolumes: _, ...node }: ReportedNode & { readonly HostVolumes?: unknown }): void {
    this.sql.exec(
      `INSERT INTO report VALUES (1, ?1, (SELECT seq FROM session), 0)
       ON CONFLICT (id) DO UPDATE SET body = excluded.body, seq = excluded.seq`,
      JSON.stringify({ node }),
    );
  }

  /** Replaces the list of volumes, except those to keep. */
  #keepVolumes(usable: readonly ReportedHostVolume[], kept: ReadonlySet<string>): void {
    const stay = new Set(usable.map(({ ID }) => ID)).union(kept);
    for (const { id } of this.#volumes(0)) if (!stay.has(id)) this.#volumeGone(id);
    for (const volume of usable) this.#volumeIs(volume);
  }

  #volumeIs(volume: ReportedHostVolume): void {
    this.sql.exec(
      `INSERT INTO report_volumes VALUES (?, (SELECT seq FROM session), ?)
       ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE body IS NOT excluded.body`,
      volume.ID,
      JSON.stringify(volume),
    );
  }

  #volumeGone(id: string): void {
    this.sql.exec(
      `UPDATE report_volumes SET seq = (SELECT seq FROM session), body = NULL WHERE id = ? AND ${IS_THERE}`,
      id,
    );
  }

  /** The volumes changed after `seq`. */
  #volumes(seq: number): VolumeRow[] {
    return this.sql.exec<VolumeRow>("SELECT id, body FROM report_volumes WHERE seq > ?", seq).toArray();
  }

  #reportRow(): ReportRow | null {
    return this.sql.exec<ReportRow>("SELECT body, seq, told FROM report").toArray()[0] ?? null;
  }
}
