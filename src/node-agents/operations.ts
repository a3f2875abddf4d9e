import { MAX_IN_FLIGHT, MAX_KEPT_OPERATIONS } from "@sallyport/agent-protocol";
import type { Operation, OperationResult } from "../contracts/node-operation.ts";
import { backoff } from "../lib/backoff.ts";

/**
 * pending: not sent yet. sent: it may have arrived. unknown: its deadline has passed, or the node does not know either; it is
 * tried again. done, failed: it has ended.
 */
type State = "pending" | "sent" | "unknown" | "done" | "failed";

export interface OperationRow extends Record<string, SqlStorageValue> {
  id: string;
  method: string;
  key: string;
  gen: number;
  deadline_ms: number;
  params: string;
  sealed: ArrayBuffer | null;
  state: State;
  connection: string | null;
  sends: number;
  created: number;
  /** The agent's last word on an unknown outcome. */
  said: string | null;
}

/** What an agent is told of the operations it still knows. */
export interface Reconciled {
  readonly resume: string[];
  readonly forget: string[];
}

/** An outcome that the owner of an operation is told. */
export interface Outcome {
  readonly id: string;
  readonly key: string;
  readonly result: OperationResult;
}

/** Beyond the agent's own deadline: for the way there and back, and for waiting behind others of its key. */
const GRACE_MS = 10_000;
const DAY_MS = 24 * 3_600_000;
/** An outcome is kept this long, so that who asks again gets no second effect. */
const KEEP_ENDED_MS = DAY_MS;
/** How long it is tried to learn an outcome. The agent's fences last as long: after them a late one could do harm. */
const TRIED_DAYS = 30;
const MOST_RARELY_MS = 3_600_000;
/** It has said that it does not know: it is not at it any more. */
const AFTER_DOUBT = { cap: MOST_RARELY_MS };
/** It has said nothing, and may be at it still. */
const AFTER_SILENCE = { base: 60_000, cap: MOST_RARELY_MS };

const OPEN = "state NOT IN ('done', 'failed')";

/**
 * The operations of one node, from the moment they are accepted until a while after they have ended. Everything runs inside
 * the caller's transaction; what changes for an operation's owner is returned as an outcome to tell.
 */
export class Operations {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  find(id: string): OperationRow | null {
    return this.#sql.exec<OperationRow>("SELECT * FROM operations WHERE id = ?", id).toArray()[0] ?? null;
  }

  /** The newest generation that was accepted for a key; 0 when none is remembered. */
  fence(key: string): number {
    return this.#sql.exec<{ gen: number }>("SELECT ifnull(max(gen), 0) AS gen FROM operations WHERE key = ?", key).one()
      .gen;
  }

  add({ id, method, key, gen, deadlineMs, params }: Operation, sealed: Uint8Array | null, now: number): void {
    this.#sql.exec(
      `INSERT INTO operations (id, method, key, gen, deadline_ms, params, sealed, state, created, due)
       VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)`,
      ...[id, method, key, gen, deadlineMs, JSON.stringify(params), sealed, now, now + deadlineMs + GRACE_MS],
    );
  }

  /** The next to send over a connection, as many as it has room for; they count as sent from now on. */
  takeUnsent(connection: string, now: number): OperationRow[] {
    return this.#sql
      .exec<OperationRow & { position: number }>(
        `UPDATE operations SET connection = ?1, sends = sends + 1,
           due = iif(state = 'pending', ?2 + deadline_ms, due), state = iif(state = 'pending', 'sent', state)
         WHERE position IN (
           SELECT position FROM operations WHERE connection IS NULL AND ${OPEN} ORDER BY position
           LIMIT max(0, ?3 - (SELECT count(*) FROM operations WHERE connection = ?1 AND ${OPEN}))) RETURNING *`,
        ...[connection, now + GRACE_MS, MAX_IN_FLIGHT],
      )
      .toArray()
      .sort((a, b) => a.position - b.position);
  }

  inFlight(connection: string): number {
    return this.#sql
      .exec<{ n: number }>(`SELECT count(*) AS n FROM operations WHERE connection = ? AND ${OPEN}`, connection)
      .one().n;
  }

  /** How many have not been sent. */
  queued(): number {
    return this.#sql
      .exec<{ n: number }>(`SELECT count(*) AS n FROM operations WHERE connection IS NULL AND ${OPEN}`)
      .one().n;
  }

  /** Whether any has not ended. */
  anyOpen(): boolean {
    return this.#sql.exec(`SELECT 1 FROM operations WHERE ${OPEN} LIMIT 1`).toArray().length > 0;
  }

  /**
   * A connection has begun: what of the agent's journal is waited for is in its hands, and everything else that has not ended
   * is sent again. So are operations with secrets, which no journal holds, and those of unknown outcome, which that makes run again.
   */
  reconcile(journal: readonly { readonly op: string }[], connection: string): Reconciled {
    this.#sql.exec(`UPDATE operations SET connection = NULL WHERE connection IS NOT NULL AND ${OPEN}`);
    const told: Reconciled = { resume: [], forget: [] };
    for (const { op } of journal) {
      const row = this.find(op);
      // One that was never sent is not in any journal; whoever says so otherwise gets it when its turn comes.
      const isOpen = row !== null && row.state !== "done" && row.state !== "failed" && row.sends > 0;
      const list = isOpen ? told.resume : told.forget;
      if (list.length === MAX_KEPT_OPERATIONS) continue;
      list.push(op);
      if (isOpen && row.sealed === null && row.state !== "unknown")
        this.#sql.exec("UPDATE operations SET connection = ? WHERE id = ?", connection, op);
    }
    return told;
  }

  /**
   * The agent says how an operation has ended.
   * @returns what its owner does not know yet; null when it was known, or the operation is not out
   */
  end(row: OperationRow, result: OperationResult, now: number): Outcome | null {
    const { id } = row;
    if (row.sends === 0 || row.state === "done" || row.state === "failed") return null;
    if (result.state === "unknown") {
      const { message } = result.error;
      // Out on no connection, but not to be sent before it is due.
      this.#sql.exec(
        "UPDATE operations SET state = 'unknown', connection = '', due = ?, said = ? WHERE id = ?",
        now + backoff(row.sends - 1, AFTER_DOUBT),
        message,
        id,
      );
      return row.state === "unknown" && row.said === message ? null : { id, key: row.key, result };
    }
    this.#close(id, result.state === "done" ? "done" : "failed", now);
    return { id, key: row.key, result };
  }

  /** An operation whose outcome is unknown is sent once more, unless the agent is at it. */
  retry(id: string): void {
    this.#sql.exec(
      "UPDATE operations SET connection = NULL WHERE id = ? AND state = 'unknown' AND connection = ''",
      id,
    );
  }

  /** When the next operation needs attention, ms since 1970. */
  nextDue(): number | null {
    return this.#sql.exec<{ due: number | null }>("SELECT min(due) AS due FROM operations").one().due;
  }

  /** Moves on some of those whose time has come. */
  passTime(now: number, limit: number): Outcome[] {
    const due = this.#sql
      .exec<OperationRow>("SELECT * FROM operations WHERE due <= ? ORDER BY due LIMIT ?", now, limit)
      .toArray();
    return due.map((row) => this.#pass(row, now)).filter((outcome) => outcome !== null);
  }

  /** The node is removed: nothing is sent any more, and nothing more is learned. */
  abandon(now: number, limit: number): Outcome[] {
    const rows = this.#sql
      .exec<OperationRow>(`SELECT * FROM operations WHERE ${OPEN} ORDER BY position LIMIT ?`, limit)
      .toArray();
    return rows.map(({ id, key, sends }) => {
      this.#close(id, "failed", now);
      const error = { kind: "unavailable", message: "the node's agent was removed" } as const;
      return { id, key, result: { state: sends === 0 ? "failed" : "given-up", error } };
    });
  }

  #pass({ id, key, state, sends, created, connection, said }: OperationRow, now: number): Outcome | null {
    if (state === "done" || state === "failed") {
      this.#sql.exec("DELETE FROM operations WHERE id = ?", id);
      return null;
    }
    if (state === "unknown" && created + TRIED_DAYS * DAY_MS <= now) {
      this.#close(id, "failed", now);
      const message = `given up: in ${TRIED_DAYS} days the node has not told what came of it${said === null ? "" : `; it last said: ${said}`}`;
      return { id, key, result: { state: "given-up", error: { kind: "timeout", message } } };
    }
    if (state === "pending") {
      this.#close(id, "failed", now);
      const message = "it could not be sent to the node in time";
      return { id, key, result: { state: "failed", error: { kind: "timeout", message } } };
    }
    this.#sql.exec(
      "UPDATE operations SET state = 'unknown', connection = ?, due = ? WHERE id = ?",
      state === "unknown" && connection === "" ? null : connection,
      now + backoff(sends, AFTER_SILENCE),
      id,
    );
    if (state === "unknown") return null;
    const message = "the node has not told the outcome in time";
    return { id, key, result: { state: "unknown", error: { kind: "timeout", message } } };
  }

  #close(id: string, state: "done" | "failed", now: number): void {
    this.#sql.exec(
      "UPDATE operations SET state = ?, sealed = NULL, due = ? WHERE id = ?",
      state,
      now + KEEP_ENDED_MS,
      id,
    );
  }
}
