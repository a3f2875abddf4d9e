import type { Journal } from "../events/journal.ts";
import { parseLossless } from "../http/json.ts";
import { ok, type Result, refuse } from "../result.ts";
import type { DrainStrategy, LastDrain, Node } from "./node/record.ts";
import { NOTHING, type Told } from "./node/told.ts";
import { happened, type Written } from "./nodes.ts";
import type { NodeStore, StoredNode } from "./nodes-store.ts";
import type { Stamp } from "./stamp.ts";
import type { Timed } from "./timed.ts";

/** Drains that end in one alarm; the others follow at once. */
const DRAINS_PER_ALARM = 500;
const NS_PER_MS = 1_000_000n;

export interface DrainSpec {
  /** Nanoseconds, as decimal text: negative = at once, 0 = when the last allocation has ended, however long that takes. */
  readonly deadline: string;
  readonly ignoreSystemJobs: boolean;
}

/** Who drains, and what they note about it. */
export interface DrainNote {
  readonly accessor: string;
  /** null leaves what was noted before. */
  readonly meta: Readonly<Record<string, string>> | null;
}

/**
 * Drains: a node gets no new work, and is done when nothing that counts runs on it any more, or at its deadline. A drain that
 * a scheduler reports is that scheduler's to end.
 */
export class Drains implements Timed {
  readonly #sql: SqlStorage;
  readonly #store: NodeStore;
  readonly #journal: Journal<Stamp>;

  constructor(sql: SqlStorage, store: NodeStore, journal: Journal<Stamp>) {
    this.#sql = sql;
    this.#store = store;
    this.#journal = journal;
  }

  /** Begins a drain, or gives the one under way other terms. One that has nothing to wait for ends in a line of its own. */
  start(id: string, spec: DrainSpec, note: DrainNote): Promise<Result<Written>> {
    return this.#change(id, (known) => {
      const now = Date.now();
      const time = new Date(now).toISOString();
      const { node } = known;
      const begun = node.DrainStrategy?.StartedAt ?? time;
      const nanoseconds = BigInt(spec.deadline);
      const strategy: DrainStrategy = {
        Deadline: parseLossless(spec.deadline) as DrainStrategy["Deadline"],
        IgnoreSystemJobs: spec.ignoreSystemJobs,
        ForceDeadline: nanoseconds > 0 ? new Date(now + Number(nanoseconds / NS_PER_MS)).toISOString() : null,
        StartedAt: begun,
      };
      const draining: Node = {
        ...node,
        Drain: true,
        DrainStrategy: strategy,
        SchedulingEligibility: "ineligible",
        LastDrain: noted(node.DrainStrategy ? node.LastDrain : null, "draining", note, begun, time),
      };
      const message = node.DrainStrategy ? "Node drain strategy updated" : "Node drain strategy set";
      const event = happened(now, "Drain", message);
      return [
        this.#store.write(known, draining, "NodeDrain", [event], { drivesDrain: true }),
        ...this.#endIfDone(id, nanoseconds < 0),
      ];
    });
  }

  /** Ends a drain before it is done. The node stays ineligible unless told otherwise. */
  stop(id: string, markEligible: boolean, note: DrainNote): Promise<Result<Written>> {
    return this.#change(id, (known) => {
      const { node } = known;
      if (!node.Drain && (!markEligible || node.SchedulingEligibility === "eligible")) return [];
      const now = Date.now();
      const time = new Date(now).toISOString();
      const stopped: Node = {
        ...node,
        Drain: false,
        DrainStrategy: null,
        SchedulingEligibility: markEligible ? "eligible" : node.SchedulingEligibility,
        LastDrain: node.Drain ? noted(node.LastDrain, "canceled", note, time, time) : node.LastDrain,
      };
      return [this.#store.write(known, stopped, "NodeDrain", [happened(now, "Drain", "Node drain disabled")])];
    });
  }

  /** An allocation of a node has changed, in the caller's transaction: what that ends, to be told in the caller's line. */
  allocationChanged(nodeId: string): Told {
    return this.#store.isDraining(nodeId) ? (this.#endIfDone(nodeId, false)[0] ?? NOTHING) : NOTHING;
  }

  nextDue(): number | null {
    return this.#store.nextDue("drained_at");
  }

  async onAlarm(now: number): Promise<void> {
    for (let count = 0; count < DRAINS_PER_ALARM; count++) {
      const id = this.#store.due("drained_at", now);
      if (id === null) break;
      this.#journal.commit(() => this.#emit(this.#endIfDone(id, true)));
    }
    await this.#journal.published();
  }

  /** @param anyway the time is up */
  #endIfDone(id: string, anyway: boolean): Told[] {
    const known = this.#store.find(id);
    if (!known?.node.DrainStrategy) return [];
    const { node } = known;
    const running = this.#isBusy(id, known.node.DrainStrategy.IgnoreSystemJobs);
    if (running && !anyway) return [];
    const now = Date.now();
    const time = new Date(now).toISOString();
    const done: Node = {
      ...node,
      Drain: false,
      DrainStrategy: null,
      LastDrain: noted(
        node.LastDrain,
        "complete",
        { accessor: node.LastDrain?.AccessorID ?? "", meta: null },
        time,
        time,
      ),
    };
    const details = running ? { deadline_reached: "true" } : null;
    return [this.#store.write(known, done, "NodeDrain", [happened(now, "Drain", "Node drain complete", details)])];
  }

  /** Whether something runs on a node that its drain waits for. */
  #isBusy(nodeId: string, ignoreSystemJobs: boolean): boolean {
    const rows = ignoreSystemJobs
      ? this.#sql.exec(
          `SELECT 1 FROM reported AS running LEFT JOIN reported AS job
             ON job.topic = 'Job' AND job.namespace = running.namespace AND job.id = running.job_id
           WHERE running.topic = 'Allocation' AND running.terminal = 0 AND running.node_id = ?
             AND ifnull(json_extract(job.body, '$.Type'), '') NOT IN ('system', 'sysbatch') LIMIT 1`,
          nodeId,
        )
      : this.#sql.exec(
          "SELECT 1 FROM reported WHERE topic = 'Allocation' AND terminal = 0 AND node_id = ? LIMIT 1",
          nodeId,
        );
    return rows.toArray().length > 0;
  }

  /** One transaction; a line for each step. */
  async #change(id: string, change: (known: StoredNode) => Told[]): Promise<Result<Written>> {
    const known = this.#store.find(id);
    if (!known) return refuse("missing", "node not found");
    const line = this.#journal.commit(() => this.#emit(change(known)));
    return ok({ index: line === null ? known.modifyIndex : await this.#journal.indexOf(line) });
  }

  #emit(steps: readonly Told[]): number | null {
    return steps.map(({ events, stamps }) => this.#journal.emitLine(events, stamps)).at(-1) ?? null;
  }
}

const noted = (
  last: LastDrain | null,
  status: "draining" | "complete" | "canceled",
  { accessor, meta }: DrainNote,
  startedAt: string,
  updatedAt: string,
): LastDrain => ({
  AccessorID: accessor,
  Meta: meta ?? last?.Meta ?? null,
  StartedAt: last?.StartedAt ?? startedAt,
  Status: status,
  UpdatedAt: updatedAt,
});
