import type { ObjectResult, SyncResult } from "../../contracts/sync-tasks.ts";
import type { Associations } from "../associations/associations.ts";
import { PURGE_ATTEMPTS, type Purge } from "../associations/purge.ts";
import type { DestinationRecord, Found } from "../configuration/destination-record.ts";
import { freshUntil } from "../fresh-rights.ts";
import type { StoredObjects } from "../objects/stored-objects.ts";
import type { AssociationRow } from "../schema.ts";
import type { LeaseLimits } from "./lease-limits.ts";

/**
 * Completes the tasks of one destination with the results that a Worker reports. Owned by `SyncDestination`, called by
 * `Poll` inside the object's transaction. Costs one update per association and object.
 */
export class TaskCompletion {
  constructor(
    private readonly record: DestinationRecord,
    private readonly associations: Associations,
    private readonly storedObjects: StoredObjects,
    private readonly purge: Purge,
    private readonly limits: LeaseLimits,
  ) {}

  /** @returns the associations that were deleted */
  complete(results: readonly SyncResult[], now: number): AssociationRow[] {
    const found = this.record.find();
    const isPurge = this.purge.runs();
    const attempts = isPurge ? PURGE_ATTEMPTS : undefined;
    return results.flatMap((result) => {
      const row = this.associations.find(result.lease.id);
      if (!row) this.associations.completeReleased(result.lease, now);
      if (!row || !found) return [];
      const done = found.type.kind === "stored" ? this.#stored(result, found, now) : result;
      const isFresh = freshUntil(found.row) > now && !isPurge;
      const settled = this.associations.complete(row, done, now, { isFresh, attempts });
      if (settled === "stale") return [];
      this.limits.completed(found, result, now);
      if (found.type.kind === "stored") this.#keep(done.copies, found, now);
      return settled === "gone" ? [row] : [];
    });
  }

  /** The result for a destination of kind `stored`, where the change is made now; none under a stale lease. */
  #stored(result: SyncResult, { row }: Found, now: number): SyncResult {
    if (!this.associations.ofLease(result.lease, now)) return { ...result, copies: [] };
    if (row.update_policy !== "if-not-exists") return result;
    const copies = result.copies.map(
      (copy): ObjectResult =>
        copy.value !== undefined && this.storedObjects.has(copy.name)
          ? { subKey: copy.subKey, name: copy.name, state: "left" }
          : copy,
    );
    return { ...result, copies };
  }

  #keep(results: readonly ObjectResult[], found: Found, now: number): void {
    const tags = this.record.tags(found.row);
    for (const { state, name, value, notOurs } of results) {
      // An object that is not of this association stays: an earlier one may have been retained.
      if (state === "absent" && !notOurs) this.storedObjects.remove(name);
      else if (value !== undefined) this.storedObjects.put(name, value, tags, now);
    }
  }
}
