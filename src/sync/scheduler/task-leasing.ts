import { createHash } from "node:crypto";
import type { Setup, SyncTask } from "../../contracts/sync-tasks.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import type { WorkQueue } from "../../platform/durable/work-queue.ts";
import type { Associations, SetNaming } from "../associations/associations.ts";
import type { DestinationRecord, Found } from "../configuration/destination-record.ts";
import { objectTask, type RemoteObjects } from "../objects/remote-objects.ts";
import type { RuleStore } from "../rules/rule-store.ts";
import type { AssociationRow, RemoteObjectRow } from "../schema.ts";
import { batchOf, type Caller, type LeaseLimits } from "./lease-limits.ts";

/**
 * Leases the tasks of one destination in the order that `WorkQueue` decides (`platform/durable/work-queue.ts`), within
 * the destination's limits. Back-off is the work queue's, too. Owned by `SyncDestination`, called by `Poll`. A lease
 * costs one update per association and object. Methods that write are called inside the object's transaction.
 */
export class TaskLeasing {
  constructor(
    private readonly record: DestinationRecord,
    private readonly work: WorkQueue,
    private readonly associations: Associations,
    private readonly remoteObjects: RemoteObjects,
    private readonly limits: LeaseLimits,
    private readonly rules: Pick<RuleStore, "isResting" | "leavesObject">,
  ) {}

  /** When a task may be ready (ms since 1970), or null. */
  due(now: number, caller?: Caller): number | null {
    const found = this.record.find();
    return found && this.limits.due(found, now, caller);
  }

  /** Whether ready tasks wait for others, to be performed as one; a trial of an open breaker does not. */
  get collects(): boolean {
    const found = this.record.find();
    return found !== null && batchOf(found.type) !== undefined && !this.limits.isTrial();
  }

  /** The settings that tasks need, or null without a destination. @throws Sealed */
  setup(): Setup | null {
    const found = this.record.find();
    return found && this.record.setup(found);
  }

  /** Leases up to `slots` ready tasks. @throws Sealed */
  lease(slots: number, now: number, caller: Caller): SyncTask[] {
    const found = this.record.find();
    if (!found) return [];
    const place = this.record.place(found);
    const tagKeys = Object.keys(this.record.tags(found.row));
    // A slot holds a batch.
    const free = Math.min(slots * (batchOf(found.type)?.most ?? 1), this.limits.free(found, now, caller));
    return this.work
      .lease(free, now, { ...caller, trial: this.limits.isTrial() })
      .flatMap((lease) => this.#task(lease, found, tagKeys, place, now));
  }

  #task(lease: WorkLease, found: Found, tagKeys: readonly string[], place: string, now: number): SyncTask[] {
    const row = this.associations.find(lease.id);
    // Held associations have no work.
    if (!row || row.wish === "held") {
      this.work.forget(lease.id);
      return [];
    }
    if (this.rules.isResting(row)) {
      this.associations.rest(row, now);
      return [];
    }
    const rows = this.remoteObjects.of(row.id);
    this.remoteObjects.leased(rows, tagKeys, now, place);
    this.limits.leased(found, now);
    const task = taskOf(lease, { ...row, wish: row.wish }, this.associations.namingOf(row), rows, place);
    const byDefault = found.row.deletion_policy === "retain" ? "retain" : "delete";
    return [this.rules.leavesObject(row, byDefault) ? { ...task, staysWithoutSecret: true } : task];
  }
}

const taskOf = (
  lease: WorkLease,
  row: AssociationRow & { readonly wish: SyncTask["desired"] },
  { granularity, content }: SetNaming,
  rows: readonly RemoteObjectRow[],
  place: string,
): SyncTask => ({
  lease,
  desired: row.wish,
  mountUuid: row.mount_uuid,
  secretName: row.secret_name,
  granularity,
  ...(content && { content }),
  copies: rows.map((row) => objectTask(row, place)),
  idempotencyToken: createHash("sha256").update(`${row.seed} ${row.intent}`).digest("hex"),
  ...(row.trace !== null && { trace: row.trace }),
});
