import type { AssociationsPage } from "../../contracts/sync-destination.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DestinationRecord } from "../configuration/destination-record.ts";
import { freshUntil } from "../fresh-rights.ts";
import type { Breaker } from "../scheduler/breaker.ts";
import type { DestinationRow } from "../schema.ts";
import type { Associations } from "./associations.ts";

const PAGE = 1_000;

/** Returns the associations in `ids`, or one page of all when `ids` is null. */
export function associationsPage(
  record: DestinationRecord,
  associations: Associations,
  breaker: Breaker,
  ids: readonly string[] | null,
  after = "",
  limit = PAGE,
): Result<AssociationsPage> {
  const destination = record.row();
  if (!destination) return refuse("missing");
  const most = Math.min(limit, PAGE);
  const rows = ids
    ? ids.map((id) => associations.find(id)).filter((row) => row !== null)
    : associations.page(after, most);
  const waits = waitsOf(destination, breaker);
  return ok({
    store_name: destination.name,
    store_type: destination.type,
    associated_secrets: rows.flatMap((row) => associations.views(row, waits)),
    next: ids || rows.length < most ? null : (rows.at(-1)?.id ?? null),
  });
}

/** The times that entries of a destination's associations show. */
export const waitsOf = (row: DestinationRow, breaker: Breaker) => ({
  openUntil: breaker.view()?.openUntil ?? 0,
  freshUntil: freshUntil(row),
});
