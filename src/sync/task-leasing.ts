import { createHash } from "node:crypto";
import type { ObjectResult, ObjectTask, SyncResult, SyncTask } from "../contracts/sync-tasks.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { WorkQueue } from "../platform/durable/work-queue.ts";
import { type Associations, namedSecretOf } from "./associations.ts";
import type { Breaker } from "./breaker.ts";
import type { DestinationRecord, Found } from "./destination-record.ts";
import { type DesiredObject, desiredObjects } from "./external-name.ts";
import type { Neighbours } from "./neighbours.ts";
import type { TakenNames } from "./object-plan.ts";
import { Pacing } from "./pacing.ts";
import { PURGE_ATTEMPTS, type Purge } from "./purge.ts";
import { objectTask, type RemoteObjects, unclaimed } from "./remote-objects.ts";
import { isCall } from "./retry-policy.ts";
import type { AssociationRow, RemoteObjectRow } from "./schema.ts";
import type { StoredObjects } from "./stored-objects.ts";

interface Dependencies {
  readonly record: DestinationRecord;
  readonly work: WorkQueue;
  readonly remoteObjects: RemoteObjects;
  readonly associations: Associations;
  readonly storedObjects: StoredObjects;
  readonly purge: Purge;
  readonly breaker: Breaker;
  readonly neighbours: Neighbours;
}

/**
 * Leases the tasks of one destination in the order that `WorkQueue` decides (`platform/durable/work-queue.ts`), within
 * the destination's limits (concurrency, pace, breaker), and completes them. Back-off is the work queue's, too. Owned by
 * `SyncDestination`, called by `Poll`. A lease costs one update per association and object. Methods that write are
 * called inside the object's transaction.
 */
export class TaskLeasing {
  readonly #dependencies: Dependencies;
  readonly #pacing = new Pacing();

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** How many tasks may be leased now, by concurrency, pace and breaker. */
  #free(found: Found, now: number, only?: string): number {
    const { work, breaker } = this.#dependencies;
    const { pace } = found.type;
    const limit = breaker.limit(pace.atOnce, now);
    // A poll for one association serves as the breaker's trial.
    const slots = (only === undefined ? limit : Math.max(1, limit)) - work.leased(now);
    return Math.min(slots, this.#pacing.room(pace, now));
  }

  /** When a task may be ready (ms since 1970), or null. */
  due(found: Found, now: number): number | null {
    const ready = this.#dependencies.work.nextReady();
    if (ready === null) return null;
    const { breaker, work } = this.#dependencies;
    const { pace } = found.type;
    const at = Math.max(ready, breaker.view()?.openUntil ?? 0, this.#pacing.nextAt(pace, now));
    // With all slots taken, a completion frees one and polls again; the end of a lease covers a Worker that died.
    const taken = work.leased(now) >= breaker.limit(pace.atOnce, Math.max(now, at));
    return taken ? Math.max(at, work.firstLeaseEnd() ?? 0) : at;
  }

  /** Leases up to `slots` ready tasks. @param only the id of one association */
  lease(found: Found, slots: number, now: number, only?: string): SyncTask[] {
    const { work, associations, remoteObjects, record, breaker } = this.#dependencies;
    const place = this.#dependencies.neighbours.place(found);
    const tagKeys = Object.keys(record.tags(found.row));
    const trial = breaker.view() !== null;
    return work.lease(Math.min(slots, this.#free(found, now, only)), now, only, trial).flatMap((claim) => {
      const row = associations.find(claim.id);
      if (!row) {
        work.forget(claim.id);
        return [];
      }
      const rows = remoteObjects.of(row.id);
      remoteObjects.leased(rows, tagKeys, now, place);
      this.#pacing.spend(found.type.pace, 1, now);
      return [taskOf(claim, row, associations.namingOf(row).granularity, rows, place)];
    });
  }

  /**
   * Names of a leased association's recorded and desired objects that other destinations may own.
   * @param keys the secret's top-level keys; null: nothing is pushed
   */
  unclaimed(found: Found, { id }: WorkLease, keys: readonly string[] | null): string[] {
    const { associations, remoteObjects } = this.#dependencies;
    const row = associations.find(id);
    const wanted = row && keys ? this.#wanted(found, row, keys) : [];
    const place = this.#dependencies.neighbours.place(found);
    return unclaimed(remoteObjects.of(id), wanted, place);
  }

  /**
   * Plans the objects of a leased association again before the provider is called: the secret's keys differ from the
   * recorded objects, or another destination may own a name.
   * @param keys as in `unclaimed`; @param taken the names that other destinations own
   */
  plan(
    found: Found,
    claim: WorkLease,
    keys: readonly string[] | null,
    taken: TakenNames,
    now: number,
  ): ObjectTask[] | null {
    const { associations, remoteObjects, record, work } = this.#dependencies;
    const row = associations.find(claim.id);
    if (!row || !work.holds(claim, now)) return null;
    const place = this.#dependencies.neighbours.place(found);
    remoteObjects.claimNames(row.id, taken, place);
    if (keys) {
      const steps = remoteObjects.plan(row.id, this.#wanted(found, row, keys), taken);
      remoteObjects.apply(row.id, steps, now, place);
    }
    const planned = remoteObjects.of(row.id);
    if (keys) remoteObjects.leased(planned, Object.keys(record.tags(found.row)), now, place);
    return planned.map((copy) => objectTask(copy, place));
  }

  #wanted(found: Found, row: AssociationRow, keys: readonly string[]): DesiredObject[] {
    const { associations, record } = this.#dependencies;
    return desiredObjects(record.scope(found.row, associations.namingOf(row)), found.type, namedSecretOf(row), keys);
  }

  /** Completes tasks with their results. @returns the associations that were deleted */
  complete(results: readonly SyncResult[], now: number): AssociationRow[] {
    const { associations, breaker, purge, record } = this.#dependencies;
    const found = record.find();
    const attempts = purge.runs() ? PURGE_ATTEMPTS : undefined;
    return results.flatMap((result) => {
      const row = associations.find(result.claim.id);
      if (!row || !found) return [];
      const done = found.type.kind === "stored" ? this.#stored(result, found, now) : result;
      const settled = associations.complete(row, done, now, attempts);
      if (settled === "stale") return [];
      breaker.record(result, now);
      this.#pacing.spend(found.type.pace, result.copies.filter(isCall).length - 1, now);
      if (found.type.kind === "stored") this.#keep(done.copies, found, now);
      return settled === "gone" ? [row] : [];
    });
  }

  /** The result for a destination of kind `stored`, where the change is made now; none under a stale lease. */
  #stored(result: SyncResult, { row }: Found, now: number): SyncResult {
    const { work, storedObjects } = this.#dependencies;
    if (!work.holds(result.claim, now)) return { ...result, copies: [] };
    if (row.update_policy !== "if-not-exists") return result;
    const copies = result.copies.map(
      (copy): ObjectResult =>
        copy.value !== undefined && storedObjects.has(copy.name)
          ? { subKey: copy.subKey, name: copy.name, state: "left" }
          : copy,
    );
    return { ...result, copies };
  }

  #keep(results: readonly ObjectResult[], found: Found, now: number): void {
    const tags = this.#dependencies.record.tags(found.row);
    for (const { state, name, value } of results) {
      if (state === "absent") this.#dependencies.storedObjects.remove(name);
      else if (value !== undefined) this.#dependencies.storedObjects.put(name, value, tags, now);
    }
  }
}

const taskOf = (
  claim: WorkLease,
  row: AssociationRow,
  granularity: SyncTask["granularity"],
  rows: readonly RemoteObjectRow[],
  place: string,
): SyncTask => ({
  claim,
  wish: row.wish,
  mountUuid: row.mount_uuid,
  secretName: row.secret_name,
  granularity,
  copies: rows.map((row) => objectTask(row, place)),
  idempotencyToken: createHash("sha256").update(`${row.seed} ${row.intent}`).digest("hex"),
});
