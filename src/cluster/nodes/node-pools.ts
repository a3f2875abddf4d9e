import type { NewEvent } from "../../contracts/event.ts";
import type { NodePoolFields, NodePoolPage, NodePoolQuery } from "../../contracts/node.ts";
import type { ObjectReport } from "../../contracts/reports.ts";
import type { Written } from "../../contracts/rows.ts";
import { equalJson, parseLossless } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import { type ChangeSet, NO_CHANGES } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import { removalReport } from "../reports/object-report.ts";
import type { Reported } from "../reports/reported.ts";
import { type PoolRow, poolHasJobs, poolRows } from "../reports/view.ts";

/** Built-in pools. Every node is in `all`; no node registers there. */
const BUILT_IN: ReadonlyMap<string, string> = new Map([
  ["all", "Every node of the cluster"],
  ["default", "Nodes that name no other pool"],
]);

export interface NodePool extends NodePoolFields {
  /** Base64. */
  readonly Hash: string;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
}

/**
 * Node pools: built in, written by callers, reported by schedulers, or created by the first node that names them. Pools
 * are rows of `reported`; read by the node pool routes.
 */
export class NodePools {
  constructor(
    private readonly sql: SqlStorage,
    private readonly reported: Reported,
    private readonly publisher: EventPublisher<IndexBackfill>,
  ) {}

  /** A pool as JSON text, or null. */
  read(name: string): string | null {
    const row = poolRows(this.sql, name, 1).find(({ id }) => id === name);
    return row ? textOf(row) : BUILT_IN.has(name) ? builtIn(name) : null;
  }

  page({ from, limit, prefix = "" }: NodePoolQuery): NodePoolPage {
    const first = from > prefix ? from : prefix;
    const stored = poolRows(this.sql, first, limit + 1);
    const last = stored.length > limit ? stored.at(-1)?.id : undefined;
    const pools = new Map(stored.map((row) => [row.id, textOf(row)]));
    for (const name of BUILT_IN.keys()) {
      // A name beyond the last row belongs to a later page.
      if (!pools.has(name) && name >= first && (last === undefined || name < last)) pools.set(name, builtIn(name));
    }
    const found = [...pools].filter(([name]) => name.startsWith(prefix)).sort(([a], [b]) => asStored(a, b));
    return { rows: found.slice(0, limit).map(([, text]) => text), next: found[limit]?.[0] ?? null };
  }

  /** Creates a pool if it does not exist; inside the caller's transaction. */
  ensure(name: string): ChangeSet {
    if (this.read(name) !== null) return NO_CHANGES;
    return this.#applied(upserted(recordOf(name)));
  }

  /** Creates or changes a pool. An unchanged pool emits no event. */
  async put(pool: NodePoolFields): Promise<Result<Written>> {
    if (BUILT_IN.has(pool.Name)) return refuse("invalid", `modifying node pool "${pool.Name}" is not allowed`);
    const record: PoolRecord = { ...recordOf(pool.Name), ...pool };
    const known = poolRows(this.sql, pool.Name, 1).find(({ id }) => id === pool.Name);
    if (known && equalJson({ ...recordOf(pool.Name), ...(parseLossless(known.body) as object) }, record)) {
      await this.publisher.published();
      return ok({ index: poolRows(this.sql, pool.Name, 1)[0]?.modify_index ?? null });
    }
    return this.#change(() => this.#applied(upserted(record)));
  }

  /** Deletes a pool without nodes and without jobs that still run. Costs a walk over all jobs. */
  async delete(name: string): Promise<Result<Written>> {
    if (BUILT_IN.has(name)) return refuse("invalid", `deleting node pool "${name}" is not allowed`);
    const known = poolRows(this.sql, name, 1).find(({ id }) => id === name);
    if (!known) return refuse("missing", "node pool not found");
    if (this.sql.exec("SELECT 1 FROM nodes WHERE pool = ? LIMIT 1", name).toArray().length > 0)
      return refuse("conflict", `node pool "${name}" has nodes`);
    if (poolHasJobs(this.sql, name)) return refuse("conflict", `node pool "${name}" has non-terminal jobs`);
    return this.#change(() => this.#applied(removalReport("NodePool", "", known.body)));
  }

  #applied(report: ObjectReport): ChangeSet {
    const event: NewEvent = this.reported.apply(report);
    return { events: [event], backfills: [{ table: "NodePool", row: ["", report.id] }] };
  }

  /** Runs a change as one transaction and one event line. */
  async #change(change: () => ChangeSet): Promise<Result<Written>> {
    const line = this.publisher.commit(() => {
      const { events, backfills } = change();
      return this.publisher.emitLine(events, backfills);
    });
    return ok({ index: await this.publisher.indexOf(line) });
  }
}

/** Byte order, as SQLite sorts; a different order would lose or repeat pools at page boundaries. */
const asStored = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

type PoolRecord = Omit<NodePool, "CreateIndex" | "ModifyIndex">;

const upserted = (record: PoolRecord): ObjectReport => ({
  topic: "NodePool",
  type: "NodePoolUpserted",
  namespace: "",
  id: record.Name,
  filterKeys: null,
  jobId: null,
  nodeId: null,
  terminal: false,
  deleted: false,
  body: JSON.stringify(record),
  extra: "",
});

const recordOf = (name: string): PoolRecord => ({
  Name: name,
  Description: BUILT_IN.get(name) ?? "",
  Hash: "",
  Meta: null,
  NodeIdentityTTL: 0,
  SchedulerConfiguration: null,
});

const builtIn = (name: string): string => JSON.stringify({ ...recordOf(name), CreateIndex: 1, ModifyIndex: 1 });

const textOf = ({ id, body, create_index, modify_index }: PoolRow): string =>
  JSON.stringify({
    ...recordOf(id),
    ...(parseLossless(body) as object),
    CreateIndex: create_index ?? 0,
    ModifyIndex: modify_index ?? 0,
  });
