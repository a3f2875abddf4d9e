import { type Refusal, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { announceAssociation, announceDestination } from "../associations/announcements.ts";
import { type Associations, secretOf } from "../associations/associations.ts";
import type { StoredObjects } from "../objects/stored-objects.ts";
import type { Resync } from "../scheduler/resync.ts";
import type { DestinationRecord } from "./destination-record.ts";

const PAGE = 500;

/**
 * Deletes a destination at once and clears its rows afterwards, page by page. Owned by `SyncDestination`, called by
 * `Purge` inside the object's transaction. A page costs up to 500 associations and as many stored objects.
 */
export class DestinationDeletion {
  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
    private readonly associations: Associations,
    private readonly storedObjects: StoredObjects,
    private readonly resync: Resync,
  ) {}

  /** Whether there is no destination, though rows of one may remain. */
  hasBegun(): boolean {
    return this.record.row() === null;
  }

  begin(): void {
    const { name, outbox } = this.object;
    this.record.delete();
    announceDestination(outbox, true);
    recordAction("destination-ended", { destination: name });
  }

  /** Clears a page of rows. @returns whether none is left */
  clearSome(): boolean {
    const { outbox } = this.object;
    const page = this.associations.page("", PAGE);
    for (const row of page) {
      this.associations.delete(row.id);
      announceAssociation(outbox, secretOf(row));
    }
    if (page.length === PAGE || this.storedObjects.clear(PAGE)) return false;
    this.resync.end();
    outbox.enlistLatest("key-holder", "", null);
    return true;
  }
}

/** The refusal of a deletion without `purge` and `force`. @param most the count of associations ends here; 0: only rules */
export function refuseDeletion(associations: number, most: number): Refusal {
  const counted = associations < most ? String(associations) : `${most} or more`;
  const held = associations === 0 ? "rules" : associations === 1 ? "an association" : `${counted} associations`;
  return refuse(
    "in-use",
    `destination has ${held}; remove them first, or delete it with purge=true, which removes their secrets there`,
  );
}
