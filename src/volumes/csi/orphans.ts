import type { CsiClaim } from "../../contracts/csi-volumes.ts";
import type { Node } from "../../contracts/node.ts";
import { backoff } from "../../lib/backoff.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { type ChangeSet, NO_CHANGES, type NodeFollower } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import { forClaim } from "./claim-params.ts";
import type { CsiDispatcher } from "./dispatcher.ts";
import type { CsiPlugins } from "./plugins.ts";

/** A publication on a node whose claim is gone. */
type Orphan = Pick<CsiClaim, "row" | "nodeId" | "pluginId" | "namespace" | "volumeId" | "allocId" | "attempts"> & {
  readonly externalId: string;
};

const COLUMNS = `row, node_id AS nodeId, plugin_id AS pluginId, namespace, volume_id AS volumeId, external_id AS externalId,
  alloc_id AS allocId, attempts`;

const MAX_PER_ALARM = 50;

/**
 * Orphaned publications: volumes published on nodes that were down when their claims were released. They are
 * unpublished when the node returns, with retries, until that succeeds or the node is purged. Owns table
 * `csi_leftovers`.
 */
export class Orphans implements NodeFollower, Timed {
  readonly due = "SELECT min(due) FROM csi_leftovers WHERE due IS NOT NULL";

  constructor(
    private readonly sql: SqlStorage,
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly plugins: CsiPlugins,
    private readonly dispatcher: CsiDispatcher,
  ) {}

  /**
   * Records the publication of a claim's node; inside the caller's transaction.
   * @param externalId the volume's id at the provider
   */
  add({ nodeId, pluginId, namespace, volumeId, allocId }: CsiClaim, externalId: string): void {
    this.sql.exec(
      `INSERT INTO csi_leftovers (node_id, plugin_id, namespace, volume_id, external_id, alloc_id) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (node_id, namespace, volume_id, alloc_id) DO UPDATE SET plugin_id = excluded.plugin_id,
         external_id = excluded.external_id, operation = NULL, attempts = 0, due = NULL`,
      nodeId,
      pluginId,
      namespace,
      volumeId,
      externalId,
      allocId,
    );
  }

  /** Removes a record because a claim publishes the volume there again; inside the caller's transaction. */
  forget({ nodeId, namespace, volumeId, allocId }: CsiClaim): void {
    this.sql.exec(
      "DELETE FROM csi_leftovers WHERE node_id = ? AND namespace = ? AND volume_id = ? AND alloc_id = ?",
      nodeId,
      namespace,
      volumeId,
      allocId,
    );
  }

  /** Makes the records of a ready node due and removes those of a purged one; inside a transaction. */
  nodeChanged(id: string, _before: Node | null, after: Node | null): ChangeSet {
    if (!after) this.sql.exec("DELETE FROM csi_leftovers WHERE node_id = ?", id);
    else if (after.Status === "ready") {
      const touched = this.sql.exec(
        "UPDATE csi_leftovers SET due = ? WHERE node_id = ? AND operation IS NULL",
        Date.now(),
        id,
      );
      if (touched.rowsWritten > 0) queueMicrotask(() => void this.onAlarm(Date.now()));
    }
    return NO_CHANGES;
  }

  isWaitingFor(operation: string): boolean {
    return this.sql.exec("SELECT 1 FROM csi_leftovers WHERE operation = ?", operation).toArray().length > 0;
  }

  /** Removes the record of a completed operation, or schedules a retry; inside the caller's transaction. */
  ended(operation: string, isDone: boolean): void {
    if (isDone) {
      this.sql.exec("DELETE FROM csi_leftovers WHERE operation = ?", operation);
      return;
    }
    for (const { row, attempts } of this.#rows("operation = ?", operation)) this.#putOff(row, attempts);
  }

  async onAlarm(now: number): Promise<void> {
    this.publisher.commit(() => {
      for (const orphan of this.#rows("due <= ? ORDER BY due LIMIT ?", now, MAX_PER_ALARM)) this.#unpublish(orphan);
    });
  }

  /**
   * Begins the unpublish operation, unless the plugin is unhealthy: then the node's next report makes the record due.
   */
  #unpublish({ row, nodeId, pluginId, namespace, volumeId, externalId, allocId, attempts }: Orphan): void {
    if (!this.plugins.nodeInstance(pluginId, nodeId)?.Healthy) {
      this.sql.exec("UPDATE csi_leftovers SET due = NULL WHERE row = ?", row);
      return;
    }
    const begun = refuseIfSealed(() =>
      this.dispatcher.begin(
        {
          pluginId,
          namespace,
          volumeId,
          nodeId,
          locks: false,
          method: "csi.node.detach",
          params: { pluginId, externalId, allocId },
          change: forClaim({ allocId, nodeId }),
          request: `leftover ${crypto.randomUUID()}`,
        },
        {},
      ),
    );
    if (begun.ok) this.sql.exec("UPDATE csi_leftovers SET operation = ?, due = NULL WHERE row = ?", begun.value, row);
    else this.#putOff(row, attempts);
  }

  #putOff(row: number, attempts: number): void {
    this.sql.exec(
      "UPDATE csi_leftovers SET operation = NULL, attempts = attempts + 1, due = ? WHERE row = ?",
      Date.now() + backoff(attempts),
      row,
    );
  }

  #rows(condition: string, ...values: SqlStorageValue[]): Orphan[] {
    return this.sql.exec<Orphan>(`SELECT ${COLUMNS} FROM csi_leftovers WHERE ${condition}`, ...values).toArray();
  }
}
