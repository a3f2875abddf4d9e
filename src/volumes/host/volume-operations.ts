import { hostVolumeKey, METHODS, type OperationState } from "@sallyport/agent-protocol";
import type { StoredVolume, VolumeMethod } from "../../contracts/host-volumes.ts";
import type { OperationResult } from "../../contracts/node-operation.ts";
import type { Refusal } from "../../lib/result.ts";
import { uuidV7 } from "../../lib/uuid-v7.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { OperationStore } from "../../platform/durable/operation-store.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { OutboxRow } from "../../platform/durable/outbox-delivery.ts";
import { nodeSession } from "../../rpc/stubs.ts";

/** The table's name in index backfills. */
export const VOLUME_OPERATION = "volume_operations";

/** The fields of a volume that a successful operation sets. */
export type Change = Pick<StoredVolume, "name" | "pluginId" | "wanted" | "capacityBytes" | "hostPath">;

/** A running or recently completed operation on a volume. */
export interface VolumeOperation {
  readonly id: string;
  readonly volumeId: string;
  readonly nodeId: string;
  readonly method: VolumeMethod;
  readonly state: OperationState;
  /** Null for a deletion. */
  readonly change: Change | null;
  /** A forced deletion, which does not wait for the plugin. */
  readonly forced: boolean;
  readonly refusal: Refusal | null;
  /** The node's last message while the outcome is unknown; null without one. */
  readonly doubt: string | null;
  /** The index of the completion's event line; null while unassigned, or without an event. */
  readonly index: number | null;
}

interface NewOperation {
  readonly volumeId: string;
  readonly nodeId: string;
  readonly method: VolumeMethod;
  readonly gen: number;
  /** Identifies the request, for retries. */
  readonly request: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly change: Change | null;
}

interface VolumeOperationRow extends Record<string, SqlStorageValue> {
  id: string;
  volume_id: string;
  node_id: string;
  method: string;
  gen: number;
  state: string;
  params: string;
  change: string | null;
  refusal: string | null;
  doubt: string | null;
  idx: number | null;
}

/** The outbox topic whose rows are operations to send; one lane a volume. */
const TOPIC = "volume";

/** Its state is `unknown` when it also has a doubt. */
const OPEN = "state = 'running'";
/** Retention of completed operations, which answer retries of their requests. */
const KEPT_MS = 3_600_000;
/** Upper bound of identical requests that are examined. */
const MAX_ALIKE = 100;

/**
 * Owns table `volume_operations`: operations on host volumes, stored before they are sent and for an hour after
 * completion. Read by `HostVolumes`; each call is one indexed statement.
 *
 *   begin --> running ----> done | failed       result, refusal, or agent removed
 *               |             ^
 *               +-> unknown --+                 the node is queried again
 *
 * Column `state` says `running` for both; column `doubt` has the node's last message about an unknown outcome.
 */
export class VolumeOperations implements IndexedRows {
  readonly #store: OperationStore<VolumeOperationRow>;

  constructor(
    private readonly sql: SqlStorage,
    private readonly env: Env,
    private readonly outbox: Outbox,
  ) {
    this.#store = new OperationStore(sql, { name: VOLUME_OPERATION, open: OPEN, started: OPEN, order: "id" });
  }

  find(id: string): VolumeOperation | null {
    const row = this.#store.find(id);
    return row && operationOf(row);
  }

  running(volumeId: string): VolumeOperation | null {
    const row = this.#store.one(`volume_id = ? AND ${OPEN}`, volumeId);
    return row && operationOf(row);
  }

  /**
   * The operation begun by an identical earlier request. Without an idempotency token, only a running operation
   * without waiters matches: two concurrent callers with equal requests create two volumes.
   */
  begunBy(request: string, { named }: { readonly named: boolean }): VolumeOperation | null {
    const ours = named ? this.#store.one("request = ? AND state <> 'failed' ORDER BY id DESC", request) : null;
    if (ours) return operationOf(ours);
    const running = this.#store.rows(`request = ? AND ${OPEN} ORDER BY id DESC LIMIT ?`, request, MAX_ALIKE);
    const left = running.find(({ id }) => !this.#store.isAwaited(id));
    return left ? operationOf(left) : null;
  }

  /** The newest running operation begun by the same request, awaited or not. */
  openOf(request: string): VolumeOperation | null {
    const row = this.#store.one(`request = ? AND ${OPEN} ORDER BY id DESC`, request);
    return row && operationOf(row);
  }

  /** The running operation of a volume begun by the same request. */
  sameAs(volumeId: string, request: string): VolumeOperation | null {
    const row = this.#store.one(`volume_id = ? AND ${OPEN} AND request = ?`, volumeId, request);
    return row && operationOf(row);
  }

  /** Stores an operation and adds it to the outbox; inside the caller's transaction. */
  begin({ volumeId, nodeId, method, gen, request, params, change }: NewOperation): string {
    const id = uuidV7();
    this.sql.exec(
      `INSERT INTO volume_operations (id, volume_id, node_id, method, gen, state, request, params, change)
       VALUES (?, ?, ?, ?, ?, 'running', ?, ?, ?)`,
      id,
      volumeId,
      nodeId,
      method,
      gen,
      request,
      JSON.stringify(params),
      change && JSON.stringify(change),
    );
    this.outbox.enlist(TOPIC, volumeId, id);
    this.#store.expectWaiter(id);
    return id;
  }

  /** Marks an operation's outcome as unknown; inside the caller's transaction. */
  setUncertain(id: string, doubt: string): void {
    this.#store.update(id, "doubt = ?", doubt);
  }

  /** Adds an operation to the outbox again; inside the caller's transaction. */
  again({ id, volumeId }: VolumeOperation): void {
    this.outbox.enlist(TOPIC, volumeId, id);
  }

  /** Sends the pending operations of a volume. Never rejects. */
  send(volumeId: string): Promise<void> {
    return this.outbox.drain(TOPIC, volumeId);
  }

  /** Completes an operation; inside the caller's transaction. */
  end(id: string, refusal: Refusal | null): void {
    this.sql.exec(
      "UPDATE volume_operations SET state = ?, refusal = ?, due = ? WHERE id = ? AND state = 'running'",
      refusal ? "failed" : "done",
      refusal && JSON.stringify(refusal),
      Date.now() + KEPT_MS,
      id,
    );
  }

  /** The running operations of a node. */
  runningOn(nodeId: string): VolumeOperation[] {
    return this.#store.startedOn(nodeId).map(operationOf);
  }

  /** Deletes operations past their retention; inside a transaction. */
  forget(now: number): void {
    this.#store.forget(now, 500);
  }

  setIndex({ row: [id = ""] }: IndexBackfill, index: number): void {
    this.#store.setIndex(id, index);
  }

  /**
   * Sends operations to their nodes. A refused operation fails, unless the node may have carried it out earlier.
   * @param mayStart the last check before sending; returns a refusal to cancel
   * @param refused runs in the transaction that removes the outbox row
   */
  async deliver(
    sent: readonly OutboxRow[],
    mayStart: (operation: VolumeOperation) => Refusal | null,
    refused: (operation: VolumeOperation, refusal: Refusal) => void,
  ): Promise<() => void> {
    const refusals: (() => void)[] = [];
    for (const { body } of sent) {
      const row = this.#store.one(`id = ? AND ${OPEN}`, JSON.parse(body) as string);
      if (!row) continue;
      const operation = operationOf(row);
      const why = mayStart(operation) ?? (await this.#start(row));
      if (why && operation.doubt === null) refusals.push(() => refused(operation, why));
    }
    return () => {
      for (const refuse of refusals) refuse();
    };
  }

  async #start(row: VolumeOperationRow): Promise<Refusal | null> {
    const method = row.method as VolumeMethod;
    const started = await nodeSession(this.env, row.node_id).start({
      id: row.id,
      method,
      key: hostVolumeKey(row.volume_id),
      gen: row.gen,
      deadlineMs: METHODS[method].deadlineMs,
      params: JSON.parse(row.params) as Record<string, unknown>,
    });
    return started.ok ? null : started;
  }

  /**
   * Resolves when an operation is completed and visible to readers, at the latest after `waitMs`.
   * @param last the caller does not poll again
   */
  ended(id: string, waitMs: number, last: boolean): Promise<void> {
    return this.#store.ended(id, waitMs, last);
  }

  /** Ends the wait of a client that has left. */
  leave(id: string): void {
    this.#store.leave(id);
  }

  /** Wakes all waiters of a completed operation. */
  wake(id: string): void {
    this.#store.wake(id);
  }
}

/** Gives an operation the index of the line of its end. */
export const operationBackfill = ({ id }: VolumeOperation): IndexBackfill => ({ table: VOLUME_OPERATION, row: [id] });

const operationOf = (row: VolumeOperationRow): VolumeOperation => ({
  id: row.id,
  volumeId: row.volume_id,
  nodeId: row.node_id,
  method: row.method as VolumeMethod,
  state: row.state === "running" && row.doubt !== null ? "unknown" : (row.state as OperationState),
  change: row.change === null ? null : (JSON.parse(row.change) as Change),
  forced: row.method === "dhv.delete" && (JSON.parse(row.params) as { force?: boolean }).force === true,
  refusal: row.refusal === null ? null : (JSON.parse(row.refusal) as Refusal),
  doubt: row.doubt,
  index: row.idx,
});

const REASONS = {
  invalid: "invalid",
  missing: "missing",
  conflict: "conflict",
  exhausted: "exhausted",
  forbidden: "invalid",
  unsupported: "unsupported",
  unavailable: "unavailable",
  timeout: "timeout",
  cancelled: "timeout",
  stale: "conflict",
  busy: "unavailable",
  plugin: "faulty",
  internal: "faulty",
} as const satisfies Record<Extract<OperationResult, { error: unknown }>["error"]["kind"], Refusal["reason"]>;

/** A node's refusal as the caller reads it. `forbidden` is the node's rule, not the caller's rights. */
export const refusalOf = ({ kind, message }: Extract<OperationResult, { error: unknown }>["error"]): Refusal => ({
  ok: false,
  reason: REASONS[kind],
  message,
});
