import type { ObjectTask } from "../../contracts/sync-tasks.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { type Associations, namedSecretOf } from "../associations/associations.ts";
import { type DesiredObject, desiredObjects } from "../associations/external-name.ts";
import type { DestinationRecord, Found } from "../configuration/destination-record.ts";
import type { Neighbours } from "../objects/neighbours.ts";
import type { TakenNames } from "../objects/object-plan.ts";
import { objectTask, type RemoteObjects, unclaimed } from "../objects/remote-objects.ts";
import type { AssociationRow } from "../schema.ts";

/**
 * Plans the objects of a leased task again before the provider is called: the secret's keys differ from the recorded
 * objects, or another destination may own a name. Owned by `SyncDestination`, whose RPC method `plan` calls it. Costs
 * one transaction, and one RPC per neighbour for names used for the first time.
 */
export class TaskPlanning {
  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
    private readonly associations: Associations,
    private readonly remoteObjects: RemoteObjects,
    private readonly neighbours: Neighbours,
  ) {}

  /** @param keys the secret's top-level keys; null: nothing is pushed @returns null when the lease is void */
  async plan(lease: WorkLease, keys: readonly string[] | null): Promise<ObjectTask[] | null> {
    const before = this.record.find();
    if (!before) return null;
    return this.neighbours.claimNames(this.#unclaimed(before, lease, keys), (taken) => {
      const found = this.record.find();
      return found && this.object.commit(() => this.#store(found, lease, keys, taken));
    });
  }

  /** Names of the recorded and desired objects that other destinations may own. */
  #unclaimed(found: Found, { id }: WorkLease, keys: readonly string[] | null): string[] {
    const row = this.associations.find(id);
    const wanted = row && keys ? this.#wanted(found, row, keys) : [];
    return unclaimed(this.remoteObjects.of(id), wanted, this.record.place(found));
  }

  /** @param taken the names that other destinations own */
  #store(found: Found, lease: WorkLease, keys: readonly string[] | null, taken: TakenNames): ObjectTask[] | null {
    const now = Date.now();
    const row = this.associations.ofLease(lease, now);
    if (!row) return null;
    const remoteObjects = this.remoteObjects;
    const place = this.record.place(found);
    remoteObjects.claimNames(row.id, taken, place);
    if (keys) {
      const steps = remoteObjects.plan(row.id, this.#wanted(found, row, keys), taken);
      remoteObjects.apply(row.id, steps, now, place);
    }
    const planned = remoteObjects.of(row.id);
    if (keys) remoteObjects.leased(planned, Object.keys(this.record.tags(found.row)), now, place);
    return planned.map((copy) => objectTask(copy, place));
  }

  #wanted(found: Found, row: AssociationRow, keys: readonly string[]): DesiredObject[] {
    const scope = this.record.scope(found.row, this.associations.namingOf(row));
    return desiredObjects(scope, found.type, namedSecretOf(row), keys);
  }
}
