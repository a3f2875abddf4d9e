/*
 * The states of a CSI operation.
 *
 *   begin --> queued --slot free--> running --> done
 *      |         |                   ^   |
 *      |         | 120 s             |   +----> failed --late success--> done (controller.create and publish only)
 *      |         v                   |
 *      |       failed                |
 *      +-- plugin idle or not serial-+
 *
 * A running operation whose outcome is not known is `unknown`: column `state` says `running`, column `uncertain` is set.
 */

import { CSI_METHODS, csiVolumeKey } from "@sallyport/agent-protocol";
import type { CsiOperation } from "../../contracts/csi-volumes.ts";
import type { Operation } from "../../contracts/node-operation.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { uuidV7 } from "../../lib/uuid-v7.ts";
import { OperationStore } from "../../platform/durable/operation-store.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { RowOf } from "../../platform/durable/row-of.ts";
import { revealed } from "../../volume-requests/hidden-params.ts";
import { claimKey, type ForClaim } from "./claim-params.ts";
import { CLAIM_METHODS, isForClaim, SERIAL } from "./methods.ts";
import type { Hidden } from "./secrets.ts";

/** The table's name in index backfills. */
export const CSI_OPERATION = "csi_operations";

/** Requests of users and operations of claims alternate, so that neither starves the other. */
const FOR_CLAIM = `method IN (${[...CLAIM_METHODS].map((method) => `'${method}'`).join(", ")})`;

export interface NewCsiOperation
  extends Pick<
    CsiOperation,
    "pluginId" | "namespace" | "volumeId" | "nodeId" | "method" | "params" | "change" | "locks"
  > {
  /** Identifies the request, for retries. */
  readonly request: string;
  readonly sealed: Uint8Array | null;
}

/** `state` is that of the column: see the diagram. */
type CsiOperationRow = Omit<RowOf<CsiOperation>, "change" | "locks" | "result"> & {
  readonly change: string | null;
  readonly lock: string | null;
  readonly result: string | null;
};

const COLUMNS = `gen, id, plugin_id AS pluginId, namespace, volume_id AS volumeId, node_id AS nodeId, tried, uncertain, method,
  state, params, change, lock, sealed, refusal, result, idx AS "index", created, ended`;

/** The outbox topic whose rows are operations to send; one lane an operation. */
const TOPIC = "csi";

const KEPT_MS = 3_600_000;
/** Retention of read results, which are useless once returned. */
const READS_KEPT_MS = 60_000;
/** Retention of uncertain operations: matches how long a node's session resolves unknown outcomes. */
const UNCERTAIN_KEPT_MS = 30 * 24 * 3_600_000;
/** Queue timeout: a queued operation fails rather than start hours later. */
const QUEUED_MS = 120_000;
const MAX_QUEUED = 1_000;

const lockOf = (namespace: string, volumeId: string): string => JSON.stringify([namespace, volumeId]);
/** Lock of a deletion that runs beside another change of the volume, see `CsiVolumes.doneAgain`. */
const secondLockOf = (namespace: string, volumeId: string): string => JSON.stringify([namespace, volumeId, "again"]);
const OPEN = "state IN ('queued', 'running')";
const STARTED = "state = 'running'";

/**
 * Owns table `csi_operations`: plugin operations, stored before they are sent and for a retention time after
 * completion. Read by the dispatcher, by volume routes and by claims. Every statement uses an index.
 */
export class CsiOperations extends OperationStore<CsiOperationRow, CsiOperation> {
  /** Fairness: the last turn of each namespace (users and claims apart) per plugin, while a queue exists. */
  readonly #turns = new Map<string, Map<string, number>>();

  constructor(
    sql: SqlStorage,
    private readonly outbox: Outbox,
  ) {
    const table = { name: CSI_OPERATION, columns: COLUMNS, read: operationOf, order: "gen" };
    super(sql, { ...table, open: OPEN, started: STARTED });
  }

  /** Continues with generations above this one, after a restore. */
  raiseGenerations(least: number): void {
    const { seq } = this.sql
      .exec<{ seq: number }>("SELECT ifnull(max(seq), 0) AS seq FROM sqlite_sequence WHERE name = 'csi_operations'")
      .one();
    this.sql.exec("DELETE FROM sqlite_sequence WHERE name = 'csi_operations'");
    // The column has no type, and bound numbers are floating-point.
    const insert = "INSERT INTO sqlite_sequence (name, seq) VALUES ('csi_operations', CAST(? AS INTEGER))";
    this.sql.exec(insert, Math.max(seq, least));
  }

  /** The running change of a volume. */
  locking(namespace: string, volumeId: string): CsiOperation | null {
    const locks = [lockOf(namespace, volumeId), secondLockOf(namespace, volumeId)];
    return this.one(`lock IN (?, ?) AND ${OPEN} ORDER BY gen`, ...locks);
  }

  /** The open operation begun by the same request. */
  begunBy(request: string): CsiOperation | null {
    return this.one(`request = ? AND ${OPEN}`, request);
  }

  /** The recent operations of a volume before a sequence number, newest first. */
  ofVolume(namespace: string, volumeId: string, before: number, limit: number): CsiOperation[] {
    const condition = "namespace = ? AND volume_id = ? AND gen < ? ORDER BY gen DESC LIMIT ?";
    return this.rows(condition, namespace, volumeId, before, limit);
  }

  /** Stores an operation; inside the caller's transaction. It is sent at once, or queued while its plugin is busy. */
  begin(given: NewCsiOperation): Result<string> {
    const { pluginId, namespace, volumeId, nodeId, method, request } = given;
    const serial = SERIAL.has(method);
    const waits = serial && this.#isBusy(pluginId);
    if (waits && this.#queued(pluginId, isForClaim(method)) >= MAX_QUEUED)
      return refuse("unavailable", `plugin ${JSON.stringify(pluginId)} has too much to do: nothing was changed`);
    const id = uuidV7();
    const now = Date.now();
    const second = method === "csi.controller.delete" ? secondLockOf(namespace, volumeId) : null;
    this.sql.exec(
      `INSERT INTO csi_operations (id, plugin_id, namespace, volume_id, lock, serial, node_id, tried, method, state, request,
         params, change, sealed, created, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      pluginId,
      namespace,
      volumeId,
      given.locks ? lockOf(namespace, volumeId) : second,
      serial ? 1 : 0,
      nodeId,
      JSON.stringify([nodeId]),
      method,
      waits ? "queued" : "running",
      request,
      JSON.stringify(given.params),
      given.change === null ? null : JSON.stringify(given.change),
      given.sealed,
      now,
      waits ? now + QUEUED_MS : null,
    );
    if (!waits) this.#enlist(id);
    return ok(id);
  }

  /** Reassigns an operation to another node; inside the caller's transaction. */
  move({ id, tried }: CsiOperation, nodeId: string): void {
    this.update(id, "node_id = ?, tried = ?", nodeId, JSON.stringify([...tried, nodeId]));
    this.#enlist(id);
  }

  /** Sends an operation to its node again; inside the caller's transaction. */
  again({ id }: CsiOperation): void {
    this.#enlist(id);
  }

  /** Reassigns an operation to the node that was tried first; inside the caller's transaction. */
  waitForFirst({ id, tried: [first = ""] }: CsiOperation): void {
    this.update(id, "node_id = ?", first);
  }

  /** Marks the outcome as unknown. The plugin's queue no longer waits for this operation. */
  setUncertain({ id, pluginId }: CsiOperation): void {
    this.update(id, "uncertain = 1, serial = 0");
    this.#next(pluginId);
  }

  /** Completes an operation inside the caller's transaction, and lets the next one begin. */
  end({ id, pluginId, method, uncertain }: CsiOperation, refusal: Refusal | null, result: unknown = null): void {
    const now = Date.now();
    // A second controller may still create the volume. The late result then registers or deletes it, which needs the
    // secrets.
    const mayYetBeMade = uncertain && method === "csi.controller.create";
    const isOpenEnded = mayYetBeMade || (refusal !== null && uncertain);
    const kept = CSI_METHODS[method].reads ? READS_KEPT_MS : isOpenEnded ? UNCERTAIN_KEPT_MS : KEPT_MS;
    this.update(
      id,
      "state = ?, refusal = ?, result = ?, sealed = iif(?, sealed, NULL), ended = ?, due = ?",
      refusal ? "failed" : "done",
      refusal && JSON.stringify(refusal),
      // A claim stores its part of the result itself, sealed.
      result === null || isForClaim(method) ? null : JSON.stringify(result),
      mayYetBeMade ? 1 : 0,
      now,
      now + kept,
    );
    this.#next(pluginId);
  }

  /** The operation in the form of the agent protocol. */
  requestOf(operation: CsiOperation, hidden: Hidden): Operation {
    const { id, method, gen, params } = operation;
    const { deadlineMs } = CSI_METHODS[method];
    const { secrets } = hidden;
    return {
      id,
      method,
      gen,
      deadlineMs,
      key: keyOf(operation),
      params: revealed(params, hidden.params),
      ...(Object.keys(secrets).length > 0 && { secrets }),
    };
  }

  /**
   * Deletes operations past their retention; inside a transaction.
   * @returns operations whose queue timeout has passed
   */
  tick(now: number): CsiOperation[] {
    this.forget(now, "ended IS NOT NULL");
    return this.rows("due <= ? AND state = 'queued' ORDER BY due LIMIT 500", now);
  }

  /**
   * Deletes the history of a deleted namespace; inside the caller's transaction. A volume with an operation whose
   * result may still arrive keeps its operations.
   */
  forgetNamespace(namespace: string): void {
    this.sql.exec(
      `DELETE FROM csi_operations WHERE namespace = ?1 AND ended IS NOT NULL AND volume_id NOT IN (
         SELECT volume_id FROM csi_operations WHERE namespace = ?1 AND (ended IS NULL OR due > ended + ?2))`,
      namespace,
      KEPT_MS,
    );
  }

  /** Delivers after the transaction that enlists it. */
  #enlist(id: string): void {
    this.outbox.enlist(TOPIC, id, id);
    queueMicrotask(() => void this.outbox.drain(TOPIC, id));
  }

  /** Starts the next queued operation: round robin over namespaces, oldest first. */
  #next(pluginId: string): void {
    if (this.#isBusy(pluginId)) return;
    const waiting = this.sql
      .exec<{ namespace: string; claims: number; gen: number }>(
        `SELECT namespace, ${FOR_CLAIM} AS claims, min(gen) AS gen FROM csi_operations
         WHERE plugin_id = ? AND state = 'queued' GROUP BY namespace, claims`,
        pluginId,
      )
      .toArray()
      .map(({ namespace, claims, gen }) => ({ whose: JSON.stringify([namespace, claims]), gen }));
    const turns = this.#turns.get(pluginId) ?? new Map<string, number>();
    const turnOf = ({ whose }: { whose: string }) => turns.get(whose) ?? 0;
    const [first] = waiting.sort((a, b) => turnOf(a) - turnOf(b) || a.gen - b.gen);
    if (!first) {
      this.#turns.delete(pluginId);
      return;
    }
    this.#turns.set(pluginId, turns.set(first.whose, Math.max(0, ...turns.values()) + 1));
    const { id } = this.sql
      .exec<{ id: string }>(
        "UPDATE csi_operations SET state = 'running', due = NULL WHERE gen = ? RETURNING id",
        first.gen,
      )
      .one();
    this.#enlist(id);
  }

  #isBusy(pluginId: string): boolean {
    return this.any(`plugin_id = ? AND serial = 1 AND ${STARTED}`, pluginId);
  }

  #queued(pluginId: string, forClaims: boolean): number {
    return this.count(`plugin_id = ? AND state = 'queued' AND ${FOR_CLAIM} = ?`, pluginId, forClaims ? 1 : 0);
  }
}

/** Operations of one key are fenced against each other. An operation without a lock gets a key of its own. */
function keyOf({ id, method, pluginId, namespace, volumeId, change, locks }: CsiOperation): string {
  if (isForClaim(method)) return claimKey(method, { pluginId, namespace, volumeId }, change as ForClaim);
  return locks ? csiVolumeKey(pluginId, namespace, volumeId) : `csi:${pluginId}:${id}`;
}

const operationOf = ({ lock, ...row }: CsiOperationRow): CsiOperation => ({
  ...row,
  tried: JSON.parse(row.tried) as string[],
  uncertain: row.uncertain === 1,
  state: row.state === "running" && row.uncertain === 1 ? "unknown" : row.state,
  params: JSON.parse(row.params) as CsiOperation["params"],
  change: row.change === null ? null : JSON.parse(row.change),
  locks: lock === lockOf(row.namespace, row.volumeId),
  refusal: row.refusal === null ? null : (JSON.parse(row.refusal) as Refusal),
  result: row.result === null ? null : JSON.parse(row.result),
});

/** An operation as reads show it. */
export const shownOperation = (operation: CsiOperation) => ({
  CreateTime: operation.created * 1_000_000,
  EndTime: operation.ended === null ? null : operation.ended * 1_000_000,
  Error: operation.refusal?.message ?? "",
  ID: operation.id,
  Method: operation.method,
  NodeID: operation.nodeId,
  NodesAsked: operation.tried,
  PluginID: operation.pluginId,
  State: operation.state === "running" && operation.uncertain ? "unknown" : operation.state,
});
