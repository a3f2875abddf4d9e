import {
  KEPT_EVENTS,
  type Node,
  type NodeEvent,
  type NodeEventType,
  type NodePage,
  type NodeQuery,
  type NodeStatus,
  type NodeText,
  type NodeVolumesChange,
} from "../../contracts/node.ts";
import { parseLossless } from "../../lib/json.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { SharedRead } from "../../platform/durable/blocking/shared-read.ts";
import { type ChangeSet, mergeChangeSets, NO_CHANGES, type NodeFollower } from "../../publishing/change-set.ts";
import { NodeVolumes, VOLUMES_TEXT } from "./node-volumes.ts";

/** The reporter of a node: its own agent, or a scheduler. Only that reporter may change it. */
type Origin = "agent" | "report";

/** The row of a node. */
export interface NodePlace {
  readonly id: string;
  readonly row: number;
  readonly status: NodeStatus;
  /** The number of the last processed message of its session. */
  readonly heard: number;
}

/** A stored node. */
export interface StoredNode extends NodePlace {
  readonly origin: Origin;
  readonly node: Node;
  /** When it is marked down unless it reconnects (ms). */
  readonly downAt: number | null;
  /** Whether its drain is completed by this service; a reported drain is completed by its scheduler. */
  readonly drivesDrain: boolean;
  /** When that drain is due (ms). */
  readonly drainDue: number | null;
  /** The number of its first event line. */
  readonly createLine: number;
  /** Null until that line's index is assigned. */
  readonly createIndex: number | null;
  readonly modifyIndex: number | null;
}

/** Columns written beside the record; omitted ones are unchanged. */
interface Write {
  readonly origin?: Origin;
  readonly heard?: number;
  readonly downAt?: number;
  readonly drivesDrain?: boolean;
  readonly drainDue?: number | null;
}

interface StoredNodeRow extends Record<string, SqlStorageValue> {
  row: number;
  id: string;
  origin: string;
  status: string;
  heard: number;
  draining: number;
  down_at: number | null;
  drain_due: number | null;
  body: string;
  events: string;
  create_line: number;
  create_index: number | null;
  modify_index: number | null;
  /** The reported volumes as JSON text. */
  volumes: string | null;
}

const MAX_PAGE_BYTES = 4 * 1024 * 1024;

type Deadline = "down_at" | "drain_due";

/** Query for the next due time: see `Timed`. */
export const dueNode = (deadline: Deadline): string =>
  `SELECT min(${deadline}) FROM nodes WHERE ${deadline} IS NOT NULL`;

/**
 * Owns table `nodes` and emits the events of node changes. Single writer: the cluster registry. Read by the node
 * routes; a page costs one index walk of at most 4 MiB.
 */
export class NodeStore implements IndexedRows {
  readonly #volumes: NodeVolumes;
  readonly #pages: SharedRead<NodePage>;

  /** @param followers components that change in the transaction of a node's change */
  constructor(
    private readonly sql: SqlStorage,
    private readonly followers: readonly NodeFollower[],
  ) {
    this.#volumes = new NodeVolumes(sql);
    this.#pages = new SharedRead(sql);
  }

  find(id: string): StoredNode | null {
    const row = this.#row(id);
    if (!row) return null;
    return {
      ...placeOf(row),
      origin: row.origin as Origin,
      node: {
        ...(parseLossless(row.body) as Omit<Node, "Events" | "HostVolumes">),
        HostVolumes: row.volumes === null ? null : (parseLossless(row.volumes) as Node["HostVolumes"]),
        Events: JSON.parse(row.events) as NodeEvent[],
      },
      downAt: row.down_at,
      drivesDrain: row.draining === 1,
      drainDue: row.drain_due,
      createLine: row.create_line,
      createIndex: row.create_index,
      modifyIndex: row.modify_index,
    };
  }

  /** Costs one row, independent of the node's volumes. */
  place(id: string): NodePlace | null {
    const [row] = this.sql.exec<StoredNodeRow>("SELECT row, id, status, heard FROM nodes WHERE id = ?", id).toArray();
    return row ? placeOf(row) : null;
  }

  /** The index of a node's last change: 0 until one is assigned, null without the node. */
  indexOf(id: string): number | null {
    const [row] = this.sql
      .exec<{ idx: number }>("SELECT ifnull(ifnull(modify_index, create_index), 0) AS idx FROM nodes WHERE id = ?", id)
      .toArray();
    return row?.idx ?? null;
  }

  read(id: string): NodeText | null {
    const row = this.#row(id);
    return row ? textOf(row) : null;
  }

  /** One page by id; shorter than `limit` when its rows are large. */
  page(query: NodeQuery): NodePage {
    return this.#pages.of(query, () => this.#page(query));
  }

  #page({ from, limit, reverse = false, range, pool }: NodeQuery): NodePage {
    const [low, high] = range ?? ["", LAST];
    const first = reverse || from < low ? low : from;
    // At most one bound per side: with two, SQLite may start the walk at either.
    const [upTo, end] = reverse && from !== "" && from < high ? ["<=", from] : ["<", high];
    const cursor = this.sql.exec<StoredNodeRow>(
      `SELECT *, ${VOLUMES_TEXT} FROM nodes WHERE id >= ? AND id ${upTo} ?
       ${pool === undefined ? "" : "AND pool = ?"}
       ORDER BY id ${reverse ? "DESC" : "ASC"} LIMIT ?`,
      first,
      end,
      ...(pool === undefined ? [] : [pool]),
      limit + 1,
    );
    const rows: NodeText[] = [];
    let bytes = 0;
    for (const row of cursor) {
      const size = row.body.length + (row.volumes?.length ?? 0);
      if (rows.length === limit || (rows.length > 0 && bytes + size > MAX_PAGE_BYTES)) {
        return { rows, next: row.id };
      }
      bytes += size;
      rows.push(textOf(row));
    }
    return { rows, next: null };
  }

  /** Records the number of a processed message that changed nothing. */
  recordHeard(row: number, heard: number): void {
    this.sql.exec("UPDATE nodes SET heard = ? WHERE row = ?", heard, row);
  }

  /** Whether this service drains the node. */
  isDraining(id: string): boolean {
    return this.sql.exec("SELECT 1 FROM nodes WHERE id = ? AND draining = 1", id).toArray().length > 0;
  }

  setDrainDue(row: number, due: number | null): void {
    this.sql.exec("UPDATE nodes SET drain_due = ? WHERE row = ?", due, row);
  }

  /** Sets when a disconnected node is marked down. */
  setDownAt(row: number, at: number): void {
    this.sql.exec("UPDATE nodes SET down_at = ? WHERE row = ?", at, row);
  }

  /** The id of a node whose deadline has passed. */
  due(deadline: Deadline, now: number): string | null {
    const [row] = this.sql
      .exec<{ id: string }>(`SELECT id FROM nodes WHERE ${deadline} <= ? ORDER BY ${deadline} LIMIT 1`, now)
      .toArray();
    return row?.id ?? null;
  }

  /**
   * Writes a node; inside the caller's transaction.
   * @param line the number of the event line
   * @param happened node events to append
   */
  write(
    line: number,
    known: StoredNode | null,
    node: Node,
    type: NodeEventType,
    happened: readonly Omit<NodeEvent, "CreateIndex">[],
    given: Write = {},
  ): ChangeSet {
    const added = happened.map((each) => ({ ...each, CreateIndex: -line }));
    const events = [...node.Events, ...added].slice(-KEPT_EVENTS);
    const row = this.#put(line, known, { ...node, Events: events }, given);
    return mergeChangeSets([
      changeOf(line, row, { ...node, Events: events }, known, type),
      ...this.followers.map((follower) => follower.nodeChanged(node.ID, known?.node ?? null, node, type)),
    ]);
  }

  /**
   * Writes a node of which only figures changed; inside the caller's transaction. Its index is unchanged.
   * @returns the changes of components that follow the node
   */
  writeFigures(known: StoredNode, node: Node, heard = known.heard): ChangeSet {
    this.#put(known.createLine, known, { ...node, HostVolumes: known.node.HostVolumes }, { heard });
    return mergeChangeSets(
      this.followers.map((follower) => follower.nodeChanged(node.ID, known.node, node, "NodeRegistration")),
    );
  }

  /** @param line the number of the event line that creates the node @returns its row */
  #put(
    line: number,
    known: StoredNode | null,
    node: Node,
    { origin = known?.origin ?? "report", heard = known?.heard ?? 0, ...given }: Write,
  ): number {
    const { Events, HostVolumes, ...rest } = node;
    const record = HostVolumes === null ? { ...rest, HostVolumes } : rest;
    const downAt = node.Status === "disconnected" ? (given.downAt ?? known?.downAt ?? null) : null;
    const draining = node.DrainStrategy !== null && (given.drivesDrain ?? known?.drivesDrain ?? false);
    const { drainDue = known?.drainDue ?? null } = given;
    const { row } = this.sql
      .exec<{ row: number }>(
        `INSERT INTO nodes (id, origin, pool, status, eligibility, draining, heard, down_at, drain_due, body, events, create_line)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET origin = excluded.origin, pool = excluded.pool, status = excluded.status,
           eligibility = excluded.eligibility, draining = excluded.draining, heard = excluded.heard,
           down_at = excluded.down_at, drain_due = excluded.drain_due, body = excluded.body, events = excluded.events
         RETURNING row`,
        node.ID,
        origin,
        node.NodePool,
        node.Status,
        node.SchedulingEligibility,
        draining ? 1 : 0,
        heard,
        downAt,
        draining ? drainDue : null,
        JSON.stringify(record),
        JSON.stringify(Events),
        line,
      )
      .one();
    if (HostVolumes !== known?.node.HostVolumes) this.#volumes.write(node.ID, HostVolumes);
    return row;
  }

  /**
   * Applies a change of a node's reported volumes; inside the caller's transaction. The node's index advances, but
   * the event contains the volumes only, so its size is independent of the node.
   * @param change the result of `volumesDiffering`
   */
  changeVolumes(line: number, { id, row }: NodePlace, change: NodeVolumesChange): ChangeSet {
    this.#volumes.change(id, change);
    const ids = [...change.gone, ...change.put.map(({ ID }) => ID)];
    return mergeChangeSets([
      { events: [], backfills: [{ table: "Node", row: [String(row), String(line)] }] },
      ...this.followers.map((follower) => follower.volumesChanged?.(id, ids, "NodeRegistration") ?? NO_CHANGES),
    ]);
  }

  /** The part of a change that differs from the reported volumes; null if none does. */
  volumesDiffering(id: string, change: NodeVolumesChange): NodeVolumesChange | null {
    return this.#volumes.difference(id, change);
  }

  /** Deletes a node; inside the caller's transaction. @param last its last record */
  remove(line: number, known: StoredNode | null, last: Node, type: NodeEventType): ChangeSet {
    this.sql.exec("DELETE FROM nodes WHERE id = ?", last.ID);
    this.#volumes.remove(last.ID);
    return mergeChangeSets([
      changeOf(line, known?.row ?? 0, last, known, type),
      ...this.followers.map((follower) => follower.nodeChanged(last.ID, known?.node ?? last, null, type)),
    ]);
  }

  /** Sets the index of a node, and of the node events of that line. */
  setIndex({ row: [row = "", line = ""] }: IndexBackfill, index: number): void {
    const [held] = this.sql.exec<{ events: string }>("SELECT events FROM nodes WHERE row = ?", Number(row)).toArray();
    if (!held) return;
    const events = (JSON.parse(held.events) as NodeEvent[]).map((event) =>
      event.CreateIndex === -Number(line) ? { ...event, CreateIndex: index } : event,
    );
    this.sql.exec(
      "UPDATE nodes SET create_index = ifnull(create_index, ?1), modify_index = ?1, events = ?2 WHERE row = ?3",
      index,
      JSON.stringify(events),
      Number(row),
    );
  }

  #row(id: string): StoredNodeRow | undefined {
    return this.sql.exec<StoredNodeRow>(`SELECT *, ${VOLUMES_TEXT} FROM nodes WHERE id = ?`, id).toArray()[0];
  }
}

const placeOf = ({ id, row, status, heard }: StoredNodeRow): NodePlace => ({
  id,
  row,
  status: status as NodeStatus,
  heard,
});

/** Sorts after every id. */
const LAST = "g";

function textOf({ id, body, volumes, events, create_index, modify_index }: StoredNodeRow): NodeText {
  const shown = (JSON.parse(events) as NodeEvent[]).map((event) =>
    event.CreateIndex < 0 ? { ...event, CreateIndex: 0 } : event,
  );
  const modifyIndex = modify_index ?? create_index ?? 0;
  const rest = `"Events":${JSON.stringify(shown)},"CreateIndex":${create_index ?? 0},"ModifyIndex":${modifyIndex}`;
  const hostVolumes = volumes === null ? "" : `"HostVolumes":${volumes},`;
  return { id, body: `${body.slice(0, -1)},${hostVolumes}${rest}}`, modifyIndex };
}

function changeOf(line: number, row: number, node: Node, known: StoredNode | null, type: NodeEventType): ChangeSet {
  const { text, lines } = payloadText(node, known, line);
  return {
    events: [
      {
        // Subscriptions to topic Node include drain events.
        Topic: type === "NodeDrain" ? "NodeDrain" : "Node",
        Type: type,
        Key: node.ID,
        Namespace: "",
        FilterKeys: null,
        Payload: text,
      },
    ],
    backfills: [{ table: "Node", row: [String(row), String(line)] }],
    origins: lines.flatMap((each, cut) => (each === line ? [] : [[0, cut, each] as const])),
  };
}

/** The payload's text, split where unassigned indexes belong. @returns also the line number of each split */
function payloadText(node: Node, known: StoredNode | null, line: number): { text: string[]; lines: number[] } {
  // A random mark cannot occur in reported text.
  const mark = crypto.randomUUID();
  const lines: number[] = [];
  const cut = (unknown: number) => {
    lines.push(unknown);
    return mark;
  };
  const Events = node.Events.map((event) =>
    event.CreateIndex < 0 ? { ...event, CreateIndex: cut(-event.CreateIndex) } : event,
  );
  const CreateIndex = known?.createIndex ?? cut(known?.createLine ?? line);
  const ModifyIndex = cut(line);
  const { Events: _events, ...record } = node;
  const text = JSON.stringify({ Node: { ...record, Events, CreateIndex, ModifyIndex } }).split(`"${mark}"`);
  return { text, lines };
}
