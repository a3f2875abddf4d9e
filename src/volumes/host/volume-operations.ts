import { hostVolumeKey, METHODS, type OperationState } from "@sallyport/agent-protocol";
import type { StoredVolume, VolumeMethod } from "../../contracts/host-volumes.ts";
import type { OperationResult } from "../../contracts/node-operation.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { uuidV7 } from "../../lib/uuid-v7.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import { OperationStore } from "../../platform/durable/operation-store.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { OutboxRow } from "../../platform/durable/outbox-delivery.ts";
import type { RowOf } from "../../platform/durable/row-of.ts";
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
  readonly gen: number;
  readonly state: OperationState;
  readonly params: Readonly<Record<string, unknown>>;
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

interface NewOperation extends Pick<VolumeOperation, "volumeId" | "nodeId" | "method" | "gen" | "params" | "change"> {
  /** Identifies the request, for retries. */
  readonly request: string;
}

/** `state` is that of the column: see the diagram. */
type VolumeOperationRow = Omit<RowOf<VolumeOperation>, "forced">;

const COLUMNS = `id, volume_id AS volumeId, node_id AS nodeId, method, gen, state, params, change, refusal, doubt,
  idx AS "index"`;

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
export class VolumeOperations extends OperationStore<VolumeOperationRow, VolumeOperation> {
  constructor(
    sql: SqlStorage,
    private readonly env: Env,
    private readonly outbox: Outbox,
  ) {
    super(sql, { name: VOLUME_OPERATION, columns: COLUMNS, read: operationOf, open: OPEN, started: OPEN, order: "id" });
  }

  running(volumeId: string): VolumeOperation | null {
    return this.one(`volume_id = ? AND ${OPEN}`, volumeId);
  }

  /**
   * The operation begun by an identical earlier request. Without an idempotency token, only a running operation
   * without waiters matches: two concurrent callers with equal requests create two volumes.
   */
  begunBy(request: string, { named }: { readonly named: boolean }): VolumeOperation | null {
    const ours = named ? this.one("request = ? AND state <> 'failed' ORDER BY id DESC", request) : null;
    if (ours) return ours;
    const running = this.rows(`request = ? AND ${OPEN} ORDER BY id DESC LIMIT ?`, request, MAX_ALIKE);
    return running.find(({ id }) => !this.isAwaited(id)) ?? null;
  }

  /** The newest running operation begun by the same request, awaited or not. */
  openOf(request: string): VolumeOperation | null {
    return this.one(`request = ? AND ${OPEN} ORDER BY id DESC`, request);
  }

  /** The running operation of a volume begun by the same request. */
  sameAs(volumeId: string, request: string): VolumeOperation | null {
    return this.one(`volume_id = ? AND ${OPEN} AND request = ?`, volumeId, request);
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
    this.expectWaiter(id);
    return id;
  }

  /** Marks an operation's outcome as unknown; inside the caller's transaction. */
  setUncertain(id: string, doubt: string): void {
    this.update(id, "doubt = ?", doubt);
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
      const operation = this.one(`id = ? AND ${OPEN}`, JSON.parse(body) as string);
      if (!operation) continue;
      const why = mayStart(operation) ?? (await this.#start(operation));
      if (why && operation.doubt === null) refusals.push(() => refused(operation, why));
    }
    return () => {
      for (const refuse of refusals) refuse();
    };
  }

  async #start({ id, method, gen, params, nodeId, volumeId }: VolumeOperation): Promise<Refusal | null> {
    const { deadlineMs } = METHODS[method];
    const request = { id, method, key: hostVolumeKey(volumeId), gen, deadlineMs, params };
    const started = await nodeSession(this.env, nodeId).start(request);
    return started.ok ? null : started;
  }
}

/** Gives an operation the index of the line of its end. */
export const operationBackfill = ({ id }: VolumeOperation): IndexBackfill => ({ table: VOLUME_OPERATION, row: [id] });

const operationOf = (row: VolumeOperationRow): VolumeOperation => {
  const params = JSON.parse(row.params) as VolumeOperation["params"];
  return {
    ...row,
    state: row.state === "running" && row.doubt !== null ? "unknown" : row.state,
    params,
    change: row.change === null ? null : (JSON.parse(row.change) as Change),
    forced: row.method === "dhv.delete" && params["force"] === true,
    refusal: row.refusal === null ? null : (JSON.parse(row.refusal) as Refusal),
  };
};

type NodeError = Extract<OperationResult, { error: unknown }>["error"];

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
} as const satisfies Record<NodeError["kind"], Refusal["reason"]>;

/** A node's refusal as the caller reads it. `forbidden` is the node's rule, not the caller's rights. */
export const refusalOf = ({ kind, message }: NodeError): Refusal => refuse(REASONS[kind], message);
