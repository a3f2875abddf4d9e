import { hostVolumeKey, METHODS } from "@sallyport/agent-protocol";
import type { StoredVolume, VolumeMethod } from "../contracts/host-volumes.ts";
import type { Operation, OperationResult } from "../contracts/node-operation.ts";
import type { Refusal, Result } from "../lib/result.ts";
import { uuidV7 } from "../lib/uuid-v7.ts";
import type { IndexBackfill, IndexedRows } from "../platform/durable/blocking/index-backfill.ts";
import type { OutboxRow } from "../platform/durable/outbox.ts";
import { Attendance } from "./operation-waiters.ts";

/** The table's name in stamps. */
export const VOLUME_OPERATION = "volume_operations";

/** What a volume becomes once its operation has succeeded. */
export type Change = Pick<StoredVolume, "name" | "pluginId" | "wanted" | "capacityBytes" | "hostPath">;

/** What a node is doing, or has lately done, to a volume. */
export interface VolumeOperation {
  readonly id: string;
  readonly volumeId: string;
  readonly nodeId: string;
  readonly method: VolumeMethod;
  readonly state: "running" | "done" | "failed";
  /** Null for a deletion. */
  readonly change: Change | null;
  /** A deletion that gives the plugin up. */
  readonly forced: boolean;
  readonly refusal: Refusal | null;
  /** Why nobody knows what has come of it, while that is so; null = the node has not said that. */
  readonly doubt: string | null;
  /** The index of the line that told of its end; null while it is not known, or when there was nothing to tell. */
  readonly index: number | null;
}

export interface NewOperation {
  readonly volumeId: string;
  readonly nodeId: string;
  readonly method: VolumeMethod;
  readonly gen: number;
  /** Recognises the request that began it. */
  readonly request: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly change: Change | null;
}

interface Row extends Record<string, SqlStorageValue> {
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

/** What operations need of the object they belong to. */
export interface OperationsHost {
  readonly sql: SqlStorage;
  /** Promises that the operation will be sent. */
  enlist(lane: string, id: string): void;
  start(nodeId: string, operation: Operation): Promise<Result<null>>;
}

/** One that has ended answers its request, and repetitions of it, for this long. */
const KEPT_MS = 3_600_000;
/** Requests that look alike, and of which one may have been left. */
const MOST_ALIKE = 100;

/** Operations on volumes: written down before they are sent, and until somebody has read how they ended. */
export class VolumeOperations implements IndexedRows {
  readonly #host: OperationsHost;
  readonly #attendance = new Attendance();

  constructor(host: OperationsHost) {
    this.#host = host;
  }

  find(id: string): VolumeOperation | null {
    const [row] = this.#rows("id = ?", id);
    return row ? operationOf(row) : null;
  }

  running(volumeId: string): VolumeOperation | null {
    const [row] = this.#rows("volume_id = ? AND state = 'running'", volumeId);
    return row ? operationOf(row) : null;
  }

  /**
   * The operation that the same request has begun before. Without a token of its own a request is the same only as long as
   * the operation runs, and if nobody waits for it: two callers who ask for alike things at a time want both.
   */
  begunBy(request: string, { named }: { readonly named: boolean }): VolumeOperation | null {
    const [ours] = named ? this.#rows("request = ? AND state <> 'failed' ORDER BY id DESC LIMIT 1", request) : [];
    if (ours) return operationOf(ours);
    const running = this.#rows("request = ? AND state = 'running' ORDER BY id DESC LIMIT ?", request, MOST_ALIKE);
    const left = running.find(({ id }) => !this.#attendance.isAttended(id));
    return left ? operationOf(left) : null;
  }

  /** The operation of a volume that the same request has begun, whoever waits for it. */
  sameAs(volumeId: string, request: string): VolumeOperation | null {
    const [row] = this.#rows("volume_id = ? AND state = 'running' AND request = ?", volumeId, request);
    return row ? operationOf(row) : null;
  }

  /** Writes an operation down and promises to send it, inside the caller's transaction. */
  begin({ volumeId, nodeId, method, gen, request, params, change }: NewOperation): string {
    const id = uuidV7();
    this.#host.sql.exec(
      `INSERT INTO volume_operations (id, volume_id, node_id, method, gen, state, request, params, change)
       VALUES (?, ?, ?, ?, ?, 'running', ?, ?, ?)`,
      ...[id, volumeId, nodeId, method, gen, request, JSON.stringify(params)],
      change && JSON.stringify(change),
    );
    this.#host.enlist(volumeId, id);
    this.#attendance.attend(id);
    return id;
  }

  /** Notes that nobody knows what has come of an operation, inside the caller's transaction. */
  doubted(id: string, doubt: string): void {
    this.#host.sql.exec("UPDATE volume_operations SET doubt = ? WHERE id = ?", doubt, id);
  }

  /** Promises to ask a node once more what has come of an operation, inside the caller's transaction. */
  again({ id, volumeId }: VolumeOperation): void {
    this.#host.enlist(volumeId, id);
  }

  /** Notes how an operation has ended, inside the caller's transaction. */
  end(id: string, refusal: Refusal | null): void {
    this.#host.sql.exec(
      "UPDATE volume_operations SET state = ?, refusal = ?, due = ? WHERE id = ? AND state = 'running'",
      refusal ? "failed" : "done",
      refusal && JSON.stringify(refusal),
      Date.now() + KEPT_MS,
      id,
    );
  }

  /** The operations that a node has not answered for. */
  runningOn(nodeId: string): VolumeOperation[] {
    return this.#rows("node_id = ? AND state = 'running' ORDER BY id", nodeId).map(operationOf);
  }

  /** Forgets what has ended long ago. Call inside a transaction. */
  forget(now: number): void {
    this.#host.sql.exec(
      "DELETE FROM volume_operations WHERE id IN (SELECT id FROM volume_operations WHERE due <= ? ORDER BY due LIMIT 500)",
      now,
    );
  }

  setIndex({ row: [id = ""] }: IndexBackfill, index: number): void {
    this.#host.sql.exec("UPDATE volume_operations SET idx = ? WHERE id = ?", index, id);
  }

  /**
   * Sends operations to their nodes. One that the node refuses to begin has ended, unless the node may have done it before.
   * @param mayStart a last look before it leaves; why not, if it may not
   * @param refused runs in the transaction that forgets the promise
   */
  async deliver(
    sent: readonly OutboxRow[],
    mayStart: (operation: VolumeOperation) => Refusal | null,
    refused: (operation: VolumeOperation, refusal: Refusal) => void,
  ): Promise<() => void> {
    const refusals: (() => void)[] = [];
    for (const { body } of sent) {
      const [row] = this.#rows("id = ? AND state = 'running'", JSON.parse(body) as string);
      if (!row) continue;
      const operation = operationOf(row);
      const why = mayStart(operation) ?? (await this.#start(row));
      if (why && operation.doubt === null) refusals.push(() => refused(operation, why));
    }
    return () => {
      for (const refuse of refusals) refuse();
    };
  }

  async #start(row: Row): Promise<Refusal | null> {
    const method = row.method as VolumeMethod;
    const started = await this.#host.start(row.node_id, {
      ...{ id: row.id, method, key: hostVolumeKey(row.volume_id), gen: row.gen },
      deadlineMs: METHODS[method].deadlineMs,
      params: JSON.parse(row.params) as Record<string, unknown>,
    });
    return started.ok ? null : started;
  }

  /**
   * Resolves when an operation has ended and readers may know, at the latest after `waitMs`.
   * @param last nobody asks again after this time
   */
  ended(id: string, waitMs: number, last: boolean): Promise<void> {
    return this.#attendance.wait(id, () => this.find(id)?.state === "running", waitMs, last);
  }

  /** Answers whoever waits for an operation, which has ended. */
  wake(id: string): void {
    this.#attendance.wake(id);
  }

  #rows(condition: string, ...values: SqlStorageValue[]): Row[] {
    return this.#host.sql.exec<Row>(`SELECT * FROM volume_operations WHERE ${condition}`, ...values).toArray();
  }
}

/** Gives an operation the index of the line that tells of its end. */
export const operationStamp = ({ id }: VolumeOperation): IndexBackfill => ({ table: VOLUME_OPERATION, row: [id] });

const operationOf = (row: Row): VolumeOperation => ({
  id: row.id,
  volumeId: row.volume_id,
  nodeId: row.node_id,
  method: row.method as VolumeMethod,
  state: row.state as VolumeOperation["state"],
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
