import { NOTHING, type NodeFollower, type Told } from "../../contracts/change-set.ts";
import type { CsiClaim } from "../../contracts/csi-volumes.ts";
import type { Journal } from "../../contracts/event-publisher.ts";
import type { Node } from "../../contracts/node.ts";
import { backoff } from "../../lib/backoff.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { forClaim } from "./claim-params.ts";
import type { CsiPlugins } from "./plugins.ts";
import type { CsiWork } from "./work.ts";

/** What a node has published for a claim that is gone. */
interface Leftover extends Record<string, SqlStorageValue> {
  row: number;
  node_id: string;
  plugin_id: string;
  namespace: string;
  volume_id: string;
  external_id: string;
  alloc_id: string;
  attempts: number;
}

interface Parts {
  readonly sql: SqlStorage;
  readonly journal: Journal<IndexBackfill>;
  readonly plugins: CsiPlugins;
  readonly work: CsiWork;
}

const AT_ONCE = 50;

/**
 * What nodes that were down have published still. Nobody waited for them to take it away, so they are asked to when they are
 * back, until they have done it or are purged.
 */
export class Leftovers implements NodeFollower, Timed {
  readonly due = "SELECT min(due) FROM csi_leftovers WHERE due IS NOT NULL";
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Notes what the node of a claim has, inside the caller's transaction. @param externalId by what the provider knows the volume */
  add({ nodeId, pluginId, namespace, volumeId, allocId }: CsiClaim, externalId: string): void {
    this.#parts.sql.exec(
      `INSERT INTO csi_leftovers (node_id, plugin_id, namespace, volume_id, external_id, alloc_id) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (node_id, namespace, volume_id, alloc_id) DO UPDATE SET plugin_id = excluded.plugin_id,
         external_id = excluded.external_id, operation = NULL, attempts = 0, due = NULL`,
      ...[nodeId, pluginId, namespace, volumeId, externalId, allocId],
    );
  }

  /** A claim has the node publish it anew, inside the caller's transaction: it is the claim's again. */
  forget({ nodeId, namespace, volumeId, allocId }: CsiClaim): void {
    this.#parts.sql.exec(
      "DELETE FROM csi_leftovers WHERE node_id = ? AND namespace = ? AND volume_id = ? AND alloc_id = ?",
      ...[nodeId, namespace, volumeId, allocId],
    );
  }

  /** A node that is there may take away what it has; inside a transaction. One that is purged has nothing. */
  nodeChanged(before: Node | null, after: Node | null): Told {
    const { sql } = this.#parts;
    if (!after) sql.exec("DELETE FROM csi_leftovers WHERE node_id = ?", before?.ID ?? "");
    else if (after.Status === "ready") {
      const touched = sql.exec(
        "UPDATE csi_leftovers SET due = ? WHERE node_id = ? AND operation IS NULL",
        ...[Date.now(), after.ID],
      );
      if (touched.rowsWritten > 0) queueMicrotask(() => void this.onAlarm(Date.now()));
    }
    return NOTHING;
  }

  isWaitingFor(operation: string): boolean {
    return this.#parts.sql.exec("SELECT 1 FROM csi_leftovers WHERE operation = ?", operation).toArray().length > 0;
  }

  /** An operation has ended, inside the caller's transaction: what it was about is gone, or tried again. */
  ended(operation: string, isDone: boolean): void {
    const { sql } = this.#parts;
    if (isDone) {
      sql.exec("DELETE FROM csi_leftovers WHERE operation = ?", operation);
      return;
    }
    for (const { row, attempts } of this.#rows("operation = ?", operation)) this.#putOff(row, attempts);
  }

  async onAlarm(now: number): Promise<void> {
    this.#parts.journal.commit(() => {
      for (const leftover of this.#rows("due <= ? ORDER BY due LIMIT ?", now, AT_ONCE)) this.#ask(leftover);
    });
  }

  /** Asks its node, unless that is away: then its next word is waited for. */
  #ask({ row, node_id: nodeId, plugin_id: pluginId, namespace, volume_id: volumeId, ...more }: Leftover): void {
    const { sql, plugins, work } = this.#parts;
    const { external_id: externalId, alloc_id: allocId, attempts } = more;
    if (!plugins.nodeInstance(pluginId, nodeId)?.Healthy) {
      sql.exec("UPDATE csi_leftovers SET due = NULL WHERE row = ?", row);
      return;
    }
    const begun = refuseIfSealed(() =>
      work.begin(
        {
          ...{ pluginId, namespace, volumeId, nodeId, locks: false, method: "csi.node.detach" },
          ...{ params: { pluginId, externalId, allocId }, change: forClaim({ allocId, nodeId }) },
          request: `leftover ${crypto.randomUUID()}`,
        },
        {},
      ),
    );
    if (begun.ok) sql.exec("UPDATE csi_leftovers SET operation = ?, due = NULL WHERE row = ?", begun.value, row);
    else this.#putOff(row, attempts);
  }

  #putOff(row: number, attempts: number): void {
    this.#parts.sql.exec(
      "UPDATE csi_leftovers SET operation = NULL, attempts = attempts + 1, due = ? WHERE row = ?",
      ...[Date.now() + backoff(attempts), row],
    );
  }

  #rows(condition: string, ...values: SqlStorageValue[]): Leftover[] {
    return this.#parts.sql.exec<Leftover>(`SELECT * FROM csi_leftovers WHERE ${condition}`, ...values).toArray();
  }
}
