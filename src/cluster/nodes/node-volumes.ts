import type { Node, NodeVolumesChange } from "../../contracts/node.ts";

interface NodeVolumeRow extends Record<string, SqlStorageValue> {
  name: string;
  id: string;
  body: string;
}

/** The volumes of a node after a change. */
export function changedVolumes(before: Node["HostVolumes"], { put, gone }: NodeVolumesChange): Node["HostVolumes"] {
  const replaced = new Set([...gone, ...put.map(({ ID }) => ID)]);
  const kept = Object.entries(before ?? {}).filter(([, { ID }]) => !replaced.has(ID));
  return Object.fromEntries([...kept, ...put.map((volume) => [volume.Name, volume] as const)]);
}

/** Select expression for a node's host volumes as JSON text; NULL if the record reports none. */
export const VOLUMES_TEXT = `CASE json_type(nodes.body, '$.HostVolumes') WHEN 'null' THEN NULL ELSE
  (SELECT json_group_object(name, json(body)) FROM node_volumes WHERE node_id = nodes.id) END AS volumes`;

/** By default SQLite walks the primary key, and with it every volume of the node. */
const BY_ID = "node_volumes INDEXED BY node_volumes_by_id WHERE node_id = ? AND id = ?";

/**
 * Owns table `node_volumes`: the host volumes nodes report, one row each. A change costs the changed volumes,
 * independent of the node's total. Written by `NodeStore` in the caller's transaction; read by `NodeView`.
 */
export class NodeVolumes {
  constructor(private readonly sql: SqlStorage) {}

  /** Synchronizes the rows of a node with its record. */
  write(nodeId: string, volumes: Node["HostVolumes"]): void {
    const stale = new Map(this.#rows(nodeId).map(({ name, body }) => [name, body]));
    for (const [name, volume] of Object.entries(volumes ?? {})) {
      const body = JSON.stringify(volume);
      if (stale.get(name) !== body) this.#put(nodeId, name, volume.ID, body);
      stale.delete(name);
    }
    for (const name of stale.keys())
      this.sql.exec("DELETE FROM node_volumes WHERE node_id = ? AND name = ?", nodeId, name);
  }

  /** The part of a change that differs from the rows; null if none does. */
  difference(nodeId: string, { put, gone }: NodeVolumesChange): NodeVolumesChange | null {
    const difference = put.filter((volume) => this.#body(nodeId, volume.ID) !== JSON.stringify(volume));
    const left = gone.filter((id) => this.#body(nodeId, id) !== undefined);
    return difference.length + left.length === 0 ? null : { put: difference, gone: left };
  }

  change(nodeId: string, { put, gone }: NodeVolumesChange): void {
    // Deletions precede inserts, so that volumes can swap names.
    for (const id of [...gone, ...put.map(({ ID }) => ID)]) this.sql.exec(`DELETE FROM ${BY_ID}`, nodeId, id);
    for (const volume of put) this.#put(nodeId, volume.Name, volume.ID, JSON.stringify(volume));
  }

  remove(nodeId: string): void {
    this.sql.exec("DELETE FROM node_volumes WHERE node_id = ?", nodeId);
  }

  #rows(nodeId: string): NodeVolumeRow[] {
    return this.sql
      .exec<NodeVolumeRow>("SELECT name, id, body FROM node_volumes WHERE node_id = ? ORDER BY name", nodeId)
      .toArray();
  }

  #body(nodeId: string, id: string): string | undefined {
    return this.sql.exec<NodeVolumeRow>(`SELECT name, id, body FROM ${BY_ID}`, nodeId, id).toArray()[0]?.body;
  }

  #put(nodeId: string, name: string, id: string, body: string): void {
    this.sql.exec(
      `INSERT INTO node_volumes VALUES (?, ?, ?, ?)
       ON CONFLICT (node_id, name) DO UPDATE SET id = excluded.id, body = excluded.body`,
      nodeId,
      name,
      id,
      body,
    );
  }
}
