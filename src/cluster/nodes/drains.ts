import type { DrainNote, DrainSpec, DrainStrategy, LastDrain, Node } from "../../contracts/node.ts";
import type { Written } from "../../contracts/rows.ts";
import { parseLossless } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { type ChangeSet, NO_CHANGES, publishChanges } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import { runsAllocations } from "../reports/view.ts";
import { dueNode, type NodeStore, type StoredNode } from "./node-store.ts";
import { AFTER_DEFECT_MS, nodeEvent } from "./nodes.ts";

/** Drains handled per alarm; the next alarm follows at once. */
const DRAINS_PER_ALARM = 500;
/** Time for the request that started an empty drain to complete it, before the alarm does. */
const GRACE_MS = 2_000;
const NS_PER_MS = 1_000_000n;

/**
 * Drains of nodes. A draining node takes no new work. The drain completes when no counted allocation runs there, or
 * at its deadline. A drain reported by a scheduler is completed by that scheduler. Read by the node routes and the
 * alarm.
 *
 *   (none) --start--> draining --no allocation left, or deadline--> complete
 *                      |  ^---- start again: new strategy
 *                      +--stop--> canceled
 */
export class Drains implements Timed {
  readonly due = dueNode("drain_due");

  constructor(
    private readonly sql: SqlStorage,
    private readonly store: NodeStore,
    private readonly publisher: EventPublisher<IndexBackfill>,
  ) {}

  /**
   * Starts a drain or replaces the strategy of a running one. An empty drain is complete before this returns.
   * @returns the index of the start, so that clients waiting beyond it see the completion
   */
  async start(id: string, spec: DrainSpec, note: DrainNote): Promise<Result<Written>> {
    const known = this.store.find(id);
    if (!known) return refuse("missing", "node not found");
    const { node } = known;
    const now = Date.now();
    const time = new Date(now).toISOString();
    const strategy = strategyOf(spec, node.DrainStrategy, now);
    const draining: Node = {
      ...node,
      Drain: true,
      DrainStrategy: strategy,
      SchedulingEligibility: "ineligible",
      LastDrain: lastDrainOf(node.DrainStrategy ? node.LastDrain : null, "draining", note, time),
    };
    const message = node.DrainStrategy ? "Node drain strategy updated" : "Node drain strategy set";
    // Stored with a due time, so that the alarm completes an empty drain after a crash here.
    const isDone = isOver(strategy, now) || !runsAllocations(this.sql, id, spec.ignoreSystemJobs);
    const drainDue = isDone ? now + GRACE_MS : deadlineOf(strategy);
    const begun = await this.#change((line) =>
      this.store.write(line, known, draining, "NodeDrain", [nodeEvent(now, "Drain", message)], {
        drivesDrain: true,
        drainDue,
      }),
    );
    if (isDone) await this.#end(id, now);
    return begun;
  }

  /** Cancels a running drain. The node stays ineligible unless `markEligible` is set. */
  async stop(id: string, markEligible: boolean, note: DrainNote): Promise<Result<Written>> {
    const known = this.store.find(id);
    if (!known) return refuse("missing", "node not found");
    const { node } = known;
    const eligibility = markEligible ? "eligible" : node.SchedulingEligibility;
    if (!node.Drain && node.SchedulingEligibility === eligibility) {
      // Earlier changes may have been assigned their index meanwhile.
      await this.publisher.published();
      return ok({ index: this.store.find(id)?.modifyIndex ?? null });
    }
    const now = Date.now();
    const stopped: Node = {
      ...node,
      Drain: false,
      DrainStrategy: null,
      SchedulingEligibility: eligibility,
      LastDrain: node.Drain
        ? lastDrainOf(node.LastDrain, "canceled", note, new Date(now).toISOString())
        : node.LastDrain,
    };
    const event = nodeEvent(now, "Drain", "Node drain disabled");
    return this.#change((line) => this.store.write(line, known, stopped, "NodeDrain", [event]));
  }

  /**
   * Completes a drain whose last allocation has changed; inside the caller's transaction.
   * @returns the changes for the caller's line
   */
  allocationChanged(nodeId: string, line: number): ChangeSet {
    if (!this.store.isDraining(nodeId)) return NO_CHANGES;
    const known = this.store.find(nodeId);
    return known && this.#isComplete(known, Date.now()) ? this.#complete(known, line) : NO_CHANGES;
  }

  async onAlarm(now: number): Promise<void> {
    for (let count = 0; count < DRAINS_PER_ALARM; count++) {
      const id = this.store.due("drain_due", now);
      if (id === null) break;
      this.#completeSafely(id, now);
    }
    await this.publisher.published();
  }

  /** Isolates a defect of one node from the others. */
  #completeSafely(id: string, now: number): void {
    try {
      if (this.#completeIfDue(id, now) !== null) recordAction("drain-ended", { node: id });
    } catch (failure) {
      warn("drain-not-ended", { node: id, because: textOf(failure) });
      const place = this.store.place(id);
      if (place) this.publisher.commit(() => this.store.setDrainDue(place.row, now + AFTER_DEFECT_MS));
    }
  }

  /** Completes a due drain, unless an allocation has started meanwhile. */
  async #end(id: string, now: number): Promise<void> {
    if (this.#completeIfDue(id, now) !== null) await this.publisher.published();
  }

  /** @returns the event line of the drain's completion, or null while it continues */
  #completeIfDue(id: string, now: number): number | null {
    const known = this.store.find(id);
    const strategy = known?.node.DrainStrategy;
    if (!known?.drivesDrain || !strategy) return null;
    return this.publisher.commit(() => {
      if (this.#isComplete(known, now)) return publishChanges(this.publisher, (line) => this.#complete(known, line));
      // An allocation has started since the drain was found empty.
      this.store.setDrainDue(known.row, deadlineOf(strategy));
      return null;
    });
  }

  #isComplete({ node, drivesDrain }: StoredNode, now: number): boolean {
    const strategy = node.DrainStrategy;
    if (!drivesDrain || !strategy) return false;
    return isOver(strategy, now) || !runsAllocations(this.sql, node.ID, strategy.IgnoreSystemJobs);
  }

  #complete(known: StoredNode, line: number): ChangeSet {
    const { node } = known;
    const now = Date.now();
    const running = runsAllocations(this.sql, node.ID, node.DrainStrategy?.IgnoreSystemJobs ?? false);
    const note = { accessor: node.LastDrain?.AccessorID ?? "", meta: null };
    const done: Node = {
      ...node,
      Drain: false,
      DrainStrategy: null,
      LastDrain: lastDrainOf(node.LastDrain, "complete", note, new Date(now).toISOString()),
    };
    const event = nodeEvent(now, "Drain", "Node drain complete", running ? { deadline_reached: "true" } : null);
    return this.store.write(line, known, done, "NodeDrain", [event]);
  }

  /** Runs a change as one transaction and one event line. */
  async #change(change: (line: number) => ChangeSet): Promise<Result<Written>> {
    const line = this.publisher.commit(() => publishChanges(this.publisher, change));
    return ok({ index: await this.publisher.indexOf(line) });
  }
}

function strategyOf(spec: DrainSpec, current: DrainStrategy | null, now: number): DrainStrategy {
  const nanoseconds = BigInt(spec.deadline);
  return {
    Deadline: nanoseconds < 0 ? Number(nanoseconds) : (parseLossless(spec.deadline) as DrainStrategy["Deadline"]),
    IgnoreSystemJobs: spec.ignoreSystemJobs,
    ForceDeadline: nanoseconds > 0 ? new Date(now + Number(nanoseconds / NS_PER_MS)).toISOString() : null,
    StartedAt: current?.StartedAt ?? new Date(now).toISOString(),
  };
}

const deadlineOf = ({ ForceDeadline }: DrainStrategy): number | null =>
  ForceDeadline === null ? null : Date.parse(ForceDeadline);

/** Whether a drain completes regardless of running allocations. */
function isOver(strategy: DrainStrategy, now: number): boolean {
  const deadline = deadlineOf(strategy);
  return (typeof strategy.Deadline === "number" && strategy.Deadline < 0) || (deadline !== null && deadline <= now);
}

const lastDrainOf = (
  last: LastDrain | null,
  status: "draining" | "complete" | "canceled",
  { accessor, meta }: DrainNote,
  time: string,
): LastDrain => ({
  AccessorID: accessor,
  Meta: meta ?? last?.Meta ?? null,
  StartedAt: last?.StartedAt ?? time,
  Status: status,
  UpdatedAt: time,
});
