import { MAX_IN_FLIGHT, MAX_KEPT_OPERATIONS, type OperationState } from "@sallyport/agent-protocol";
import type { Operation, OperationResult } from "../contracts/node-operation.ts";
import { backoff } from "../lib/backoff.ts";
import { OperationStore } from "../platform/durable/operation-store.ts";

/*
 * The states of an operation.
 *
 *   add --> queued --sent--> running --result--> done | failed
 *             |                | deadline          ^
 *             | deadline       v                   | result
 *             v             unknown ---------------+
 *           failed            |  ^---- sent again with backoff
 *                             +--30 days--> failed (given up)
 */

/** The words of column `state`, two of which are older than the vocabulary. */
const WORDS = {
  queued: "pending",
  running: "sent",
  unknown: "unknown",
  done: "done",
  failed: "failed",
} as const satisfies Record<OperationState, string>;
type Word = (typeof WORDS)[OperationState];

export interface OperationRow extends Record<string, SqlStorageValue> {
  id: string;
  method: string;
  key: string;
  gen: number;
  deadline_ms: number;
  params: string;
  sealed: ArrayBuffer | null;
  state: Word;
  connection: string | null;
  sends: number;
  created: number;
  /** The agent's last message about an unknown outcome. */
  said: string | null;
}

/** The instructions to an agent about the operations in its journal. */
interface Reconciled {
  readonly resume: string[];
  readonly forget: string[];
}

/** An outcome to report to the operation's owner. */
export interface Outcome {
  readonly id: string;
  readonly key: string;
  readonly result: OperationResult;
}

/** Added to the agent's deadline: transfer time, and time in the queue of its key. */
const GRACE_MS = 10_000;
const DAY_MS = 24 * 3_600_000;
/** Retention of outcomes, so that a repeated request has no second effect. */
const KEEP_ENDED_MS = DAY_MS;
/**
 * How long an unknown outcome is resolved. The agent's fences last as long; after that a late operation could do
 * harm.
 */
const RESOLVE_DAYS = 30;
const MAX_INTERVAL_MS = 3_600_000;
/** The agent reported an unknown outcome: the operation does not run any more. */
const AFTER_UNKNOWN = { cap: MAX_INTERVAL_MS };
/** The agent was silent: the operation may still run. */
const AFTER_SILENCE = { base: 60_000, cap: MAX_INTERVAL_MS };

const OPEN = "state NOT IN ('done', 'failed')";
const isRowOpen = ({ state }: Pick<OperationRow, "state">): boolean => state !== WORDS.done && state !== WORDS.failed;

/**
 * Owns table `operations` of one node, from acceptance until a day after completion. Methods run inside the caller's
 * transaction and return outcomes to report to the owners. Read by `Dispatch` and the alarm.
 */
export class AgentOperations {
  readonly #store: OperationStore<OperationRow, OperationRow>;

  constructor(private readonly sql: SqlStorage) {
    const started = `state IN ('${WORDS.running}', '${WORDS.unknown}')`;
    const table = { name: "operations", columns: "*", read: (row: OperationRow) => row, order: "position" };
    this.#store = new OperationStore(sql, { ...table, open: OPEN, started });
  }

  find(id: string): OperationRow | null {
    return this.#store.find(id);
  }

  /** The newest accepted generation of a key; 0 without one. */
  fence(key: string): number {
    return this.sql.exec<{ gen: number }>("SELECT ifnull(max(gen), 0) AS gen FROM operations WHERE key = ?", key).one()
      .gen;
  }

  add({ id, method, key, gen, deadlineMs, params }: Operation, sealed: Uint8Array | null, now: number): void {
    this.sql.exec(
      `INSERT INTO operations (id, method, key, gen, deadline_ms, params, sealed, state, created, due)
       VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)`,
      id,
      method,
      key,
      gen,
      deadlineMs,
      JSON.stringify(params),
      sealed,
      now,
      now + deadlineMs + GRACE_MS,
    );
  }

  /** The next operations to send over a connection, up to its free slots; marked as sent. */
  takeUnsent(connection: string, now: number): OperationRow[] {
    return this.sql
      .exec<OperationRow & { position: number }>(
        `UPDATE operations SET connection = ?1, sends = sends + 1,
           due = iif(state = 'pending', ?2 + deadline_ms, due), state = iif(state = 'pending', 'sent', state)
         WHERE position IN (
           SELECT position FROM operations WHERE connection IS NULL AND ${OPEN} ORDER BY position
           LIMIT max(0, ?3 - (SELECT count(*) FROM operations WHERE connection = ?1 AND ${OPEN}))) RETURNING *`,
        connection,
        now + GRACE_MS,
        MAX_IN_FLIGHT,
      )
      .toArray()
      .sort((a, b) => a.position - b.position);
  }

  inFlight(connection: string): number {
    return this.#store.count(`connection = ? AND ${OPEN}`, connection);
  }

  /** The number of unsent operations. */
  queued(): number {
    return this.#store.count(`connection IS NULL AND ${OPEN}`);
  }

  /** Whether any operation is open. */
  anyOpen(): boolean {
    return this.#store.any(OPEN);
  }

  /**
   * Reconciles with the journal of a new connection. Journaled operations continue there; all other open ones are
   * sent again. Operations with secrets are sent again too, because journals hold no secrets, and so are those of
   * unknown outcome, which restarts them.
   */
  reconcile(journal: readonly { readonly op: string }[], connection: string): Reconciled {
    this.sql.exec(`UPDATE operations SET connection = NULL WHERE connection IS NOT NULL AND ${OPEN}`);
    const reconciled: Reconciled = { resume: [], forget: [] };
    for (const { op } of journal) {
      const row = this.find(op);
      // An operation that was never sent is in no genuine journal; the agent receives it in order.
      const isLive = row !== null && isRowOpen(row) && row.sends > 0;
      const list = isLive ? reconciled.resume : reconciled.forget;
      if (list.length === MAX_KEPT_OPERATIONS) continue;
      list.push(op);
      if (isLive && row.sealed === null && row.state !== WORDS.unknown)
        this.#store.update(op, "connection = ?", connection);
    }
    return reconciled;
  }

  /**
   * Records an operation's result.
   * @returns the outcome that is new to the owner; null when it is known or the operation was not sent
   */
  end(row: OperationRow, result: OperationResult, now: number): Outcome | null {
    const { id } = row;
    if (row.sends === 0 || !isRowOpen(row)) return null;
    if (result.state === "unknown") {
      const { message } = result.error;
      // On no connection, but not sent before it is due.
      const due = now + backoff(row.sends - 1, AFTER_UNKNOWN);
      this.#store.update(id, "state = 'unknown', connection = '', due = ?, said = ?", due, message);
      return row.state === WORDS.unknown && row.said === message ? null : { id, key: row.key, result };
    }
    this.#close(id, result.state === "done" ? "done" : "failed", now);
    return { id, key: row.key, result };
  }

  /** Sends an operation of unknown outcome again, unless the agent runs it. */
  retry(id: string): void {
    this.sql.exec("UPDATE operations SET connection = NULL WHERE id = ? AND state = 'unknown' AND connection = ''", id);
  }

  /** When the next operation is due, ms since 1970. */
  nextDue(): number | null {
    return this.sql.exec<{ due: number | null }>("SELECT min(due) AS due FROM operations").one().due;
  }

  /** Processes due operations: timeouts, retries and deletions. */
  tick(now: number, limit: number): Outcome[] {
    const due = this.#store.rows("due <= ? ORDER BY due LIMIT ?", now, limit);
    return due.map((row) => this.#handleDue(row, now)).filter((outcome) => outcome !== null);
  }

  /** Fails all open operations of a removed node. */
  abandon(now: number, limit: number): Outcome[] {
    const rows = this.#store.rows(`${OPEN} ORDER BY position LIMIT ?`, limit);
    return rows.map(({ id, key, sends }) => {
      this.#close(id, "failed", now);
      const error = { kind: "unavailable", message: "the node's agent was removed" } as const;
      return { id, key, result: { state: sends === 0 ? "failed" : "given-up", error } };
    });
  }

  #handleDue({ id, key, state, sends, created, connection, said }: OperationRow, now: number): Outcome | null {
    if (!isRowOpen({ state })) {
      this.sql.exec("DELETE FROM operations WHERE id = ?", id);
      return null;
    }
    if (state === WORDS.unknown && created + RESOLVE_DAYS * DAY_MS <= now) {
      this.#close(id, "failed", now);
      const message = `given up: in ${RESOLVE_DAYS} days the node has not reported the outcome${said === null ? "" : `; it last said: ${said}`}`;
      return { id, key, result: { state: "given-up", error: { kind: "timeout", message } } };
    }
    if (state === WORDS.queued) {
      this.#close(id, "failed", now);
      const message = "it could not be sent to the node in time";
      return { id, key, result: { state: "failed", error: { kind: "timeout", message } } };
    }
    const on = state === WORDS.unknown && connection === "" ? null : connection;
    this.#store.update(id, "state = 'unknown', connection = ?, due = ?", on, now + backoff(sends, AFTER_SILENCE));
    if (state === WORDS.unknown) return null;
    const message = "the node has not told the outcome in time";
    return { id, key, result: { state: "unknown", error: { kind: "timeout", message } } };
  }

  #close(id: string, state: "done" | "failed", now: number): void {
    this.#store.update(id, "state = ?, sealed = NULL, due = ?", state, now + KEEP_ENDED_MS);
  }
}
