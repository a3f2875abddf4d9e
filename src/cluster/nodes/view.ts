import { hasPool } from "../reports/view.ts";

/** The node attribute with the boot id of its machine. */
export const BOOT = "unique.boot";

/** The properties of a node that constraints refer to. */
export interface NodeProperties {
  readonly id: string;
  readonly name: string;
  readonly datacenter: string;
  readonly nodeClass: string;
  readonly pool: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly meta: Readonly<Record<string, string>>;
}

/** A node as host volumes need it. */
export interface VolumeNode extends NodeProperties {
  readonly status: string;
  readonly eligible: boolean;
  /** An agent of this service runs on it; nodes reported by a scheduler take no operations. */
  readonly hasAgent: boolean;
  /** Whether a host volume is usable on it, according to its last report. */
  isUsable(volumeId: string): boolean;
  /** Whether any volume on it has this name. */
  hasName(name: string): boolean;
}

interface NodeRow extends Record<string, SqlStorageValue> {
  id: string;
  origin: string;
  pool: string;
  status: string;
  eligibility: string;
  properties: string;
}

type Properties = [
  name: string,
  datacenter: string,
  nodeClass: string,
  attributes: Record<string, string> | null,
  meta: Record<string, string> | null,
];

const COLUMNS = `id, origin, pool, status, eligibility,
  json_extract(body, '$.Name', '$.Datacenter', '$.NodeClass', '$.Attributes', '$.Meta') AS properties`;

/** Nodes that accept new volumes. */
const PLACEABLE = "status = 'ready' AND eligibility = 'eligible'";

/** The state of a node as claims of CSI volumes need it; `boot` is empty when unknown. */
export interface ClaimNode extends Record<string, SqlStorageValue> {
  origin: string;
  status: string;
  boot: string;
}

export function claimNode(sql: SqlStorage, id: string): ClaimNode | null {
  const [node] = sql
    .exec<ClaimNode>(
      `SELECT origin, status, ifnull(json_extract(body, '$.Attributes."${BOOT}"'), '') AS boot FROM nodes WHERE id = ?`,
      id,
    )
    .toArray();
  return node ?? null;
}

export const hasNode = (sql: SqlStorage, id: string): boolean =>
  sql.exec("SELECT 1 FROM nodes WHERE id = ?", id).toArray().length > 0;

/** Restricts rows with a `node_id` to those of nodes with an agent of this service, as a join. */
export const JOIN_AGENT_NODES = "CROSS JOIN nodes ON nodes.id = node_id AND origin = 'agent'";

/** Reads the tables `nodes` and `node_volumes` for host volumes: one node, or pages of nodes that accept volumes. */
export class NodeView {
  constructor(private readonly sql: SqlStorage) {}

  find(id: string): VolumeNode | null {
    const [row] = this.sql.exec<NodeRow>(`SELECT ${COLUMNS} FROM nodes WHERE id = ?`, id).toArray();
    return row ? this.#nodeOf(row) : null;
  }

  /** Ready nodes of a pool, or of all pools, in order of id; read lazily, since the first may suffice. */
  *placeable(pool: string, from: string, limit: number): Generator<VolumeNode> {
    const rows = this.sql.exec<NodeRow>(
      `SELECT ${COLUMNS} FROM nodes WHERE ${PLACEABLE} AND id >= ? ${inPool(pool)} ORDER BY id LIMIT ?`,
      from,
      ...(isAll(pool) ? [] : [pool]),
      limit,
    );
    for (const row of rows) yield this.#nodeOf(row);
  }

  /** The number of a pool's nodes that accept no volumes. A scan of the pool, used for refusals only. */
  awayCount(pool: string): number {
    return this.sql
      .exec<{ n: number }>(
        `SELECT count(*) AS n FROM nodes WHERE NOT (${PLACEABLE}) ${inPool(pool)}`,
        ...(isAll(pool) ? [] : [pool]),
      )
      .one().n;
  }

  poolExists(pool: string): boolean {
    if (isAll(pool) || pool === "default") return true;
    return (
      this.sql.exec("SELECT 1 FROM nodes WHERE pool = ? LIMIT 1", pool).toArray().length > 0 || hasPool(this.sql, pool)
    );
  }

  #nodeOf(row: NodeRow): VolumeNode {
    const [name, datacenter, nodeClass, attributes, meta] = JSON.parse(row.properties) as Properties;
    const shows = (column: "id" | "name", value: string) =>
      this.sql.exec(`SELECT 1 FROM node_volumes WHERE node_id = ? AND ${column} = ? LIMIT 1`, row.id, value).toArray()
        .length > 0;
    return {
      id: row.id,
      name,
      datacenter,
      nodeClass,
      pool: row.pool,
      status: row.status,
      attributes: attributes ?? {},
      meta: meta ?? {},
      eligible: row.eligibility === "eligible",
      hasAgent: row.origin === "agent",
      isUsable: (volumeId) => shows("id", volumeId),
      hasName: (taken) => shows("name", taken),
    };
  }
}

const isAll = (pool: string): boolean => pool === "" || pool === "all";
const inPool = (pool: string): string => (isAll(pool) ? "" : "AND pool = ?");

export const isInPool = (node: VolumeNode, pool: string): boolean => isAll(pool) || node.pool === pool;
