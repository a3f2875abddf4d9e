import type {
  CsiPlugin,
  CsiVolume,
  CsiVolumePage,
  CsiVolumeQuery,
  FoundCsiVolume,
  Name,
} from "../../contracts/csi-volumes.ts";
import type { NewEvent } from "../../contracts/event.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { volumeAccount } from "../../publishing/event-accounts.ts";
import type { CsiClaimStore } from "./claim-store.ts";
import type { CsiPlugins } from "./plugins.ts";
import { csiVolumeJson, withoutFlags } from "./volume-views.ts";

/** The table's name in index backfills, equal to its event topic. */
export const CSI_VOLUME = "CSIVolume";

/** Event types. */
export const REGISTERED = "CSIVolumeRegistered";
export const DEREGISTERED = "CSIVolumeDeregistered";
export const CLAIMED = "CSIVolumeClaim";

interface CsiVolumeRow extends Record<string, SqlStorageValue> {
  namespace: string;
  id: string;
  plugin_id: string;
  body: string;
  create_index: number | null;
  modify_index: number | null;
}

const MAX_PAGE_BYTES = 4 * 1024 * 1024;
/** Upper bound of rows a page examines, independent of its page size. */
const MAX_ROWS_EXAMINED = 5_000;
const MAX_SHARING = 100;

/**
 * Owns tables `csi_volumes` and `csi_volume_secrets`. Read by the volume routes, claims and operations; a page costs
 * one index walk of at most 5,000 rows or 4 MiB.
 */
export class CsiVolumeStore implements IndexedRows {
  constructor(
    private readonly sql: SqlStorage,
    private readonly plugins: CsiPlugins,
    private readonly claims: CsiClaimStore,
  ) {}

  find({ namespace, id }: Name): CsiVolume | null {
    const [row] = this.sql
      .exec<CsiVolumeRow>("SELECT * FROM csi_volumes WHERE namespace = ? AND id = ?", namespace, id)
      .toArray();
    return row ? volumeOf(row) : null;
  }

  /** A volume with its plugin and users. */
  read(name: Name): FoundCsiVolume | null {
    const volume = this.find(name);
    return volume && this.shown(volume);
  }

  shown(volume: CsiVolume): FoundCsiVolume {
    return { volume, plugin: this.plugins.find(volume.pluginId), ...this.claims.usersOf(volume) };
  }

  /** Volumes with this id at the provider: several, if the volume is registered under several names. */
  withRemoteId(pluginId: string, remote: string): Name[] {
    const sql = `SELECT namespace, id FROM csi_volumes
      WHERE plugin_id = ? AND ifnull(nullif(json_extract(body, '$.externalId'), ''), id) = ? LIMIT ?`;
    return this.sql.exec<{ namespace: string; id: string }>(sql, pluginId, remote, MAX_SHARING).toArray();
  }

  hasPlugin(pluginId: string): boolean {
    return this.sql.exec("SELECT 1 FROM csi_volumes WHERE plugin_id = ? LIMIT 1", pluginId).toArray().length > 0;
  }

  /** One page by namespace and id; shorter than `limit` when few rows match or rows are large. */
  page(query: CsiVolumeQuery): CsiVolumePage {
    const { namespace, pluginId, from, limit, reverse } = query;
    const conditions: [sql: string, values: readonly SqlStorageValue[]][] = [];
    if (namespace !== null) conditions.push(["namespace = ?", [namespace]]);
    if (pluginId !== undefined) conditions.push(["plugin_id = ?", [pluginId]]);
    const order = reverse ? "<=" : ">=";
    // Within one namespace a bound on the pair would start the walk at the namespace's first row.
    if (from[0] !== "" && from[0] === namespace) conditions.push([`id ${order} ?`, [from[1]]]);
    else if (from[0] !== "") conditions.push([`(namespace, id) ${order} (?, ?)`, from]);
    const direction = reverse ? "DESC" : "ASC";
    const cursor = this.sql.exec<CsiVolumeRow>(
      `SELECT * FROM csi_volumes ${conditions.length === 0 ? "" : `WHERE ${conditions.map(([sql]) => sql).join(" AND ")}`}
       ORDER BY namespace ${direction}, id ${direction}`,
      ...conditions.flatMap(([, values]) => values),
    );
    const plugins = new Map<string, CsiPlugin | null>();
    const rows: FoundCsiVolume[] = [];
    let [bytes, seen] = [0, 0];
    for (const row of cursor) {
      const full = rows.length === limit || seen === MAX_ROWS_EXAMINED || bytes > MAX_PAGE_BYTES;
      if (full) return { rows, next: [row.namespace, row.id] };
      seen += 1;
      const { pluginPrefix = "", prefix = "", nodePrefix = "" } = query;
      if (!row.plugin_id.startsWith(pluginPrefix) || !row.id.startsWith(prefix)) continue;
      const { users, modes } = this.claims.usersOf(row);
      if (nodePrefix !== "" && !users.some(({ nodeId }) => nodeId.startsWith(nodePrefix))) continue;
      if (!plugins.has(row.plugin_id)) plugins.set(row.plugin_id, this.plugins.find(row.plugin_id));
      bytes += row.body.length;
      rows.push({ volume: volumeOf(row), plugin: plugins.get(row.plugin_id) ?? null, users, modes });
    }
    return { rows, next: null };
  }

  /** Writes a new or changed volume without its sealed part; see `CsiSecrets.keep`. */
  write(volume: CsiVolume): void {
    const { createIndex: _create, modifyIndex: _modify, ...rest } = volume;
    const body = { ...rest, mount: withoutFlags(volume.mount) };
    this.sql.exec(
      `INSERT INTO csi_volumes (namespace, id, plugin_id, body) VALUES (?, ?, ?, ?)
       ON CONFLICT (namespace, id) DO UPDATE SET body = excluded.body`,
      volume.namespace,
      volume.id,
      volume.pluginId,
      JSON.stringify(body),
    );
  }

  remove({ namespace, id }: Name): void {
    this.sql.exec("DELETE FROM csi_volumes WHERE namespace = ? AND id = ?", namespace, id);
    this.sql.exec("DELETE FROM csi_volume_secrets WHERE namespace = ? AND id = ?", namespace, id);
  }

  /** The sealed part of a volume, or null. */
  sealed({ namespace, id }: Name): ArrayBuffer | null {
    const [row] = this.sql
      .exec<{ sealed: ArrayBuffer }>(
        "SELECT sealed FROM csi_volume_secrets WHERE namespace = ? AND id = ?",
        namespace,
        id,
      )
      .toArray();
    return row?.sealed ?? null;
  }

  setSealed({ namespace, id }: Name, sealed: Uint8Array): void {
    this.sql.exec(
      "INSERT INTO csi_volume_secrets VALUES (?, ?, ?) ON CONFLICT (namespace, id) DO UPDATE SET sealed = excluded.sealed",
      namespace,
      id,
      sealed,
    );
  }

  setIndex({ row: [namespace = "", id = ""] }: IndexBackfill, index: number): void {
    this.sql.exec(
      `UPDATE csi_volumes SET create_index = ifnull(create_index, ?1), modify_index = ?1
       WHERE namespace = ?2 AND id = ?3`,
      index,
      namespace,
      id,
    );
  }
}

/** The event of a volume's change; its ModifyIndex is the line's index. */
export const csiVolumeEvent = (type: string, found: FoundCsiVolume): NewEvent => ({
  Topic: CSI_VOLUME,
  Type: type,
  Key: found.volume.id,
  Namespace: found.volume.namespace,
  Account: volumeAccount(found.volume.namespace),
  FilterKeys: [found.volume.id, found.volume.name, found.volume.pluginId],
  Payload: { Volume: { ...csiVolumeJson(found), ModifyIndex: null } },
});

export const csiVolumeBackfill = ({ namespace, id }: Name): IndexBackfill => ({
  table: CSI_VOLUME,
  row: [namespace, id],
});

const volumeOf = (row: CsiVolumeRow): CsiVolume => ({
  ...(JSON.parse(row.body) as Omit<CsiVolume, "createIndex" | "modifyIndex">),
  createIndex: row.create_index,
  modifyIndex: row.modify_index,
});
