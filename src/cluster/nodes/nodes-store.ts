import { NOTHING, type NodeFollower, type Told, together } from "../../contracts/change-set.ts";
import type { NodePage, NodeQuery, NodeText } from "../../contracts/node.ts";
import {
  KEPT_EVENTS,
  type Node,
  type NodeEvent,
  type NodeEventType,
  type NodeVolumesChange,
} from "../../contracts/node.ts";
import { parseLossless } from "../../lib/json.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { SharedRead } from "../../platform/durable/blocking/shared-read.ts";
import { NodeVolumes, VOLUMES_TEXT } from "./node-volumes.ts";

/** Who tells of a node: the agent that runs on it, or a scheduler that manages it. Only that one may. */
export type Origin = "agent" | "report";

/** Where a node is stored. */
export interface NodePlace {
  readonly id: string;
  readonly row: number;
  /** The number of the last message of its session that was heard. */
  readonly heard: number;
}

/** A node as it is stored. */
export interface StoredNode extends NodePlace {
  readonly origin: Origin;
  readonly node: Node;
  /** When it counts as down unless it comes back (ms). */
  readonly downAt: number | null;
  /** Whether its drain is ended here; one that was reported ends when that is reported. */
  readonly drivesDrain: boolean;
  /** When that drain is to be looked at (ms). */
  readonly drainDue: number | null;
  /** The number of its first line. */
  readonly createLine: number;
  /** null until that line's index is known. */
  readonly createIndex: number | null;
  readonly modifyIndex: number | null;
}

/** What is written of a node beside its record; what is missing stays. */
interface Write {
  readonly origin?: Origin;
  readonly heard?: number;
  readonly downAt?: number;
  readonly drivesDrain?: boolean;
  readonly drainDue?: number | null;
}

interface Row extends Record<string, SqlStorageValue> {
  row: number;
  id: string;
  origin: string;
  heard: number;
  draining: number;
  down_at: number | null;
  drain_due: number | null;
  body: string;
  events: string;
  create_line: number;
  create_index: number | null;
  modify_index: number | null;
  /** JSON text of the volumes it shows. */
  volumes: string | null;
}

const MAX_PAGE_BYTES = 4 * 1024 * 1024;

type Deadline = "down_at" | "drain_due";

/** When the next node is due: see `Timed`. */
export const dueNode = (deadline: Deadline): string =>
  `SELECT min(${deadline}) FROM nodes WHERE ${deadline} IS NOT NULL`;

/** The rows of the nodes, and the events that tell of their changes. */
export class NodeStore implements IndexedRows {
  readonly #sql: SqlStorage;
  readonly #volumes: NodeVolumes;
  readonly #pages: SharedRead<NodePage>;
  readonly #followers: () => readonly NodeFollower[];

  /** @param followers what changes together with nodes */
  constructor(sql: SqlStorage, followers: () => readonly NodeFollower[]) {
    this.#sql = sql;
    this.#volumes = new NodeVolumes(sql);
    this.#pages = new SharedRead(sql);
    this.#followers = followers;
  }

  find(id: string): StoredNode | null {
    const row = this.#row(id);
    if (!row) return null;
    return {
      id: row.id,
      row: row.row,
      origin: row.origin as Origin,
      node: {
        ...(parseLossless(row.body) as Omit<Node, "Events" | "HostVolumes">),
        HostVolumes: row.volumes === null ? null : (parseLossless(row.volumes) as Node["HostVolumes"]),
        Events: JSON.parse(row.events) as NodeEvent[],
      },
      heard: row.heard,
      downAt: row.down_at,
      drivesDrain: row.draining === 1,
      drainDue: row.drain_due,
      createLine: row.create_line,
      createIndex: row.create_index,
      modifyIndex: row.modify_index,
    };
  }

  place(id: string): NodePlace | null {
    const [row] = this.#sql.exec<Row>("SELECT row, id, heard FROM nodes WHERE id = ?", id).toArray();
    return row ? { id: row.id, row: row.row, heard: row.heard } : null;
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
    // One bound a side: of two on one side, the walk would begin at either.
    const [upTo, end] = reverse && from !== "" && from < high ? ["<=", from] : ["<", high];
    const cursor = this.#sql.exec<Row>(
      `SELECT *, ${VOLUMES_TEXT} FROM nodes WHERE id >= ? AND id ${upTo} ?
       ${pool === undefined ? "" : "AND pool = ?"}
       ORDER BY id ${reverse ? "DESC" : "ASC"} LIMIT ?`,
      ...[first, end, ...(pool === undefined ? [] : [pool]), limit + 1],
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

  /** Notes that a message of a node's session was heard, though it changed nothing. */
  hear(row: number, heard: number): void {
    this.#sql.exec("UPDATE nodes SET heard = ? WHERE row = ?", heard, row);
  }

  /** Whether a node is being drained from here. */
  isDraining(id: string): boolean {
    return this.#sql.exec("SELECT 1 FROM nodes WHERE id = ? AND draining = 1", id).toArray().length > 0;
  }

  setDrainDue(row: number, due: number | null): void {
    this.#sql.exec("UPDATE nodes SET drain_due = ? WHERE row = ?", due, row);
  }

  /** The id of a node that is due to count as down, or whose drain ends. */
  due(deadline: Deadline, now: number): string | null {
    const [row] = this.#sql
      .exec<{ id: string }>(`SELECT id FROM nodes WHERE ${deadline} <= ? ORDER BY ${deadline} LIMIT 1`, now)
      .toArray();
    return row?.id ?? null;
  }

  /**
   * Writes a node, inside the caller's transaction.
   * @param line the number of the line that tells of it
   * @param happened what is added to its events
   */
  write(
    line: number,
    known: StoredNode | null,
    node: Node,
    type: NodeEventType,
    happened: readonly Omit<NodeEvent, "CreateIndex">[],
    { origin = known?.origin ?? "report", heard = known?.heard ?? 0, ...given }: Write = {},
  ): Told {
    const added = happened.map((each) => ({ ...each, CreateIndex: -line }));
    const events = [...node.Events, ...added].slice(-KEPT_EVENTS);
    const { Events: _events, HostVolumes, ...rest } = node;
    const record = HostVolumes === null ? { ...rest, HostVolumes } : rest;
    const downAt = node.Status === "disconnected" ? (given.downAt ?? known?.downAt ?? null) : null;
    const draining = node.DrainStrategy !== null && (given.drivesDrain ?? known?.drivesDrain ?? false);
    const { drainDue = known?.drainDue ?? null } = given;
    const { row } = this.#sql
      .exec<{ row: number }>(
        `INSERT INTO nodes (id, origin, pool, status, eligibility, draining, heard, down_at, drain_due, body, events, create_line)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET origin = excluded.origin, pool = excluded.pool, status = excluded.status,
           eligibility = excluded.eligibility, draining = excluded.draining, heard = excluded.heard,
           down_at = excluded.down_at, drain_due = excluded.drain_due, body = excluded.body, events = excluded.events
         RETURNING row`,
        ...[node.ID, origin, node.NodePool, node.Status, node.SchedulingEligibility, draining ? 1 : 0, heard],
        ...[downAt, draining ? drainDue : null, JSON.stringify(record), JSON.stringify(events), line],
      )
      .one();
    if (HostVolumes !== known?.node.HostVolumes) this.#volumes.write(node.ID, HostVolumes);
    return together([
      told(line, row, { ...node, Events: events }, known, type),
      ...this.#followers().map((follower) => follower.nodeChanged(known?.node ?? null, node, type)),
    ]);
  }

  /**
   * Applies a change of the volumes that a node shows, inside the caller's transaction. The node's index moves; what is told
   * is the volumes alone, so that a line does not grow with the node.
   * @param change as `volumesDiffering` answers it
   */
  changeVolumes(line: number, { id, row }: NodePlace, change: NodeVolumesChange): Told {
    this.#volumes.change(id, change);
    const ids = [...change.gone, ...change.put.map(({ ID }) => ID)];
    return together([
      { events: [], stamps: [{ table: "Node", row: [String(row), String(line)] }] },
      ...this.#followers().map((follower) => follower.volumesChanged?.(id, ids, "NodeRegistration") ?? NOTHING),
    ]);
  }

  /** What of a change differs from what the node shows; null when nothing does. */
  volumesDiffering(id: string, change: NodeVolumesChange): NodeVolumesChange | null {
    return this.#volumes.difference(id, change);
  }

  /** Forgets a node, inside the caller's transaction. @param last how it was last */
  remove(line: number, known: StoredNode | null, last: Node, type: NodeEventType): Told {
    this.#sql.exec("DELETE FROM nodes WHERE id = ?", last.ID);
    this.#volumes.remove(last.ID);
    return together([
      told(line, known?.row ?? 0, last, known, type),
      ...this.#followers().map((follower) => follower.nodeChanged(known?.node ?? last, null, type)),
    ]);
  }

  /** Gives a node, and the events that came with the change, the index of the line that told of it. */
  setIndex({ row: [row = "", line = ""] }: IndexBackfill, index: number): void {
    const [held] = this.#sql.exec<{ events: string }>("SELECT events FROM nodes WHERE row = ?", Number(row)).toArray();
    if (!held) return;
    const events = (JSON.parse(held.events) as NodeEvent[]).map((event) =>
      event.CreateIndex === -Number(line) ? { ...event, CreateIndex: index } : event,
    );
    this.#sql.exec(
      "UPDATE nodes SET create_index = ifnull(create_index, ?1), modify_index = ?1, events = ?2 WHERE row = ?3",
      ...[index, JSON.stringify(events), Number(row)],
    );
  }

  #row(id: string): Row | undefined {
    return this.#sql.exec<Row>(`SELECT *, ${VOLUMES_TEXT} FROM nodes WHERE id = ?`, id).toArray()[0];
  }
}

/** Sorts behind every id. */
const LAST = "g";

function textOf({ id, body, volumes, events, create_index, modify_index }: Row): NodeText {
  const shown = (JSON.parse(events) as NodeEvent[]).map((event) =>
    event.CreateIndex < 0 ? { ...event, CreateIndex: 0 } : event,
  );
  const modifyIndex = modify_index ?? create_index ?? 0;
  const rest = `"Events":${JSON.stringify(shown)},"CreateIndex":${create_index ?? 0},"ModifyIndex":${modifyIndex}`;
  const hostVolumes = volumes === null ? "" : `"HostVolumes":${volumes},`;
  return { id, body: `${body.slice(0, -1)},${hostVolumes}${rest}}`, modifyIndex };
}

function told(line: number, row: number, node: Node, known: StoredNode | null, type: NodeEventType): Told {
  const { text, lines } = payloadText(node, known, line);
  return {
    events: [
      {
        // A subscription to Node gets these, too.
        Topic: type === "NodeDrain" ? "NodeDrain" : "Node",
        Type: type,
        Key: node.ID,
        Namespace: "",
        FilterKeys: null,
        Payload: text,
      },
    ],
    stamps: [{ table: "Node", row: [String(row), String(line)] }],
    origins: lines.flatMap((each, cut) => (each === line ? [] : [[0, cut, each] as const])),
  };
}

/**
 * The payload's text, cut where indexes belong that are not known yet.
 * @returns also the number of the line whose index belongs into each cut
 */
function payloadText(node: Node, known: StoredNode | null, line: number): { text: string[]; lines: number[] } {
  // What nobody can guess cannot stand in anybody's text.
  const mark = crypto.randomUUID();
  const lines: number[] = [];
  const cut = (unknown: number) => {
    lines.push(unknown);
    return mark;
  };
  // In the order of the text.
  const Events = node.Events.map((event) =>
    event.CreateIndex < 0 ? { ...event, CreateIndex: cut(-event.CreateIndex) } : event,
  );
  const CreateIndex = known?.createIndex ?? cut(known?.createLine ?? line);
  const ModifyIndex = cut(line);
  const { Events: _events, ...record } = node;
  const text = JSON.stringify({ Node: { ...record, Events, CreateIndex, ModifyIndex } }).split(`"${mark}"`);
  return { text, lines };
}
