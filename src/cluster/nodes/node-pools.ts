import { type ChangeSet, NO_CHANGES } from "../../contracts/change-set.ts";
import type { NewEvent } from "../../contracts/event.ts";
import type { NodePoolPage, NodePoolQuery } from "../../contracts/node.ts";
import { parseLossless } from "../../lib/json.ts";
import type { Reported } from "../reports/reported.ts";

/** Built-in pools. Every node is in `all`; no node registers there. */
const BUILT_IN: ReadonlyMap<string, string> = new Map([
  ["all", "Every node of the cluster"],
  ["default", "Nodes that name no other pool"],
]);

export interface NodePool {
  readonly Name: string;
  readonly Description: string;
  /** Base64. */
  readonly Hash: string;
  readonly Meta: Readonly<Record<string, string>> | null;
  /** Nanoseconds. */
  readonly NodeIdentityTTL: number;
  readonly SchedulerConfiguration: object | null;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
}

interface Row extends Record<string, SqlStorageValue> {
  id: string;
  body: string;
  create_index: number | null;
  modify_index: number | null;
}

/**
 * Node pools: built in, reported by schedulers, or created by the first node that names them. Pools are rows of
 * `reported`; read by the node pool routes.
 */
export class NodePools {
  readonly #sql: SqlStorage;
  readonly #reported: Reported;

  constructor(sql: SqlStorage, reported: Reported) {
    this.#sql = sql;
    this.#reported = reported;
  }

  /** A pool as JSON text, or null. */
  read(name: string): string | null {
    const row = this.#rows(name, 1).find(({ id }) => id === name);
    return row ? textOf(row) : BUILT_IN.has(name) ? builtIn(name) : null;
  }

  page({ from, limit, prefix = "" }: NodePoolQuery): NodePoolPage {
    const first = from > prefix ? from : prefix;
    const stored = this.#rows(first, limit + 1);
    const last = stored.length > limit ? stored.at(-1)?.id : undefined;
    const pools = new Map(stored.map((row) => [row.id, textOf(row)]));
    for (const name of BUILT_IN.keys()) {
      // A name beyond the last row belongs to a later page.
      if (!pools.has(name) && name >= first && (last === undefined || name < last)) pools.set(name, builtIn(name));
    }
    const names = [...pools.keys()].filter((name) => name.startsWith(prefix)).sort(asStored);
    const rows = names.slice(0, limit).map((name) => pools.get(name) ?? "");
    return { rows, next: names[limit] ?? null };
  }

  /** Creates a pool if it does not exist; inside the caller's transaction. */
  ensure(name: string): ChangeSet {
    if (this.read(name) !== null) return NO_CHANGES;
    const event: NewEvent = this.#reported.apply({
      ...{ topic: "NodePool", type: "NodePoolUpserted", namespace: "", id: name, filterKeys: null },
      ...{ jobId: null, nodeId: null, terminal: false, deleted: false },
      ...{ body: JSON.stringify(recordOf(name)), extra: "" },
    });
    return { events: [event], stamps: [{ table: "NodePool", row: ["", name] }] };
  }

  #rows(from: string, limit: number): Row[] {
    return this.#sql
      .exec<Row>(
        `SELECT id, body, create_index, modify_index FROM reported
         WHERE topic = 'NodePool' AND namespace = '' AND id >= ? ORDER BY id LIMIT ?`,
        from,
        limit,
      )
      .toArray();
  }
}

/** Byte order, as SQLite sorts; a different order would lose or repeat pools at page boundaries. */
const asStored = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

const recordOf = (name: string): Omit<NodePool, "CreateIndex" | "ModifyIndex"> => ({
  Name: name,
  Description: BUILT_IN.get(name) ?? "",
  Hash: "",
  Meta: null,
  NodeIdentityTTL: 0,
  SchedulerConfiguration: null,
});

const builtIn = (name: string): string => JSON.stringify({ ...recordOf(name), CreateIndex: 1, ModifyIndex: 1 });

const textOf = ({ id, body, create_index, modify_index }: Row): string =>
  JSON.stringify({
    ...recordOf(id),
    ...(parseLossless(body) as object),
    CreateIndex: create_index ?? 0,
    ModifyIndex: modify_index ?? 0,
  });
