import { isLiveIn } from "../../cluster/reports/view.ts";
import type { CsiClaim, FoundCsiVolume, Mode, Name } from "../../contracts/csi-volumes.ts";
import type { Refusal } from "../../lib/result.ts";
import type { RowOf } from "../../platform/durable/row-of.ts";
import type { Holders } from "./admission.ts";
import type { ClaimContext } from "./claim-state-machine.ts";

export type NewClaim = Pick<
  CsiClaim,
  "namespace" | "volumeId" | "allocId" | "nodeId" | "mode" | "accessMode" | "attachmentMode"
> & { readonly mount: ArrayBuffer | Uint8Array | null };

type Changes = Partial<
  Pick<
    CsiClaim,
    | ("externalNodeId" | "pluginId" | "accessMode" | "attachmentMode" | "volumeMode" | "state" | "operation")
    | ("attachAsked" | "publishAsked" | "owesExpansion" | "boot" | "attempts" | "refusal" | "due" | "path")
  > & { readonly publishContext: Uint8Array | null }
>;

const COLUMNS = `row, namespace, volume_id AS volumeId, alloc_id AS allocId, node_id AS nodeId,
  external_node_id AS externalNodeId, plugin_id AS pluginId, mode, access_mode AS accessMode,
  attachment_mode AS attachmentMode, volume_mode AS volumeMode, state, operation, attach_asked AS attachAsked,
  publish_asked AS publishAsked, owes_expansion AS owesExpansion, boot, attempts, refusal, due, mount,
  publish_context AS publishContext, path, created, updated`;

const MAX_USERS = 1_000;
const OF_VOLUME = "namespace = ? AND volume_id = ?";
const LIVE = isLiveIn("csi_claims");

/**
 * Owns table `csi_claims`. Read by the claim controller (due claims) and by volume reads (users and modes). Every
 * query uses an index; lists are bounded by 1,000 rows.
 */
export class CsiClaimStore {
  constructor(private readonly sql: SqlStorage) {}

  /** Records a claim unless it exists. @returns whether it is new */
  insert(claim: NewClaim, now: number): boolean {
    const { namespace, volumeId, allocId, nodeId, mode, accessMode, attachmentMode, mount } = claim;
    return (
      this.sql.exec(
        `INSERT INTO csi_claims (namespace, volume_id, alloc_id, node_id, mode, access_mode, attachment_mode, mount, state,
           due, created, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'pending', ?9, ?9, ?9)
         ON CONFLICT (namespace, volume_id, alloc_id) DO NOTHING`,
        namespace,
        volumeId,
        allocId,
        nodeId,
        mode,
        accessMode,
        attachmentMode,
        mount,
        now,
      ).rowsWritten > 0
    );
  }

  update({ row }: Pick<CsiClaim, "row">, changes: Changes): void {
    const columns: [string, SqlStorageValue | Uint8Array][] = Object.entries(changes).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      typeof value === "boolean"
        ? Number(value)
        : name === "refusal" && value
          ? JSON.stringify(value)
          : (value as null),
    ]);
    this.sql.exec(
      `UPDATE csi_claims SET ${columns.map(([column]) => `${column} = ?`).join(", ")}, updated = ? WHERE row = ?`,
      ...columns.map(([, value]) => value),
      Date.now(),
      row,
    );
  }

  remove({ row }: Pick<CsiClaim, "row">): void {
    this.sql.exec("DELETE FROM csi_claims WHERE row = ?", row);
  }

  /** Removes a volume's claims of terminal allocations. */
  removeEnded({ namespace, id }: Name): void {
    this.sql.exec(`DELETE FROM csi_claims WHERE ${OF_VOLUME} AND NOT ${LIVE}`, namespace, id);
  }

  find({ namespace, id }: Name, allocId: string): CsiClaim | null {
    return this.#one(`${OF_VOLUME} AND alloc_id = ?`, namespace, id, allocId);
  }

  /** The claim whose operation this is. */
  waitingFor(operation: string): CsiClaim | null {
    return this.#one("operation = ?", operation);
  }

  /** The claims of a volume from a row on, oldest first. */
  of({ namespace, id }: Name, from = 0, limit = 1_000): CsiClaim[] {
    return this.#rows(`${OF_VOLUME} AND row >= ? ORDER BY row LIMIT ?`, namespace, id, from, limit);
  }

  on({ namespace, id }: Name, nodeId: string): CsiClaim[] {
    return this.#rows(`${OF_VOLUME} AND node_id = ? ORDER BY row`, namespace, id, nodeId);
  }

  /** The claims of a volume whose allocations are not terminal. */
  live({ namespace, id }: Name): CsiClaim[] {
    return this.#rows(`${OF_VOLUME} AND ${LIVE} ORDER BY row LIMIT 1000`, namespace, id);
  }

  /** The users of a volume, pending and releasing claims included. */
  usersOf({ namespace, id }: Name): Pick<FoundCsiVolume, "users" | "modes"> {
    const rows = this.sql
      .exec<Pick<CsiClaim, "allocId" | "nodeId" | "mode" | "state" | "volumeMode" | "attachmentMode">>(
        `SELECT alloc_id AS allocId, node_id AS nodeId, mode, state, volume_mode AS volumeMode,
           attachment_mode AS attachmentMode FROM csi_claims WHERE ${OF_VOLUME} ORDER BY row LIMIT ?`,
        namespace,
        id,
        MAX_USERS,
      )
      .toArray();
    return {
      users: rows.map(({ allocId, nodeId, mode }) => ({ allocId, nodeId, readOnly: mode === "read" })),
      modes: modesOf(rows.find(({ state }) => state !== "pending")),
    };
  }

  /** Marks published claims for file system expansion after the volume was expanded. @returns whether there are any */
  oweExpansion({ namespace, id }: Name): boolean {
    return (
      this.sql.exec(
        `UPDATE csi_claims SET owes_expansion = 1, due = iif(operation IS NULL, ?, due)
         WHERE ${OF_VOLUME} AND publish_asked = 1 AND state IN ('attached', 'published')`,
        Date.now(),
        namespace,
        id,
      ).rowsWritten > 0
    );
  }

  owing({ namespace, id }: Name): CsiClaim[] {
    return this.#rows(`${OF_VOLUME} AND owes_expansion = 1 ORDER BY row LIMIT 1000`, namespace, id);
  }

  /** The access held on a volume, pending claims excluded. */
  holders({ namespace, id }: Name): Holders {
    const held = `${OF_VOLUME} AND state <> 'pending'`;
    const any = (mode: Mode) => this.#one(`${held} AND mode = ?`, namespace, id, mode) !== null;
    const first = this.#first({ namespace, id });
    return { reads: any("read"), writes: any("write"), nodeId: first?.nodeId ?? null, modes: modesOf(first) };
  }

  /** The modes of a volume; null without claims. */
  modes({ namespace, id }: Name): Holders["modes"] {
    return modesOf(this.#first({ namespace, id }));
  }

  #first({ namespace, id }: Name): CsiClaim | null {
    return this.#one(`${OF_VOLUME} AND state <> 'pending' ORDER BY row`, namespace, id);
  }

  /** The state of the other claims of the volume on the node. */
  others({ row, namespace, volumeId, nodeId }: CsiClaim): ClaimContext["others"] {
    const others = `${OF_VOLUME} AND node_id = ? AND row <> ?`;
    const any = (what: string) => this.#one(`${others} AND ${what}`, namespace, volumeId, nodeId, row) !== null;
    return {
      attached: any("attach_asked = 1"),
      busy: any("operation IS NOT NULL AND state IN ('taken', 'node-detached')"),
    };
  }

  /** The number of other volumes of a plugin that are claimed on a node. */
  othersOn(nodeId: string, pluginId: string, { namespace, id }: Name): number {
    return this.sql
      .exec<{ n: number }>(
        `SELECT count(DISTINCT json_array(namespace, volume_id)) AS n FROM csi_claims
         WHERE node_id = ? AND plugin_id = ? AND state <> 'pending' AND NOT (${OF_VOLUME})`,
        nodeId,
        pluginId,
        namespace,
        id,
      )
      .one().n;
  }

  /** Volumes with a due claim. */
  dueVolumes(now: number, limit: number): Name[] {
    return this.sql
      .exec<{ namespace: string; id: string }>(
        `SELECT DISTINCT namespace, volume_id AS id FROM (
           SELECT namespace, volume_id FROM csi_claims WHERE due <= ? ORDER BY due LIMIT ?)`,
        now,
        limit,
      )
      .toArray();
  }

  firstDue({ namespace, id }: Name, now: number): CsiClaim | null {
    return this.#one(`${OF_VOLUME} AND due <= ? ORDER BY due, row`, namespace, id, now);
  }

  postpone({ namespace, id }: Name, due: number): void {
    this.sql.exec(`UPDATE csi_claims SET due = ? WHERE ${OF_VOLUME} AND due < ?`, due, namespace, id, due);
  }

  /** Makes the claims of a changed allocation due. @returns whether it has claims */
  touchAllocation(namespace: string, allocId: string): boolean {
    return this.#touch("namespace = ? AND alloc_id = ?", namespace, allocId);
  }

  touchVolume({ namespace, id }: Name): boolean {
    return this.#touch(OF_VOLUME, namespace, id);
  }

  /** Makes the claims on a changed node due. */
  touchNode(nodeId: string): boolean {
    return this.#touch("node_id = ?", nodeId);
  }

  /** Makes refused claims of a plugin due: its capabilities may have changed. */
  touchRefused(pluginId: string): boolean {
    return this.#touch("plugin_id = ? AND refusal IS NOT NULL", pluginId);
  }

  /** Makes idle claims of the volume on a node due: another claim there has moved. */
  touchResting({ namespace, id }: Name, nodeId: string): void {
    this.#touch(`${OF_VOLUME} AND node_id = ? AND due IS NULL`, namespace, id, nodeId);
  }

  /** Makes pending claims due after a claim was removed: the volume or its node has capacity again. */
  touchPending({ namespace, volumeId, nodeId }: Pick<CsiClaim, "namespace" | "volumeId" | "nodeId">): void {
    this.#touch(`${OF_VOLUME} AND state = 'pending'`, namespace, volumeId);
    this.#touch("node_id = ? AND state = 'pending'", nodeId);
  }

  #touch(condition: string, ...values: SqlStorageValue[]): boolean {
    return (
      this.sql.exec(`UPDATE csi_claims SET due = ? WHERE ${condition} AND operation IS NULL`, Date.now(), ...values)
        .rowsWritten > 0
    );
  }

  #one(condition: string, ...values: SqlStorageValue[]): CsiClaim | null {
    return this.#rows(`${condition} LIMIT 1`, ...values)[0] ?? null;
  }

  #rows(condition: string, ...values: SqlStorageValue[]): CsiClaim[] {
    return this.sql
      .exec<RowOf<CsiClaim>>(`SELECT ${COLUMNS} FROM csi_claims WHERE ${condition}`, ...values)
      .toArray()
      .map(claimOf);
  }
}

const claimOf = (row: RowOf<CsiClaim>): CsiClaim => ({
  ...row,
  attachAsked: row.attachAsked === 1,
  publishAsked: row.publishAsked === 1,
  owesExpansion: row.owesExpansion === 1,
  refusal: row.refusal === null ? null : (JSON.parse(row.refusal) as Refusal),
});

const modesOf = (first: Pick<CsiClaim, "volumeMode" | "attachmentMode"> | undefined | null): Holders["modes"] =>
  first ? { AccessMode: first.volumeMode, AttachmentMode: first.attachmentMode } : null;
