import type { Hello, Report } from "@sallyport/agent-protocol";
import { Kept } from "../work/kept.ts";
import type { AgentChange } from "./agent.ts";
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

/** What is stored of an agent's connections. Writes run inside the caller's transaction. */
export class SessionRecord {
  readonly #sql: SqlStorage;
  readonly #row: Kept<SessionRow>;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#row = new Kept(() => sql.exec<SessionRow>("SELECT * FROM session").one());
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
  begin({ id }: Link, { boot, epoch, agent, node, unavailableVolumes }: Hello, now: number): void {
    this.#write(
      `UPDATE session SET live = ?, since = ?, boot = ?, epoch = ?, version = ?, seen = ?, lost = NULL, seq = seq + 1`,
      ...[id, now, boot, epoch, agent, now],
    );
    this.#keepReport({ node, unavailableVolumes });
  }

  /** The report has changed. */
  changed(report: Report, now: number): void {
    this.#write("UPDATE session SET seen = ?, seq = seq + 1", now);
    this.#keepReport(report);
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
    this.#sql.exec("DELETE FROM used_tokens");
  }

  checkAt(due: number | null): void {
    this.#write("UPDATE session SET check_due = ?", due);
  }

  holdsKeys(): void {
    this.#write("UPDATE session SET holds_keys = 1");
  }

  report(): Report | null {
    const row = this.#reportRow();
    return row && (JSON.parse(row.body) as Report);
  }

  /** What the registry is to be told now; `whole`: with the report, whether it has that or not. */
  change({ whole = false } = {}): AgentChange {
    const { seq, since, seen, version } = this.row;
    const row = this.#reportRow();
    const news = row && (whole || row.seq > row.told);
    return { seq, connectedSince: since, seen, version, ...(news && { report: JSON.parse(row.body) as Report }) };
  }

  /** The registry has been told of the changes up to this one. */
  told(seq: number): void {
    this.#sql.exec("UPDATE report SET told = max(told, ?)", seq);
  }

  #write(statement: string, ...values: SqlStorageValue[]): void {
    this.#sql.exec(statement, ...values);
    this.#row.forget();
  }

  #keepReport(report: Report): void {
    this.#sql.exec(
      `INSERT INTO report VALUES (1, ?1, (SELECT seq FROM session), 0)
       ON CONFLICT (id) DO UPDATE SET body = excluded.body, seq = excluded.seq`,
      JSON.stringify(report),
    );
  }

  #reportRow(): ReportRow | null {
    return this.#sql.exec<ReportRow>("SELECT body, seq, told FROM report").toArray()[0] ?? null;
  }
}
