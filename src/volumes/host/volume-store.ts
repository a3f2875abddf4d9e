import type { NewEvent } from "../../contracts/event.ts";
import type { State, StoredVolume, VolumePage, VolumeQuery, Wanted } from "../../contracts/host-volumes.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { SharedRead } from "../../platform/durable/blocking/shared-read.ts";
import { volumeAccount } from "../../publishing/event-accounts.ts";
import { hostVolumeJson } from "./volume-views.ts";

/** The table's name in index backfills, equal to its event topic. */
export const HOST_VOLUME = "HostVolume";

/** Event types. */
export const REGISTERED = "HostVolumeRegistered";
export const DELETED = "HostVolumeDeleted";

const COLUMNS = `id, namespace, name, node_id, node_pool, plugin_id, state, made, wanted, capacity_bytes, host_path,
  create_time, modify_time, create_index, modify_index`;
type Row = [
  ...[id: string, namespace: string, name: string, nodeId: string, nodePool: string, pluginId: string],
  ...[state: string, made: number, wanted: string, capacityBytes: number, hostPath: string],
  ...[createTime: number, modifyTime: number, createIndex: number | null, modifyIndex: number | null],
];

const MAX_PAGE_BYTES = 4 * 1024 * 1024;
/** Upper bound of rows a page examines, independent of its page size. */
const MAX_ROWS_EXAMINED = 5_000;
const MAX_WANTED_TEXTS = 100;

/**
 * Owns tables `host_volumes` and `host_volume_names`. Read by the volume routes, placement and claims; a page costs
 * one index walk of at most 5,000 rows or 4 MiB.
 */
export class HostVolumeStore implements IndexedRows {
  readonly #pages: SharedRead<VolumePage>;

  constructor(private readonly sql: SqlStorage) {
    this.#pages = new SharedRead(sql);
  }

  find(id: string): StoredVolume | null {
    const [row] = [...this.sql.exec(`SELECT ${COLUMNS} FROM host_volumes WHERE id = ?`, id).raw<Row>()];
    return row ? volumeOf(row) : null;
  }

  /** One page of created volumes by namespace and id; shorter than `limit` when few rows match or rows are large. */
  page(query: VolumeQuery): VolumePage {
    return this.#pages.of(query, () => this.#page(query));
  }

  #page(query: VolumeQuery): VolumePage {
    const { namespace, nodeId, pluginId, from, limit, reverse } = query;
    const conditions: [sql: string, values: readonly SqlStorageValue[]][] = [];
    if (namespace !== null) conditions.push(["namespace = ?", [namespace]]);
    if (nodeId !== undefined) conditions.push(["node_id = ?", [nodeId]]);
    if (pluginId !== undefined) conditions.push(["plugin_id = ?", [pluginId]]);
    const beyond = reverse ? "<=" : ">=";
    // Within one namespace the walk begins at the id; a bound on the pair would begin at the namespace's first row.
    if (from[0] === namespace) conditions.push([`id ${beyond} ?`, [from[1]]]);
    else if (from[0] !== "") conditions.push([`(namespace, id) ${beyond} (?, ?)`, from]);
    const direction = reverse ? "DESC" : "ASC";
    const cursor = this.sql.exec(
      `SELECT ${COLUMNS} FROM host_volumes ${conditions.length === 0 ? "" : `WHERE ${conditions.map(([sql]) => sql).join(" AND ")}`}
       ORDER BY namespace ${direction}, id ${direction}`,
      ...conditions.flatMap(([, values]) => values),
    );
    const rows: StoredVolume[] = [];
    const wanted = new WantedTexts();
    let [bytes, seen] = [0, 0];
    // As lists of values: objects with fifteen names each cost several times as much.
    for (const row of cursor.raw<Row>()) {
      const volume = volumeOf(row, wanted);
      const full = rows.length === limit || seen === MAX_ROWS_EXAMINED || bytes > MAX_PAGE_BYTES;
      if (full) return { rows, next: [volume.namespace, volume.id] };
      seen += 1;
      if (!volume.made || !isAskedFor(volume, query)) continue;
      bytes += row[8].length;
      rows.push(volume);
    }
    return { rows, next: null };
  }

  /** Every volume on a node, bounded by the volume limit per node. */
  on(nodeId: string): StoredVolume[] {
    const wanted = new WantedTexts();
    const rows = this.sql.exec(`SELECT ${COLUMNS} FROM host_volumes WHERE node_id = ? ORDER BY namespace, id`, nodeId);
    return Array.from(rows.raw<Row>(), (row) => volumeOf(row, wanted));
  }

  countOn(nodeId: string): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM host_volumes WHERE node_id = ?", nodeId).one().n;
  }

  hasPlugin(pluginId: string): boolean {
    return this.sql.exec("SELECT 1 FROM host_volumes WHERE plugin_id = ? LIMIT 1", pluginId).toArray().length > 0;
  }

  /** The volume that holds a name on a node, in any namespace. */
  holder(nodeId: string, name: string): string | null {
    const [row] = this.sql
      .exec<{ volume_id: string }>(
        "SELECT volume_id FROM host_volume_names WHERE node_id = ? AND name = ?",
        nodeId,
        name,
      )
      .toArray();
    return row?.volume_id ?? null;
  }

  /** Reserves a name for a volume that has it or is being renamed to it. */
  hold(nodeId: string, name: string, id: string): void {
    this.sql.exec("INSERT OR IGNORE INTO host_volume_names VALUES (?, ?, ?)", nodeId, name, id);
  }

  /** Releases the names of a volume, except one. @returns whether it had others */
  releaseNames(id: string, keep: string | null): boolean {
    const sql = "DELETE FROM host_volume_names WHERE volume_id = ? AND name IS NOT ?";
    return this.sql.exec(sql, id, keep).rowsWritten > 0;
  }

  /** Increments the volume's generation. @returns the new generation */
  nextGen(id: string): number {
    return this.sql.exec<{ gen: number }>("UPDATE host_volumes SET gen = gen + 1 WHERE id = ? RETURNING gen", id).one()
      .gen;
  }

  /** Raises the generation of every volume to this one, after a restore. */
  raiseGenerations(least: number): void {
    this.sql.exec("UPDATE host_volumes SET gen = ?1 WHERE gen < ?1", least);
  }

  insert(volume: Omit<StoredVolume, "createIndex" | "modifyIndex">): void {
    this.sql.exec(
      `INSERT INTO host_volumes (id, namespace, name, node_id, node_pool, plugin_id, state, made, gen, wanted, capacity_bytes,
         host_path, create_time, modify_time)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)`,
      volume.id,
      volume.namespace,
      volume.name,
      volume.nodeId,
      volume.nodePool,
      volume.pluginId,
      volume.state,
      volume.made ? 1 : 0,
      JSON.stringify(volume.wanted),
      volume.capacityBytes,
      volume.hostPath,
      volume.createTime,
      volume.modifyTime,
    );
  }

  /** Writes the mutable columns of a volume. */
  update(volume: StoredVolume): void {
    this.sql.exec(
      `UPDATE host_volumes SET name = ?, node_pool = ?, plugin_id = ?, state = ?, made = 1, wanted = ?, capacity_bytes = ?,
         host_path = ?, modify_time = ? WHERE id = ?`,
      volume.name,
      volume.nodePool,
      volume.pluginId,
      volume.state,
      JSON.stringify(volume.wanted),
      volume.capacityBytes,
      volume.hostPath,
      volume.modifyTime,
      volume.id,
    );
  }

  remove(id: string): void {
    this.sql.exec("DELETE FROM host_volumes WHERE id = ?", id);
    this.releaseNames(id, null);
  }

  /** Sets a volume's index to that of its event line. */
  setIndex({ row: [id = ""] }: IndexBackfill, index: number): void {
    this.sql.exec(
      "UPDATE host_volumes SET create_index = ifnull(create_index, ?), modify_index = ? WHERE id = ?",
      index,
      index,
      id,
    );
  }
}

/** Conditions without an index. */
function isAskedFor(
  volume: StoredVolume,
  { nodePrefix = "", pluginPrefix = "", nodePool, prefix = "" }: VolumeQuery,
): boolean {
  return (
    volume.nodeId.startsWith(nodePrefix) &&
    volume.pluginId.startsWith(pluginPrefix) &&
    (nodePool === undefined || volume.nodePool === nodePool) &&
    (volume.id.startsWith(prefix) || volume.name.startsWith(prefix))
  );
}

/** The event of a volume's change; its ModifyIndex is the line's index. */
export const hostVolumeEvent = (type: string, volume: StoredVolume): NewEvent => ({
  Topic: HOST_VOLUME,
  Type: type,
  Key: volume.id,
  Namespace: volume.namespace,
  Account: volumeAccount(volume.namespace),
  FilterKeys: [volume.id, volume.name, volume.pluginId],
  Payload: { Volume: { ...hostVolumeJson(volume), ModifyIndex: null } },
});

export const hostVolumeBackfill = ({ id }: Pick<StoredVolume, "id">): IndexBackfill => ({
  table: HOST_VOLUME,
  row: [id],
});

/** Parses each text once. Most volumes want the same, and an object that occurs again costs an RPC answer a few bytes. */
class WantedTexts {
  readonly #parsed = new Map<string, Wanted>();

  parse(text: string): Wanted {
    const known = this.#parsed.get(text);
    if (known) return known;
    const wanted = JSON.parse(text) as Wanted;
    if (this.#parsed.size < MAX_WANTED_TEXTS) this.#parsed.set(text, wanted);
    return wanted;
  }
}

function volumeOf(row: Row, wanted = new WantedTexts()): StoredVolume {
  const [id, namespace, name, nodeId, nodePool, pluginId, state, made] = row;
  return {
    id,
    namespace,
    name,
    nodeId,
    nodePool,
    pluginId,
    state: state as State,
    made: made === 1,
    wanted: wanted.parse(row[8]),
    capacityBytes: row[9],
    hostPath: row[10],
    createTime: row[11],
    modifyTime: row[12],
    createIndex: row[13],
    modifyIndex: row[14],
  };
}
